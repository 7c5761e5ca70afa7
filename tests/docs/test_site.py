"""The site of the documentation, as far as it can be tested without Sphinx (``make docs``)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from docs.site import build, reference
from elicitation import conf
from elicitation.calls import rounds
from tests.docs.test_links import anchors, text_of
from tests.processes import BASE_DIR


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as Sphinx gets them."""
    folder = tmp_path_factory.mktemp("source")
    build.put_together(folder)
    return folder


def test_every_page_can_be_reached_from_the_start_in_three_clicks(source: Path) -> None:
    reached = {source / f"{build.START}.md"}
    for _ in range(build.CLICKS):
        for page in [*reached]:
            links = re.findall(r"\]\(([^)\s#]+\.md)", page.read_text())
            trees = re.findall(r"^(/[A-Z_]+)$", page.read_text(), re.MULTILINE)
            reached |= {(page.parent / link).resolve() for link in links if "://" not in link}
            reached |= {source / f"{tree[1:]}.md" for tree in trees}
    assert set(source.rglob("*.md")) - reached == set()


def test_links_of_what_is_made_lead_somewhere(source: Path) -> None:
    for page in (source / "docs" / "reference").glob("*.md"):
        for path, anchor in re.findall(r"\]\(([^)\s#]+\.md)#?([^)]*)\)", text_of(page)):
            target = page.parent / path
            assert target.is_file(), (page.name, path)
            assert not anchor or anchor in anchors(target), (page.name, anchor)


def test_each_setting_signal_check_and_command_is_in_the_reference() -> None:
    pages = reference.pages()
    for name in conf.NAMES:
        assert f"| `ELICITATION_{name}` |" in pages["settings.md"]
    for name in re.findall(
        r"^(\w+) = Signal", (BASE_DIR / "elicitation/signals.py").read_text(), re.M
    ):
        assert f"| `{name}` |" in pages["signals.md"]
    source = (BASE_DIR / "elicitation" / "checks.py").read_text()
    checks = set(re.findall(r"elicitation\.[EW]\d+", source))
    assert set(re.findall(r"^\| `(elicitation\.\w+)` \|", pages["checks.md"], re.M)) == checks
    for command, app in get_commands().items():
        assert app != "elicitation" or f"## {command}\n" in pages["commands.md"]


def test_each_move_of_the_engine_is_in_its_table() -> None:
    table = reference.engine().partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| .+? \| (.+) \|$", table, re.MULTILINE))
    for state in rounds.State:
        moves = {f"`{on.value}`: `{to.value}`" for on, to in rounds.MOVES.get(state, {}).items()}
        assert set(rows[state.value].split("<br>")) == (moves or {"the pass ends"})


def test_each_public_name_is_in_the_reference_with_its_arguments() -> None:
    page = reference.python()
    for _, names in reference.public_names():
        for name in names:
            assert f"### {name}\n" in page
    assert "start_sync(server: str, tool: str" in page


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="gone.html">', "is not there"),
        ('<a href="#nowhere">', "no such heading"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<img src="//cdn.example/x.png">', "loads //cdn.example/x.png"),
    ],
)
def test_a_fault_of_the_site_is_found(html: str, problem: str, tmp_path: Path) -> None:
    start = tmp_path / "docs" / "README.html"
    start.parent.mkdir()
    start.write_text('<h1 id="top"></h1><a href="#top"></a>')
    assert build.problems(tmp_path) == []
    start.write_text(html)
    (found,) = build.problems(tmp_path)
    assert problem in found


def test_a_page_that_is_four_clicks_away_is_found(tmp_path: Path) -> None:
    names = ["docs/README", "docs/one", "docs/two", "docs/three", "docs/four"]
    (tmp_path / "docs").mkdir()
    for name, following in zip(names, [*names[1:], "docs/README"], strict=True):
        (tmp_path / f"{name}.html").write_text(f'<a href="../{following}.html">')
    (found,) = build.problems(tmp_path)
    assert found.startswith("docs/four.html is more than 3 clicks")
