"""Tasks that workers look after: one reads each, and one that dies is followed by another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User

from elicitation import calls
from elicitation.models import Elicitation, ParkedCall
from tests.processes import wait_until
from tests.workers.conftest import StartWorker, worker
from tests.workers.test_killed import died, outcome_of

from .server import CREATED, WORKING, TaskServer, asks, completed

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

__all__ = ["worker"]

pytestmark = pytest.mark.django_db(transaction=True)


class Asking(TaskServer):
    """A server whose task asks until it is answered, and has completed then."""

    def state(self, params: dict[str, Any]) -> dict[str, Any]:
        return completed("bought") if self.of("tasks/update") else asks(a="Which?")


@pytest.fixture
def server(settings: SettingsWrapper) -> Iterator[TaskServer]:
    server = Asking()
    settings.ELICITATION_SERVERS = {"shop": {"url": server.url, "policy": "url_and_form"}}
    yield server
    server.stop()


@pytest.mark.parametrize(
    "point", ["after the ask", "after the take", "after the send", "after the result"]
)
def test_a_worker_dies(point: str, server: TaskServer, user: User, worker: StartWorker) -> None:
    key = calls.start_sync("shop", "buy", scope="chat", user=user)
    first = worker(point)
    wait_until(lambda: died(first, user), f"a death {point}")
    worker()
    outcome = outcome_of(key, user)
    assert (outcome.code, outcome.as_tool_result()) == ("finished", "bought")
    assert len(server.of("tools/call")) == 1
    assert len(server.of("tasks/update")) == 1


def test_each_task_is_read_by_one_of_two_workers_at_its_interval(
    server: TaskServer, user: User, worker: StartWorker
) -> None:
    numbers = count()
    server.call = lambda params: CREATED | {"taskId": f"task-{next(numbers)}"}
    server.state = lambda params: WORKING  # type: ignore[method-assign]
    for number in range(10):
        calls.start_sync("shop", "buy", scope="chat", user=user, call=str(number))
    worker()
    worker()
    wait_until(lambda: len(server.of("tasks/get")) >= 40, "the reading")
    server.state = lambda params: completed("bought")  # type: ignore[method-assign]
    wait_until(lambda: ParkedCall.objects.ended().count() == 10, "the outcomes")
    times: dict[str, list[float]] = {}
    for at, each in zip(server.times, server.requests, strict=True):
        if each["method"] == "tasks/get":
            times.setdefault(each["params"]["taskId"], []).append(at)
    assert len(times) == 10
    # A little less than a second may lie between two arrivals of what was sent a second apart.
    assert min(later - sooner for all in times.values() for sooner, later in pairwise(all)) > 0.9
    assert len(server.of("tools/call")) == 10
    assert not Elicitation.objects.exists()
