"""The short form of ``python -m tests.torture.tasks``, on the database of the tests."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest

from tests.tasks.process import ENDS
from tests.torture.tasks import TaskRun, torture
from tests.torture.workers import judge

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_killed_workers_leave_of_tasks_is_received() -> None:
    (runs,) = torture(["after the answer was sent"], 2)
    counts, wrong = judge(runs, ENDS)
    assert wrong == []
    assert counts["runs"] == counts["the tool ran 1 times"] == 2


@pytest.mark.parametrize(("a", "b"), [(2, 1), (0, 1)])
def test_it_notices_a_key_that_was_not_answered_once(a: int, b: int) -> None:
    answered = Counter(a=a, b=b)
    run = TaskRun(
        point="after the take", key=uuid.uuid4(), codes=["finished"], ran=1, answered=answered
    )
    assert len(judge([run], ENDS)[1]) == 1
