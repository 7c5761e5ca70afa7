"""Text: what may stand in it, what it looks like, and the formats it can have.

Everything a server writes is hostile until checked here. Lengths count code points.
"""

import ipaddress
import re
import unicodedata
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
# A schema that uses every other bound to the full fits, even where half of it is escaped.
MAX_FORM_SCHEMA_CHARS: Final = 1_000_000
# Digits of one number in JSON text. Doubles end at 309 digits before the point; what is
# longer costs time that grows with the square of its length.
MAX_FORM_NUMBER_CHARS: Final = 400
# No form asks for more text than this; checks of an answer take time in its length.
MAX_FORM_ANSWER_CHARS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds on a requested schema. Over one of them it is refused, never trimmed."""

    properties: int = MAX_FORM_PROPERTIES
    enum_members: int = MAX_FORM_ENUM_MEMBERS
    property_name_chars: int = MAX_FORM_PROPERTY_NAME_CHARS
    title_chars: int = MAX_FORM_TITLE_CHARS
    text_chars: int = MAX_FORM_TEXT_CHARS
    schema_chars: int = MAX_FORM_SCHEMA_CHARS
    number_chars: int = MAX_FORM_NUMBER_CHARS


DEFAULT_LIMITS: Final = Limits()

# Unicode's White_Space property. str.strip() alone also takes U+001C to U+001F.
_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
    "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_UNSAFE_TEXT: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"
_UNSAFE: Final = re.compile(f"[{_UNSAFE_TEXT}]")
# U+202A to U+202E and U+2066 to U+2069 can make a text read as another one, and reach beyond
# the element it stands in.
_UNSAFE_OR_BIDI: Final = re.compile(f"[{_UNSAFE_TEXT}\u202a-\u202e\u2066-\u2069]")
# Drawn as nothing or as a blank, yet not of the category Cf: Unicode's
# Default_Ignorable_Code_Point, the Braille blank and the object replacement character.
_IGNORABLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufff8\ufffc\U000e0000-\U000e0fff]"
)


def trim(text: str) -> str:
    """`text` without Unicode white space at its ends."""
    return text.strip(_WHITE_SPACE)


def is_clean(text: str) -> bool:
    """Whether a server's text has no control characters (tab and line breaks aside), no lone
    surrogates and no bidirectional controls that embed or override."""
    return not _UNSAFE_OR_BIDI.search(text)


def is_clean_answer(text: str) -> bool:
    """As `is_clean`, but people may write bidirectional controls: they mislead nobody else."""
    return not _UNSAFE.search(text)


def scrub(text: str) -> str:
    """`text` with U+FFFD for each character that `is_clean` refuses."""
    return _UNSAFE_OR_BIDI.sub("\ufffd", text)


def see_through(text: str) -> str:
    """`text` with compatibility characters resolved (NFKC) and invisible ones removed."""
    if text.isascii():
        return text
    text = _IGNORABLE.sub("", unicodedata.normalize("NFKC", text))
    return "".join(c for c in text if unicodedata.category(c) != "Cf")


def is_blank(text: str) -> bool:
    """Whether a reader sees nothing in `text`."""
    return not trim(see_through(text))


def look(text: str) -> str:
    """What `text` looks like: equal for two texts that a reader would take for the same."""
    return " ".join(see_through(see_through(text).casefold()).split())


def number_text(value: int | float) -> str:
    """A finite number for people: no exponent, no trailing `.0`, no negative zero."""
    if isinstance(value, int):
        return str(value)
    text = format(Decimal(repr(value)), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


# The literals that Rust's f64 parser takes, without its names for infinity and NaN.
_NUMBER: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+))?"
)
_NUMBER_CHARS: Final = 2000


class NotANumberError(ValueError):
    """The text is not one decimal literal."""


def parse_number(text: str) -> float:
    """The double nearest to a decimal literal; infinite where it is too large for one.

    Raises NotANumberError.
    """
    if len(text) > _NUMBER_CHARS or not _NUMBER.fullmatch(text):
        raise NotANumberError
    return float(text)


def parse_whole_number(text: str, max_digits: int = 19) -> int | None:
    """The exact value of a decimal literal of at most `max_digits` digits; None where it has
    a fraction.

    Raises NotANumberError, and OverflowError for more digits. `1e999999999` must cost nothing, so
    the exponent is looked at before anything is raised to it.
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
    # RFC 5321's lengths, and its dot-atom form in ASCII: what mail servers take.
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
    # RFC 3339, section 5.6. Leap seconds are left out: common validators refuse them.
    return _is_date(text[:10]) and _TIME_AND_OFFSET.fullmatch(text, 10) is not None


# The formats of MCP 2026-07-28. Each check is at least as strict as the common validators
# of JSON Schema, so that a server does not refuse what was accepted here.
FORMATS: Final[Mapping[str, Callable[[str], bool]]] = MappingProxyType(
    {"email": _is_email, "uri": _is_uri, "date": _is_date, "date-time": _is_date_time}
)
