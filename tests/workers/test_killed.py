"""A worker dies at any point: the outcome comes all the same, and no tool runs a second time."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from elicitation import calls
from elicitation.models import Elicitation, ParkedCall
from tests.named.conftest import Serve
from tests.processes import WAIT_SECONDS, wait_until

from .conftest import StartWorker
from .process import ENDS, POINTS
from .test_worker import answer, begin, ended

if TYPE_CHECKING:
    from subprocess import Popen
    from uuid import UUID

    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def outcome_of(key: UUID, user: User) -> calls.Outcome:
    """Answer whatever is asked, until the call has ended."""

    def has_ended() -> bool:
        if Elicitation.objects.pending().exists():
            answer(user)
        return ParkedCall.objects.ended().filter(pk=key).exists()

    wait_until(has_ended, "the outcome")
    return calls.outcome(key)


def died(process: Popen[str], user: User) -> bool:
    if Elicitation.objects.pending().exists():
        answer(user)
    return process.poll() is not None


@pytest.mark.parametrize("point", POINTS)
def test_the_outcome_comes(point: str, serve: Serve, user: User, worker: StartWorker) -> None:
    shop = serve("shop", "http")
    first = worker(point)
    key = begin(user, "once")
    wait_until(lambda: died(first, user), f"a death {point}")
    assert first.returncode == -signal.SIGKILL
    worker()
    outcome = outcome_of(key, user)
    assert outcome.code in ENDS[point]
    assert len(shop.said) <= 1
    assert (outcome.code == "finished") <= (len(shop.said) == 1)


def test_a_tool_that_ran_does_not_run_again(serve: Serve, user: User, worker: StartWorker) -> None:
    shop = serve("shop", "http")
    first = worker("after the call")
    key = begin(user, "say")
    first.wait(WAIT_SECONDS)
    worker()
    outcome = ended(key)
    assert (outcome.code, outcome.reason) == ("lost", "process_gone")
    assert len(shop.said) == 1


def test_a_worker_that_dies_in_the_middle_of_a_call(
    serve: Serve, user: User, worker: StartWorker
) -> None:
    shop = serve("shop", "http", "legacy")
    first = worker()
    key = begin(user)
    wait_until(Elicitation.objects.pending().exists, "the question")
    first.kill()
    worker()
    assert ended(key).code == "lost"
    assert shop.said == []
    assert not Elicitation.objects.pending().exists()
