"""Which end of a host name was registered by its owner: the Public Suffix List."""

from __future__ import annotations

from functools import cache

from publicsuffixlist import PublicSuffixList


@cache
def _public_suffixes() -> PublicSuffixList:
    # Read at the first look-up, in about 40 ms. A top level domain that is not in the list has
    # no rules that are known.
    return PublicSuffixList(accept_unknown=False)


def registrable_domain(host: str) -> str | None:
    """Return the end of a host that somebody registered, or None where the list has no rule.

    The private part of the list counts, too: below ``github.io`` each customer has a name.

    Args:
        host: In ASCII, small letters and ``xn--`` labels.
    """
    return _public_suffixes().privatesuffix(host)
