"""What went wrong in the middle of a call, by the numbers of the cases that were found."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import mcp
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from mcp.server.mcpserver import Context, MCPServer

from elicitation import inbox, store
from elicitation.calls import in_call, outbox
from elicitation.calls.in_call import answer_in_call
from elicitation.mcp.client import aclient_options, elicitation_callback
from elicitation.models import Elicitation, ServerPolicy, StoredFormAnswer
from elicitation.signals import elicitation_asked, elicitation_closed
from tests import processes
from tests.integration.scripted import said
from tests.integration.test_in_call import FORM, Plan, answer_plan, names, together, when_asked
from tests.integration.waiting import Waiting

DECLINE = {"action": "decline"}


@pytest.fixture
def mails(settings: Any, mailoutbox: list[Any]) -> list[Any]:
    settings.ELICITATION_EMAIL = True
    settings.ELICITATION_BASE_URL = "https://site.test"
    return mailoutbox


@pytest.fixture
def most_open() -> Iterator[list[int]]:
    """How many are open, each time that something is asked."""
    found: list[int] = []

    def count(**kwargs: Any) -> None:
        found.append(Elicitation.objects.open().count())

    elicitation_asked.connect(count)
    yield found
    elicitation_asked.disconnect(count)


# --- C1: limits ------------------------------------------------------------------------------


def test_case_C1_of_300_at_once_sixteen_are_asked(
    policy: ServerPolicy, user: User, mails: list[Any], most_open: list[int]
) -> None:
    async def all_of_them() -> list[Any]:
        waits = [
            asyncio.ensure_future(answer_in_call(FORM, **names(user, call="c1")))
            for _ in range(300)
        ]
        declined, waiting = set[Any](), set(waits)
        while len(declined) < 284:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            declined |= done
        assert [task.result() for task in declined] == [DECLINE] * 284
        for question in [question async for question in Elicitation.objects.open()]:
            await sync_to_async(answer_plan(user))(question)
        return await asyncio.gather(*waiting)

    told = async_to_sync(all_of_them)()
    assert told == [{"action": "accept", "content": {"plan": "team"}}] * 16
    assert max(most_open) == len(most_open) == len(mails) == 16
    assert set(Elicitation.objects.values_list("round", "delivery")) == {(1, "delivered")}


def test_case_C1_a_call_asks_in_so_many_rounds(
    policy: ServerPolicy, user: User, mails: list[Any], settings: Any
) -> None:
    settings.ELICITATION_MAX_ROUNDS = 4

    async def one_after_the_other() -> list[Any]:
        told = []
        for number in range(40):
            asked = answer_in_call(
                FORM | {"message": f"Number {number}?"}, **names(user, call="c1")
            )
            act = when_asked(answer_plan(user)) if number < 4 else asyncio.sleep(0)
            told.append(await together(asked, act))
        return told

    told = async_to_sync(one_after_the_other)()
    assert [answer["action"] for answer in told] == ["accept"] * 4 + ["decline"] * 36
    assert list(Elicitation.objects.order_by("round").values_list("round", flat=True)) == [
        1,
        2,
        3,
        4,
    ]
    assert len(mails) == 4


def test_case_C1_more_than_sixteen_in_turn_are_no_longer_one_round(
    policy: ServerPolicy, user: User, settings: Any
) -> None:
    """A server that keeps one open must not ask without end beside it."""
    settings.ELICITATION_MAX_ROUNDS = 2

    async def beside_one() -> list[Any]:
        first = asyncio.ensure_future(answer_in_call(FORM, **names(user, call="c1")))
        kept = await when_asked(lambda question: None)
        told = []
        for number in range(40):
            asked = FORM | {"message": f"Number {number}?"}
            beside = asyncio.ensure_future(answer_in_call(asked, **names(user, call="c1")))
            while not beside.done():
                for other in [one async for one in Elicitation.objects.open().exclude(pk=kept.pk)]:
                    await sync_to_async(answer_plan(user))(other)
                await asyncio.sleep(0.01)
            told.append(beside.result()["action"])
        first.cancel()
        return told

    told = async_to_sync(beside_one)()
    assert told == ["accept"] * 31 + ["decline"] * 9


def test_case_C1_what_comes_through_one_callback_is_one_call(
    policy: ServerPolicy, user: User, settings: Any
) -> None:
    settings.ELICITATION_MAX_ROUNDS = 3
    server = MCPServer("insistent", log_level="ERROR")

    @server.tool()
    async def insist(ctx: Context) -> str:
        return " ".join([(await ctx.elicit(f"{n}?", Plan)).action for n in range(6)])

    async def answer_all() -> None:
        while True:
            for question in [question async for question in Elicitation.objects.open()]:
                await sync_to_async(answer_plan(user))(question)
            await asyncio.sleep(0.01)

    async def call() -> Any:
        callback = elicitation_callback("shop", "insist", "chat", user)
        options = await aclient_options("shop", callback=callback)
        answering = asyncio.ensure_future(answer_all())
        async with mcp.Client(server, mode="legacy", **options) as client:
            try:
                return [said(await client.call_tool("insist", {}))]
            finally:
                answering.cancel()

    assert async_to_sync(call)() == ["accept accept accept decline decline decline"]


def test_case_C1_the_limits_of_a_person_hold_as_well(
    policy: ServerPolicy, user: User, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ELICITATION_MAX_OPEN = 1

    async def two() -> Any:
        first = asyncio.ensure_future(answer_in_call(FORM, **names(user, call="c1")))
        await when_asked(lambda question: None)
        second = await answer_in_call(FORM, **names(user, call="c2"))
        first.cancel()
        return second

    assert async_to_sync(two)() == DECLINE
    assert Elicitation.objects.count() == 1
    assert "too_many_open" in caplog.text


# --- C2: keys --------------------------------------------------------------------------------


def test_case_C2_two_processes_that_ask_for_one_call_get_an_answer_each(
    policy: ServerPolicy, user: User
) -> None:
    plans = {"one": "solo", "other": "team"}
    asking = {label: Waiting(user, label) for label in plans}
    for number in range(6):
        call = f"c{number}"
        for process in asking.values():
            process.begin(call)
        waiting = Elicitation.objects.open().filter(call=call)
        processes.wait_until(lambda rows=waiting: rows.count() == 2, "both questions")
        for question in waiting:
            answer_plan(user, plans[question.scope_label])(question)
        told = {label: process.told()["content"]["plan"] for label, process in asking.items()}
        assert told == plans
    for process in asking.values():
        process.end()
    assert Elicitation.objects.filter(delivery="delivered").count() == 12
    assert len(set(Elicitation.objects.values_list("number", flat=True))) == 12
    assert not StoredFormAnswer.objects.exists()


# --- C3 and C4: processes that are gone ------------------------------------------------------


def half_a_minute_later() -> None:
    """Let the last sign of life be as old as it can be; nothing else is changed."""
    for question in Elicitation.objects.filter(alive_until__isnull=False):
        Elicitation.objects.filter(pk=question.pk).update(
            alive_until=question.alive_until - timedelta(seconds=30)
        )


def test_case_C3_what_was_taken_and_not_replied_is_lost(policy: ServerPolicy, user: User) -> None:
    process = Waiting(user, "chat", "die")
    process.begin("c1")
    processes.wait_until(Elicitation.objects.open().exists, "the question")
    answer_plan(user)(Elicitation.objects.get())
    assert process.ended() == -signal.SIGKILL
    question = Elicitation.objects.get()
    assert not StoredFormAnswer.objects.exists()
    assert (question.state, question.delivery) == ("answered", "")
    # It may live: nothing is said before.
    outbox.resend_due(now=timezone.now() + timedelta(minutes=2))
    question.refresh_from_db()
    assert (question.delivery, question.resent) == ("", 0)
    half_a_minute_later()
    outbox.resend_due()
    question.refresh_from_db()
    assert question.delivery == "round_lost"
    assert question.delivered_at is not None


def test_case_C3_it_is_delivered_once_the_reply_was_handed_over(
    policy: ServerPolicy, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    note = in_call.parking.note_deliveries

    def noted(deliveries: Any) -> None:
        happened.extend(deliveries.values())
        note(deliveries)

    monkeypatch.setattr(in_call.parking, "note_deliveries", noted)

    async def handed_over() -> None:
        asked = asyncio.ensure_future(answer_in_call(FORM, **names(user)))
        asked.add_done_callback(lambda _: happened.append("handed over"))
        await together(asked, when_asked(answer_plan(user)))

    async_to_sync(handed_over)()
    # Noted once more where the loop ends meanwhile.
    assert happened[0] == "handed over"
    assert set(happened[1:]) == {"delivered"}
    assert Elicitation.objects.get().delivery == "delivered"


def leave_an_answer_to_the_next(user: User) -> None:
    """Answer what a process has asked that dies before it can take the answer."""
    process = Waiting(user, "chat")
    process.begin("c1")
    processes.wait_until(Elicitation.objects.open().exists, "the question")
    process.process.send_signal(signal.SIGSTOP)
    answer_plan(user)(Elicitation.objects.get())
    process.kill()
    half_a_minute_later()


def test_case_C3_what_is_taken_by_a_request_that_is_cancelled_then_is_dropped(
    policy: ServerPolicy, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_an_answer_to_the_next(user)

    async def cancelled() -> None:
        task = asyncio.ensure_future(answer_in_call(FORM, **names(user, call="c1")))
        loop, take = asyncio.get_running_loop(), store.take

        def cancel_and_take(*args: Any) -> Any:
            loop.call_soon_threadsafe(task.cancel)
            processes.wait_until(task.cancelling, "the cancellation")
            return take(*args)

        monkeypatch.setattr(store, "take", cancel_and_take)
        with pytest.raises(asyncio.CancelledError):
            await task

    async_to_sync(cancelled)()
    assert not StoredFormAnswer.objects.exists()
    assert Elicitation.objects.get().delivery == "dropped"


def test_case_C3_where_that_cannot_be_written_down_the_reply_is_handed_over(
    policy: ServerPolicy,
    user: User,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(deliveries: Any) -> None:
        raise OSError

    monkeypatch.setattr(in_call.parking, "note_deliveries", broken)
    asked = answer_in_call(FORM, **names(user))
    told = async_to_sync(together)(asked, when_asked(answer_plan(user)))
    assert told["action"] == "accept"
    assert "How a call ended could not be recorded" in caplog.text


def look_at_the_page(question: Elicitation, user: User) -> None:
    client = Client()
    client.force_login(user)
    assert client.get(question.get_absolute_url()).status_code == 200


def try_to_answer(question: Elicitation, user: User) -> None:
    with pytest.raises(inbox.ElicitationClosedError):
        answer_plan(user)(question)


def ask_the_api(question: Elicitation, user: User) -> None:
    client = Client()
    client.force_login(user)
    response = client.get(reverse("elicitation_api:detail", args=[question.pk]))
    assert response.json()["state"] == "withdrawn", response.content


def run_the_outbox(question: Elicitation, user: User) -> None:
    call_command("elicitation_resume", stdout=StringIO())


def clean_up(question: Elicitation, user: User) -> None:
    out = StringIO()
    call_command("elicitation_cleanup", dry_run=True, stdout=out)
    call_command("elicitation_cleanup", stdout=out)
    assert out.getvalue().count("expired elicitations 1,") == 2


@contextmanager
def signals() -> Iterator[list[tuple[UUID, str]]]:
    """What hosts are told."""
    told: list[tuple[UUID, str]] = []

    def hear(elicitation_id: UUID, state: str, **kwargs: Any) -> None:
        told.append((elicitation_id, state))

    elicitation_closed.connect(hear)
    yield told
    elicitation_closed.disconnect(hear)


@pytest.mark.parametrize(
    "look", [look_at_the_page, try_to_answer, ask_the_api, run_the_outbox, clean_up]
)
def test_case_C4_whoever_looks_closes_what_a_dead_process_asked(
    policy: ServerPolicy, user: User, look: Callable[[Elicitation, User], None]
) -> None:
    process = Waiting(user, "chat")
    process.begin("c1")
    processes.wait_until(Elicitation.objects.open().exists, "the question")
    process.kill()
    question = Elicitation.objects.get()
    # As long as it may live nobody closes it.
    assert inbox.get(user, question.pk).state == "pending"
    assert list(inbox.waiting(user)) == [question]
    half_a_minute_later()
    assert not inbox.waiting(user).exists()
    with signals() as told:
        look(question, user)
    assert told == [(question.pk, "withdrawn")]
    question.refresh_from_db()
    assert (question.state, question.reason) == ("withdrawn", "process_gone")
    assert (question.delivery, question.alive_until) == ("dropped", None)
    assert not StoredFormAnswer.objects.exists()


def test_case_C4_a_process_that_lives_says_so_in_one_statement(
    policy: ServerPolicy, user: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ELICITATION_ALIVE = timedelta(seconds=0.3)
    signs: list[int] = []
    keep_alive = inbox.keep_alive

    def counted(keys: Any) -> None:
        keep_alive(keys)
        signs.append(len(keys))

    monkeypatch.setattr(inbox, "keep_alive", counted)

    async def several() -> list[Any]:
        waits = [asyncio.ensure_future(answer_in_call(FORM, **names(user))) for _ in range(20)]
        while await Elicitation.objects.pending().acount() < 20:
            await asyncio.sleep(0.01)
        first = await sync_to_async(moments)()
        signs.clear()
        while len(signs) < 2:
            await asyncio.sleep(0.01)
        later = await sync_to_async(moments)()
        assert all(later[key] > first[key] for key in first)
        for question in [question async for question in Elicitation.objects.pending()]:
            await Elicitation.objects.filter(pk=question.pk).aupdate(
                alive_until=timezone.now() + timedelta(minutes=1)
            )
            await sync_to_async(answer_plan(user))(question)
        return await asyncio.gather(*waits)

    def moments() -> dict[Any, Any]:
        return dict(Elicitation.objects.values_list("pk", "alive_until"))

    assert {told["action"] for told in async_to_sync(several)()} == {"accept"}
    assert signs[:2] == [20, 20]
    assert not Elicitation.objects.exclude(alive_until=None).exists()


def test_case_C4_a_process_that_stood_still_tells_its_server_that_nobody_answered(
    policy: ServerPolicy, user: User
) -> None:
    def withdraw(question: Elicitation) -> None:
        half_a_minute_later()
        assert outbox.close_orphans() == 1

    told = async_to_sync(together)(answer_in_call(FORM, **names(user)), when_asked(withdraw))
    assert told == DECLINE
    assert Elicitation.objects.get().reason == "process_gone"


# --- C5 and C6: the policy -------------------------------------------------------------------


def test_case_C5_a_server_that_was_switched_off_gets_nothing_of_the_answer(
    policy: ServerPolicy, user: User
) -> None:
    def answer_and_switch_off(question: Elicitation) -> None:
        answer_plan(user)(question)
        ServerPolicy.objects.update(policy="none")

    told = async_to_sync(together)(
        answer_in_call(FORM, **names(user)), when_asked(answer_and_switch_off)
    )
    assert told == DECLINE
    question = Elicitation.objects.get()
    assert (question.state, question.delivery) == ("answered", "switched_off")
    assert not StoredFormAnswer.objects.exists()


def test_case_C5_nor_does_one_whose_answer_was_recorded_before(
    policy: ServerPolicy, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = inbox.recorded

    def switched_off(*args: Any) -> Any:
        ServerPolicy.objects.update(policy="none")
        return recorded(*args)

    leave_an_answer_to_the_next(user)
    monkeypatch.setattr(inbox, "recorded", switched_off)
    assert async_to_sync(answer_in_call)(FORM, **names(user, call="c1")) == DECLINE
    assert StoredFormAnswer.objects.exists()
    ServerPolicy.objects.update(policy="url_and_form")
    monkeypatch.undo()
    told = async_to_sync(answer_in_call)(FORM, **names(user, call="c1"))
    assert told == {"action": "accept", "content": {"plan": "team"}}
    assert Elicitation.objects.get().delivery == "delivered"


@pytest.mark.parametrize(
    ("params", "code", "reason"),
    [
        (
            {"message": "secret-text", "requestedSchema": {"type": "secret-text"}},
            "schema",
            'the requested schema has a type that is not "object"',
        ),
        (
            {"mode": "url", "message": "secret-text", "url": "http://secret-text.example"},
            "url",
            "it is not https",
        ),
        (
            {
                "message": "?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {"password": {"type": "string", "title": "secret-text"}},
                },
            },
            "credential",
            "asks for a credential",
        ),
    ],
)
def test_case_C6_a_refused_question_names_the_server_and_the_reason(
    policy: ServerPolicy,
    user: User,
    caplog: pytest.LogCaptureFixture,
    params: dict[str, Any],
    code: str,
    reason: str,
) -> None:
    assert async_to_sync(answer_in_call)(params, **names(user)) == DECLINE
    (record,) = [one for one in caplog.records if one.name == "elicitation"]
    assert "'shop'" in record.getMessage()
    assert f"{reason} ({code})" in record.getMessage()
    assert (record.server, record.tool) == ("shop", "buy")
    assert (record.code, record.reason) == (code, reason)
    assert "secret-text" not in str(vars(record))
