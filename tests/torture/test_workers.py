"""The short form of ``python -m tests.torture.workers``, on the database of the tests."""

from __future__ import annotations

import uuid

import pytest

from tests.torture.workers import Run, judge, torture

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_killed_workers_leave_is_received() -> None:
    (runs,) = torture(["after the send"], 2)
    counts, wrong = judge(runs)
    assert wrong == []
    assert counts["runs"] == counts["the tool ran 1 times"] == 2


@pytest.mark.parametrize(
    ("codes", "ran"), [([], 1), (["finished"], 2), (["finished"], 0), (["expired"], 1)]
)
def test_it_notices(codes: list[str], ran: int) -> None:
    run = Run(point="after the result", key=uuid.uuid4(), codes=codes, ran=ran)
    assert len(judge([run])[1]) == 1
