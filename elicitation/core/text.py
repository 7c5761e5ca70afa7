"""The limits on what a server asks, numbers as text, and the formats of text.

Lengths count code points.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Final

MAX_FORM_PROPERTIES: Final = 16
MAX_FORM_ENUM_MEMBERS: Final = 32
MAX_FORM_PROPERTY_NAME_CHARS: Final = 64
# Titles, formats, and the values and labels of options.
MAX_FORM_TITLE_CHARS: Final = 200
# Descriptions, and the message of an elicitation.
MAX_FORM_TEXT_CHARS: Final = 2000
# All texts of the properties together, and all their values (strings, numbers, objects, arrays).
# What is cheap to send must be cheap to read and to show: bench/hostile.py measures that.
MAX_FORM_SUM_CHARS: Final = 36_000
MAX_FORM_VALUES: Final = 4_000
# Enough for the texts above in escapes, and for the keywords.
MAX_FORM_SCHEMA_CHARS: Final = 300_000
# Digits of one number in JSON text. A double has at most 309 digits before the point. The time to
# read a longer number grows with the square of its length.
MAX_FORM_NUMBER_CHARS: Final = 400
# The longest answer. Checking an answer takes time in proportion to its length.
MAX_FORM_ANSWER_CHARS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds on a requested schema. A schema that exceeds one is refused, never trimmed."""

    properties: int = MAX_FORM_PROPERTIES
    enum_members: int = MAX_FORM_ENUM_MEMBERS
    property_name_chars: int = MAX_FORM_PROPERTY_NAME_CHARS
    title_chars: int = MAX_FORM_TITLE_CHARS
    text_chars: int = MAX_FORM_TEXT_CHARS
    sum_chars: int = MAX_FORM_SUM_CHARS
    values: int = MAX_FORM_VALUES
    schema_chars: int = MAX_FORM_SCHEMA_CHARS
    number_chars: int = MAX_FORM_NUMBER_CHARS
    # If true, names have only ASCII letters, digits, `_`, `-` and `.`. If false, any printable
    # characters.
    ascii_names: bool = True


#: The bounds for every server.
DEFAULT_LIMITS: Final = Limits()
#: The bounds for a server that the operator trusts with long forms.
WIDE_LIMITS: Final = Limits(properties=64, enum_members=500, ascii_names=False)


def number_text(value: int | float) -> str:
    """A finite number as people write it: no exponent, no trailing `.0`, no negative zero."""
    if isinstance(value, int):
        return str(value)
    text = format(Decimal(repr(value)), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


# The literals that Rust's f64 parser accepts, without its names for infinity and NaN.
_NUMBER: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+))?"
)
_NUMBER_CHARS: Final = 2000


class NotANumberError(ValueError):
    """The text is not one decimal literal."""


def parse_number(text: str) -> float:
    """The double nearest to a decimal literal; infinite if the number is too large for a double.

    Raises NotANumberError.
    """
    if len(text) > _NUMBER_CHARS or not _NUMBER.fullmatch(text):
        raise NotANumberError
    return float(text)


def parse_whole_number(text: str, max_digits: int = 19) -> int | None:
    """The exact value of a decimal literal of at most `max_digits` digits; None if it has a
    fraction.

    Raises NotANumberError, and OverflowError for more digits. The exponent is checked before it is
    used, because `1e999999999` would take minutes to write out.
    """
    match = _NUMBER.fullmatch(text) if len(text) <= _NUMBER_CHARS else None
    if match is None:
        raise NotANumberError
    part = match["part"] or match["only_part"] or ""
    digits = ((match["whole"] or "") + part).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return 0
    exponent = int(match["exponent"] or 0) - len(part) + len(digits) - len(significant)
    if exponent < 0:
        return None
    if len(significant) + exponent > max_digits:
        raise OverflowError
    value = int(significant + "0" * exponent)
    return -value if match["sign"] == "-" else value


_EMAIL_LOCAL: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
)
_HOST_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_URI: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?"
)
_URI_CHARS: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_USERINFO: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*")
_REG_NAME: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME_AND_OFFSET: Final = re.compile(
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)


def _is_email(text: str) -> bool:
    # The lengths and the ASCII dot-atom form of RFC 5321, which mail servers accept.
    local, _, domain = text.rpartition("@")
    labels = domain.split(".")
    return (
        len(local) <= 64
        and len(domain) <= 253
        and _EMAIL_LOCAL.fullmatch(local) is not None
        and len(labels) > 1
        and all(_HOST_LABEL.fullmatch(label) for label in labels)
    )


def _is_authority(text: str) -> bool:
    userinfo, _, host_and_port = text.rpartition("@")
    if host_and_port.startswith("["):
        literal, closed, port = host_and_port[1:].partition("]")
        if not closed or "%" in literal or (port and not port.startswith(":")):
            return False
        try:
            ipaddress.IPv6Address(literal)
        except ValueError:
            return False
        port = port[1:]
    else:
        host, _, port = host_and_port.partition(":")
        if not host or not _REG_NAME.fullmatch(host):
            return False
    return _USERINFO.fullmatch(userinfo) is not None and (
        not port or (port.isascii() and port.isdecimal())
    )


def _is_uri(text: str) -> bool:
    # RFC 3986, section 3: absolute, ASCII, with something after the scheme.
    match = _URI.fullmatch(text)
    if match is None:
        return False
    authority, path = match["authority"], match["path"]
    if authority:
        has_target = _is_authority(authority)
    else:
        # RFC 9110, section 4.2: these two schemes need a host.
        has_target = path != "" and match["scheme"].lower() not in ("http", "https")
    return (
        has_target
        and _URI_CHARS.fullmatch(path) is not None
        and all(_URI_CHARS.fullmatch(match[part] or "") for part in ("query", "fragment"))
    )


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    # RFC 3339, section 5.6, without leap seconds: common validators refuse them.
    return _is_date(text[:10]) and _TIME_AND_OFFSET.fullmatch(text, 10) is not None


#: The shortest and the longest text of a format, in characters. None: no longest one.
FORMAT_LENGTHS: Final[Mapping[str, tuple[int, int | None]]] = MappingProxyType(
    {"email": (5, 318), "uri": (3, None), "date": (10, 10), "date-time": (20, None)}
)

# The formats of MCP 2026-07-28. Each check is at least as strict as the common validators of JSON
# Schema, so that a server does not refuse an answer that was accepted here.
FORMATS: Final[Mapping[str, Callable[[str], bool]]] = MappingProxyType(
    {"email": _is_email, "uri": _is_uri, "date": _is_date, "date-time": _is_date_time}
)
