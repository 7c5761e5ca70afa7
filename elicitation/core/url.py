"""The address of a URL mode elicitation: what may be put in front of a person, and what it shows.

MCP 2026-07-28, client/elicitation, "Safe URL Handling". A person decides by the host that they
read, and a browser opens the host that it reads. So an address is refused wherever the two could
differ: where the URL Standard repairs, replaces or drops something. Nothing is fetched and no
name is looked up.
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
# Above this a host fills a line, and its end is where its owner stands.
LONG_HOST_CHARS: Final = 60

# In this order on every address.
URL_WARNINGS: Final = (
    "insecure",  # http: allowed on this machine only
    "loopback",  # this machine: the person's own, not the server's
    "private_address",  # a network that is not the Internet
    "ip_address",  # numbers instead of a name
    "port",  # not the usual port
    "idn",  # letters beyond a-z: show both forms
    "mixed_scripts",  # a host in letters of several scripts
    "lookalike",  # a part that reads as a plain one, or in letters that few can tell apart
    "imitates",  # has the site's own name in it, or one that looks like it, and is not the site
    "long",  # more than LONG_HOST_CHARS
)

_IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?)://(?P<authority>[^/?#]+)(?P<rest>.*)", re.ASCII | re.IGNORECASE
)
_USUAL_PORTS: Final = {"https": 443, "http": 80}
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_MAX_PORT: Final = 65535
# Quotes and angle brackets end an address wherever it stands in text or in an attribute.
_REST: Final = re.compile(r"""[!#-;=?-\[\]^_a-~]*""")
_DOT_SEGMENT: Final = re.compile(r"/(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)

_IPV6: Final = re.compile(r"[0-9A-Fa-f:]+")
_IPV6_INTERNET: Final = ipaddress.IPv6Network("2000::/3")
# Addresses that carry one of IPv4: where it leads is for gateways to say.
_IPV6_TUNNELS: Final = (ipaddress.IPv6Network("2001::/32"), ipaddress.IPv6Network("2002::/16"))
_IPV4_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}")
# The URL Standard, "ends in a number checker": browsers read the whole host as IPv4.
_ENDS_IN_A_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
# RFC 6762, appendix G, RFC 8375 and ICANN's reservation of `internal`.
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
    """An address that passed every check. Built by `parse_elicitation_url` only.

    `text` is the address as sent, `host` what a browser opens (internationalised labels in their
    `xn--` form, IPv6 in brackets), `unicode_host` the same for reading. `port` is None where it
    is the scheme's usual one. `rest` is the path, query and fragment as sent: it may hold
    secrets and belongs in front of the person alone. `registrable_domain` is the end of
    `unicode_host` that its owner registered, or None where that is not certain: then no part
    may stand out. `warnings` are codes of `URL_WARNINGS`.
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
        """What a link has to hold. It is put together from what was read, so that it leads to
        the host that was shown even where a browser would read `text` in another way."""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.rest}"

    @property
    def subdomain(self) -> str:
        """`unicode_host` without the registrable domain at its end."""
        return self.unicode_host.removesuffix(self.registrable_domain or "")

    def __repr__(self) -> str:
        # Queries carry secrets, and reprs end in logs.
        return f"ElicitationURL(host={self.host!r})"


def _parse_ipv6(literal: str) -> ipaddress.IPv6Address:
    address = None
    # A zone (`%eth0`) means something on one machine only, and IPv4 in IPv6 hides a number.
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
    # Browsers take 0x7f.1, 2130706433 and 0177.0.0.1 as well; no reader does.
    if not _IPV4.fullmatch(domain.ascii):
        raise URLRefusal("its host is a number that is not an IPv4 address in its plain form")
    return ipaddress.IPv4Address(domain.ascii)


def _split_port(authority: str) -> tuple[str, int | None]:
    """The host, in brackets where it is IPv6, and the port."""
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
    # RFC 6761, section 6.3; browsers never look these names up.
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
    """The site's own name, which may come with a port; None for one that none can imitate."""
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
    """Read the address of a URL mode elicitation. Raises Address, and nothing else.

    `allow_loopback_http` is an operator's decision: plain http, to this machine only.
    `site_host` is the host under which the site itself is read, as `request.get_host()` gives
    it: without it no address is found to imitate it. `registrable_domain` looks up which end of a
    host (in ASCII) was registered, or None: without it no part of a host stands out.
    """
    if type(text) is not str:
        raise URLRefusal("it is not a string")
    if len(text) > max_chars:
        raise URLRefusal(f"it is longer than {max_chars} characters")
    # Browsers remove tabs, line breaks and blanks at the ends; readers see none of the others.
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
