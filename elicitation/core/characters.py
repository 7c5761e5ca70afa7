"""Knowledge of Unicode: invisible characters, scripts, characters that look alike, and the words
for secrets.

Text of a server is hostile until it was checked here. Every function takes time in proportion to
the length of its text: it looks at each character by itself and remembers what it found.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Final

# --- Safe text -------------------------------------------------------------------------------

# Unicode's White_Space property. str.strip() alone also removes U+001C to U+001F.
_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
    "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
# Control characters except tab and line breaks, and lone surrogates.
_CONTROLS: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"
# They embed text or override its direction, so that it reads as a different text.
_OVERRIDES: Final = "\u202a-\u202e"
# Isolates change the direction of the text between them. An isolate without its partner also
# changes the text that follows.
_ISOLATES: Final = "\u2066-\u2069"
_CLOSES_ISOLATE: Final = "\u2069"

_UNSAFE_ANSWER: Final = re.compile(f"[{_CONTROLS}]")
_UNSAFE: Final = re.compile(f"[{_CONTROLS}{_OVERRIDES}]")
_UNSAFE_IN_NAMES: Final = re.compile(f"[{_CONTROLS}{_OVERRIDES}{_ISOLATES}]")
# Unicode's algorithm for bidirectional text (UAX #9) closes every isolate at the end of a
# paragraph, so each pair has to stand in one paragraph.
_ISOLATES_AND_PARAGRAPHS: Final = re.compile(f"[{_ISOLATES}\n\r\u2029]")


def trim(text: str) -> str:
    """Return `text` without Unicode white space at its ends."""
    return text.strip(_WHITE_SPACE)


def is_clean(text: str) -> bool:
    """Return whether a server's text is safe to show (docs/differences.md, 10).

    It has no control characters except tab and line breaks, no lone surrogates, no bidirectional
    controls that embed or override, and no isolate without its partner. Message catalogues put
    pairs of isolates around what they insert.
    """
    if not _UNSAFE_IN_NAMES.search(text):
        return True
    return not _UNSAFE.search(text) and not _isolates(text)[1]


def is_clean_answer(text: str) -> bool:
    """Return whether a person's text can be sent. It may have bidirectional controls: they mislead
    only the person who wrote them."""
    return not _UNSAFE_ANSWER.search(text)


def scrub(text: str) -> str:
    """Return `text` with U+FFFD for every control character, lone surrogate, bidirectional
    control and isolate."""
    return _UNSAFE_IN_NAMES.sub("\ufffd", text)


def without_isolates(text: str) -> str:
    """Return `text` without its pairs of isolates. An isolate without its partner stays."""
    pairs, _ = _isolates(text)
    return "".join(char for at, char in enumerate(text) if at not in pairs) if pairs else text


def _isolates(text: str) -> tuple[set[int], bool]:
    """Return the positions of the isolates that are paired, and whether any is not."""
    paired: set[int] = set()
    opened: list[int] = []
    has_unpaired = False
    for match in _ISOLATES_AND_PARAGRAPHS.finditer(text):
        char, at = match[0], match.start()
        if char == _CLOSES_ISOLATE:
            if opened:
                paired |= {opened.pop(), at}
            else:
                has_unpaired = True
        elif "\u2066" <= char <= "\u2068":
            opened.append(at)
        else:
            has_unpaired = has_unpaired or bool(opened)
            opened = []
    return paired, has_unpaired or bool(opened)


# --- Invisible characters ----------------------------------------------------------------------

# Drawn as nothing or as a blank, although their category is not Cf: Unicode's property
# Default_Ignorable_Code_Point, the Braille blank and the object replacement character.
_IGNORABLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufff8\ufffc\U000e0000-\U000e0fff]"
)
_VARIATION_SELECTORS: Final = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def is_invisible(char: str) -> bool:
    """Return whether a character is drawn as nothing, or as a blank although it is not white
    space."""
    return unicodedata.category(char) == "Cf" or _IGNORABLE.match(char) is not None


def is_variation_selector(char: str) -> bool:
    """Return whether a character only chooses the shape of the one before it."""
    return _VARIATION_SELECTORS.match(char) is not None


class _Replacements(dict[int, str]):
    """A table for `str.translate` that computes the replacement of a character when it is needed.

    The replacements use `unicodedata.normalize` for one character at a time. For a whole text its
    time grows with the square of the number of combining marks in a row.
    """

    # More than there are characters in daily use, some megabytes.
    _MAX_REMEMBERED: Final = 65_536

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code_point: int) -> str:
        if len(self) >= self._MAX_REMEMBERED:
            self.clear()
        found = self[code_point] = self._replace(chr(code_point))
        return found


def _seen(char: str) -> str:
    if unicodedata.category(char) == "Lo" and not _IGNORABLE.match(char):
        # Most characters, and quicker than the rest.
        return unicodedata.normalize("NFKD", char)
    decomposed = unicodedata.normalize("NFKD", char)
    return "".join(part for part in decomposed if not is_invisible(part))


_SEEN: Final = _Replacements(_seen)


def see_through(text: str) -> str:
    """Return `text` in NFKD, without invisible characters.

    NFKD replaces compatibility characters (full-width letters, ligatures) and separates accents
    from their letters. The accents stay in the order of the text.
    """
    return text if text.isascii() else text.translate(_SEEN)


def is_blank(text: str) -> bool:
    """Return whether a reader sees nothing in `text`."""
    return not any(trim(see_through(char)) for char in text)


# --- Scripts ---------------------------------------------------------------------------------

# Python has no table of scripts, but a letter's name begins with its script. These do not.
_SCRIPT_BY_WORD: Final = {"IDEOGRAPHIC": "CJK", "EXTENDED": "ARABIC"}
# Scripts that one language writes in one word. Latin words are common beside such words.
_WRITTEN_TOGETHER: Final = (
    frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"CJK", "BOPOMOFO"}),
    frozenset({"CJK", "HANGUL"}),
)
# UAX #31, table 5: the scripts in everyday use. Few people can read the letters of other scripts.
_EVERYDAY_SCRIPTS: Final = frozenset(
    "LATIN GREEK CYRILLIC ARMENIAN GEORGIAN HEBREW ARABIC THAANA DEVANAGARI BENGALI GURMUKHI "
    "GUJARATI ORIYA TAMIL TELUGU KANNADA MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR KHMER "
    "ETHIOPIC HANGUL HIRAGANA KATAKANA BOPOMOFO CJK".split()
)
# Their letters change shape at a joiner (U+200D) or non-joiner (U+200C).
_JOINING_SCRIPTS: Final = frozenset(
    "ARABIC SYRIAC MANDAIC MONGOLIAN NKO DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL TELUGU "
    "KANNADA MALAYALAM SINHALA KHMER".split()
)
_LETTERS_MARKS_AND_DIGITS: Final = frozenset("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl".split())


@lru_cache(maxsize=65_536)
def script(char: str) -> str | None:
    """Return the script of a character in capitals, such as `CYRILLIC`.

    `None` for characters of all scripts: the digits 0 to 9, blanks, punctuation, symbols, accents.
    """
    if char.isascii():
        return "LATIN" if char.isalpha() else None
    if unicodedata.category(char) not in _LETTERS_MARKS_AND_DIGITS or is_invisible(char):
        return None
    word = re.split("[ -]", unicodedata.name(char, "UNKNOWN"), maxsplit=1)[0]
    return None if word == "COMBINING" else _SCRIPT_BY_WORD.get(word, word)


def scripts(text: str) -> frozenset[str]:
    """Return the scripts of the characters of `text`."""
    return frozenset(found for found in map(script, set(text)) if found is not None)


def joins(char: str) -> bool:
    """Return whether a character changes its shape beside a joiner."""
    return script(char) in _JOINING_SCRIPTS


def _is_a_mixture(found: Collection[str]) -> bool:
    return len(found) > 1 and not any(system.issuperset(found) for system in _WRITTEN_TOGETHER)


def mixes_scripts(words: Iterable[str], *, latin_stands_apart: bool = False) -> bool:
    """Return whether `words` mix scripts that no language writes together.

    Two scripts in one word are a mixture. Latin letters in a Japanese word count as well: hosts
    can imitate a slash that way. Words in two scripts are a mixture, except Latin words beside
    Chinese, Japanese or Korean ones. With `latin_stands_apart`, Latin words are allowed beside
    words of any script: most host names end in one.
    """
    found = [scripts(word) for word in words]
    others = frozenset[str]().union(*found) - {"LATIN"}
    if any(map(_is_a_mixture, found)) or _is_a_mixture(others):
        return True
    return (
        not latin_stands_apart
        and frozenset({"LATIN"}) in found
        and bool(others)
        and not any(system >= others for system in _WRITTEN_TOGETHER)
    )


# --- Characters that look alike ----------------------------------------------------------------

# Characters that most typefaces draw as a Latin letter. No such table is complete.
_DRAWN_AS: Final = {
    "a": "аαɑᴀ",
    "b": "ьʙꞵ",
    "c": "сϲᴄ",
    "d": "ԁժᴅ",
    "e": "еҽᴇ",
    "f": "ꜰ",
    "g": "ԍɡɢց",
    "h": "һհʜ",
    "i": "іɩıɪι",
    "j": "јϳȷյᴊ",
    "k": "кκᴋ",
    "l": "ӏʟ\u0627\u06f1\u0661",
    "m": "мᴍ",
    "n": "пηոɴ",
    "o": "оοօσᴏ\u0660\u06f0\u0966\u09e6\u0a66\u0ae6\u0ce6\u0e50\u0ed0\u1040\u3007",
    "p": "рρᴘ",
    "q": "ԛզ",
    "r": "гʀ",
    "s": "ѕꜱ",
    "t": "тτᴛ",
    "u": "υսцᴜ",
    "v": "νѵᴠ",
    "w": "ѡԝωաᴡ",
    "x": "хχ",
    "y": "уγʏү",
    "z": "ᴢ",
    "A": "АΑᎪꓮ",
    "B": "ВΒᏴꓐ",
    "C": "СϹᏟꓚ",
    "D": "Ꭰꓓ",
    "E": "ЕΕᎬꓰ",
    "F": "Ϝꓝ",
    "G": "ԌᏀꓖ",
    "H": "НΗᎻꓧ",
    "I": "ІӀΙꓲ",
    "J": "ЈᎫꓙ",
    "K": "КΚᏦꓗ",
    "L": "Ꮮꓡ",
    "M": "МΜᎷꓟ",
    "N": "Νꓠ",
    "O": "ОΟՕꓳ",
    "P": "РΡᏢꓑ",
    "Q": "Ԛ",
    "R": "ᎡᏒꓣ",
    "S": "ЅՏᏚꓢ",
    "T": "ТΤᎢꓔ",
    "U": "Սꓴ",
    "V": "ѴᏙꓦ",
    "W": "ԜᎳꓪ",
    "X": "ХΧꓫ",
    "Y": "УΥҮꓬ",
    "Z": "ΖᏃꓜ",
}
# Only readers who look closely can tell these apart.
_LIKE_AT_A_GLANCE: Final = {
    "b": "вƀ",
    "d": "đ",
    "h": "нħ",
    "l": "łi1",
    "o": "øө0",
    "t": "ŧ",
}
_TAKEN_FOR: Final = {ord(c): letter for letter, chars in _DRAWN_AS.items() for c in chars}
_DRAWN: Final = _Replacements(lambda char: _TAKEN_FOR.get(ord(char), char))
_TAKEN_FOR_AT_A_GLANCE: Final = {
    ord(c): letter for letter, chars in _LIKE_AT_A_GLANCE.items() for c in chars
}
_PAIRS_TAKEN_FOR: Final = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_ORDERED_CHARS: Final = 1000


def look(text: str) -> str:
    """Return a form of `text` that is equal for two texts that look the same in one script.

    Invisible characters, the kind of blank and compatibility characters do not count. Capitals
    differ from small letters.
    """
    if text.isascii():
        return " ".join(text.split())
    seen = see_through(text)
    # `normalize` puts accents in order. In pieces, because its time can grow with the square of
    # the length; labels that are compared have at most 200 characters.
    ordered = (
        unicodedata.normalize("NFD", seen[start : start + _ORDERED_CHARS])
        for start in range(0, len(seen), _ORDERED_CHARS)
    )
    return " ".join("".join(ordered).split())


def look_alike(texts: Iterable[str]) -> bool:
    """Return whether two of `texts` look the same to a reader (docs/differences.md, 10).

    Letters of two scripts that look alike are the same here. Within one script they are not:
    readers of Mongolian tell U+0443 from U+04AF, although both look like `y`.
    """
    looks: set[str] = set()
    drawn_in: dict[str, str] = {}
    for text in texts:
        looked = look(text)
        drawn = looked.translate(_DRAWN)
        if looked in looks:
            return True
        if drawn in drawn_in:
            alphabets = scripts(text)
            if len(alphabets) > 1 or alphabets != scripts(drawn_in[drawn]):
                return True
        looks.add(looked)
        drawn_in[drawn] = text
    return False


def is_same_name(name: str, other: str) -> bool:
    """Return whether two names look the same to a reader, in any letter case."""
    one, two = look(name), look(other)
    return (
        one.casefold() == two.casefold()
        or one.translate(_TAKEN_FOR).casefold() == two.translate(_TAKEN_FOR).casefold()
    )


def is_lookalike(word: str) -> bool:
    """Return whether a word looks like one in the letters a to z, or is in a rare script."""
    return not word.isascii() and (
        word.translate(_TAKEN_FOR).isascii() or not scripts(word) <= _EVERYDAY_SCRIPTS
    )


def _latin(char: str) -> str:
    if ord(char) in _TAKEN_FOR:
        return _TAKEN_FOR[ord(char)]
    letters = "".join(part for part in _seen(char) if unicodedata.category(part) not in _ACCENTS)
    return letters.translate(_TAKEN_FOR)


_ACCENTS: Final = ("Mn", "Me")
_LATIN: Final = _Replacements(_latin)


def as_latin(text: str) -> str:
    """Return `text` as a reader in a hurry takes it.

    Accents and invisible characters are removed. A letter of another script that looks like a
    Latin letter is replaced by it.
    """
    return text if text.isascii() else text.translate(_LATIN)


def at_a_glance(text: str) -> str:
    """Return a form of `text` that is equal for two texts that look alike at a glance.

    `rn` becomes `m`, and `1` becomes `l`. `text` is in small letters.
    """
    text = as_latin(text).translate(_TAKEN_FOR_AT_A_GLANCE)
    for pair, single in _PAIRS_TAKEN_FOR:
        text = text.replace(pair, single)
    return text


# --- Words for secrets -------------------------------------------------------------------------

# A name or title with one of these words, or pairs of words, asks for a credential.
_CREDENTIALS: Final = frozenset(
    "password passwd passphrase passcode pwd secret token apikey credential credentials "
    "pin otp totp mfa 2fa cvv cvc ssn".split()
)
_CREDENTIAL_PAIRS: Final = frozenset(
    {
        ("api", "key"),
        ("access", "key"),
        ("private", "key"),
        ("secret", "key"),
        ("card", "number"),
        ("security", "code"),
        ("verification", "code"),
        ("one", "time"),
        # Capitals after a digit begin a word: 2FA is read as these two.
        ("2", "fa"),
    }
)
# After these words, `tokens` are the units of a language model: `max_tokens`.
_COUNTED: Final = frozenset(
    "max maximum min minimum total of input output prompt completion context".split()
)
# The same words, written together with others. Short words count only after one of the listed
# words, because `spin` is harmless. So are India's postal `pincode` and a `passwordless` sign-in.
_WRITTEN_IN_ONE: Final = re.compile(
    "(?:password|passwd|passphrase|passcode)(?!less)"
    "|(?:(?:api|access|private|secret)key|cardnumber|(?:security|verification|onetime)code)s?$"
    "|^(?:access|account|admin|api|app|auth|bearer|bot|client|db|device|github|gitlab|id|jwt|login"
    "|my|oauth|personal|refresh|root|security|service|session|slack|user|your)"
    "(?:credential|otp|pin|pwd|secret|token)s?$"
)
# A text with one of these words may ask for a secret. Most are allowed as names of properties:
# many harmless properties are called `code` or `key`.
_SECRET_WORDS: Final = (
    "password passwords passphrase passphrases passcode passcodes pin pins key keys token tokens "
    "code codes secret secrets credential credentials otp 2fa mfa cvv cvc iban "
    # German
    "passwort passworte passwortes passworts passwörter kennwort kennworte kennwortes kennworts "
    "kennwörter schlüssel zugangsdaten geheimnis geheimnisse "
    # French, Spanish, Portuguese, Italian
    "clé clés jeton jetons identifiant identifiants contraseña contraseñas clave claves senha "
    "senhas parola parole"
).split()
_SECRET_PHRASES: Final = ("mot de passe", "mots de passe")
# These are found inside words: their languages add endings, or write without blanks.
_SECRET_PARTS: Final = (
    "كلمة مرور", "كلمة المرور", "كلمة سر", "كلمة السر", "رمز", "مفتاح",
    "пароль", "ключ", "код", "密码", "密碼", "パスワード", "비밀번호",
)  # fmt: skip


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(re.escape(as_latin(word)) for word in words)


_SPEAKS_OF_SECRETS: Final = re.compile(
    rf"\b(?:{_alternatives((*_SECRET_WORDS, *_SECRET_PHRASES))})\b"
    rf"|{_alternatives(_SECRET_PARTS)}"
)


def _words(text: str) -> list[str]:
    """The words of `text` in lower case.

    It is split at each character that is neither letter nor digit, and in camelCase before each
    capital.
    """
    marked: list[str] = []
    after_lower = False
    for char in text:
        if not char.isalnum():
            marked.append(" ")
            after_lower = False
            continue
        if after_lower and char.isupper():
            marked.append(" ")
        marked.append(char)
        after_lower = char.islower() or "0" <= char <= "9"
    # A second time, because some small letters look Latin although their capitals do not.
    return as_latin("".join(marked).lower()).split()


def names_a_credential(text: str) -> bool:
    """Return whether a name or title asks for a credential (docs/differences.md, 11).

    Whole words count, singular and plural: `userPin` asks for one, `spinner` does not. Long words
    count also if they are written together with others, as in `userpassword`.
    """
    words = _words(as_latin(text))
    singular = [word if word in _CREDENTIALS else word.removesuffix("s") for word in words]
    for at, word in enumerate(words):
        is_a_count = word == "tokens" and at > 0 and words[at - 1] in _COUNTED
        if not is_a_count and (singular[at] in _CREDENTIALS or _WRITTEN_IN_ONE.search(word)):
            return True
    return not _CREDENTIAL_PAIRS.isdisjoint(zip(words, singular[1:], strict=False))


def speaks_of_secrets(*texts: str) -> bool:
    """Return whether one of `texts` mentions a password, key, token or code.

    It knows words of eleven languages. False alarms only make a warning stand out.
    """
    for text in texts:
        words = " ".join(_words(as_latin(text)))
        if _SPEAKS_OF_SECRETS.search(words) or names_a_credential(text):
            return True
    return False
