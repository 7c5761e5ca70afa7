"""Cancelling a call, or all of a conversation."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.utils import timezone

from elicitation import calls
from elicitation.calls.in_call import answer_in_call
from elicitation.mcp.client import CallEndedError, CallInProgressError
from elicitation.models import Elicitation, InvalidNameError, ParkedCall, StoredFormAnswer, row_key
from tests.integration.conftest import Host
from tests.integration.scripted import ScriptedServer
from tests.integration.test_rounds import one_round
from tests.ops.conftest import answer, claimed, park, request

pytestmark = pytest.mark.django_db(transaction=True)

Finished = list[dict[str, Any]]


def test_what_waits_is_withdrawn_and_what_was_answered_dropped(
    user: User, finished: Finished
) -> None:
    first, second = park(user, "Who?", "Where?")
    answer(first, user)
    assert calls.cancel(first.parked_call_id) is True
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, first.delivery) == ("answered", "dropped")
    assert (second.state, second.reason) == ("withdrawn", "cancelled")
    assert not StoredFormAnswer.objects.exists()
    outcome = calls.outcome(first.parked_call_id)
    assert (outcome.code, outcome.reason, outcome.result) == ("cancelled", "", None)
    assert [sent["code"] for sent in finished] == ["cancelled"]
    # There is nothing more to cancel.
    assert calls.cancel(str(first.parked_call_id)) is False
    assert len(finished) == 1


def test_an_unknown_call_cannot_be_cancelled(db: None) -> None:
    assert calls.cancel(uuid.uuid4()) is False


def test_a_call_that_is_being_resumed_is_not_cancelled_in_silence(
    user: User, finished: Finished
) -> None:
    (asked,) = park(user)
    answer(asked, user)
    claimed(asked.parked_call_id)
    with pytest.raises(CallInProgressError):
        calls.cancel(asked.parked_call_id)
    assert StoredFormAnswer.objects.exists()
    assert finished == []


def test_of_a_server_at_work_it_is_said_that_it_may_go_on(user: User) -> None:
    (asked,) = park(user)
    ParkedCall.objects.update(working_since=timezone.now())
    assert calls.cancel(asked.parked_call_id)
    assert calls.outcome(asked.parked_call_id).reason == "server_at_work"


def test_a_cancelled_call_does_not_run_when_it_is_made_again(
    host_for: Callable[[ScriptedServer], Host],
) -> None:
    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending()
    assert calls.cancel(str(pending.parked_call_id))
    for again in (host.call, lambda: host.resume(pending)):
        with pytest.raises(CallEndedError) as caught:
            again()
        assert caught.value.outcome == "cancelled"
    assert len(server.calls) == 1


def test_a_server_that_waits_in_the_middle_of_a_call_is_told(policy: None, user: User) -> None:
    async def run() -> Any:
        waits = asyncio.ensure_future(
            answer_in_call(
                request()["params"],
                server="shop",
                tool="buy",
                scope="chat-1",
                call="call-1",
                respondent=user,
            )
        )
        while not await Elicitation.objects.pending().aexists():
            await asyncio.sleep(0.01)
        asked = await Elicitation.objects.aget()
        assert await calls.acancel(asked.parked_call_id)
        return await asyncio.wait_for(waits, 30)

    assert async_to_sync(run)() == {"action": "decline"}
    assert Elicitation.objects.get().reason == "cancelled"


@pytest.mark.parametrize("scope", [7, uuid.UUID(int=7), "chat-7"])
def test_a_scope_is_cancelled_with_all_its_calls_and_no_others(user: User, scope: Any) -> None:
    one, two, going, other = (park(user, call=f"call-{n}")[0] for n in range(4))
    ids = [row.parked_call_id for row in (one, two, going)]
    mine = ParkedCall.objects.filter(pk__in=ids)
    mine.update(scope=str(scope), scope_key=row_key(str(scope)))
    ParkedCall.objects.filter(pk=other.parked_call_id).update(scope=f"{scope} ")
    Elicitation.objects.filter(pk=going.pk).update(state="answered", closed_at=timezone.now())
    claimed(going.parked_call_id)
    done = calls.cancel_scope(scope)
    assert done.cancelled == sorted([one.parked_call_id, two.parked_call_id])
    assert done.in_progress == [going.parked_call_id]
    assert set(ParkedCall.objects.parked()) == {
        ParkedCall(pk=going.parked_call_id),
        ParkedCall(pk=other.parked_call_id),
    }
    assert calls.cancel_scope(scope).cancelled == []


@pytest.mark.parametrize("scope", [None, True, 1.5, ""])
def test_what_is_no_scope_is_refused(db: None, scope: Any) -> None:
    with pytest.raises(InvalidNameError):
        calls.cancel_scope(scope)


def test_the_twins_for_coroutines(user: User) -> None:
    (asked,) = park(user)

    async def run() -> None:
        assert await calls.acancel(asked.parked_call_id)
        outcome = await calls.aoutcome(asked.parked_call_id)
        assert await calls.aacknowledge(outcome)
        assert (await calls.acancel_scope("chat-1")).cancelled == []

    # In this thread, whose connection has the test's rows.
    async_to_sync(run)()
