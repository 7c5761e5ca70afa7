"""Real titles in four languages against false alarms: at most one in 500 is refused.

The titles are what Django and Django REST framework call their fields, buttons and languages: the
short texts of their catalogues, as they are installed. None of them is written for this test.
"""

from __future__ import annotations

import gettext
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from elicitation.core import SchemaRefusal, names_a_credential, parse_requested_schema
from elicitation.core.errors import OutOfProfileRefusal
from elicitation.core.untrusted import speaks_of_secrets

LANGUAGES = ("en", "de", "fr", "es")
#: At most so many of these are no title but a sentence.
LONGEST = 40
#: What a title asks for that is refused rightly, by the English original.
CREDENTIALS = re.compile(r"password|passphrase|token|credential", re.IGNORECASE)
#: One in this many may be refused wrongly.
ONE_IN = 500


@cache
def titles(language: str) -> dict[str, str]:
    """Return titles in a language, each with its English original."""
    found = {}
    for package in ("django", "rest_framework"):
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        for path in Path(spec.origin).parent.rglob("locale/de/LC_MESSAGES/*.mo"):
            other = path.parents[2] / ("de" if language == "en" else language)
            with (other / "LC_MESSAGES" / path.name).open("rb") as file:
                catalogue = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
            for key, text in catalogue.items():
                # A plural has its number beside it, and a context stands before its text.
                original = (key[0] if isinstance(key, tuple) else key).rpartition("\x04")[2]
                title = (original if language == "en" else text).strip()
                if 0 < len(title) <= LONGEST and not re.search(r"[%{\n]", original):
                    found[title] = original
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_case_D8_ordinary_titles_are_asked(language: str) -> None:
    corpus = titles(language)
    assert len(corpus) > ONE_IN
    alarms = [
        title
        for title, original in corpus.items()
        if names_a_credential(title) and not CREDENTIALS.search(original)
    ]
    assert len(alarms) * ONE_IN <= len(corpus), alarms


@pytest.mark.parametrize("language", LANGUAGES)
def test_case_D8_what_asks_for_a_password_is_refused_or_warned_of(language: str) -> None:
    passwords = [
        title for title, original in titles(language).items() if "password" in original.lower()
    ]
    assert len(passwords) > 15
    assert [title for title in passwords if not speaks_of_secrets(title)] == []
    if language == "en":
        assert [title for title in passwords if not names_a_credential(title)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_case_D9_ordinary_titles_are_told_apart(language: str) -> None:
    corpus = sorted(title for title in titles(language) if not names_a_credential(title))
    refused = 0
    # Neighbours in the alphabet are most alike.
    for at in range(0, len(corpus), 30):
        options = [{"const": str(n), "title": t} for n, t in enumerate(corpus[at : at + 30])]
        choice = {"type": "string", "oneOf": options}
        try:
            parse_requested_schema({"type": "object", "properties": {"choice": choice}})
        except (OutOfProfileRefusal, SchemaRefusal):
            refused += 1
    # Each that is refused holds one pair at least.
    assert refused * ONE_IN <= len(corpus)
