"""How the text of a server is shown to a person.

All text of a server is shown as plain text. Templates escape it. This module makes its hidden
characters visible, which escaping does not do.
"""

import re
import unicodedata
from typing import Final

from .characters import (
    is_clean,
    is_invisible,
    is_variation_selector,
    joins,
    see_through,
    speaks_of_secrets,
    without_isolates,
)
from .characters import mixes_scripts as words_mix_scripts

#: Longest name of a server that a page shows, in
MAX_NAME_CHARS: Final = 64

ZWNJ: Final = "\u200c"
ZWJ: Final = "\u200d"


def visible(text: str) -> str:
    """Return ``text`` with every character that cannot be seen written as ``U+XXXX``.

    Line breaks and tabs stay. Joiners stay if they change what is drawn: between two letters of
    Persian or Hindi, for example, or in an emoji. Pairs of isolates are left out of a text that a
    schema may have (docs/differences.md, 10).
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and text.isprintable():
        return text
    if is_clean(text):
        text = without_isolates(text)
    return "".join(
        _code_point(character) if _is_hidden(text, position) else character
        for position, character in enumerate(text)
    )


def one_line(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """Return ``text`` as a name: one line, visible, at most ``limit``"""
    # str.split() would also remove U+0085 and U+2028. In a name they have to be visible.
    line = visible(re.sub(r"[ \t\r\n]+", " ", text).strip(" "))
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def mixes_scripts(name: str) -> bool:
    """Return whether a name mixes scripts that no language writes together."""
    return words_mix_scripts(see_through(name).split())


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def _is_hidden(text: str, position: int) -> bool:
    character = text[position]
    if character in "\n\t":
        return False
    if character in (ZWNJ, ZWJ):
        return not _joins(text, position)
    if is_variation_selector(character):
        # It chooses the shape of the character before it. A second one has no effect.
        before = text[position - 1] if position else " "
        return unicodedata.category(before) in ("Mn", "Cf", "Zs", "Cc")
    # The flags of Scotland and Wales are an emoji with invisible tag characters. The tags are
    # written out, too, because any text can be hidden in such tags.
    return is_invisible(character) or unicodedata.category(character) in (
        "Cc",
        "Cs",
        "Co",
        "Cn",
        "Zl",
        "Zp",
    )


def _joins(text: str, position: int) -> bool:
    """Whether the joiner at ``position`` changes how its neighbours are drawn."""
    if position == 0 or position == len(text) - 1:
        return False
    before, after = text[position - 1], text[position + 1]
    if text[position] == ZWJ and _is_emoji_part(before) and _is_emoji_part(after):
        return True
    return joins(before) and joins(after)


def _is_emoji_part(character: str) -> bool:
    return unicodedata.category(character) in ("So", "Sk") or character == "\ufe0f"


__all__ = ["MAX_NAME_CHARS", "mixes_scripts", "one_line", "speaks_of_secrets", "visible"]
