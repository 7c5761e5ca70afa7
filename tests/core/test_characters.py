"""What is known of Unicode: one table for hosts, names and labels, and time that grows with the
length of a text alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elicitation.core import (
    FormAnswer,
    SchemaRefusal,
    looks_like_a_credential,
    names_a_credential,
    parse_elicitation_url,
    parse_requested_schema,
    refuse_credentials,
)
from elicitation.core import characters as c
from elicitation.core.untrusted import mixes_scripts, one_line, speaks_of_secrets, visible

from .data import form

# --- Scripts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "mixed"),
    [
        ("ドメインweb", True),
        ("ドメイン", False),
        ("日本語カナかな", False),
        ("한국어漢字", False),
        ("pаypal", True),
        ("ωmega", True),
        ("bücher", False),
        ("q\u0323\u0301ed", False),
    ],
)
def test_hosts_and_names_agree_about_every_word(word: str, mixed: bool) -> None:
    assert mixes_scripts(word) is mixed
    url = parse_elicitation_url(f"https://{word}.com/")
    assert ("mixed_scripts" in url.warnings) is mixed


@pytest.mark.parametrize(
    ("name", "mixed"),
    [
        ("東京 Tower カフェ", False),
        ("서울 Tower", False),
        ("Сбербанк Online", True),
        ("Арр Store", True),
        ("Сбербанк Ελλάς", True),
        ("①②③ Shop™", False),
        ("1 · 2 – 3", False),
        ("", False),
    ],
)
def test_words_of_a_name_are_compared_too(name: str, mixed: bool) -> None:
    assert mixes_scripts(name) is mixed


@pytest.mark.parametrize(
    ("char", "script"),
    [
        ("a", "LATIN"), ("é", "LATIN"), ("\u0430", "CYRILLIC"), ("\u3007", "CJK"),
        ("\u06f1", "ARABIC"), ("\u30fc", "KATAKANA"), ("1", None), (" ", None), ("\u0301", None),
        ("\u200d", None), ("\u3164", None), ("–", None), ("\U0001f600", None),
    ],
)  # fmt: skip
def test_the_script_of_a_character(char: str, script: str | None) -> None:
    assert c.script(char) == script


# --- Likeness --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Pay 10", "P\u0430y 10"),
        ("P\u0430y 10", "\u0420ay 10"),
        ("Pay", "\u0420\u0430\u0443"),
        ("A\u0323\u0301", "A\u0301\u0323"),
        ("é", "e\u0301"),
        ("Pay  now", "Pay\u00a0now"),
        ("ﬁle", "file"),
        ("\u2068a\u2069", "a"),
        ("HELP", "\u041d\u0415LᏢ"),
    ],
)
def test_these_look_alike(one: str, other: str) -> None:
    assert c.look_alike([one, "something else", other])
    assert c.look_alike([other, one])


@pytest.mark.parametrize(
    "labels",
    [["-d", "-D"], ["Mb", "MB"], ["ур", "үр"], ["é", "e"], ["1", "l"], ["barn", "bam"], ["a"], []],
)
def test_these_do_not(labels: list[str]) -> None:
    assert not c.look_alike(labels)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The shop", "The shоp", True),
        ("The shop", "THE SHOP", True),
        ("ВТБ", "втб", True),
        ("SHOP", "ѕһор", True),
        ("The shop", "The shops", False),
    ],
)
def test_names_of_servers_are_compared_in_any_case(one: str, other: str, same: bool) -> None:
    assert c.is_same_name(one, other) is c.is_same_name(other, one) is same


@given(st.text())
def test_what_looks_the_same_by_unicodes_own_rules_looks_the_same_here(text: str) -> None:
    for normal_form in ("NFC", "NFD", "NFKC", "NFKD"):
        other = unicodedata.normalize(normal_form, text)
        assert c.look(other) == c.look(text)
        assert c.is_blank(other) is c.is_blank(text)
    assert c.is_same_name(text, text)


# --- Words of secrets ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "P\u0430ssword", "passw\u03bfrd", "pa\u0301ssword", "p\u20dda\u0336sswor\u0308d",
        "userpassword", "accesstoken", "passwordconfirm", "userPwd", "dbpwd", "clientsecret",
        "authtokens", "onetimecode", "cardnumber", "mypin", "userotp",
        "passwords", "Passwords", "API keys", "apikeys", "PINs", "tokens", "card numbers",
        "access keys", "SECRETS", "\u0420\u0406N", "ᴘᴀꜱꜱᴡᴏʀᴅ",
    ],
)  # fmt: skip
def test_these_name_a_credential(text: str) -> None:
    assert names_a_credential(text)
    assert speaks_of_secrets(f"Please, your {text}!")


@pytest.mark.parametrize(
    "text",
    ["max_tokens", "maxTokens", "Number of tokens", "passwordless", "pincode", "Pincode", "spins",
     "keys", "codes", "csrfmiddlewaretoken", "hairpin",
     "passe-partout", "mot de passe", "Kennwort", "пароль", "tokenizers"],
)  # fmt: skip
def test_these_do_not_name_one(text: str) -> None:
    assert not names_a_credential(text)


@pytest.mark.parametrize(
    "text",
    ["Your bank password", "Ihre Passwörter", "SCHLÜSSEL", "Votre clé", "vos mots de passe",
     "contrasen\u0303a", "введите пароль", "ПАРОЛЬ", "كلمة المرور", "パスワード",
     "パスワート\u3099", "비밀번호", "密码", "the code"],
)  # fmt: skip
def test_these_speak_of_secrets(text: str) -> None:
    assert speaks_of_secrets("Hello", text)


# --- What is shown ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u2068report.pdf\u2069", "report.pdf"),
        ("\u2066a \u2067b\u2069 c\u2069", "a b c"),
        ("\u2068a", "U+2068a"),
        ("a\u2069", "aU+2069"),
        ("\u2068a\nb\u2069", "U+2068a\nbU+2069"),
    ],
)
def test_paired_isolates_are_shown_without_effect(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert c.is_clean(text) is ("U+" not in shown)
    assert c.is_clean_answer(text)
    assert "\u2068" not in c.scrub(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # Joiners and selectors that change what is drawn stay, others are written out.
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", None),
        ("\U0001f468\u200d\U0001f469", None),
        ("\u2764\ufe0f\u200d\U0001f525", None),
        ("a\u200db", "aU+200Db"),
        ("\u200da", "U+200Da"),
        ("a\u200c", "aU+200C"),
        ("\u2764\ufe0f", None),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0fU+FE0F"),
        ("\ufe0fa", "U+FE0Fa"),
        ("\u3164\u2800\u00ad\U000e0041", "U+3164U+2800U+00ADU+E0041"),
        ("a\x07\t\r\nb", "aU+0007\t\nb"),
        # In a text that no schema may have nothing is left out.
        ("\u2068a\u2069\u202e", "U+2068aU+2069U+202E"),
    ],
)
def test_what_nobody_sees_is_written_out(text: str, shown: str | None) -> None:
    assert visible(text) == (text if shown is None else shown)


def test_a_name_is_one_line() -> None:
    assert one_line(" a\n\u2068b\u2069 ") == "a b"
    assert one_line("ab " * 30, 8) == "ab ab a…"
    assert one_line("ab " * 30, 7) == "ab ab…"


# --- Work ------------------------------------------------------------------------------------

WORST = [
    # Normalising these as one text takes time that grows with the square of their number.
    "\u0315\u0300" * 10_000,
    "a" + "\u0315\u0300\u0323" * 6_000,
    # One character that becomes eighteen.
    "\ufdfa" * 10_000,
    "\U0001d15f\u0344" * 5_000,
]


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of each text that reaches `unicodedata.normalize`."""
    lengths: list[int] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(unicodedata, name)

        def normalize(self, form: str, part: str) -> str:
            lengths.append(len(part))
            return unicodedata.normalize(form, part)

    monkeypatch.setattr(c, "unicodedata", Counting())
    for table in (c._SEEN, c._LATIN):
        table.clear()
    return lengths


@pytest.mark.parametrize("text", WORST, ids=lambda text: ascii(text[:2]))
@pytest.mark.parametrize(
    "function",
    [c.see_through, c.is_blank, c.as_latin, c.at_a_glance, c.look, c.is_clean, c.scripts,
     names_a_credential, speaks_of_secrets, looks_like_a_credential, mixes_scripts, visible],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_E3_what_is_normalised_is_bounded(
    function: Callable[[str], Any], text: str, reached: list[int]
) -> None:
    function(text)
    assert max(reached, default=0) <= 1000
    if function is c.look:
        assert sum(reached) <= 18 * len(text) + len(set(text))
    else:
        # Each character once or twice, however often it stands there; U+FDFA has 18 parts.
        assert sum(reached) <= 40 * len(set(text))


def test_E3_a_schema_of_long_texts_is_read_in_bounded_pieces(reached: list[int]) -> None:
    labels = ["\ufdfa" + f"{number:03}" for number in range(32)]
    definition = {"title": "\ufdfa" * 5, "description": "\ufdfa" * 60, "enum": labels}
    parse_requested_schema(form(**{f"p{number}": definition for number in range(16)}))
    assert max(reached) <= 1000
    # Each label once; titles and descriptions are looked at character by character.
    assert sum(reached) <= 16 * 32 * (18 + 3) + 100


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({"type": "string", "description": "x" * 1000, "title": "y" * 200}, None),
        ({"type": "string", "description": "x" * 2000, "title": "y" * 200}, None),
        ({"type": "string", "description": "x" * 2000, "default": "z" * 300}, "36000 characters"),
        ({"type": "string", "x-unknown": ["z" * 2300]}, "36000 characters"),
        ({"type": "string", "title": "\ufdfa" * 120}, None),
        ({"type": "string", "title": "\ufdfa" * 130}, "36000 characters"),
        ({"type": "string", "x-unknown": [[]] * 240}, None),
        ({"type": "string", "x-unknown": [[]] * 260}, "4000 values"),
        ({"type": "string", "x-unknown": {str(n): {} for n in range(260)}}, "4000 values"),
    ],
)
def test_case_E3_all_texts_together_have_a_limit(definition: Any, said: str | None) -> None:
    requested = form(**{f"p{number}": definition for number in range(16)})
    if said is None:
        assert parse_requested_schema(requested)
        return
    with pytest.raises(SchemaRefusal, match=said):
        parse_requested_schema(requested)


def test_E3_an_answer_of_combining_marks_is_read_in_bounded_pieces(reached: list[int]) -> None:
    schema = parse_requested_schema(form(a={"type": "string"}))
    answers = {"a": FormAnswer(other_text="\u0315\u0300" * 50_000)}
    refuse_credentials(schema, answers)
    assert schema.content_from_answers(answers)
    assert sum(reached) <= 10


def test_E3_what_is_remembered_is_bounded() -> None:
    ideographs = (*range(0x4E00, 0xA000), *range(0x20000, 0x2A6E0), *range(0x2A700, 0x2B73A))
    letters = "".join(map(chr, ideographs))
    assert len(letters) > 65_536
    assert c.see_through(letters) == letters
    assert len(c._SEEN) <= 65_536
