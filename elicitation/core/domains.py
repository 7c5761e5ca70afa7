"""Domain names: which ones are accepted, what they look like, and who owns them.

Browsers accept the names of UTS #46, as the URL Standard applies it. This module accepts fewer:
the letters, marks and digits of IDNA 2008 (RFC 5892), in upper or lower case. Python's
`unicodedata` has all tables that this needs. Browsers replace some characters by others
(full-width letters, other dots, escapes); names with those are refused.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from .characters import at_a_glance, is_blank, is_lookalike, mixes_scripts
from .errors import URLRefusal

_LABEL_CHARS: Final = 63
_NAME_CHARS: Final = 253
_ASCII: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_ACE_PREFIX: Final = "xn--"

# --- The characters of a name ----------------------------------------------------------------

_CATEGORIES: Final = frozenset({"Ll", "Lu", "Lo", "Lm", "Mn", "Mc", "Nd"})
# RFC 5892, section 2.6: allowed letters, although case folding or category would exclude them.
_LETTERS_ALL_THE_SAME: Final = frozenset("ßς〇")
# RFC 5892, sections 2.6, 2.8 and 2.9: single Hangul jamo, marks around symbols, musical signs, and
# signs that only lengthen or repeat. Also letters that look like `|`, `!`, `/` or a blank.
_NOT_IN_NAMES: Final = re.compile(
    "[\u01c0-\u01c3\u0640\u07fa\u1100-\u11ff\u20d0-\u20ff\u2e2f\u302e\u302f\u3031-\u3035"
    "\u303b\ua960-\ua97f\ud7b0-\ud7ff\U00016fe4\U0001d100-\U0001d24f]"
)
_LINE_THROUGH: Final = 1
_MIDDLE_DOT: Final = "\N{MIDDLE DOT}"
# RFC 5892, appendix A.3: Catalan writes the middle dot between two `l`. It is refused elsewhere.
_STRAY_MIDDLE_DOT: Final = re.compile("(?<!l)·|·(?!l)")
# No language puts more than two on a letter. A pile of them is drawn across other lines.
_COMBINING_MARKS: Final = 2


@lru_cache(maxsize=4096)
def _is_in_names(char: str) -> bool:
    return (
        char in _ASCII
        or char in _LETTERS_ALL_THE_SAME
        or char == _MIDDLE_DOT
        or (
            char > "\x7f"
            and unicodedata.category(char) in _CATEGORIES
            and unicodedata.normalize("NFKC", char.casefold()) == char
            and unicodedata.combining(char) != _LINE_THROUGH
            and not _NOT_IN_NAMES.match(char)
            and not is_blank(char)
            # They look like apostrophes, colons and accents that stand alone.
            and not _name(char).startswith("MODIFIER ")
        )
    )


def _name(char: str) -> str:
    return unicodedata.name(char, "")


def _lower(char: str) -> str:
    """`char` in lower case if browsers agree on what that is, else unchanged."""
    if char.isascii():
        return char.lower()
    if unicodedata.category(char) != "Lu" or unicodedata.normalize("NFKC", char) != char:
        return char
    lower = unicodedata.normalize("NFKC", char.casefold())
    return lower if len(lower) == 1 else char


def _has_a_pile_of_marks(label: str) -> bool:
    marks = 0
    for char in label:
        marks = marks + 1 if _name(char).startswith("COMBINING ") else 0
        if marks > _COMBINING_MARKS:
            return True
    return False


def _canonical(label: str) -> str:
    """A label in the form in which browsers show it. Raises URLRefusal."""
    # Checked before composing: composing could hide a character that is not allowed.
    if any(unicodedata.normalize("NFKC", char) != char for char in label):
        raise URLRefusal("its host has characters that browsers replace by others")
    label = unicodedata.normalize("NFC", "".join(map(_lower, label)))
    if (
        not all(map(_is_in_names, label))
        or unicodedata.category(label[0]).startswith("M")
        or _STRAY_MIDDLE_DOT.search(label)
        or _has_a_pile_of_marks(label)
    ):
        raise URLRefusal("its host has characters that are not used in domain names")
    if label.startswith("-") or label.endswith("-"):
        raise URLRefusal("a part of its host begins or ends with a hyphen")
    return label


def _as_ascii(label: str) -> str:
    if label.isascii():
        return label
    return _ACE_PREFIX + label.encode("punycode").decode("ascii")


def _decoded(label: str) -> str:
    """The label that an `xn--` label stands for. Raises URLRefusal."""
    try:
        decoded = label.removeprefix(_ACE_PREFIX).encode("ascii").decode("punycode")
    except ValueError:
        decoded = ""
    # Refused: an `xn--` label for plain ASCII, for a label that browsers would change, and any
    # second spelling of a label.
    if decoded.isascii() or _canonical(decoded) != decoded or _as_ascii(decoded) != label:
        raise URLRefusal("its host has an xn-- label that stands for no domain name")
    return decoded


def _label(text: str) -> str:
    label = _canonical(text)
    if label.startswith(_ACE_PREFIX):
        label = _decoded(label)
    if not label.isascii() and label[2:4] == "--":
        raise URLRefusal("its host has a label with a prefix that is reserved")
    return label


_RIGHT_TO_LEFT: Final = frozenset({"R", "AL"})
_IN_RIGHT_TO_LEFT: Final = frozenset("R AL AN EN ES CS ET ON NSM".split())
_IN_LEFT_TO_RIGHT: Final = frozenset("L EN ES CS ET ON NSM".split())


def _keeps_its_direction(label: str) -> bool:
    """Whether a label follows the six rules of RFC 5893, section 2. Such a label is not drawn
    beyond its dots."""
    classes = [unicodedata.bidirectional(char) for char in label]
    last = next(found for found in reversed(classes) if found != "NSM")
    if classes[0] in _RIGHT_TO_LEFT:
        return (
            _IN_RIGHT_TO_LEFT.issuperset(classes)
            and last in ("R", "AL", "EN", "AN")
            and not {"EN", "AN"} <= set(classes)
        )
    return classes[0] == "L" and _IN_LEFT_TO_RIGHT.issuperset(classes) and last in ("L", "EN")


#: Looks up the end of a host name that its owner registered, as the Public Suffix List tells it.
#: Takes and returns names in ASCII: lower case, with `xn--` labels. Returns None if the list has
#: no rule for the name.
RegistrableDomain: TypeAlias = Callable[[str], str | None]


def _glanced(name: str) -> list[str]:
    return [at_a_glance(word) for word in re.split("[.-]", name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A host that is a name. Built by `parse_domain` only."""

    labels: tuple[str, ...]

    @property
    def unicode(self) -> str:
        """The name with its own letters."""
        return ".".join(self.labels)

    @property
    def ascii(self) -> str:
        """The name as browsers look it up: internationalised labels in their `xn--` form."""
        return ".".join(map(_as_ascii, self.labels))

    def is_internationalised(self) -> bool:
        return not self.unicode.isascii()

    def mixes_scripts(self) -> bool:
        """Whether a label, or two labels, mix scripts that no language writes together.

        A Latin label beside others is no mixture: most names end in one.
        """
        return mixes_scripts(self.labels, latin_stands_apart=True)

    def has_lookalikes(self) -> bool:
        """Whether a label looks like one in the letters a to z, or has letters that few people can
        read."""
        return any(map(is_lookalike, self.labels))

    def registrable(self, registrable_domain: RegistrableDomain) -> str | None:
        """The end of the name that its owner registered, with its own letters; None if unknown."""
        found = registrable_domain(self.ascii)
        return None if found is None else ".".join(self.labels[-found.count(".") - 1 :])

    def belongs_to(self, name: str) -> bool:
        return f".{self.unicode}".endswith(f".{name}")

    def imitates(self, site: "Domain", registrable_domain: RegistrableDomain) -> bool:
        """Whether the name contains the site's name, or one that looks like it, without belonging
        to the site."""
        own = site.registrable(registrable_domain) or site.unicode
        if self.belongs_to(own):
            return False
        wanted, words = _glanced(own), _glanced(self.unicode)
        if "." not in own:
            # A single word such as `web` or `localhost` is part of many longer names.
            return words == wanted
        return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


def parse_domain(text: str) -> Domain:
    """Read a host that is a name, in any letter case, with its own letters or with `xn--` labels.

    The caller has to find out whether the host is an IP address. Raises URLRefusal.
    """
    if len(text) > _NAME_CHARS:
        raise URLRefusal(f"its host is longer than {_NAME_CHARS} characters")
    if "%" in text:
        raise URLRefusal("its host is percent-encoded")
    parts = text.split(".")
    if not all(parts):
        raise URLRefusal("its host has an empty label or ends in a dot")
    domain = Domain(labels=tuple(map(_label, parts)))
    if any(len(_as_ascii(label)) > _LABEL_CHARS for label in domain.labels):
        raise URLRefusal(f"its host has a label longer than {_LABEL_CHARS} characters")
    if len(domain.ascii) > _NAME_CHARS:
        raise URLRefusal(f"its host is longer than {_NAME_CHARS} characters")
    classes = {unicodedata.bidirectional(char) for char in domain.unicode}
    if not classes.isdisjoint({"R", "AL", "AN"}) and not all(
        map(_keeps_its_direction, domain.labels)
    ):
        raise URLRefusal("its host mixes directions of writing")
    return domain
