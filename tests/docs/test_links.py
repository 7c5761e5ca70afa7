"""Every link in the documentation leads to a file and a heading that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.processes import BASE_DIR

PAGES = [
    *(
        BASE_DIR / name
        for name in (
            "README.md",
            "CONTRIBUTING.md",
            "CODE_OF_CONDUCT.md",
            "SECURITY.md",
            "CHANGELOG.md",
        )
    ),
    *sorted((BASE_DIR / "docs").rglob("*.md")),
]


def text_of(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, made of its headings as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one).lower().replace(" ", "-") for one in headings}


@pytest.mark.parametrize("source", PAGES, ids=lambda source: str(source.relative_to(BASE_DIR)))
def test_links_lead_somewhere(source: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(source)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (source.parent / path).resolve() if path else source
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_index_has_every_page() -> None:
    index = text_of(BASE_DIR / "docs/README.md")
    for page in (BASE_DIR / "docs").iterdir():
        if page.suffix in (".md", ".yaml") and page.name != "README.md":
            assert f"({page.name})" in index, page.name
