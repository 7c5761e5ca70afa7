"""The page about clients, as far as it can be tested without their environments.

``make clients`` runs its code with the clients, and makes its table.
"""

from __future__ import annotations

import re

import pytest

from tests.clients import run
from tests.processes import BASE_DIR

PAGE = run.DOCS.read_text()
BLOCKS = dict(re.findall(r"<!-- test: ([\w-]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
CLIENTS = BASE_DIR / "tests" / "clients"


def test_every_block_is_the_code_of_a_client() -> None:
    assert PAGE.count("```") == 2 * len(BLOCKS)
    modules = {path.stem for path in CLIENTS.glob("*.py")}
    assert {client.code for client in run.CLIENTS} - modules == set(BLOCKS)


@pytest.mark.parametrize("client", run.CLIENTS, ids=lambda client: client.code)
def test_a_client_has_an_environment(client: run.Client) -> None:
    requirements = CLIENTS / "requirements" / f"{client.environment}.txt"
    assert re.search(rf"^{re.escape(client.package)}\b", requirements.read_text(), re.MULTILINE)


def test_the_table_has_every_row() -> None:
    _, _, made = PAGE.partition(run.BEGIN)
    rows = [line.split(" | ") for line in made.splitlines() if line.startswith("| ")][1:]
    assert [(row[0].removeprefix("| "), row[1], row[3]) for row in rows] == [
        (client.title, server, way) for client, server, way in run.ROWS
    ]
    assert all(cell.strip(" |") for row in rows for cell in row)
