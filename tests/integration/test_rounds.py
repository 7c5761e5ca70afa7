"""A call through its rounds, with the official SDK on both ends."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser, User
from django.utils import timezone
from mcp import MCPError
from mcp.types import CallToolRequestParams, CreateMessageResult, ListRootsResult, TextContent

from elicitation import calls, inbox
from elicitation.calls import parking
from elicitation.calls.lease import Lease
from elicitation.calls.requests import PolicyRefusal
from elicitation.calls.values import Call
from elicitation.core import ElicitationPending, ElicitationRefusal, FormAnswer
from elicitation.mcp import client as mcp_sdk
from elicitation.mcp import drive
from elicitation.mcp.client import (
    CallInProgressError,
    InputNotSupportedError,
    RoundLostError,
    ServerWorkingPending,
    TooManyRoundsError,
    call_tool,
    client_options,
)
from elicitation.models import (
    Elicitation,
    InvalidNameError,
    ParkedCall,
    ServerPolicy,
    StoredFormAnswer,
    TooLargeError,
)
from elicitation.transactions import in_transaction
from tests.integration.conftest import Host
from tests.integration.scripted import (
    PLAN,
    SEATS,
    SURE,
    ScriptedServer,
    accepted,
    ask,
    form,
    said,
    text,
    url,
)

HostFor = Callable[[ScriptedServer], Host]
Delivery = Elicitation.Delivery


def one_round(params: CallToolRequestParams) -> Any:
    answer = accepted(params, "k")
    if not params.input_responses:
        return ask(k=form("Which plan?", PLAN))
    return text(answer)


def two_rounds(params: CallToolRequestParams) -> Any:
    if plan := accepted(params, "first"):
        return ask(f"plan={plan['plan']}\u2028 \u00e9", second=form("How many?", SEATS))
    if seats := accepted(params, "second"):
        return text(f"{params.request_state} seats={seats['seats']}")
    return ask("one", first=form("Which plan?", PLAN))


def nothing_is_left() -> None:
    assert not ParkedCall.objects.parked().exists()
    assert not StoredFormAnswer.objects.exists()
    assert not Elicitation.objects.pending().exists()


def claimed(pending: ElicitationPending) -> Lease:
    """Claim a call, as a process does that then dies or is slow."""
    assert pending.parked_call_id is not None
    lease = Lease(parked_call_id=pending.parked_call_id)
    assert in_transaction(lease.claim)
    return lease


def age_parked_round(**ago: int) -> None:
    """As if the round had been parked that long ago."""
    ParkedCall.objects.update(received_at=timezone.now() - timedelta(**ago))


def test_a_call_that_asks_nothing_returns_its_result(host_for: HostFor) -> None:
    host = host_for(ScriptedServer(lambda params: text(params.arguments)))
    assert said(host.call()) == "{'a': 1}"
    assert not Elicitation.objects.exists()


def test_one_round_is_parked_answered_and_sent_once(host_for: HostFor) -> None:
    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending()
    assert isinstance(pending, ElicitationPending)
    elicitation = Elicitation.objects.get()
    assert pending.elicitation_ids == (elicitation.pk,)
    assert pending.urls == (elicitation.get_absolute_url(),)
    assert pending.deadline == elicitation.expires_at
    assert pending.fingerprint == elicitation.fingerprint
    assert [question["id"] for question in pending.questions] == ["plan"]
    assert "Which plan?" not in pending.as_tool_result()
    assert "shop" in pending.as_tool_result()
    host.answer(pending, plan="team")
    assert said(host.resume(pending)) == "{'plan': 'team'}"
    assert server.answers == [("accept", {"plan": "team"})]
    elicitation.refresh_from_db()
    assert elicitation.delivery == Delivery.DELIVERED
    assert elicitation.delivered_at is not None
    nothing_is_left()


def test_two_rounds_echo_the_state_and_the_arguments_exactly(host_for: HostFor) -> None:
    host = host_for(server := ScriptedServer(two_rounds))
    first = host.pending(arguments={"big": 9007199254740993, "none": None, "x": 1e16})
    host.answer(first, plan="team")
    second = host.pending(host.resume, first)
    assert second.parked_call_id == first.parked_call_id
    host.answer(second, seats=3)
    result = host.resume(second)
    assert said(result) == "plan=team\u2028 \u00e9 seats=3"
    assert [call.request_state for call in server.calls] == [None, "one", "plan=team\u2028 \u00e9"]
    assert [call.arguments for call in server.calls] == [
        {"big": 9007199254740993, "none": None, "x": 1e16}
    ] * 3
    assert server.answers == [("accept", {"plan": "team"}), ("accept", {"seats": 3})]
    nothing_is_left()


@pytest.mark.parametrize("state", [None, "", "\x00\x01 \ud7ff"])
def test_a_state_is_echoed_or_absent_as_the_server_sent_it(
    host_for: HostFor, state: str | None
) -> None:
    def tool(params: CallToolRequestParams) -> Any:
        return text("done") if params.input_responses else ask(state, k=form("Plan?", PLAN))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    host.answer(pending, plan="solo")
    host.resume(pending)
    assert server.calls[1].request_state == state
    assert ("request_state" in server.calls[1].model_fields_set) is (state is not None)


def test_the_same_call_made_again_joins_the_questions_that_wait(host_for: HostFor) -> None:
    host = host_for(server := ScriptedServer(one_round))
    first = host.pending()
    again = host.pending()
    assert again.elicitation_ids == first.elicitation_ids
    assert len(server.calls) == 1
    host.answer(again, plan="solo")
    assert said(host.call()) == "{'plan': 'solo'}"


def test_two_first_calls_at_once_join_one_question(host_for: HostFor, user: User) -> None:
    server = ScriptedServer(one_round)

    async def both() -> list[Any]:
        async with server.connect() as session:
            options: dict[str, Any] = {
                "server": "shop",
                "tool": "tool",
                "scope": "s",
                "respondent": user,
            }
            return await asyncio.gather(
                call_tool(session, **options),
                call_tool(session, **options),
                return_exceptions=True,
            )

    host_for(server)
    one, two = async_to_sync(both)()
    assert one.elicitation_ids == two.elicitation_ids
    assert Elicitation.objects.count() == 1


def test_calls_with_other_arguments_or_ids_wait_side_by_side(host_for: HostFor) -> None:
    host = host_for(ScriptedServer(one_round))
    calls = [
        {"arguments": {"a": 1}},
        {"arguments": {"a": 2}},
        {"call": "c1"},
        {"call": "C1"},
        {"scope": "conversation-2"},
    ]
    waiting = [host.pending(**options) for options in calls]
    assert len({pending.elicitation_ids for pending in waiting}) == len(calls)
    host.answer(waiting[1], plan="team")
    assert said(host.call(**calls[1])) == "{'plan': 'team'}"
    for options, pending in zip(calls, waiting, strict=True):
        if options is not calls[1]:
            assert host.pending(**options).elicitation_ids == pending.elicitation_ids


def test_the_arguments_are_those_of_the_first_call(host_for: HostFor) -> None:
    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending(call="c", arguments={"a": 1})
    host.answer(pending, plan="solo")
    host.call(call="c", arguments={"a": "changed"})
    assert [call.arguments for call in server.calls] == [{"a": 1}, {"a": 1}]


def test_a_call_keeps_its_respondent(host_for: HostFor, other_user: User) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    with pytest.raises(parking.AnotherRespondentError):
        host.call(respondent=other_user)
    host.answer(pending, plan="solo")
    with pytest.raises(parking.AnotherRespondentError):
        host.call(respondent=other_user)
    assert said(host.call()) == "{'plan': 'solo'}"


def test_declined_is_told_without_content(host_for: HostFor, user: User) -> None:
    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending()
    inbox.decline(pending.elicitation_ids[0], by=user)
    assert said(host.resume(pending)) == "None"
    assert server.answers == [("decline", None)]
    (result,) = server.calls[1].input_responses.values()  # type: ignore[union-attr]
    assert "content" not in result.model_fields_set
    assert Elicitation.objects.get().delivery == Delivery.DELIVERED


@pytest.mark.parametrize("state", ["expired", "withdrawn"])
def test_a_question_that_nobody_answered_is_told_as_declined(
    host_for: HostFor, state: str
) -> None:
    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending()
    if state == "expired":
        Elicitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    else:
        inbox.withdraw(pending.elicitation_ids[0])
    host.resume(pending)
    assert server.answers == [("decline", None)]
    assert Elicitation.objects.get().state == state
    nothing_is_left()


def test_a_round_of_several_requests_is_answered_as_a_whole(host_for: HostFor, user: User) -> None:
    def tool(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            return text(sorted(params.input_responses))
        return ask(z=form("Which plan?", PLAN), a=form("How many?", SEATS))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    assert len(pending.elicitation_ids) == 2
    host.answer(pending, 0, plan="team")
    # One is still open: nothing is taken, nothing is sent.
    assert host.pending(host.resume, pending).elicitation_ids == pending.elicitation_ids[1:]
    assert StoredFormAnswer.objects.count() == 1
    inbox.decline(pending.elicitation_ids[1], by=user)
    host.resume(pending)
    assert len(server.calls) == 2
    assert server.answers == [("accept", {"plan": "team"}), ("decline", None)]
    nothing_is_left()


def test_the_same_question_twice_in_a_round_takes_two_answers(host_for: HostFor) -> None:
    def tool(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            return text([accepted(params, "one"), accepted(params, "two")])
        return ask(one=form("Which plan?", PLAN), two=form("Which plan?", PLAN))

    host = host_for(ScriptedServer(tool))
    pending = host.pending()
    host.answer(pending, 0, plan="team")
    host.answer(pending, 1, plan="solo")
    assert said(host.resume(pending)) == "[{'plan': 'team'}, {'plan': 'solo'}]"


def test_an_answer_that_expired_unsent_is_asked_again(host_for: HostFor) -> None:
    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")
    StoredFormAnswer.objects.update(expires_at=timezone.now())
    again = host.pending(host.resume, pending)
    assert again.elicitation_ids != pending.elicitation_ids
    old = Elicitation.objects.get(pk=pending.elicitation_ids[0])
    assert (old.state, old.delivery) == ("answered", Delivery.NEVER_RESUMED)
    assert server.answers == []
    host.answer(again, plan="solo")
    host.resume(again)
    assert server.answers == [("accept", {"plan": "solo"})]


class TestStates:
    """Servers forget their states, people take their time."""

    def test_a_young_first_round_is_retried_as_stored(self, host_for: HostFor) -> None:
        host = host_for(server := ScriptedServer(one_round))
        pending = host.pending()
        host.answer(pending, plan="team")
        age_parked_round(minutes=4)
        host.resume(pending)
        assert len(server.calls) == 2

    @pytest.mark.parametrize("minutes", [6, 11, 60])
    def test_an_old_round_is_retried_as_it_was_stored(
        self, host_for: HostFor, minutes: int
    ) -> None:
        """Cases A7 and A8: the message differs at each call, and each call leaves a draft."""
        prices = itertools.count(10)
        drafts: list[int] = []

        def tool(params: CallToolRequestParams) -> Any:
            if params.input_responses:
                return text((params.request_state, list(params.input_responses)))
            drafts.append(price := next(prices))
            return ask(f"draft {price}", k=form(f"Buy for {price}?", PLAN))

        host = host_for(server := ScriptedServer(tool, sealed=True))
        pending = host.pending()
        host.answer(pending, plan="team")
        age_parked_round(minutes=minutes)
        assert said(host.resume(pending)) == "('draft 10', ['k'])"
        assert drafts == [10]
        assert server.answers == [("accept", {"plan": "team"})]
        nothing_is_left()

    def test_a_restarted_server_gets_the_answer_once(self, host_for: HostFor) -> None:
        host = host_for(server := ScriptedServer(one_round, sealed=True))
        pending = host.pending()
        host.answer(pending, plan="team")
        server.restart()
        assert said(host.resume(pending)) == "{'plan': 'team'}"
        # The tool saw: the first call, the fresh call, the retry. What was refused unread
        # never reached it.
        assert [call.request_state for call in server.calls] == [None, None, "state"]
        assert server.answers == [("accept", {"plan": "team"})]
        assert Elicitation.objects.get().delivery == Delivery.DELIVERED
        nothing_is_left()

    def test_where_something_else_is_asked_the_person_is_asked_that(
        self, host_for: HostFor
    ) -> None:
        questions = iter([form("Which plan?", PLAN), form("Which plan now?", PLAN)])

        def tool(params: CallToolRequestParams) -> Any:
            return text("done") if params.input_responses else ask(k=next(questions))

        host = host_for(server := ScriptedServer(tool, sealed=True))
        first = host.pending()
        host.answer(first, plan="team")
        server.restart()
        second = host.pending(host.resume, first)
        assert second.elicitation_ids != first.elicitation_ids
        assert Elicitation.objects.get(pk=second.elicitation_ids[0]).message == "Which plan now?"
        old = Elicitation.objects.get(pk=first.elicitation_ids[0])
        assert (old.state, old.delivery) == ("answered", Delivery.DROPPED)
        assert not StoredFormAnswer.objects.exists()
        host.answer(second, plan="solo")
        host.resume(second)
        assert server.answers == [("accept", {"plan": "solo"})]
        nothing_is_left()

    def test_answers_to_what_is_still_asked_survive_a_changed_round(
        self, host_for: HostFor
    ) -> None:
        rounds = iter([{"a": ("Plan?", PLAN)}, {"x": ("Seats?", SEATS), "y": ("Plan?", PLAN)}])

        def tool(params: CallToolRequestParams) -> Any:
            if params.input_responses:
                return text(sorted(params.input_responses))
            return ask(**{key: form(*what) for key, what in next(rounds).items()})

        host = host_for(server := ScriptedServer(tool, sealed=True))
        first = host.pending()
        host.answer(first, plan="team")
        server.restart()
        second = host.pending(host.resume, first)
        assert len(second.elicitation_ids) == 1
        host.answer(second, seats=2)
        assert said(host.resume(second)) == "['x', 'y']"
        assert sorted(map(str, server.answers)) == [
            "('accept', {'plan': 'team'})",
            "('accept', {'seats': 2})",
        ]

    def test_where_nothing_is_asked_any_more_the_answer_is_dropped(
        self, host_for: HostFor
    ) -> None:
        replies = iter([ask(k=form("Which plan?", PLAN)), text("not needed")])
        host = host_for(server := ScriptedServer(lambda params: next(replies), sealed=True))
        pending = host.pending()
        host.answer(pending, plan="team")
        server.restart()
        assert said(host.resume(pending)) == "not needed"
        assert server.answers == []
        assert Elicitation.objects.get().delivery == Delivery.DROPPED
        nothing_is_left()

    def test_a_later_round_is_retried_however_old(self, host_for: HostFor) -> None:
        host = host_for(server := ScriptedServer(two_rounds))
        first = host.pending()
        host.answer(first, plan="team")
        second = host.pending(host.resume, first)
        host.answer(second, seats=3)
        age_parked_round(hours=3)
        host.resume(second)
        assert len(server.calls) == 3

    def test_a_later_round_refused_unread_is_called_afresh(self, host_for: HostFor) -> None:
        """Case A6: the answer to round 2 waits until the fresh call gets there."""
        host = host_for(server := ScriptedServer(two_rounds, sealed=True))
        first = host.pending()
        host.answer(first, plan="team")
        second = host.pending(host.resume, first)
        host.answer(second, seats=3)
        server.restart()
        again = host.pending(host.resume, second)
        # The answer to the first round was read: the person is asked that once more.
        assert Elicitation.objects.get(pk=again.elicitation_ids[0]).message == "Which plan?"
        assert StoredFormAnswer.objects.get().elicitation_id == second.elicitation_ids[0]
        host.answer(again, plan="solo")
        assert said(host.resume(again)) == "plan=solo\u2028 \u00e9 seats=3"
        assert server.answers == [
            ("accept", {"plan": "team"}),
            ("accept", {"plan": "solo"}),
            ("accept", {"seats": 3}),
        ]
        assert {each.delivery for each in Elicitation.objects.all()} == {Delivery.DELIVERED}
        nothing_is_left()

    def test_a_fresh_call_is_made_only_once(self, host_for: HostFor) -> None:
        def tool(params: CallToolRequestParams) -> Any:
            if params.request_state is not None:
                raise MCPError(-32602, "no", {"reason": "invalid_request_state"})
            return ask(k=form("Which plan?", PLAN))

        host = host_for(server := ScriptedServer(tool))
        pending = host.pending()
        host.answer(pending, plan="team")
        with pytest.raises(RoundLostError):
            host.resume(pending)
        assert len(server.calls) == 4
        nothing_is_left()

    def test_an_answer_refused_unread_survives_a_failing_fresh_call(
        self, host_for: HostFor
    ) -> None:
        replies: list[Any] = [
            ask(k=form("Which plan?", PLAN)),
            MCPError(-32602, "no", {"reason": "invalid_request_state"}),
            MCPError(-32000, "busy"),
        ]

        def tool(params: CallToolRequestParams) -> Any:
            reply = replies.pop(0) if replies else one_round(params)
            if isinstance(reply, Exception):
                raise reply
            return reply

        host = host_for(server := ScriptedServer(tool))
        pending = host.pending()
        host.answer(pending, plan="team")
        with pytest.raises(MCPError):
            host.resume(pending)
        assert StoredFormAnswer.objects.count() == 1
        assert said(host.resume(pending)) == "{'plan': 'team'}"
        assert server.answers == [("accept", {"plan": "team"})] * 2


class TestLost:
    def test_an_error_after_the_answer_loses_the_round(self, host_for: HostFor) -> None:
        def tool(params: CallToolRequestParams) -> Any:
            if params.input_responses:
                raise MCPError(-32000, "secret words of the server")
            return ask(k=form("Which plan?", PLAN))

        host = host_for(server := ScriptedServer(tool))
        pending = host.pending()
        host.answer(pending, plan="team")
        with pytest.raises(RoundLostError) as lost:
            host.resume(pending)
        assert "secret words" not in str(lost.value)
        assert Elicitation.objects.get().delivery == Delivery.ROUND_LOST
        assert len(server.answers) == 1
        nothing_is_left()

    def test_an_error_result_is_a_result(self, host_for: HostFor) -> None:
        def tool(params: CallToolRequestParams) -> Any:
            if params.input_responses:
                return text("out of seats", is_error=True)
            return ask(k=form("Which plan?", PLAN))

        host = host_for(ScriptedServer(tool))
        pending = host.pending()
        host.answer(pending, plan="team")
        result = host.resume(pending)
        assert result.is_error
        assert Elicitation.objects.get().delivery == Delivery.SERVER_ERROR
        nothing_is_left()

    def test_a_cancelled_retry_is_lost_and_says_so(self, host_for: HostFor) -> None:
        received = asyncio.Event()

        async def tool(params: CallToolRequestParams) -> Any:
            if params.input_responses:
                received.set()
                await asyncio.sleep(60)
            return ask(k=form("Which plan?", PLAN))

        host = host_for(server := ScriptedServer(tool))
        pending = host.pending()
        host.answer(pending, plan="team")

        async def cancelled() -> None:
            async with server.connect() as session:
                task = asyncio.ensure_future(
                    mcp_sdk.resume(session, pending.parked_call_id, server="shop")
                )
                await received.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        async_to_sync(cancelled)()
        assert Elicitation.objects.get().delivery == Delivery.ROUND_LOST
        nothing_is_left()

    def test_a_process_that_died_after_the_take_is_asked_again(self, host_for: HostFor) -> None:
        host = host_for(server := ScriptedServer(one_round))
        pending = host.pending()
        elicitation = host.answer(pending, plan="team")
        store = Call.of(ParkedCall.objects.get()).answers
        assert store.take_form_answer(elicitation.form_elicitation) is not None
        again = host.pending(host.resume, pending)
        assert again.elicitation_ids != pending.elicitation_ids
        elicitation.refresh_from_db()
        assert elicitation.delivery == Delivery.ROUND_LOST
        assert server.answers == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("schema", "code"),
        [
            ({"type": "object", "properties": {"api_key": {"type": "string"}}}, "credential"),
            ({"type": "object", "properties": {"a": {"type": "object"}}}, "out_of_profile"),
            ({"type": "object", "properties": {}}, "schema"),
        ],
    )
    def test_the_server_is_told_decline_and_the_host_why(
        self, host_for: HostFor, schema: dict[str, Any], code: str
    ) -> None:
        def tool(params: CallToolRequestParams) -> Any:
            if params.input_responses:
                return text("fine")
            return ask(good=form("Which plan?", PLAN), bad=form("Other", schema))

        host = host_for(server := ScriptedServer(tool))
        with pytest.raises(ElicitationRefusal) as refused:
            host.call()
        assert refused.value.code == code
        assert server.answers == [("decline", None)] * 2
        assert not Elicitation.objects.exists()
        nothing_is_left()

    @pytest.mark.parametrize("chosen", ["none", "url", None])
    def test_without_url_and_form_no_form_is_shown(
        self, host_for: HostFor, policy: ServerPolicy, chosen: str | None
    ) -> None:
        host = host_for(server := ScriptedServer(one_round))
        if chosen is None:
            policy.delete()
        else:
            ServerPolicy.objects.update(policy=chosen)
        with pytest.raises(PolicyRefusal) as refused:
            host.call()
        assert refused.value.code == "not_allowed"
        assert "policies" in str(refused.value)
        assert server.answers == [("decline", None)]
        assert not Elicitation.objects.exists()

    def test_without_url_no_address_is_shown(self, host_for: HostFor) -> None:
        def tool(params: CallToolRequestParams) -> Any:
            return text("ok") if params.input_responses else ask(k=url("Go", "https://x.test/"))

        ServerPolicy.objects.update(policy="none")
        host = host_for(server := ScriptedServer(tool))
        with pytest.raises(PolicyRefusal):
            host.call()
        assert server.answers == [("decline", None)]

    def test_a_policy_taken_back_meanwhile_declines_what_was_answered(
        self, host_for: HostFor
    ) -> None:
        host = host_for(server := ScriptedServer(one_round))
        pending = host.pending()
        host.answer(pending, plan="team")
        ServerPolicy.objects.update(policy="none")
        with pytest.raises(PolicyRefusal):
            host.resume(pending)
        assert server.answers == [("decline", None)]
        assert Elicitation.objects.get().delivery == Delivery.SWITCHED_OFF
        nothing_is_left()

    def test_confirmations_follow_the_policy(
        self, host_for: HostFor, policy: ServerPolicy
    ) -> None:
        empty = {"type": "object", "properties": {}}

        def tool(params: CallToolRequestParams) -> Any:
            return text("gone") if params.input_responses else ask(k=form("Delete?", empty))

        ServerPolicy.objects.update(allow_confirmation=True)
        host = host_for(server := ScriptedServer(tool))
        pending = host.pending()
        host.answer(pending)
        host.resume(pending)
        assert server.answers == [("accept", {})]

    def test_a_reply_that_mcp_does_not_have_is_refused(self, host_for: HostFor) -> None:
        class Malformed(ScriptedServer):
            async def _call_tool(self, ctx: Any, params: Any) -> Any:
                return {"resultType": "input_required", "inputRequests": {"k": "secret"}}

        host = host_for(Malformed(one_round))
        with pytest.raises((ElicitationRefusal, MCPError)) as refused:
            host.call()
        assert "secret" not in str(refused.value)

    def test_what_cannot_be_stored_is_declined(self, host_for: HostFor, settings: Any) -> None:
        settings.ELICITATION_MAX_CALL_BYTES = 1000

        def tool(params: CallToolRequestParams) -> Any:
            return text("ok") if params.input_responses else ask("x" * 2000, k=form("?", PLAN))

        host = host_for(server := ScriptedServer(tool))
        with pytest.raises(TooLargeError):
            host.call()
        assert server.answers == [("decline", None)]
        nothing_is_left()


class TestNobodyThere:
    def test_an_unattended_call_declines_and_goes_on(self, host_for: HostFor) -> None:
        host = host_for(server := ScriptedServer(one_round))
        assert said(host.call(respondent=None)) == "None"
        assert server.answers == [("decline", None)]
        assert not Elicitation.objects.exists()

    @pytest.mark.parametrize(
        ("attended", "chosen", "declared"),
        [
            (True, "url_and_form", True),
            (True, "url", True),
            (True, "none", False),
            (False, "url_and_form", False),
        ],
    )
    def test_the_capability_follows_policy_and_attendance(
        self, policy: ServerPolicy, attended: bool, chosen: str, declared: bool
    ) -> None:
        ServerPolicy.objects.update(policy=chosen)
        assert bool(client_options("shop", attended=attended)) is declared


class TestRoundsWithoutPeople:
    def test_a_state_alone_is_sent_back_after_a_pause(
        self, host_for: HostFor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pauses: list[float] = []

        async def note(seconds: float) -> None:
            pauses.append(seconds)

        monkeypatch.setattr(drive.asyncio, "sleep", note)
        states = iter(["a", "", "b"])

        def tool(params: CallToolRequestParams) -> Any:
            state = next(states, None)
            return text("done") if state is None else ask(state)

        host = host_for(server := ScriptedServer(tool))
        assert said(host.call()) == "done"
        assert [call.request_state for call in server.calls] == [None, "a", "", "b"]
        assert [call.input_responses for call in server.calls] == [None] * 4
        assert pauses == sorted(pauses)
        assert pauses[0] < pauses[-1]

    def test_a_server_at_work_leaves_the_worker_and_is_looked_after(
        self, host_for: HostFor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Case A9."""

        async def now(seconds: float) -> None:
            return None

        monkeypatch.setattr(drive.asyncio, "sleep", now)
        replies = iter([*[ask("again")] * (drive.MAX_PAUSES + 3), text("done")])
        host = host_for(server := ScriptedServer(lambda params: next(replies)))
        working = host.pending()
        assert isinstance(working, ServerWorkingPending)
        assert working.elicitation_ids == ()
        assert len(server.calls) == drive.MAX_PAUSES + 1
        parked = ParkedCall.objects.get()
        assert (parked.lease, parked.look_at) == (None, working.look_at)
        assert parked.pk == working.parked_call_id
        assert said(host.resume(working)) == "done"
        assert {call.request_state for call in server.calls} == {None, "again"}
        nothing_is_left()

    def test_a_server_at_work_for_too_long_is_given_up(
        self, host_for: HostFor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def now(seconds: float) -> None:
            return None

        monkeypatch.setattr(drive.asyncio, "sleep", now)
        host = host_for(ScriptedServer(lambda params: ask("again")))
        working = host.pending()
        again = host.pending(host.resume, working)
        assert again.look_at > working.look_at  # type: ignore[attr-defined]
        ParkedCall.objects.update(working_since=timezone.now() - timedelta(hours=25))
        with pytest.raises(RoundLostError) as lost:
            host.resume(working)
        assert lost.value.reason == "working_too_long"
        nothing_is_left()

    def test_rounds_past_the_limit_are_declined(self, host_for: HostFor, settings: Any) -> None:
        settings.ELICITATION_MAX_ROUNDS = 2
        n = itertools.count()

        def tool(params: CallToolRequestParams) -> Any:
            return ask(str(next(n)), k=form("Which plan?", PLAN))

        host = host_for(server := ScriptedServer(tool))
        pending = host.pending()
        host.answer(pending, plan="team")
        pending = host.pending(host.resume, pending)
        host.answer(pending, plan="team")
        with pytest.raises(TooManyRoundsError):
            host.resume(pending)
        assert [action for action, _ in server.answers] == ["accept", "accept", "decline"]
        nothing_is_left()

    def test_sampling_and_roots_go_to_the_host(self, host_for: HostFor) -> None:
        from mcp.types import CreateMessageRequest, CreateMessageRequestParams, ListRootsRequest

        def tool(params: CallToolRequestParams) -> Any:
            if params.input_responses:
                return text(sorted(params.input_responses))
            return ask(
                s=CreateMessageRequest(
                    params=CreateMessageRequestParams(messages=[], max_tokens=5)
                ),
                r=ListRootsRequest(),
                k=form("Which plan?", PLAN),
            )

        sampled = []

        async def sampling(context: Any, params: Any) -> CreateMessageResult:
            sampled.append(params.max_tokens)
            return CreateMessageResult(
                role="assistant", content=TextContent(type="text", text="hi"), model="m"
            )

        async def roots(context: Any) -> ListRootsResult:
            return ListRootsResult(roots=[])

        host = host_for(ScriptedServer(tool))
        with pytest.raises(InputNotSupportedError) as refused:
            host.call()
        assert "sampling/createMessage" in str(refused.value)
        assert not Elicitation.objects.exists()
        callables = {"sampling": sampling, "roots": roots}
        pending = host.pending(**callables)
        assert sampled == []
        host.answer(pending, plan="team")
        assert said(host.resume(pending, **callables)) == "['k', 'r', 's']"
        assert sampled == [5]


class TestLease:
    def test_a_process_that_comes_late_goes_on_from_where_the_call_is(
        self, host_for: HostFor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It saw the first round answered; until it got the lease, another had sent that."""
        host = host_for(server := ScriptedServer(two_rounds))
        first = host.pending()
        host.answer(first, plan="team")
        claim = parking.resume
        overtaken = []

        def overtaken_claim(*args: Any, **kwargs: Any) -> Any:
            monkeypatch.setattr(parking, "resume", claim)
            overtaken.append(host.pending(host.resume, first))
            return claim(*args, **kwargs)

        monkeypatch.setattr(parking, "resume", overtaken_claim)
        second = host.pending(host.resume, first)
        assert second.elicitation_ids == overtaken[0].elicitation_ids != first.elicitation_ids
        assert server.answers == [("accept", {"plan": "team"})]
        assert ParkedCall.objects.get().round == 2

    def test_two_processes_cannot_resume_one_call(self, host_for: HostFor) -> None:
        host = host_for(server := ScriptedServer(one_round))
        pending = host.pending()
        host.answer(pending, plan="team")
        lease = claimed(pending)
        with pytest.raises(CallInProgressError):
            host.resume(pending)
        assert StoredFormAnswer.objects.count() == 1
        parking.release(lease)
        host.resume(pending)
        assert len(server.answers) == 1

    def test_a_dead_process_loses_its_lease(self, host_for: HostFor, settings: Any) -> None:
        host = host_for(ScriptedServer(one_round))
        pending = host.pending()
        host.answer(pending, plan="team")
        settings.ELICITATION_RESUME_LEASE = timedelta(milliseconds=1)
        claimed(pending)
        del settings.ELICITATION_RESUME_LEASE
        time.sleep(0.01)
        assert said(host.resume(pending)) == "{'plan': 'team'}"

    def test_a_living_process_renews_its_lease(self, host_for: HostFor, settings: Any) -> None:
        settings.ELICITATION_RESUME_LEASE = timedelta(milliseconds=300)

        async def tool(params: CallToolRequestParams) -> Any:
            if params.input_responses:
                await asyncio.sleep(1)
                return text("done")
            return ask(k=form("Which plan?", PLAN))

        host = host_for(server := ScriptedServer(tool))
        pending = host.pending()
        host.answer(pending, plan="team")

        async def both() -> list[Any]:
            async with server.connect() as session:
                first = asyncio.ensure_future(
                    mcp_sdk.resume(session, pending.parked_call_id, server="shop")
                )
                await asyncio.sleep(0.7)
                second = mcp_sdk.resume(session, pending.parked_call_id, server="shop")
                return await asyncio.gather(first, second, return_exceptions=True)

        first, second = async_to_sync(both)()
        assert said(first) == "done"
        assert isinstance(second, CallInProgressError)
        assert len(server.answers) == 1


def test_a_park_that_fails_in_the_middle_leaves_nothing(
    host_for: HostFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the disk is full")

    # Fails after the row was written and the question asked.
    monkeypatch.setattr(parking, "_update", fail)
    host = host_for(ScriptedServer(one_round))
    with pytest.raises(RuntimeError):
        host.call()
    assert not Elicitation.objects.exists()
    assert not ParkedCall.objects.parked().exists()


def test_an_answer_is_in_no_log_record(
    host_for: HostFor, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    canary = "Zanzibar-Canary-7361"
    note = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}

    def tool(params: CallToolRequestParams) -> Any:
        if not params.input_responses:
            return ask(k=form("Note?", note))
        if params.arguments == {"lose": True}:
            raise MCPError(-32000, "no")
        return text("done")

    host = host_for(ScriptedServer(tool))
    with caplog.at_level(logging.DEBUG):
        answered = host.pending()
        host.answer(answered, note=canary)
        host.resume(answered)
        assert calls.acknowledge(calls.outcome(answered.parked_call_id))
        lost = host.pending(arguments={"lose": True})
        host.answer(lost, note=canary)
        with pytest.raises(RoundLostError):
            host.resume(lost)
        declined = host.pending()
        inbox.decline(declined.elicitation_ids[0], by=user)
        host.resume(declined)
        refused = host.pending(arguments={"other": True})
        credential = {"note": FormAnswer(other_text=f"{canary} ghp_" + "a1B2" * 9)}
        with pytest.raises(inbox.AnswerRefusals):
            inbox.answer(refused.elicitation_ids[0], credential, by=user)
    assert caplog.records
    for record in caplog.records:
        # The SDK writes down what crosses the wire, and Django its SQL; neither is ours, both
        # are off unless a site turns them on.
        if record.name.startswith(("django.db", "mcp.", "client")):
            continue
        assert canary not in record.getMessage()
        assert canary not in str(vars(record))


def test_names_that_no_row_can_hold_are_refused(host_for: HostFor) -> None:
    host = host_for(server := ScriptedServer(one_round))
    for options in ({"scope": ""}, {"scope": "a\x00b"}, {"call": "x" * 201}, {"scope": "\ud800"}):
        with pytest.raises(InvalidNameError):
            host.call(**options)
    with pytest.raises(TooLargeError):
        host.call(arguments={"n": float("nan")})
    assert server.calls == []


@pytest.mark.parametrize("nobody", [AnonymousUser(), User(username="unsaved")])
def test_a_respondent_who_is_not_in_the_database_is_refused(
    host_for: HostFor, nobody: Any
) -> None:
    host = host_for(server := ScriptedServer(one_round))
    with pytest.raises(InvalidNameError, match="pass None where nobody can be asked"):
        host.call(respondent=nobody)
    assert server.calls == []


def test_a_finished_call_cannot_be_resumed(host_for: HostFor) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")
    host.resume(pending)
    # The result is handed out again, until it is acknowledged.
    assert said(host.resume(pending)) == "{'plan': 'team'}"
    assert calls.acknowledge(pending.parked_call_id)
    with pytest.raises(ParkedCall.DoesNotExist):
        host.resume(pending)


def test_a_sure_question_reads_as_a_boolean(host_for: HostFor) -> None:
    def tool(params: CallToolRequestParams) -> Any:
        return text("x") if params.input_responses else ask(k=form("Sure?", SURE))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    host.answer(pending, sure=False)
    host.resume(pending)
    assert server.answers == [("accept", {"sure": False})]


def test_nothing_of_the_first_request_is_lost_on_the_retry(host_for: HostFor) -> None:
    host = host_for(server := ScriptedServer(one_round))
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    meta = {"example.com/tenant": "blue", "traceparent": trace}
    pending = host.pending(meta=meta, read_timeout=7.5)
    host.answer(pending, plan="team")
    timeouts = []

    async def run() -> Any:
        async with server.connect() as session:
            send = session.send_request

            async def send_request(*args: Any, **options: Any) -> Any:
                timeouts.append(options["request_read_timeout_seconds"])
                return await send(*args, **options)

            session.send_request = send_request
            return await mcp_sdk.resume(session, pending.parked_call_id, server="shop")

    assert said(async_to_sync(run)()) == "{'plan': 'team'}"
    assert timeouts == [7.5]
    for call in server.calls:
        assert call.meta is not None
        sent = dict(call.meta)
        assert {name: sent.get(name) for name in meta} == meta


def test_the_progress_of_a_retry_is_reported(host_for: HostFor) -> None:
    class Reporting(ScriptedServer):
        async def _call_tool(self, ctx: Any, params: Any) -> Any:
            if params.input_responses:
                await ctx.session.report_progress(0.5, 1.0, "half")
            return await super()._call_tool(ctx, params)

    seen: list[Any] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    host = host_for(Reporting(one_round))
    pending = host.pending(progress=progress)
    host.answer(pending, plan="team")
    host.resume(pending, progress=progress)
    assert seen == [(0.5, 1.0, "half")]
