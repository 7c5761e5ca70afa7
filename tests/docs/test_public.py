"""``docs/public.md``: what it lists is there, and what the documentation imports is on it."""

from __future__ import annotations

import ast
import re
from importlib import import_module

import pytest
from django.apps import apps
from django.template import engines

from tests.processes import BASE_DIR

PAGE = (BASE_DIR / "docs/public.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, list[str]]:
    """Return the names in the table below a heading, by the one in its first column."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = {}
    for line in section.splitlines():
        cells = line.split("|")
        if len(cells) > 3 and (first := re.findall(r"`([\w.]+)`", cells[1])):
            found[first[0]] = re.findall(r"`(\w+)`", cells[2])
    assert found
    return found


MODULES = rows("Names to import")
ROWS = rows("Fields and methods of rows")


@pytest.mark.parametrize("module", MODULES)
def test_every_name_can_be_imported(module: str) -> None:
    names = set(MODULES[module])
    if names == {"__all__"}:
        names = set(import_module(module).__all__)
    assert names
    for name in names:
        assert hasattr(import_module(module), name), name


@pytest.mark.parametrize("model", ROWS)
def test_every_field_and_method_is_there(model: str) -> None:
    found = apps.get_model("elicitation", model)
    for name in ROWS[model]:
        assert hasattr(found, name), name


def test_every_template_tag_is_there() -> None:
    section = PAGE.partition("\n## Pages\n")[2].partition("* The names of templates")[0]
    library = engines["django"].engine.template_libraries["elicitation"]
    names = re.findall(r"`(\w+)`", section)
    assert len(names) == 9
    assert set(names) <= {*library.tags, *library.filters}


def test_what_the_documentation_imports_is_public() -> None:
    pages = [BASE_DIR / "README.md", *sorted((BASE_DIR / "docs").glob("*.md"))]
    for page in pages:
        for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("elicit"):
                    for alias in node.names:
                        name = f"{node.module}.{alias.name}"
                        listed = MODULES.get(node.module or "", [])
                        if listed == ["__all__"]:
                            listed = import_module(node.module or "").__all__
                        assert alias.name in listed or name in MODULES, (page.name, name)
