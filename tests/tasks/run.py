"""Tasks of servers that ``fastmcp[tasks]`` makes: ``make clients`` runs it, in its environment.

What such a server cannot do (ask before it makes the task, end it by itself) is done byte by byte
in ``test_tasks``.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from elicitation import calls
from elicitation.calls import background
from elicitation.calls.replies import CallEndedError, RoundLostError, ServerWorkingPending
from elicitation.calls.tasks import Task
from elicitation.core import ElicitationPending
from elicitation.mcp.servers import cancel_task
from elicitation.models import Elicitation, ParkedCall
from tests.clients.run import python
from tests.processes import WAIT_SECONDS, answers, free_port, wait_until

from .test_tasks import answer, resume

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


class Server:
    """The server, as a process that can be started anew and has forgotten its tasks then."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.port = free_port()
        self.start()

    def start(self) -> None:
        program = str(Path(__file__).with_name("fastmcp_server.py"))
        command = [python("fastmcp-tasks"), program, str(self.port), str(self.log)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        wait_until(lambda: answers(self.port), "the server")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_SECONDS)

    def lines(self, key: str) -> list[Any]:
        """Return the lines of the log with this key, since the test began."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if key in line]

    def of(self, method: str) -> list[Any]:
        return [line for line in self.lines("method") if line["method"] == method]

    @property
    def ran(self) -> list[list[str]]:
        """With what answers tools have run to their end."""
        return [line["ran"] for line in self.lines("ran")]


@pytest.fixture(scope="module")
def process() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="tasks-") as folder:
        server = Server(Path(folder) / "log")
        yield server
        server.stop()


@pytest.fixture
def server(process: Server, settings: SettingsWrapper) -> Iterator[Server]:
    process.log.write_text("")
    url = f"http://127.0.0.1:{process.port}/mcp"
    settings.ELICITATION_SERVERS = {"shop": {"url": url, "policy": "url_and_form"}}
    yield process
    background.stop()


def begin(tool: str, user: User) -> Any:
    with pytest.raises(ServerWorkingPending) as caught:
        calls.call_sync("shop", tool, scope="chat", user=user)
    return caught.value.parked_call_id


def follow(key: Any, until: Callable[[], object] = lambda: False) -> Any:
    """Read a task until it has a result, or something holds."""
    for _ in range(20):
        with suppress(ServerWorkingPending):
            return resume(key)
        if until():
            return None
    raise AssertionError("it does not end")


def asked(key: Any) -> None:
    """Read a task until it asks."""
    with pytest.raises(ElicitationPending) as caught:
        follow(key)
    assert caught.type is ElicitationPending


def keyed(*messages: str) -> list[str]:
    """The server's keys for what waits now, by the messages."""
    found = {each.message: each.key for each in Elicitation.objects.pending()}
    assert found.keys() == set(messages)
    return [found[message] for message in messages]


def test_no_question(server: Server, user: User) -> None:
    key = begin("nothing", user)
    assert follow(key).content[0].text == "bought"
    assert calls.outcome(key).as_tool_result() == "bought"
    assert server.ran == [[]]


def test_no_task_is_read_more_often_than_its_server_says(server: Server, user: User) -> None:
    key = begin("nothing", user)
    for _ in range(5):
        with pytest.raises(ServerWorkingPending):
            calls.resume_sync(key)
    follow(key)
    times = [line["at"] for line in server.of("tasks/get")]
    # A little less than a second may lie between two arrivals of what was sent a second apart.
    assert len(times) >= 2
    assert min(later - sooner for sooner, later in pairwise(times)) > 0.9


def test_one_question(server: Server, user: User) -> None:
    key = begin("one", user)
    asked(key)
    (which,) = keyed("Which?")
    answer(user, **{which: "blue"})
    assert follow(key).content[0].text == "bought blue"
    assert server.ran == [["blue"]]
    assert len(server.of("tasks/update")) == 1
    assert Elicitation.objects.get().delivery == "delivered"


def test_two_rounds(server: Server, user: User) -> None:
    key = begin("rounds", user)
    for message, note in (("Which?", "blue"), ("How many?", "two")):
        asked(key)
        (its,) = keyed(message)
        answer(user, **{its: note})
    assert follow(key).content[0].text == "bought blue two"
    assert server.ran == [["blue", "two"]]
    assert len(server.of("tasks/update")) == 2


def test_two_questions_at_once(server: Server, user: User) -> None:
    key = begin("at_once", user)
    asked(key)
    which, how_many = keyed("Which?", "How many?")
    answer(user, **{which: "blue", how_many: "two"})
    assert follow(key).content[0].text == "bought blue two"
    assert len(server.of("tasks/update")) == 1


def test_an_error_of_the_tool_is_a_result(server: Server, user: User) -> None:
    key = begin("error", user)
    assert follow(key).is_error
    assert calls.outcome(key).code == "finished"


def test_a_task_that_failed(server: Server, user: User) -> None:
    key = begin("failing", user)
    with pytest.raises(CallEndedError):
        follow(key)
    outcome = calls.outcome(key)
    assert (outcome.code, outcome.reason) == ("given_up", "task_failed")


@pytest.mark.parametrize("asks", [True, False])
def test_a_task_that_is_cancelled_here(asks: bool, server: Server, user: User) -> None:
    key = begin("slow", user)
    asked(key)
    if not asks:
        answer(user, **{keyed("Which?")[0]: "blue"})
        follow(key, until=lambda: server.of("tasks/update"))
    row = ParkedCall.objects.get()
    assert calls.cancel(key)
    assert calls.outcome(key).code == "cancelled"
    # It is gone there as well, once that was sent.
    background.stop()
    (told,) = server.of("tasks/cancel")
    assert json.loads(row.task)["id"] == told["task"]
    assert server.ran == []


def test_a_task_that_is_cancelled_there(server: Server, user: User) -> None:
    key = begin("slow", user)
    asked(key)
    answer(user, **{keyed("Which?")[0]: "blue"})
    task = Task.from_json(ParkedCall.objects.get().task)
    assert task is not None
    # As another client could: no call of ours ends by it.
    async_to_sync(cancel_task)("shop", user.pk, task.id)
    with pytest.raises((CallEndedError, RoundLostError)):
        follow(key)
    outcome = calls.outcome(key)
    assert (outcome.code, outcome.reason) == ("cancelled", "task_cancelled")


@pytest.mark.parametrize("asks", [True, False])
def test_a_task_that_its_server_has_forgotten(asks: bool, server: Server, user: User) -> None:
    key = begin("one" if asks else "nothing", user)
    if asks:
        asked(key)
        answer(user, **{keyed("Which?")[0]: "blue"})
    server.stop()
    server.start()
    with pytest.raises(RoundLostError):
        follow(key)
    assert calls.outcome(key).reason == "task_unknown"
