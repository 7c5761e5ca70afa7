"""A call that has ended here is no more wanted from its server: ``tasks/cancel`` (SEP-2663)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import transaction

from elicitation import calls
from elicitation.calls import background
from elicitation.calls.replies import CallEndedError
from elicitation.calls.switching import switch_off
from elicitation.core import ElicitationPending, ElicitationRefusal
from elicitation.models import Elicitation, ParkedCall

from .server import CREATED, TaskServer, asks
from .test_tasks import begun, resume, server, told

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

__all__ = ["server"]

pytestmark = pytest.mark.django_db(transaction=True)

ENDINGS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "the call": (calls.cancel, "cancelled"),
    "its scope": (lambda key: calls.cancel_scope("chat"), "cancelled"),
    "its server": (lambda key: switch_off("shop"), "switched_off"),
}
EVERY = pytest.mark.parametrize(("end", "code"), ENDINGS.values(), ids=ENDINGS)


@EVERY
def test_the_server_of_a_working_task_is_told(
    end: Callable[[Any], Any], code: str, server: TaskServer, user: User
) -> None:
    key = begun(user).parked_call_id
    end(key)
    assert told(server) == ["task-1"]
    assert server.headers[-1]["mcp-name"] == "task-1"
    outcome = calls.outcome(key)
    # The server may go on all the same.
    assert (outcome.code, outcome.reason) == (code, "server_at_work")


@EVERY
def test_the_server_of_a_task_that_asks_is_told(
    end: Callable[[Any], Any], code: str, server: TaskServer, user: User
) -> None:
    key = begun(user).parked_call_id
    server.states = [asks(a="Which?")]
    with pytest.raises(ElicitationPending):
        resume(key)
    end(key)
    assert len(told(server)) == 1
    assert server.of("tasks/update") == []
    assert Elicitation.objects.get().state == "withdrawn"
    assert calls.outcome(key).code == code


@EVERY
def test_a_server_that_is_away_hides_no_outcome(
    end: Callable[[Any], Any],
    code: str,
    server: TaskServer,
    user: User,
    settings: SettingsWrapper,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    key = begun(user).parked_call_id
    shop = settings.ELICITATION_SERVERS["shop"]
    settings.ELICITATION_SERVERS = {"shop": shop | {"url": "http://127.0.0.1:9/mcp"}}
    assert end(key)
    assert calls.outcome(key).code == code
    background.stop()
    assert "A server could not be told that nobody waits for its task" in caplog.messages


def test_nothing_is_sent_before_the_commit(server: TaskServer, user: User) -> None:
    key = begun(user).parked_call_id
    with transaction.atomic():
        calls.cancel(key)
        transaction.set_rollback(True)
    assert ParkedCall.objects.parked().exists()
    assert told(server) == []
    with transaction.atomic():
        calls.cancel(key)
        assert told(server) == []
    assert len(told(server)) == 1


def test_each_task_of_a_scope_is_cancelled_once(server: TaskServer, user: User) -> None:
    for number in range(3):
        made = CREATED | {"taskId": f"task-{number}"}
        server.call = lambda params, made=made: made
        with pytest.raises(ElicitationPending):
            calls.call_sync("shop", "buy", scope="chat", user=user, call=str(number))
    assert len(calls.cancel_scope("chat").cancelled) == 3
    assert calls.cancel_scope("chat").cancelled == []
    assert sorted(told(server)) == ["task-0", "task-1", "task-2"]


def test_a_call_that_is_no_task_sends_nothing(server: TaskServer, user: User) -> None:
    asked = asks(k="Which?")["inputRequests"]
    server.call = lambda params: {"resultType": "input_required", "inputRequests": asked}
    with pytest.raises(ElicitationPending) as caught:
        calls.call_sync("shop", "buy", scope="chat", user=user)
    before = len(server.requests)
    assert calls.cancel(caught.value.parked_call_id)
    assert told(server) == []
    assert len(server.requests) == before


def test_a_task_that_asks_for_what_is_refused_is_cancelled(server: TaskServer, user: User) -> None:
    key = begun(user).parked_call_id
    server.states = [asks(a="Which?")]
    server.states[0]["inputRequests"]["a"]["params"]["requestedSchema"] = {"type": "array"}
    with pytest.raises(ElicitationRefusal):
        resume(key)
    assert told(server) == ["task-1"]
    assert calls.outcome(key).code == "refused"


def test_a_task_that_has_ended_is_not_cancelled(server: TaskServer, user: User) -> None:
    key = begun(user).parked_call_id
    server.states = [{"status": "cancelled"}]
    with pytest.raises(CallEndedError):
        resume(key)
    assert not calls.cancel(key)
    assert told(server) == []


def test_a_coroutine_cancels_a_call_in_the_loop_of_its_process(
    server: TaskServer, user: User
) -> None:
    key = begun(user).parked_call_id

    async def cancel() -> bool:
        return await calls.acancel(key)

    assert async_to_sync(cancel)()
    assert told(server) == ["task-1"]
