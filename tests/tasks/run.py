"""Calls that a server made with FastMCP goes on with as tasks: ``make clients`` runs these."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User

from elicitation import calls, inbox
from elicitation.calls import background
from elicitation.calls.replies import CallEndedError, RoundLostError, ServerWorkingPending
from elicitation.calls.tasks import Task
from elicitation.core import ElicitationPending
from elicitation.mcp import servers
from elicitation.models import Elicitation, ParkedCall
from tests import processes
from tests.clients.run import python
from tests.processes import WAIT_SECONDS, free_port, wait_until

from .test_tasks import wait

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Running:
    """A server process, and the file to which it logs."""

    url: str
    file: Path

    def lines(self, name: str = "") -> list[tuple[float, str]]:
        """Return when what was logged that begins so."""
        found = [line.split(" ", 1) for line in self.file.read_text().splitlines()]
        return [(float(at), what) for at, what in found if what.startswith(name)]

    def count(self, name: str) -> int:
        return len(self.lines(name))


@contextmanager
def running(file: Path) -> Iterator[Running]:
    """A server process of its own."""
    file.touch()
    port = free_port()
    program = Path(__file__).with_name("fastmcp_server.py")
    server = subprocess.Popen(
        [python("fastmcp-tasks"), str(program), str(port), str(file)],
        # Not in this folder, whose modules it must not find.
        cwd=file.parent,
    )
    try:
        wait_until(lambda: processes.answers(port), "the server")
        yield Running(f"http://127.0.0.1:{port}/mcp", file)
    finally:
        server.kill()
        server.wait(WAIT_SECONDS)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("tasks") / "log") as server:
        yield server


@pytest.fixture
def server(process: Running, settings: SettingsWrapper) -> Iterator[Running]:
    process.file.write_text("")
    settings.ELICITATION_SERVERS = {"shop": {"url": process.url, "policy": "url_and_form"}}
    yield process
    background.stop()


def begun(tool: str, user: User) -> Any:
    """Call a tool, and return the id of the call, which goes on as a task."""
    with pytest.raises(ServerWorkingPending) as caught:
        calls.call_sync("shop", tool, scope="chat", user=user)
    return caught.value.parked_call_id


def answer(user: User, notes: dict[str, str]) -> None:
    """Answer what is asked, by its messages: FastMCP makes keys of its own."""
    asked = {each.message: each for each in Elicitation.objects.pending().filter(respondent=user)}
    assert asked.keys() == notes.keys()
    for message, note in notes.items():
        answers = asked[message].schema.answers_from_content({"note": note})
        inbox.answer(asked[message].pk, answers, by=user)


def ended(key: Any, user: User, *notes: dict[str, str]) -> Any:
    """Go on with a call, answer what it asks in this order, and return its result."""
    left = list(notes)
    while True:
        wait(key)
        try:
            return calls.resume_sync(key)
        except ServerWorkingPending:
            continue
        except ElicitationPending:
            answer(user, left.pop(0))


def started(server: Running, tool: str) -> int:
    """Return how often a tool was called; each leg of a task runs its function anew."""
    return server.count(f"tools/call {tool}")


def test_no_question(server: Running, user: User) -> None:
    key = begun("say", user)
    assert ended(key, user).content[0].text == "said"
    assert started(server, "say") == server.count("say") == 1


@pytest.mark.parametrize(
    ("tool", "notes", "text", "updates"),
    [
        ("ask", [{"Which?": "blue"}], "blue", 1),
        ("ask_twice", [{"Which?": "blue"}, {"How many?": "two"}], '["b"]: two', 2),
        ("ask_both", [{"Which?": "blue", "How many?": "two"}], "blue, two", 1),
        ("ask_then_work", [{"Which?": "blue"}], "blue", 1),
    ],
)
def test_questions(
    tool: str,
    notes: list[dict[str, str]],
    text: str,
    updates: int,
    server: Running,
    user: User,
) -> None:
    key = begun(tool, user)
    assert ended(key, user, *notes).content[0].text == text
    assert started(server, tool) == 1
    assert server.count("tasks/update") == updates
    assert Elicitation.objects.filter(delivery="delivered").count() == sum(map(len, notes))
    # It asks to be read once a second; a little less may lie between two arrivals.
    reads = [at for at, _ in server.lines("tasks/get")]
    assert min((later - sooner for sooner, later in pairwise(reads)), default=1) > 0.9


def test_a_tool_that_fails(server: Running, user: User) -> None:
    key = begun("fail", user)
    assert ended(key, user).is_error
    assert started(server, "fail") == 1


def test_cancelled_here(server: Running, user: User) -> None:
    key = begun("hang", user)
    wait_until(lambda: server.count("hang"), "the tool")
    assert calls.cancel(key)
    wait_until(lambda: server.count("hang cancelled"), "the end of the tool")
    assert calls.outcome(key).code == "cancelled"


def test_cancelled_by_the_server(server: Running, user: User) -> None:
    key = begun("hang", user)
    task = Task.from_json(ParkedCall.objects.get(pk=key).task)
    assert task is not None
    # Whatever asks the server to cancel it: here it is no call of ours that ends.
    background.run(partial(servers.cancel_task, "shop", None, task.id))
    with pytest.raises(CallEndedError) as caught:
        ended(key, user)
    assert caught.value.reason == "task_cancelled"


def test_forgotten_by_the_server(
    server: Running, user: User, settings: SettingsWrapper, tmp_path: Path
) -> None:
    key = begun("hang", user)
    # Its tasks are in its memory: another process knows none of them.
    with running(tmp_path / "log") as restarted:
        settings.ELICITATION_SERVERS = {"shop": {"url": restarted.url, "policy": "url_and_form"}}
        with pytest.raises(RoundLostError) as caught:
            ended(key, user)
    assert caught.value.reason == "task_unknown"
    assert calls.outcome(key).code == "lost"
