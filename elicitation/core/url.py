"""The URL of a URL mode elicitation: which ones are shown to a person, and what is shown of them.

MCP 2026-07-28, client/elicitation, "Safe URL Handling". A person decides by the host that they
read. A browser opens the host that it reads. A URL is refused if the two could differ, that is, if
the URL Standard repairs, replaces or drops a part of it. This module fetches nothing and looks up
no name.
"""

import ipaddress
import re
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from .domains import Domain, RegistrableDomain, parse_domain
from .errors import URLRefusal

MAX_ELICITATION_URL_CHARS: Final = 2000
# A longer host fills a line, so that its end, which tells the owner, may be out of sight.
LONG_HOST_CHARS: Final = 60

# `ElicitationURL.warnings` has them in this order.
URL_WARNINGS: Final = (
    "insecure",  # plain http, which is allowed to this machine only
    "loopback",  # the person's own machine
    "private_address",  # a private network, not the Internet
    "ip_address",  # numbers instead of a name
    "port",  # not the usual port
    "idn",  # letters beyond a to z: `host` and `unicode_host` differ
    "mixed_scripts",  # a host in letters of several scripts
    "lookalike",  # a label that looks like one in a to z, or in letters that few people can read
    "imitates",  # contains the site's name, or one that looks like it, and is not the site
    "long",  # more than LONG_HOST_CHARS
)

_IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?)://(?P<authority>[^/?#]+)(?P<rest>.*)", re.ASCII | re.IGNORECASE
)
_USUAL_PORTS: Final = {"https": 443, "http": 80}
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_MAX_PORT: Final = 65535
# Printable ASCII without quotes and angle brackets, which end a URL in text and in HTML.
_REST: Final = re.compile(r"""[!#-;=?-\[\]^_a-~]*""")
_DOT_SEGMENT: Final = re.compile(r"/(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)

_IPV6: Final = re.compile(r"[0-9A-Fa-f:]+")
_IPV6_INTERNET: Final = ipaddress.IPv6Network("2000::/3")
# Addresses that contain an IPv4 address. A gateway decides where they lead.
_IPV6_TUNNELS: Final = (ipaddress.IPv6Network("2001::/32"), ipaddress.IPv6Network("2002::/16"))
_IPV4_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}")
# The URL Standard, "ends in a number checker": browsers read such a host as an IPv4 address.
_ENDS_IN_A_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
# RFC 6762, appendix G; RFC 8375; and `internal`, which ICANN reserved.
_PRIVATE_NAMES: Final = (
    "corp",
    "home",
    "home.arpa",
    "internal",
    "intranet",
    "lan",
    "local",
    "localdomain",
    "private",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElicitationURL:
    """A URL that passed every check. Built by `parse_elicitation_url` only.

    * `text` is the URL as the server sent it.
    * `host` is what a browser opens: internationalised labels in their `xn--` form, IPv6 in
      brackets. `unicode_host` is the same host with its own letters.
    * `port` is None if it is the scheme's usual one.
    * `rest` is the path, query and fragment as sent. They can contain secrets: show them to the
      person alone.
    * `registrable_domain` is the end of `unicode_host` that its owner registered, or None if that
      is not known. Then no part of the host may stand out.
    * `warnings` are codes of `URL_WARNINGS`.
    """

    text: str
    scheme: str
    host: str
    unicode_host: str
    registrable_domain: str | None
    port: int | None
    rest: str
    warnings: tuple[str, ...]

    @property
    def href(self) -> str:
        """The target of the link. It is built from the parts that were read and shown, so that it
        leads there even if a browser would read `text` differently."""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.rest}"

    @property
    def subdomain(self) -> str:
        """`unicode_host` without the registrable domain at its end."""
        return self.unicode_host.removesuffix(self.registrable_domain or "")

    def __repr__(self) -> str:
        # The host alone: queries contain secrets, and a repr can end up in a log.
        return f"ElicitationURL(host={self.host!r})"


def _parse_ipv6(literal: str) -> ipaddress.IPv6Address:
    address = None
    # Refused: zones (`%eth0`), which belong to one machine, and IPv4 addresses inside IPv6 ones.
    if _IPV6.fullmatch(literal):
        with suppress(ValueError):
            address = ipaddress.IPv6Address(literal)
    if address is None:
        raise URLRefusal("its host is not an IPv6 address in its plain form")
    if address in _IPV4_MAPPED:
        raise URLRefusal("its host is an IPv4 address written as IPv6")
    return address


def _parse_host(text: str) -> Domain | _IPAddress:
    if text.startswith("["):
        return _parse_ipv6(text[1:-1])
    domain = parse_domain(text)
    if not _ENDS_IN_A_NUMBER.fullmatch(domain.ascii):
        return domain
    # Browsers also read 0x7f.1, 2130706433 and 0177.0.0.1 as addresses; people do not.
    if not _IPV4.fullmatch(domain.ascii):
        raise URLRefusal("its host is a number that is not an IPv4 address in its plain form")
    return ipaddress.IPv4Address(domain.ascii)


def _split_port(authority: str) -> tuple[str, int | None]:
    """The host, with the brackets of an IPv6 address, and the port."""
    if authority.startswith("["):
        literal, bracket, tail = authority.partition("]")
        host, (before, colon, port) = literal + bracket, tail.partition(":")
        if not bracket or before:
            raise URLRefusal("its host is not an IPv6 address in its plain form")
    else:
        host, colon, port = authority.partition(":")
    if not colon:
        return host, None
    if not _PORT.fullmatch(port) or int(port) > _MAX_PORT:
        raise URLRefusal("its port is not a number from 1 to 65535")
    return host, int(port)


def _is_loopback(host: Domain | _IPAddress) -> bool:
    # RFC 6761, section 6.3: browsers do not look up names that end in `localhost`.
    return host.belongs_to("localhost") if isinstance(host, Domain) else host.is_loopback


def _is_private(host: Domain | _IPAddress) -> bool:
    if isinstance(host, Domain):
        return len(host.labels) == 1 or any(map(host.belongs_to, _PRIVATE_NAMES))
    if isinstance(host, ipaddress.IPv6Address) and (
        host not in _IPV6_INTERNET or any(host in network for network in _IPV6_TUNNELS)
    ):
        return True
    return not host.is_global or host.is_multicast


def _site_domain(site_host: str) -> Domain | None:
    """The name of the site, without its port; None if the site's host is not a name."""
    try:
        host = _parse_host(_split_port(site_host)[0].removesuffix("."))
    except URLRefusal:
        return None
    return host if isinstance(host, Domain) else None


def _warnings_of_place(host: Domain | _IPAddress) -> set[str]:
    if _is_loopback(host):
        return {"loopback"}
    return {"private_address"} if _is_private(host) else set()


def _warnings_of_name(
    name: Domain, site: Domain | None, registrable_domain: RegistrableDomain
) -> set[str]:
    holds = {
        "idn": name.is_internationalised(),
        "mixed_scripts": name.mixes_scripts(),
        "lookalike": name.has_lookalikes(),
        "imitates": site is not None and name.imitates(site, registrable_domain),
    }
    return {warning for warning, does_hold in holds.items() if does_hold}


def _nobody_knows(host: str) -> None:
    return None


def parse_elicitation_url(
    text: object,
    *,
    allow_loopback_http: bool = False,
    site_host: str = "",
    registrable_domain: RegistrableDomain = _nobody_knows,
    max_chars: int = MAX_ELICITATION_URL_CHARS,
) -> ElicitationURL:
    """Read the URL of a URL mode elicitation.

    `allow_loopback_http` allows plain http to this machine; an operator decides that. `site_host`
    is the host of the site itself, as Django's `request.get_host()` returns it. Without it there
    is no warning `imitates`. `registrable_domain` looks up the end of a host that its owner
    registered. Without it no part of any host stands out. `max_chars` is the longest URL, in
    characters.

    Raises URLRefusal, and no other exception, for any value of `text`.
    """
    if type(text) is not str:
        raise URLRefusal("it is not a string")
    if len(text) > max_chars:
        raise URLRefusal(f"it is longer than {max_chars} characters")
    # Browsers remove tabs, line breaks, and blanks at the ends. Readers do not see the others.
    if any(unicodedata.category(char)[0] in "CZ" for char in text):
        raise URLRefusal("it has blanks, control characters or invisible characters")
    if "\\" in text:
        raise URLRefusal("it has a backslash, which browsers read as a slash")
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise URLRefusal("it does not begin with https:// and a host")
    scheme, rest = match["scheme"].lower(), match["rest"]
    if "@" in match["authority"]:
        raise URLRefusal("it has a user name or password before its host")
    host_text, port = _split_port(match["authority"])
    host = _parse_host(host_text)
    if not rest.isascii():
        raise URLRefusal("it has characters after its host that have to be percent-encoded")
    if not _REST.fullmatch(rest):
        raise URLRefusal("it has quotes or angle brackets")
    if _DOT_SEGMENT.search(re.split("[?#]", rest, maxsplit=1)[0]):
        raise URLRefusal("its path has segments of dots, which browsers remove")
    if scheme == "http" and not (allow_loopback_http and _is_loopback(host)):
        raise URLRefusal("it is not https")
    if port == _USUAL_PORTS[scheme]:
        port = None
    if isinstance(host, Domain):
        ascii_host, unicode_host = host.ascii, host.unicode
        registrable = host.registrable(registrable_domain)
        of_host = _warnings_of_name(host, _site_domain(site_host), registrable_domain)
    else:
        ascii_host = unicode_host = str(host) if host.version == 4 else f"[{host}]"
        registrable = None
        of_host = {"ip_address"}
    warnings = of_host | _warnings_of_place(host)
    if scheme == "http":
        warnings.add("insecure")
    if port is not None:
        warnings.add("port")
    if len(ascii_host) > LONG_HOST_CHARS:
        warnings.add("long")
    return ElicitationURL(
        text=text,
        scheme=scheme,
        host=ascii_host,
        unicode_host=unicode_host,
        registrable_domain=registrable,
        port=port,
        rest=rest,
        warnings=tuple(filter(warnings.__contains__, URL_WARNINGS)),
    )
