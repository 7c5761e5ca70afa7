"""Calls that their servers go on with as tasks (SEP-2663): read, answered and ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from elicitation import calls, inbox
from elicitation.calls import background
from elicitation.calls.jobs import go_on_sync
from elicitation.calls.replies import CallEndedError, RoundLostError, ServerWorkingPending
from elicitation.core import ElicitationPending, ElicitationRefusal
from elicitation.models import Elicitation, ParkedCall
from tests import processes

from .server import CAPABILITIES, CREATED, NOTE, WORKING, TaskServer, asks, completed

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server(settings: SettingsWrapper) -> Iterator[TaskServer]:
    server = TaskServer()
    settings.ELICITATION_SERVERS = {"shop": {"url": server.url, "policy": "url_and_form"}}
    yield server
    background.stop()
    server.stop()


def begin(user: User | None) -> Any:
    return calls.call_sync("shop", "buy", {"a": 1}, scope="chat", user=user)


def begun(user: User) -> ServerWorkingPending:
    with pytest.raises(ServerWorkingPending) as caught:
        begin(user)
    return caught.value


def wait(key: Any) -> None:
    """Wait until the call is to be looked after."""
    row = ParkedCall.objects.filter(pk=key, working_since__isnull=False)
    processes.wait_until(
        lambda: not row.filter(look_at__gt=timezone.now()).exists(), "the interval"
    )


def resume(key: Any) -> Any:
    wait(key)
    return calls.resume_sync(key)


def go_on(key: Any) -> None:
    wait(key)
    go_on_sync(key)


def answer(user: User, **notes: str) -> None:
    """Answer what is asked, by the server's keys."""
    asked = {each.key: each for each in Elicitation.objects.pending().filter(respondent=user)}
    assert asked.keys() == notes.keys()
    for key, note in notes.items():
        answers = asked[key].schema.answers_from_content({"note": note})
        inbox.answer(asked[key].pk, answers, by=user)


def updates(server: TaskServer) -> list[dict[str, Any]]:
    return [each["inputResponses"] for each in server.of("tasks/update")]


def accept(note: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"note": note}}


def told(server: TaskServer) -> list[str]:
    """Return the ids of the tasks that the server was told to cancel, once that is done."""
    background.stop()
    return [each["taskId"] for each in server.of("tasks/cancel")]


def test_a_task_that_asks_nothing_is_read_until_it_has_completed(
    server: TaskServer, user: User
) -> None:
    before = timezone.now()
    pending = begun(user)
    row = ParkedCall.objects.get()
    assert row.pk == pending.parked_call_id
    assert row.look_at is not None
    assert row.look_at - before >= timedelta(seconds=1)
    server.states = [WORKING, completed("bought")]
    with pytest.raises(ServerWorkingPending):
        resume(row.pk)
    result = resume(row.pk)
    assert result.content[0].text == "bought"
    assert calls.outcome(row.pk).as_tool_result() == "bought"
    assert len(server.of("tools/call")) == 1
    # SEP-2663: the capability is declared on every request, and Mcp-Name is the task's id.
    for each in server.requests:
        extensions = each["params"]["_meta"][CAPABILITIES]["extensions"]
        assert "io.modelcontextprotocol/tasks" in extensions
    assert [each["mcp-name"] for each in server.headers] == ["buy", "task-1", "task-1"]


def test_an_error_of_the_tool_is_a_result(server: TaskServer, user: User) -> None:
    key = begun(user).parked_call_id
    server.states = [completed("no", isError=True)]
    assert resume(key).is_error
    assert calls.outcome(key).code == "finished"


def test_it_is_not_declared_where_the_setting_forbids_it(
    server: TaskServer, user: User, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_TASKS = False
    server.call = lambda params: completed("bought")["result"] | {"resultType": "complete"}
    begin(user)
    capabilities = server.requests[0]["params"]["_meta"][CAPABILITIES]
    assert not capabilities.get("extensions")


def test_a_task_that_asks_twice_gets_each_answer_once(server: TaskServer, user: User) -> None:
    key = begun(user).parked_call_id
    server.states = [asks(a="Which?")]
    with pytest.raises(ElicitationPending) as caught:
        resume(key)
    assert caught.value.parked_call_id == key
    answer(user, a="blue")
    # The answer is on its way, and the server still asks for it.
    server.states = [asks(a="Which?"), WORKING, asks(b="How many?"), completed("bought")]
    for _ in range(3):
        with pytest.raises(ServerWorkingPending):
            resume(key)
    assert Elicitation.objects.count() == 1
    with pytest.raises(ElicitationPending):
        resume(key)
    answer(user, b="two")
    with pytest.raises(ServerWorkingPending):
        resume(key)
    assert resume(key).content[0].text == "bought"
    assert updates(server) == [{"a": accept("blue")}, {"b": accept("two")}]
    assert list(Elicitation.objects.values_list("delivery", flat=True)) == ["delivered"] * 2
    assert len(server.of("tools/call")) == 1


def test_a_task_that_asks_two_things_at_once(server: TaskServer, user: User) -> None:
    key = begun(user).parked_call_id
    server.states = [asks(a="Which?", b="How many?"), completed("bought")]
    with pytest.raises(ElicitationPending) as caught:
        resume(key)
    assert len(caught.value.elicitation_ids) == 2
    answer(user, a="blue", b="two")
    with pytest.raises(ServerWorkingPending):
        resume(key)
    resume(key)
    assert updates(server) == [{"a": accept("blue"), "b": accept("two")}]


def test_rounds_before_the_task_is_made(server: TaskServer, user: User) -> None:
    def call(params: dict[str, Any]) -> dict[str, Any]:
        if params.get("inputResponses"):
            return CREATED
        asked = asks(k="Which?")["inputRequests"]
        return {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}

    server.call = call
    with pytest.raises(ElicitationPending) as caught:
        begin(user)
    answer(user, k="blue")
    with pytest.raises(ServerWorkingPending):
        resume(caught.value.parked_call_id)
    # Noted in the transaction that stores the task.
    assert Elicitation.objects.get().delivery == "delivered"
    assert ParkedCall.objects.get().task
    server.states = [completed("bought")]
    resume(caught.value.parked_call_id)
    assert [each.get("requestState") for each in server.of("tools/call")] == [None, "s"]


@pytest.mark.parametrize(
    ("state", "code", "reason"),
    [
        ({"status": "failed", "error": {"code": -32603, "message": "x"}}, "given_up", "failed"),
        ({"status": "cancelled"}, "cancelled", "cancelled"),
        ({"status": "working", "ttlMs": 1}, "expired", "expired"),
    ],
)
def test_a_task_that_ends_without_a_result_says_so(
    state: dict[str, Any], code: str, reason: str, server: TaskServer, user: User
) -> None:
    key = begun(user).parked_call_id
    server.states = [state]
    with pytest.raises(CallEndedError) as caught:
        resume(key)
    assert (caught.value.outcome, caught.value.reason) == (code, f"task_{reason}")
    outcome = calls.outcome(key)
    assert (outcome.code, outcome.reason) == (code, f"task_{reason}")
    assert isinstance(outcome.error(), CallEndedError)


@pytest.mark.parametrize("asked", [True, False])
def test_a_task_that_the_server_has_forgotten(asked: bool, server: TaskServer, user: User) -> None:
    key = begun(user).parked_call_id
    if asked:
        server.states = [asks(a="Which?")]
        with pytest.raises(ElicitationPending):
            resume(key)
        answer(user, a="blue")
    server.is_forgotten = True
    with pytest.raises(RoundLostError) as caught:
        resume(key)
    assert caught.value.reason == "task_unknown"
    assert calls.outcome(key).code == "lost"
    assert not asked or Elicitation.objects.get().delivery == "round_lost"


def test_an_answer_that_broke_off_ends_no_task(server: TaskServer, user: User) -> None:
    """Nobody can know whether it arrived; if it did not, the person is asked again."""
    key = begun(user).parked_call_id
    server.states = [asks(a="Which?"), asks(a="Which?"), WORKING, completed("bought")]
    with pytest.raises(ElicitationPending):
        resume(key)
    answer(user, a="blue")
    server.breaks_off = True
    with pytest.raises(ServerWorkingPending):
        resume(key)
    assert Elicitation.objects.get().delivery == "round_lost"
    with pytest.raises(ElicitationPending):
        resume(key)
    answer(user, a="red")
    for _ in range(2):
        with pytest.raises(ServerWorkingPending):
            resume(key)
    assert resume(key).content[0].text == "bought"
    assert len(server.of("tools/call")) == 1


def test_a_server_that_is_away_is_read_again_later(
    server: TaskServer, user: User, settings: SettingsWrapper
) -> None:
    key = begun(user).parked_call_id
    shop = settings.ELICITATION_SERVERS["shop"]
    settings.ELICITATION_SERVERS = {"shop": shop | {"url": "http://127.0.0.1:9/mcp"}}
    go_on(key)
    row = ParkedCall.objects.parked().get()
    assert row.look_at is not None
    settings.ELICITATION_SERVERS = {"shop": shop}
    server.states = [completed("bought")]
    go_on(key)
    assert calls.outcome(key).as_tool_result() == "bought"


def test_nobody_is_asked_where_there_is_no_user(server: TaskServer) -> None:
    server.states = [asks(a="Which?"), asks(a="Which?"), completed("bought")]
    assert begin(None).content[0].text == "bought"
    assert updates(server) == [{"a": {"action": "decline"}}]
    # No more often than the server says.
    gets = [
        at
        for at, each in zip(server.times, server.requests, strict=True)
        if each["method"] == "tasks/get"
    ]
    assert all(later - earlier >= 0.95 for earlier, later in pairwise(gets))


def test_what_a_task_asks_is_refused_as_anywhere_else(server: TaskServer, user: User) -> None:
    key = begun(user).parked_call_id
    secret = {"type": "object", "properties": {"password": {"type": "string"}}}
    assert secret != NOTE
    state = asks(a="Which?")
    state["inputRequests"]["a"]["params"]["requestedSchema"] = secret
    server.states = [state, completed("bought")]
    with pytest.raises(ElicitationRefusal):
        resume(key)
    assert updates(server) == [{"a": {"action": "decline"}}]
    assert calls.outcome(key).code == "refused"


def test_whoever_resumes_a_task_reads_it_no_more_often_than_its_server_says(
    server: TaskServer, user: User
) -> None:
    key = begun(user).parked_call_id
    server.states = [WORKING]
    for _ in range(3):
        with pytest.raises(ServerWorkingPending):
            calls.resume_sync(key)
    assert server.of("tasks/get") == []
    with pytest.raises(ServerWorkingPending):
        resume(key)
    for _ in range(3):
        with pytest.raises(ServerWorkingPending):
            calls.resume_sync(key)
    assert len(server.of("tasks/get")) == 1
