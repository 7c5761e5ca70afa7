"""The catalogues: every string of ours is in them, translated, and compiled."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

APP = Path(__file__).resolve().parent.parent / "elicitation"
LANGUAGES = ("ar", "de", "fr")


@pytest.fixture(scope="module", autouse=True)
def _gettext_is_there() -> None:
    if shutil.which("xgettext") is None or shutil.which("msgfmt") is None:
        reason = "THE CATALOGUES WERE NOT CHECKED: GNU gettext is missing"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@dataclass(frozen=True)
class Entry:
    """One entry of a catalogue: what is translated, and its translations."""

    context: str
    texts: tuple[str, ...]
    translations: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.context} {self.texts[0]!r}"


def catalogue(path: Path) -> list[Entry]:
    """Return the entries of a catalogue; its header is not one."""
    entries = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n")[1:]:
        # A long text is written over several lines.
        lines = "\n".join(line for line in block.split("\n") if not line.startswith("#"))
        found: dict[str, list[str]] = {"msgctxt": [], "msgid": [], "msgstr": []}
        for line in lines.replace('"\n"', "").split("\n"):
            name, _, text = line.partition(" ")
            kind = "msgid" if name == "msgid_plural" else name.partition("[")[0]
            found[kind].append(ast.literal_eval(text))
        context = "".join(found["msgctxt"])
        entries.append(Entry(context, tuple(found["msgid"]), tuple(found["msgstr"])))
    return entries


def ours(language: str) -> list[Entry]:
    """Return the entries of one of the app's catalogues."""
    return catalogue(APP / f"locale/{language}/LC_MESSAGES/django.po")


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without its markup."""
    return re.split(r"(?<=[.:?!])\s+", re.sub(r"<[^>]+>", "", text))


@pytest.mark.slow
def test_every_string_is_in_every_catalogue_and_no_other(tmp_path: Path) -> None:
    copy = tmp_path / "elicitation"
    shutil.copytree(APP, copy, ignore=shutil.ignore_patterns("locale", "__pycache__"))
    (copy / "locale").mkdir()
    command = [sys.executable, "-m", "django", "makemessages", "--locale", "de", "--no-location"]
    # The tests' settings are not found from there, and not needed.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO_")}
    subprocess.run(command, cwd=copy, check=True, capture_output=True, env=plain)
    written = {
        (entry.context, entry.texts)
        for entry in catalogue(copy / "locale/de/LC_MESSAGES/django.po")
    }
    assert len(written) > 150
    for language in LANGUAGES:
        translated = {(entry.context, entry.texts) for entry in ours(language)}
        assert translated - written == set(), language
        assert written - translated == set(), language


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_entry_is_translated_with_its_parameters(language: str) -> None:
    parameters = re.compile(r"%\(\w+\)s|%[sd]|<[^>]+>")
    assert "fuzzy" not in (APP / f"locale/{language}/LC_MESSAGES/django.po").read_text("utf-8")
    for entry in ours(language):
        assert all(entry.translations), entry
        wanted = set(parameters.findall(entry.texts[0]))
        for text in (*entry.texts, *entry.translations):
            assert set(parameters.findall(text)) == wanted, entry


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_plural_has_all_forms_of_its_language(language: str) -> None:
    # Where one is missing, Django shows the English text.
    path = APP / f"locale/{language}/LC_MESSAGES/django.po"
    declared = re.search(r"nplurals=(\d)", path.read_text(encoding="utf-8"))
    assert declared
    for entry in ours(language):
        forms = int(declared[1]) if len(entry.texts) > 1 else 1
        assert len(entry.translations) == forms, entry


def test_no_line_ends_before_french_punctuation() -> None:
    # A plain space can end a line. U+00A0 stands before a colon and inside « », U+202F before
    # the others.
    wrong = re.compile(r"[^\u00a0]:(?!//)(?!\d)|[^\u202f][;?!]|«[^\u00a0]|[^\u00a0]»")
    for entry in ours("fr"):
        for text in entry.translations:
            assert not wrong.search(text.replace("UTC+01:00", "")), entry


#: A sentence that begins so is about the reader.
GERMAN_YOUR = re.compile(r"Ihr(e[mnrs]?)?\b")


def test_german_speaks_of_the_reader_where_the_english_does() -> None:
    # "Its name …" said of a link became "Ihr Name …": the reader's own name.
    for entry in ours("de"):
        for text in entry.translations:
            if any(GERMAN_YOUR.match(sentence) for sentence in sentences(text)):
                assert re.search(r"\b[Yy]our?\b", entry.texts[0]), entry


@pytest.mark.parametrize(
    ("language", "familiar"),
    [
        ("de", r"\b[Dd](u|ich|ir|ein(e[mnrs]?)?)\b|\beuch\b"),
        ("fr", r"\b([Tt]u|[Tt]oi|tes?|ton|ta)\b"),
    ],
)
def test_the_reader_is_addressed_formally(language: str, familiar: str) -> None:
    for entry in ours(language):
        assert not any(re.search(familiar, text) for text in entry.translations), entry


def test_no_text_begins_with_a_word_for_something_said_elsewhere() -> None:
    # What such a text is about stands in a heading, or nowhere: translations guess.
    for entry in ours("de"):
        for text in entry.texts:
            # "It is not known" speaks of nothing.
            assert not re.match(
                r"(It|Its|They|Their|Them|One|This one)\b(?! is not known)", text
            ), entry


#: What stands for one thing in each language: docs/glossary.md.
TERMS = {
    r"\brequests?\b": {"de": "Anfrage", "fr": "demande|requête", "ar": "طلب"},
    r"\bquestions?\b": {"de": "Frage", "fr": "question", "ar": "سؤال|أسئلة"},
    r"\blinks?\b": {"de": "Link", "fr": r"\bliens?\b", "ar": "رابط|روابط"},
    r"\btools?\b": {"de": "Tool", "fr": "outil", "ar": "أدا[ةت]"},
    r"\bservers?\b": {"de": "Server", "fr": "serveur", "ar": "خادم|خوادم"},
    r"\bclosed\b": {"de": "abgeschlossen", "fr": "clôtur", "ar": "غلق|غلاق"},
    r"\bwithdrawn\b": {"de": "zurückgezogen", "fr": "retirée", "ar": "سُ?حب|مسحوب"},
    r"\bexpired\b": {"de": "abgelaufen", "fr": "expirée", "ar": "انته[ىت]|منتهي"},
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_thing_has_one_word(language: str) -> None:
    for entry in ours(language):
        english = re.sub(r"%\(\w+\)s", "", entry.texts[-1])
        for word, words in TERMS.items():
            if re.search(word, english, re.IGNORECASE):
                assert re.search(words[language], entry.translations[-1], re.IGNORECASE), entry


#: Words that stood for the same things, and no longer do.
GIVEN_UP = {
    "de": r"Werkzeug|Kennung|Rückfrage|fremde|Mitteilung|Möglichkeit|Zustand|Adresse(?!n? ein)",
    "fr": r"\bclos(es?)?\b|répondue|portée|Écrivez|adresse(?! e-mail)(?!ra)",
    "ar": "عنوان(?! بريد)|عناوين",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_second_word_comes_back(language: str) -> None:
    for entry in ours(language):
        # "address" is for e-mail; in French the verb is what a server does with a request.
        for text in entry.translations:
            text = re.sub(r"E-Mail-Adresse|vous adresse|adresse une|s’adresse|adressée?", "", text)
            assert not re.search(GIVEN_UP[language], text), entry


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_differs_in_markup_alone_is_translated_alike(language: str) -> None:
    def plain(text: str) -> str:
        return re.sub(r"<[^>]+>", "", text).replace("server_name", "server")

    seen: dict[tuple[str, str], tuple[str, ...]] = {}
    for entry in ours(language):
        translations = tuple(map(plain, entry.translations))
        assert (
            seen.setdefault((entry.context, plain(entry.texts[0])), translations) == translations
        ), entry


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_compiled_is_what_is_written(language: str, tmp_path: Path) -> None:
    folder = APP / f"locale/{language}/LC_MESSAGES"
    compiled = tmp_path / "django.mo"
    subprocess.run(["msgfmt", "-o", compiled, folder / "django.po"], check=True)
    assert compiled.read_bytes() == (folder / "django.mo").read_bytes()
