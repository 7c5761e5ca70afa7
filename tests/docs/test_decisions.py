"""The pages about decisions: each has all its parts, and names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.apps import apps
from django.db.models import JSONField

from tests.docs.test_numbers import names_of_tests
from tests.processes import BASE_DIR

FOLDER = BASE_DIR / "docs" / "decisions"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")

#: Modules that send SQL of their own: statements that Django's ORM does not have.
OWN_SQL = {"checks", "inbox/listening", "transactions"}


def test_the_index_has_each_decision_by_its_title() -> None:
    index = (FOLDER / "README.md").read_text()
    listed = re.findall(r"^\| \[(.+)\]\((.+)\) \| .+ \|$", index, re.MULTILINE)
    assert {name: title for title, name in listed} == {
        page.name: page.read_text().partition("\n")[0].removeprefix("# ") for page in PAGES
    }
    assert len(listed) == 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_has_all_parts_and_its_tests_are_there(page: Path) -> None:
    text = page.read_text()
    parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert parts == ["What would happen otherwise", "What was measured", "Tests"]
    _, measured, tests = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert re.search(r"`(?:make|pytest|python -m) [^`]+`", measured)
    named = re.findall(r"^\* `(\S+?)::(\S+)`$", tests, re.MULTILINE)
    assert len(named) == tests.count("\n* ") > 0
    for path, name in named:
        assert name in names_of_tests(BASE_DIR / path), name


def test_no_model_has_a_json_column() -> None:
    for model in apps.get_app_config("elicitation").get_models():
        assert not [field for field in model._meta.fields if isinstance(field, JSONField)]


def test_sql_is_written_in_few_places() -> None:
    package = BASE_DIR / "elicitation"
    found = {
        path.relative_to(package).with_suffix("").as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\.cursor\(|\.execute\(|RunSQL|RawSQL|\.raw\(", path.read_text("utf-8"))
    }
    assert found == OWN_SQL
