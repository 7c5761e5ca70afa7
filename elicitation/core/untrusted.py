"""How text that a server wrote is shown to a person.

Everything a server sends is shown as plain text. Escaping is the templates' work; this module
takes away what escaping leaves: characters that nobody sees and that turn the text round, and
names that are made to look like others.
"""

from __future__ import annotations

import re
import unicodedata

from .credentials import names_a_credential
from .text import see_through

#: Longest name of a server that a page shows, in characters.
MAX_NAME_CHARS = 64

ZWNJ, ZWJ = "\u200c", "\u200d"

#: Characters that are drawn as nothing, or as a blank, although Unicode calls them letters,
#: symbols or marks: fillers, the Braille blank, combining joiners, variation selectors.
INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc")

#: Scripts whose letters change their shape at a (non-)joiner, by the first word of their names.
JOINING_SCRIPTS = frozenset(
    {
        "ARABIC", "SYRIAC", "MANDAIC", "MONGOLIAN", "NKO", "DEVANAGARI", "BENGALI", "GURMUKHI",
        "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA", "KHMER",
    }
)  # fmt: skip

#: Scripts that are written together in one name: the rest of Unicode's "highly restrictive".
COMPANIONS = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
)

#: Single words for secrets that ``names_a_credential`` leaves alone, because a *property* may
#: well be called ``code`` or ``key``; where a text speaks of one, the warning stands out.
SECRET_WORDS = re.compile(
    r"\b(?:pass(?:word|phrase|code)s?|pins?|keys?|tokens?|codes?|secrets?|credentials?|otp"
    r"|2fa|mfa|cvv|cvc|iban|"
    r"passw[oö]rt(?:er|e|es|s)?|kennw[oö]rt(?:er|e|es|s)?|kennwörter|passwörter|schlüssel"
    r"|zugangsdaten|geheimnis(?:se)?|"
    r"mots? de passe|clés?|jetons?|identifiants?|"
    r"contraseñas?|claves?|senhas?|parol[ae])\b"
    r"|كلمة (?:ال)?(?:مرور|سر)|رمز|مفتاح|пароль|ключ|код|密码|密碼|パスワード|비밀번호"
)


def visible(text: str) -> str:
    """Return ``text`` with every character that cannot be seen written as ``U+XXXX``.

    Line breaks and tabs stay. So do the joiners that Persian or Hindi needs between two letters
    and that hold an emoji together: there they change what is seen, elsewhere they hide.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _code_point(character) if _is_hidden(text, position) else character
        for position, character in enumerate(text)
    )


def one_line(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """Return ``text`` as a name: one line, visible, at most ``limit`` characters."""
    # str.split() would take U+0085 and U+2028 for blanks, which have no place in a name.
    line = visible(re.sub(r"[ \t\r\n]+", " ", text).strip(" "))
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def speaks_of_secrets(*texts: str) -> bool:
    """Whether one of ``texts`` speaks of a password, key, token or code."""
    for text in texts:
        plain = see_through(text)
        # apiKey, access_token: seen as words once they are parted.
        parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+", " ", plain).casefold()
        if SECRET_WORDS.search(parted) or names_a_credential(plain):
            return True
    return False


def mixes_scripts(name: str) -> bool:
    """Whether a name is written in letters of scripts that no language writes together."""
    scripts = {
        _script(character)
        for character in unicodedata.normalize("NFKC", name)
        if unicodedata.category(character).startswith("L")
    }
    return len(scripts) > 1 and not any(scripts <= companions for companions in COMPANIONS)


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def _script(character: str) -> str:
    return unicodedata.name(character, "UNKNOWN").split(" ")[0]


def _is_hidden(text: str, position: int) -> bool:
    character = text[position]
    if character in "\n\t":
        return False
    if character in (ZWNJ, ZWJ):
        return not _joins(text, position)
    category = unicodedata.category(character)
    if category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") or character in INVISIBLE:
        # Subdivision flags (Scotland, Wales) are an emoji followed by tag characters; written
        # out they are no loss, and text can be smuggled in them.
        return True
    if "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
        # A variation selector chooses the shape of what it follows; a second one only hides.
        before = text[position - 1] if position else " "
        return unicodedata.category(before) in ("Mn", "Cf", "Zs", "Cc")
    return False


def _joins(text: str, position: int) -> bool:
    """Whether the joiner at ``position`` changes how its neighbours are drawn."""
    if position == 0 or position == len(text) - 1:
        return False
    before, after = text[position - 1], text[position + 1]
    if text[position] == ZWJ and _is_emoji_part(before) and _is_emoji_part(after):
        return True
    return _script(before) in JOINING_SCRIPTS and _script(after) in JOINING_SCRIPTS


def _is_emoji_part(character: str) -> bool:
    return unicodedata.category(character) in ("So", "Sk") or character == "\ufe0f"
