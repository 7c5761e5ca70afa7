"""``docs/layout.md``: its tables are the package as it is, and each hop of a walk is there."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.processes import BASE_DIR

PAGE = (BASE_DIR / "docs/layout.md").read_text(encoding="utf-8")
PACKAGE = BASE_DIR / "elicitation"
#: Each walk's heading, with the number of hops it promises, and its table.
WALKS = re.findall(r"^### (.*?(\d+) hops.*)\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE)


def floors() -> dict[str, int]:
    """Return the floor of each room and module by the contracts, the lowest as 1."""
    config = tomllib.loads((BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))
    found = {}
    for contract in config["tool"]["importlinter"]["contracts"]:
        if contract["type"] != "layers":
            continue
        [container] = contract["containers"]
        room = container.partition(".")[2]
        for number, layer in enumerate(reversed(contract["layers"]), 1):
            for name in re.findall(r"\w+", layer):
                found[f"{room}/{name}".lstrip("/")] = number
    return found


def modules() -> set[str]:
    """Return every module of the package, migrations and empty packages left out."""
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    return {
        path.as_posix()
        for path in paths
        if path.name != "__init__" and path.parts[0] != "migrations"
    }


def test_each_room_and_module_is_on_the_floor_that_its_contract_says() -> None:
    rows = re.findall(r"^\| (\d+) \| `([\w/]+)` \| .+ \|$", PAGE, re.MULTILINE)
    assert {name: int(floor) for floor, name in rows} == floors()
    assert len(rows) == len(floors())


def test_every_module_of_the_package_stands_in_a_table_once() -> None:
    named = re.findall(r"^\| (?:\d+ \| )?`([\w/]+)` \| .+ \|$", PAGE, re.MULTILINE)
    rooms = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")}
    assert sorted(name for name in named if name not in rooms) == sorted(modules())


@pytest.mark.parametrize(("heading", "promised", "table"), WALKS, ids=[row[0] for row in WALKS])
def test_each_hop_of_a_walk_is_there_and_counted(heading: str, promised: str, table: str) -> None:
    hops = re.findall(r"^\| (\d+) \| `([\w.]+)` \| .+ \|$", table, re.MULTILINE)
    assert len(hops) == table.count("\n") - 2
    assert [int(number) for number, _ in hops] == list(range(1, int(promised) + 1))
    for _, name in hops:
        assert thing(name) is not None


def test_there_are_four_walks() -> None:
    assert len(WALKS) == 4


def thing(name: str) -> Any:
    """Return what a dotted name inside the package names."""
    parts = name.split(".")
    length = next(
        length
        for length in range(len(parts), 0, -1)
        if Path(PACKAGE, *parts[:length]).with_suffix(".py").exists()
    )
    found: Any = import_module(".".join(["elicitation", *parts[:length]]))
    for part in parts[length:]:
        found = getattr(found, part)
    return found
