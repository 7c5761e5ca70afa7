"""The catalogues: every string of ours is in them, translated, and compiled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
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


def catalogue(path: Path) -> dict[str, str]:
    """Return the entries of a catalogue by the text they translate."""
    entries = path.read_text(encoding="utf-8").strip().split("\n\n")[1:]
    found = {}
    for entry in entries:
        lines = [line for line in entry.split("\n") if not line.startswith("#")]
        # A long text is written over several lines.
        joined = "\n".join(lines).replace('"\n"', "")
        found[joined.partition("\n")[0]] = joined
    return found


def test_every_string_is_in_every_catalogue_and_no_other(tmp_path: Path) -> None:
    copy = tmp_path / "elicitation"
    shutil.copytree(APP, copy, ignore=shutil.ignore_patterns("locale", "__pycache__"))
    (copy / "locale").mkdir()
    command = [sys.executable, "-m", "django", "makemessages", "--locale", "de", "--no-location"]
    # The tests' settings are not found from there, and not needed.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO_")}
    subprocess.run(command, cwd=copy, check=True, capture_output=True, env=plain)
    ours = catalogue(copy / "locale/de/LC_MESSAGES/django.po").keys()
    assert len(ours) > 150
    for language in LANGUAGES:
        translated = catalogue(APP / f"locale/{language}/LC_MESSAGES/django.po").keys()
        assert translated - ours == set(), language
        assert ours - translated == set(), language


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_entry_is_translated_with_its_parameters(language: str) -> None:
    path = APP / f"locale/{language}/LC_MESSAGES/django.po"
    assert "fuzzy" not in path.read_text(encoding="utf-8")
    for entry in catalogue(path).values():
        asked, *translations = re.split(r"\nmsgstr(?:\[\d\])? ", entry)
        assert translations
        assert '""' not in translations, entry
        wanted = set(re.findall(r"%\(\w+\)s|%s|<[^>]+>", asked))
        for translation in translations:
            assert set(re.findall(r"%\(\w+\)s|%s|<[^>]+>", translation)) == wanted, entry


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_compiled_is_what_is_written(language: str, tmp_path: Path) -> None:
    folder = APP / f"locale/{language}/LC_MESSAGES"
    compiled = tmp_path / "django.mo"
    subprocess.run(["msgfmt", "-o", compiled, folder / "django.po"], check=True)
    assert compiled.read_bytes() == (folder / "django.mo").read_bytes()
