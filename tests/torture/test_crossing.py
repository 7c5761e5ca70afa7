"""The short form of ``python -m tests.torture.crossing``, on the database of the tests."""

from __future__ import annotations

from typing import Any

import pytest

from elicitation.mcp import connections
from tests.torture.crossing import cross

ANSWERS = 60

pytestmark = pytest.mark.django_db(transaction=True)


def test_no_answer_goes_to_another_server_or_with_anothers_token() -> None:
    counts, wrong = cross(ANSWERS, seed=7)
    assert wrong == []
    assert counts["answers"] == ANSWERS
    # Two servers, two people, and two loops.
    assert counts["connections"] <= 8


def test_it_notices_connections_that_people_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge would see it: here nobody is told apart from anybody else."""
    terms = connections.Terms

    def nobodys(**fields: Any) -> connections.Terms:
        return terms(**fields | {"owner": None})

    monkeypatch.setattr(connections, "Terms", nobodys)
    counts, wrong = cross(20, seed=7)
    assert counts["another's token"] > 0
    assert wrong
