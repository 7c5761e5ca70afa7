"""What is left when a call breaks off, wherever that is, and what servers that lie can do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError
from django.utils import timezone
from mcp import MCPError
from mcp.types import (
    CallToolRequestParams,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ListRootsRequest,
    ListRootsResult,
    TextContent,
)

from elicitation import inbox
from elicitation.calls import parking
from elicitation.calls import requests as handler
from elicitation.calls.lease import CallInProgressError
from elicitation.calls.values import Call, Round
from elicitation.core import ElicitationPending, ElicitationRefusal
from elicitation.mcp import client as mcp_sdk
from elicitation.mcp import host as host_side
from elicitation.mcp.client import InputNotSupportedError, RoundLostError, TooManyRoundsError
from elicitation.mcp.drive import Drive
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from tests.integration import conftest
from tests.integration.scripted import PLAN, SEATS, ScriptedServer, ask, form, said, text
from tests.integration.test_rounds import claimed, nothing_is_left, one_round, two_rounds

HostFor = Callable[[ScriptedServer], conftest.Host]
Delivery = Elicitation.Delivery

SAMPLE = CreateMessageRequest(params=CreateMessageRequestParams(messages=[], max_tokens=5))


# --- What is asked can be read again ---------------------------------------------------------


@pytest.mark.parametrize("extra", [10**450, "x" * 1_010_000, [[[[1]]]] * 200_000])
def test_what_could_not_be_read_again_is_refused_at_once(host_for: HostFor, extra: Any) -> None:
    plan = {**PLAN["properties"]["plan"], "x-extra": extra}
    schema = {"type": "object", "properties": {"plan": plan}}
    host = host_for(server := ScriptedServer(lambda params: _done(params, k=form("?", schema))))
    with pytest.raises(ElicitationRefusal) as refused:
        host.call()
    assert refused.value.code == "schema"
    assert server.answers == [("decline", None)]
    nothing_is_left()


def test_a_question_that_a_later_version_refuses_can_still_be_closed(
    host_for: HostFor, user: User
) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    Elicitation.objects.update(
        requested_schema='{"type": "object", "properties": {"a": {"type": "array"}}}',
        expires_at=timezone.now() - timedelta(seconds=1),
    )
    assert inbox.expire_due() == 1
    assert StoredFormAnswer.objects.get().elicitation_id == pending.elicitation_ids[0]


def test_a_round_has_a_bound(host_for: HostFor) -> None:
    many = {f"k{n}": form("?", PLAN) for n in range(handler.MAX_ELICITATIONS + 1)}
    host = host_for(server := ScriptedServer(lambda params: _done(params, **many)))
    with pytest.raises(ElicitationRefusal):
        host.call()
    assert len(server.answers) == handler.MAX_ELICITATIONS + 1
    many.popitem()
    host = host_for(ScriptedServer(lambda params: _done(params, **many)))
    assert len(host.pending().elicitation_ids) == handler.MAX_ELICITATIONS


def _done(params: CallToolRequestParams, **requests: Any) -> Any:
    return text("done") if params.input_responses else ask(**requests)


# --- Cancelled -------------------------------------------------------------------------------


def test_a_take_that_is_cancelled_by_anyio_puts_the_answer_back(
    host_for: HostFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """anyio, and so the SDK, cancels again at every await: one shield is not enough."""
    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")
    take = parking.resume
    scopes: list[tuple[asyncio.AbstractEventLoop, anyio.CancelScope]] = []

    def slow(*arguments: Any, **options: Any) -> Any:
        taken = take(*arguments, **options)
        ((loop, scope),) = scopes
        loop.call_soon_threadsafe(scope.cancel)
        # The answer is taken, its row gone, and the caller cancelled before it hears of it.
        time.sleep(0.3)
        return taken

    async def cancelled() -> None:
        async with server.connect() as session:
            with anyio.CancelScope() as scope:
                scopes.append((asyncio.get_running_loop(), scope))
                await mcp_sdk.resume(session, pending.parked_call_id, server="shop")
            assert scope.cancelled_caught

    monkeypatch.setattr(parking, "resume", slow)
    async_to_sync(cancelled)()
    monkeypatch.undo()
    assert StoredFormAnswer.objects.count() == 1
    assert server.answers == []
    assert said(host.resume(pending)) == "{'plan': 'team'}"


# --- After a round was answered --------------------------------------------------------------


@pytest.mark.parametrize("then", ["sampling", "error", "cancelled"])
def test_a_call_that_breaks_off_after_an_answer_does_not_send_it_again(
    host_for: HostFor, then: str
) -> None:
    async def tool(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            return ask("job", s=SAMPLE) if then == "sampling" else ask("job")
        if params.request_state == "job":
            if then == "error":
                raise MCPError(-32000, "broken")
            await asyncio.sleep(30)
        return ask(k=form("Pay 100?", PLAN))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    host.answer(pending, plan="team")
    if then == "cancelled":

        async def give_up() -> None:
            async with server.connect() as session:
                with anyio.move_on_after(1):
                    await mcp_sdk.resume(session, pending.parked_call_id, server="shop")

        async_to_sync(give_up)()
    else:
        with pytest.raises(InputNotSupportedError if then == "sampling" else RoundLostError):
            host.resume(pending)
    assert server.answers == [("accept", {"plan": "team"})]
    assert Elicitation.objects.get().delivery == Delivery.DELIVERED
    nothing_is_left()


def test_an_answer_in_hand_survives_whatever_breaks_off(host_for: HostFor) -> None:
    replies: list[Any] = [
        ask(k=form("Which plan?", PLAN)),
        MCPError(-32602, "no", {"reason": "invalid_request_state"}),
        ask(k=form("Which plan?", PLAN), s=SAMPLE),
    ]

    def tool(params: CallToolRequestParams) -> Any:
        reply = replies.pop(0) if replies else one_round(params)
        if isinstance(reply, Exception):
            raise reply
        return reply

    host = host_for(ScriptedServer(tool))
    pending = host.pending()
    host.answer(pending, plan="team")
    with pytest.raises(InputNotSupportedError):
        host.resume(pending)
    assert StoredFormAnswer.objects.count() == 1
    assert said(host.resume(pending)) == "{'plan': 'team'}"


def test_no_answer_is_taken_before_the_hosts_own_callables_have_answered(
    host_for: HostFor,
) -> None:
    """A process that is killed while one of them works has nothing in hand."""
    recorded = []

    async def roots(context: Any) -> ListRootsResult:
        recorded.append(await StoredFormAnswer.objects.acount())
        return ListRootsResult(roots=[])

    host = host_for(
        server := ScriptedServer(
            lambda params: _done(params, k=form("Which plan?", PLAN), r=ListRootsRequest())
        )
    )
    pending = host.pending(roots=roots)
    host.answer(pending, plan="team")
    assert said(host.resume(pending, roots=roots)) == "done"
    assert recorded == [1]
    assert server.answers == [("accept", {"plan": "team"})]


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_result_is_worth_more_than_its_record(
    host_for: HostFor, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")

    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    for name in ("close", "release"):
        monkeypatch.setattr(parking, name, fail)
    assert said(host.resume(pending)) == "{'plan': 'team'}"


def test_a_tool_that_ran_after_the_refusal_is_told_of(host_for: HostFor) -> None:
    secret = {"type": "object", "properties": {"api_key": {"type": "string"}}}
    host = host_for(ScriptedServer(lambda params: _done(params, k=form("Key?", secret))))
    with pytest.raises(ElicitationRefusal) as refused:
        host.call()
    assert said(refused.value.result) == "done"


# --- Servers that lie ------------------------------------------------------------------------


def test_a_server_can_say_only_once_that_it_has_not_read(host_for: HostFor) -> None:
    """Else it reads one answer as often as it likes, and asks without end."""
    asked = iter(range(100))

    def tool(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            raise MCPError(-32602, "no", {"reason": "invalid_request_state"})
        return ask(a=form("Which plan?", PLAN), b=form(f"And {next(asked)}?", SEATS))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    host.answer(pending, 0, plan="team")
    host.answer(pending, 1, seats=1)
    pending = host.pending(host.resume, pending)
    host.answer(pending, seats=2)
    with pytest.raises(RoundLostError):
        host.resume(pending)
    accepts = [content for _, content in server.answers]
    assert accepts.count({"plan": "team"}) == 2
    nothing_is_left()


def test_questions_are_counted_over_the_whole_call(host_for: HostFor, settings: Any) -> None:
    settings.ELICITATION_MAX_ROUNDS = 3
    asked = iter(range(100))
    server = ScriptedServer(
        lambda params: ask(str(next(asked)), k=form(f"{next(asked)}?", PLAN)), sealed=True
    )
    host = host_for(server)
    pending = host.pending()
    host.answer(pending, plan="team")
    # The call is made afresh, and asks something else: that counts as well.
    server.restart()
    for _ in range(2):
        pending = host.pending(host.resume, pending)
        host.answer(pending, plan="team")
    with pytest.raises(TooManyRoundsError):
        host.resume(pending)
    assert Elicitation.objects.count() == 3
    assert [action for action, _ in server.answers] == ["accept", "accept", "decline"]


# --- Two processes ---------------------------------------------------------------------------


def test_the_same_call_made_twice_leaves_the_later_round_alone(host_for: HostFor) -> None:
    """Case A13: the reply to the second one comes late."""
    host = host_for(server := ScriptedServer(two_rounds))
    pending = host.pending()
    first = Round.of(ParkedCall.objects.get())
    host.answer(pending, plan="team")
    second = host.pending(host.resume, pending)
    host.answer(second, seats=3)
    lease = claimed(second)
    with pytest.raises(parking.AlreadyParked):
        parking.park(Call.of(ParkedCall.objects.get()), first)
    with pytest.raises(CallInProgressError):
        host.resume(second)
    assert parking.renew(lease)
    parking.release(lease)
    host.resume(second)
    assert server.answers == [("accept", {"plan": "team"}), ("accept", {"seats": 3})]


def test_the_same_call_made_twice_may_have_finished_by_the_second_reply(
    host_for: HostFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is in the way of the second one, and gone when that looks at it."""
    host = host_for(ScriptedServer(one_round))
    host.pending()
    row = ParkedCall.objects.get()
    find = parking.find

    def finished(call: Call) -> bool:
        ParkedCall.objects.all().delete()
        return find(call)

    monkeypatch.setattr(parking, "find", finished)
    with pytest.raises(parking.AlreadyParked):
        parking.park(Call.of(row), Round.of(row))


def test_a_lease_that_ran_out_is_neither_renewed_nor_given_back(host_for: HostFor) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")
    late = claimed(pending)
    ParkedCall.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    owner = claimed(pending)
    assert not parking.renew(late)
    parking.release(late)
    with pytest.raises(CallInProgressError):
        host.resume(pending)
    row = ParkedCall.objects.get()
    with pytest.raises(CallInProgressError):
        parking.park(Call.of(row), Round.of(row), lease=late)
    parking.release(owner)
    assert claimed(pending)


def test_a_process_that_lost_its_lease_sends_nothing(
    host_for: HostFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case B1: stopped between the take and the sending, for longer than the lease."""
    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")
    resume = parking.resume

    def stopped(*args: Any, **kwargs: Any) -> parking.Resumed:
        resumed = resume(*args, **kwargs)
        monkeypatch.undo()
        ParkedCall.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
        resumed.lease.renewed_at -= 60
        # Another process finds the answer gone, and asks the person again; they decline.
        again = host.pending(host.resume, pending)
        assert host.respondent is not None
        inbox.decline(again.elicitation_ids[0], by=host.respondent)
        host.resume(again)
        return resumed

    monkeypatch.setattr(parking, "resume", stopped)
    with pytest.raises((CallInProgressError, ParkedCall.DoesNotExist)):
        host.resume(pending)
    assert server.answers == [("decline", None)]
    assert not StoredFormAnswer.objects.exists()
    deliveries = Elicitation.objects.order_by("asked_at").values_list("delivery", flat=True)
    assert list(deliveries) == [Delivery.ROUND_LOST, Delivery.DELIVERED]


def test_two_first_calls_for_two_people_do_not_meet(
    host_for: HostFor, user: User, other_user: User
) -> None:
    server = ScriptedServer(one_round)
    host_for(server)

    async def both() -> list[Any]:
        async with server.connect() as session:
            names: dict[str, Any] = {"server": "shop", "tool": "tool", "scope": "s", "call": "c"}
            return await asyncio.gather(
                mcp_sdk.call_tool(session, respondent=user, **names),
                mcp_sdk.call_tool(session, respondent=other_user, **names),
                return_exceptions=True,
            )

    outcomes = async_to_sync(both)()
    kinds = sorted(type(outcome).__name__ for outcome in outcomes)
    assert kinds == [parking.AnotherRespondentError.__name__, ElicitationPending.__name__]
    assert Elicitation.objects.count() == 1


# --- What the second look found --------------------------------------------------------------


def test_what_is_put_back_never_replaces_a_newer_answer(host_for: HostFor) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")
    older = StoredFormAnswer.objects.get()
    question = Elicitation.objects.get().form_elicitation
    call = Call.of(ParkedCall.objects.get())
    call.answers.record_form_answer(
        question, "accept", question.schema.answers_from_content({"plan": "solo"})
    )
    parking.put_back([older])
    taken = call.answers.take_form_answer(question)
    assert taken is not None
    assert taken.answers["plan"].selected == ("solo",)


def test_an_answer_of_the_host_closes_nothing_that_a_person_is_asked(host_for: HostFor) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    question = Elicitation.objects.get().form_elicitation
    Call.of(ParkedCall.objects.get()).answers.record_form_answer(
        question, "accept", question.schema.answers_from_content({"plan": "solo"})
    )
    assert host.pending(host.resume, pending).elicitation_ids == pending.elicitation_ids
    assert StoredFormAnswer.objects.count() == 1
    assert ParkedCall.objects.get().lease is None


def test_rounds_that_ask_no_person_come_to_an_end(host_for: HostFor) -> None:
    async def sampling(context: Any, params: Any) -> CreateMessageResult:
        content = TextContent(type="text", text="hi")
        return CreateMessageResult(role="assistant", content=content, model="m")

    host = host_for(server := ScriptedServer(lambda params: ask("on", s=SAMPLE)))
    with pytest.raises(TooManyRoundsError):
        host.call(sampling=sampling)
    assert len(server.calls) == 12


def test_a_server_says_only_once_that_it_has_not_read_though_its_fresh_call_fails(
    host_for: HostFor,
) -> None:
    def tool(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            raise MCPError(-32602, "no", {"reason": "invalid_request_state"})
        if len(server.calls) > 1:
            raise MCPError(-32000, "busy")
        return ask(k=form("Which plan?", PLAN))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    host.answer(pending, plan="team")
    with pytest.raises(MCPError):
        host.resume(pending)
    with pytest.raises(RoundLostError):
        host.resume(pending)
    assert len(server.answers) == 2
    nothing_is_left()


def test_a_refused_call_leaves_the_same_call_of_somebody_else_alone(
    host_for: HostFor, user: User, other_user: User
) -> None:
    secret = {"type": "object", "properties": {"api_key": {"type": "string"}}}
    server = ScriptedServer(one_round)
    host = host_for(server)
    pending = host.pending(call="c")
    call = Call(
        scope="conversation-1",
        server="shop",
        tool="tool",
        arguments=None,
        respondent_id=other_user.pk,
        call="c",
    )
    server.tool = lambda params: _done(params, k=form("Key?", secret))

    async def late() -> None:
        # Made before the other one was parked: it finds nothing there.
        async with server.connect() as session:
            made = Drive(host_side.Host(session, None, None), "shop", "tool", None, call=call)
            with pytest.raises(ElicitationRefusal):
                await made.run()

    async_to_sync(late)()
    server.tool = one_round
    host.answer(pending, plan="team")
    assert said(host.resume(pending)) == "{'plan': 'team'}"


def test_a_decline_that_was_cancelled_was_sent_all_the_same(host_for: HostFor) -> None:
    async def tool(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            await asyncio.sleep(30)
        return ask(k=form("Which plan?", PLAN))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    host.answer(pending, plan="team")
    ServerPolicy.objects.update(policy="none")

    async def give_up() -> None:
        async with server.connect() as session:
            with anyio.move_on_after(1):
                await mcp_sdk.resume(session, pending.parked_call_id, server="shop")

    async_to_sync(give_up)()
    assert server.answers == [("decline", None)]
    nothing_is_left()


def test_who_hears_of_an_answer_first_may_go_on_with_a_call_that_was_parked_again(
    host_for: HostFor,
) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")
    StoredFormAnswer.objects.update(expires_at=timezone.now())
    lease = claimed(pending)
    row = ParkedCall.objects.get()
    parked = parking.park(Call.of(row), Round.of(row), lease=lease)
    assert parked.waiting
    assert parked.lease is None
    inbox.withdraw(parked.waiting[0].pk)
    assert claimed(pending)
