"""Servers that ask in the middle of a call, as they did before MCP 2026-07-28."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from functools import partial
from typing import Any

import mcp
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.utils import timezone
from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from elicitation import inbox, store
from elicitation.calls import in_call
from elicitation.calls.in_call import answer_in_call
from elicitation.inbox import asking
from elicitation.inbox.listening import tell
from elicitation.mcp.client import client_options, elicitation_callback
from elicitation.models import Elicitation, InvalidNameError, ServerPolicy, StoredFormAnswer
from elicitation.store import DatabaseFormAnswerStore
from elicitation.transactions import OuterTransactionError
from tests.integration.answering import Answering
from tests.integration.scripted import PLAN, said

FORM = {"mode": "form", "message": "Which plan?", "requestedSchema": PLAN}


class Plan(BaseModel):
    plan: str


server = MCPServer("legacy", log_level="WARNING")


@server.tool()
async def buy(ctx: Context) -> str:
    result = await ctx.elicit("Which plan?", Plan)
    if isinstance(result, AcceptedElicitation):
        return f"bought {result.data.plan}"
    return result.action


def names(user: User | None, **options: Any) -> dict[str, Any]:
    return {"server": "shop", "tool": "buy", "scope": "chat", "respondent": user} | options


async def when_asked(act: Any) -> Elicitation:
    """Do something to the question as soon as it is there."""
    while (question := await Elicitation.objects.pending().afirst()) is None:
        await asyncio.sleep(0.01)
    await sync_to_async(act)(question)
    return question


def answer_plan(user: User, value: str = "team") -> Any:
    def act(question: Elicitation) -> None:
        answers = question.schema.answers_from_content({"plan": value})
        inbox.answer(question.pk, answers, by=user)

    return act


async def together(waits: Any, acts: Any) -> Any:
    result, _ = await asyncio.gather(waits, acts)
    return result


def count_polls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets, with each query for closed questions, how many are waited for."""
    polls: list[int] = []
    found = inbox.closed_among

    def counted(keys: Any) -> Any:
        polls.append(len(keys))
        return found(keys)

    monkeypatch.setattr(inbox, "closed_among", counted)
    return polls


@pytest.mark.parametrize(("declines", "says"), [(False, "bought team"), (True, "decline")])
def test_the_sdks_client_waits_for_the_person(
    policy: ServerPolicy, user: User, declines: bool, says: str
) -> None:
    act = (lambda question: inbox.decline(question.pk, by=user)) if declines else answer_plan(user)
    options = client_options("shop", callback=elicitation_callback("shop", "buy", "chat", user))

    async def call() -> Any:
        async with mcp.Client(server, mode="legacy", **options) as client:
            return await together(client.call_tool("buy", {}), when_asked(act))

    assert said(async_to_sync(call)()) == says
    question = Elicitation.objects.get()
    assert question.in_call
    assert question.delivery == "delivered"
    assert not StoredFormAnswer.objects.exists()


def test_what_the_person_answers_is_returned_as_json(policy: ServerPolicy, user: User) -> None:
    asked = answer_in_call(FORM, **names(user))
    told = async_to_sync(together)(asked, when_asked(answer_plan(user)))
    assert told == {"action": "accept", "content": {"plan": "team"}}


def test_the_question_expires_with_the_servers_patience(policy: ServerPolicy, user: User) -> None:
    assert async_to_sync(answer_in_call)(FORM, **names(user), timeout=0.2) == {"action": "decline"}
    question = Elicitation.objects.get()
    assert (question.state, question.delivery) == ("expired", "delivered")
    assert question.expires_at - question.asked_at < timedelta(seconds=1)
    assert not StoredFormAnswer.objects.exists()


def test_a_cancelled_request_withdraws_the_question(policy: ServerPolicy, user: User) -> None:
    async def cancelled() -> None:
        task = asyncio.ensure_future(answer_in_call(FORM, **names(user)))
        await when_asked(lambda question: None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async_to_sync(cancelled)()
    question = Elicitation.objects.get()
    assert (question.state, question.reason) == ("withdrawn", "cancelled")
    assert question.delivery == "dropped"
    assert not StoredFormAnswer.objects.exists()


def test_an_answer_recorded_before_is_taken_at_once(policy: ServerPolicy, user: User) -> None:
    asked = async_to_sync(together)(
        answer_in_call(FORM, **names(user, call="c1")), when_asked(answer_plan(user))
    )
    assert asked["action"] == "accept"
    question = Elicitation.objects.get().form_elicitation
    answers = DatabaseFormAnswerStore(scope="chat", call="c1", respondent_id=user.pk)
    answers.record_form_answer(
        question, "accept", question.schema.answers_from_content({"plan": "solo"})
    )
    told = async_to_sync(answer_in_call)(FORM, **names(user, call="c1"))
    assert told == {"action": "accept", "content": {"plan": "solo"}}
    assert Elicitation.objects.count() == 1


@pytest.mark.parametrize(
    "params",
    [
        {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
        {"mode": "video", "message": "?"},
        {"message": "?"},
        {"message": 7, "requestedSchema": PLAN},
        {"mode": "url", "message": "?", "url": "http://x.test/"},
        {},
    ],
)
def test_what_cannot_be_asked_is_declined_at_once(
    policy: ServerPolicy, user: User, params: dict[str, Any]
) -> None:
    assert async_to_sync(answer_in_call)(params, **names(user)) == {"action": "decline"}
    assert not Elicitation.objects.exists()


def test_a_missing_mode_means_form(policy: ServerPolicy, user: User) -> None:
    params = {key: value for key, value in FORM.items() if key != "mode"}
    asked = answer_in_call(params, **names(user))
    assert async_to_sync(together)(asked, when_asked(answer_plan(user)))["action"] == "accept"


def test_nobody_there_and_no_policy_decline(policy: ServerPolicy, user: User) -> None:
    assert async_to_sync(answer_in_call)(FORM, **names(None)) == {"action": "decline"}
    ServerPolicy.objects.update(policy="none")
    assert async_to_sync(answer_in_call)(FORM, **names(user)) == {"action": "decline"}
    assert not Elicitation.objects.exists()


def test_nobody_is_asked_for_a_visitor_who_is_not_signed_in(policy: ServerPolicy) -> None:
    visitor: Any = AnonymousUser()
    with pytest.raises(InvalidNameError, match="pass None where nobody can be asked"):
        async_to_sync(answer_in_call)(FORM, **names(visitor, timeout=1))
    assert not Elicitation.objects.exists()


@pytest.mark.slow
def test_an_answer_given_in_another_process_is_found(
    policy: ServerPolicy, user: User, settings: Any
) -> None:
    settings.ELICITATION_POLL_INTERVAL = timedelta(milliseconds=50)
    with Answering(user) as elsewhere:
        told = async_to_sync(together)(
            answer_in_call(FORM, **names(user)),
            when_asked(lambda question: elsewhere.answer(question.pk)),
        )
    assert told == {"action": "accept", "content": {"plan": "team"}}
    assert Elicitation.objects.get().delivery == "delivered"


def test_a_request_that_is_cancelled_while_it_asks_leaves_no_question(
    policy: ServerPolicy, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled() -> None:
        task = asyncio.ensure_future(answer_in_call(FORM, **names(user), timeout=30))
        loop, ask_it = asyncio.get_running_loop(), inbox.ask

        def cancel_and_ask(*args: Any, **options: Any) -> Elicitation:
            loop.call_soon_threadsafe(task.cancel)
            asked = ask_it(*args, **options)
            while not task.cancelling():
                time.sleep(0.01)
            return asked

        monkeypatch.setattr(asking, "ask", cancel_and_ask)
        with pytest.raises(asyncio.CancelledError):
            await task

    async_to_sync(cancelled)()
    question = Elicitation.objects.get()
    assert (question.state, question.reason) == ("withdrawn", "cancelled")
    assert not StoredFormAnswer.objects.exists()


def cancel_in_the_take(task: asyncio.Task[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel a task while its thread takes the answer."""
    loop, take = asyncio.get_running_loop(), store.take

    def cancel_and_take(*args: Any) -> Any:
        loop.call_soon_threadsafe(task.cancel)
        while not task.cancelling():
            time.sleep(0.01)
        return take(*args)

    monkeypatch.setattr(store, "take", cancel_and_take)


def test_a_request_that_is_cancelled_while_it_takes_says_what_became_of_the_answer(
    policy: ServerPolicy, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was given to an earlier request, whose process is gone."""
    request = partial(answer_in_call, FORM, **names(user, call="c1"), timeout=30)

    async def asks() -> None:
        task = asyncio.ensure_future(request())
        await when_asked(lambda question: None)
        task.cancel()
        await asyncio.wait([task])

    with monkeypatch.context() as killed:
        killed.setattr(in_call._Request, "_leave", lambda self: None)
        async_to_sync(asks)()
    answer_plan(user)(Elicitation.objects.get())
    Elicitation.objects.update(alive_until=timezone.now() - timedelta(seconds=1))

    async def takes() -> None:
        task = asyncio.ensure_future(request())
        cancel_in_the_take(task, monkeypatch)
        with pytest.raises(asyncio.CancelledError):
            await task

    async_to_sync(takes)()
    assert not StoredFormAnswer.objects.exists()
    question = Elicitation.objects.get()
    assert (question.state, question.delivery) == ("answered", "dropped")


def test_a_request_that_is_cancelled_while_it_takes_sends_nothing_and_says_so(
    policy: ServerPolicy, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread goes on and commits: what it has taken is neither sent nor forgotten."""

    async def cancelled() -> None:
        task = asyncio.ensure_future(answer_in_call(FORM, **names(user, call="c1")))
        cancel_in_the_take(task, monkeypatch)
        await when_asked(answer_plan(user))
        with pytest.raises(asyncio.CancelledError):
            await task

    async_to_sync(cancelled)()
    question = Elicitation.objects.get()
    assert (question.state, question.delivery) == ("answered", "dropped")
    assert not StoredFormAnswer.objects.exists()


def test_inside_a_transaction_nobody_is_asked(policy: ServerPolicy, user: User) -> None:
    with transaction.atomic(), pytest.raises(OuterTransactionError):
        async_to_sync(answer_in_call)(FORM, **names(user))
    assert not Elicitation.objects.exists()


@pytest.mark.slow
def test_100_wait_at_once_with_one_query_a_second_among_them(
    policy: ServerPolicy, user: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on all databases that cannot be listened to.
    monkeypatch.setattr("elicitation.inbox.listening._connection_params", lambda: None)
    polls = count_polls(monkeypatch)

    async def all_of_them() -> list[Any]:
        waits = [asyncio.ensure_future(answer_in_call(FORM, **names(user))) for _ in range(100)]
        while await Elicitation.objects.pending().acount() < 100:
            await asyncio.sleep(0.05)
        polls_before = len(polls)
        await asyncio.sleep(2.5)
        assert len(polls) - polls_before <= 3
        for question in [question async for question in Elicitation.objects.pending()]:
            await sync_to_async(answer_plan(user))(question)
        return await asyncio.gather(*waits)

    told = async_to_sync(all_of_them)()
    assert told == [{"action": "accept", "content": {"plan": "team"}}] * 100
    assert max(polls) == 100
    assert not StoredFormAnswer.objects.exists()


def test_identical_requests_at_once_each_get_the_answer_to_their_own(
    policy: ServerPolicy, user: User
) -> None:
    async def two() -> list[Any]:
        waits = [
            asyncio.ensure_future(answer_in_call(FORM, **names(user, call="c1"))) for _ in range(2)
        ]
        while await Elicitation.objects.pending().acount() < 2:
            await asyncio.sleep(0.01)
        questions = [one async for one in Elicitation.objects.order_by("number")]
        await sync_to_async(answer_plan(user, "solo"))(questions[0])
        await sync_to_async(answer_plan(user, "team"))(questions[1])
        return await asyncio.gather(*waits)

    told = async_to_sync(two)()
    assert sorted(answer["content"]["plan"] for answer in told) == ["solo", "team"]
    assert set(Elicitation.objects.values_list("delivery", flat=True)) == {"delivered"}


def test_an_answer_that_another_request_waits_for_is_left_to_it(
    policy: ServerPolicy, user: User
) -> None:
    """Answered in another process, and the server repeats its request before anybody looked."""
    now = timezone.now()

    async def two() -> list[Any]:
        first = asyncio.ensure_future(answer_in_call(FORM, **names(user, call="c1")))
        question = await when_asked(lambda question: None)
        recorded = DatabaseFormAnswerStore(scope="chat", call="c1", respondent_id=user.pk)
        answers = question.schema.answers_from_content({"plan": "solo"})
        await sync_to_async(recorded.record_form_answer)(
            question.form_elicitation,
            "accept",
            answers,
            number=question.number,
            elicitation_id=question.pk,
        )
        await Elicitation.objects.filter(pk=question.pk).aupdate(state="answered", closed_at=now)
        second = asyncio.ensure_future(answer_in_call(FORM, **names(user, call="c1")))
        await when_asked(answer_plan(user, "team"))
        await sync_to_async(tell)(question.pk)
        return await asyncio.gather(first, second)

    told = async_to_sync(two)()
    assert [answer["content"]["plan"] for answer in told] == ["solo", "team"]
