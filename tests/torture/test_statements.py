"""The short form of ``python -m tests.torture.statements``, on the database of the tests."""

from __future__ import annotations

import pytest

from tests.torture.flows import KINDS, add_up, prepare, without_pauses
from tests.torture.statements import break_each


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", KINDS)
def test_a_database_that_fails_loses_nothing_in_silence(kind: str) -> None:
    user = prepare()
    # Every third point, and of each kind of flow others.
    first = list(KINDS).index(kind) % 3
    with without_pauses():
        broken = [flow for _, flow in break_each(lambda: KINDS[kind](user), first=first, every=3)]
    counts, wrong = add_up(broken)
    assert wrong == []
    assert counts["runs"] > 5
    assert counts["delivered"] >= counts["runs"]
