"""What is closed in other processes is heard of at once where the database can tell."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.db import connection, transaction

from elicitation import inbox
from elicitation.calls.in_call import answer_in_call
from elicitation.inbox import listening
from elicitation.inbox.listening import CHANNEL, Listener
from elicitation.models import Elicitation, ServerPolicy
from tests import asking
from tests.integration.answering import Answering
from tests.integration.test_in_call import FORM, count_polls, names, together, when_asked

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

ACCEPTED = {"action": "accept", "content": {"plan": "team"}}
HEARD = "The process listens to PostgreSQL and does not poll"
UNHEARD = "The process cannot listen to PostgreSQL; it polls instead"


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    Listener.complained = False
    caplog.set_level(logging.DEBUG, logger="elicitation")
    return caplog


@pytest.fixture
def elsewhere(policy: ServerPolicy, user: User) -> Iterator[Answering]:
    with Answering(user) as process:
        yield process


async def wait_for(user: User) -> dict[str, Any]:
    # A call whose time is up takes what was answered, heard of or not: that must not come.
    async with asyncio.timeout(60):
        return await answer_in_call(FORM, **names(user), timeout=3600)


def times_said(log: pytest.LogCaptureFixture, message: str) -> int:
    return sum(record.getMessage() == message for record in log.records)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not await sync_to_async(holds)():
            await asyncio.sleep(0.02)


if connection.vendor != "postgresql":

    @pytest.mark.slow
    def test_others_than_postgresql_are_not_listened_to(
        elsewhere: Answering, user: User, log: pytest.LogCaptureFixture
    ) -> None:
        told = async_to_sync(together)(
            wait_for(user),
            when_asked(lambda question: elsewhere.answer(question.pk)),
        )
        assert told == ACCEPTED
        assert not times_said(log, HEARD)
        # There is nothing to complain of.
        assert not times_said(log, UNHEARD)

else:

    def listening_now() -> list[int]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid FROM pg_stat_activity"
                " WHERE datname = current_database() AND query = %s",
                [f"LISTEN {CHANNEL}"],
            )
            return [pid for (pid,) in cursor.fetchall()]

    def test_500_wait_on_one_connection_and_ask_nothing(
        elsewhere: Answering,
        user: User,
        log: pytest.LogCaptureFixture,
        settings: SettingsWrapper,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        settings.ELICITATION_MAX_OPEN = 500
        polls = count_polls(monkeypatch)

        async def all_of_them() -> list[Any]:
            waits = [asyncio.ensure_future(wait_for(user)) for _ in range(500)]
            await until(lambda: Elicitation.objects.open().count() == 500)
            await until(lambda: times_said(log, HEARD))
            assert len(await sync_to_async(listening_now)()) == 1
            polls.clear()
            await asyncio.sleep(2.5)
            assert polls == []
            questions = [question.pk async for question in Elicitation.objects.open()]
            for key in questions:
                await asyncio.get_running_loop().run_in_executor(None, elsewhere.answer, key)
            told = await asyncio.gather(*waits)
            # Nobody waits any more.
            await until(lambda: not listening_now())
            return told

        assert async_to_sync(all_of_them)() == [ACCEPTED] * 500
        assert not times_said(log, UNHEARD)

    def test_what_is_closed_before_it_listens_is_looked_up_once(
        elsewhere: Answering,
        user: User,
        settings: SettingsWrapper,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        from psycopg import AsyncConnection

        settings.ELICITATION_POLL_INTERVAL = timedelta(hours=1)
        connect = AsyncConnection.connect

        async def late(*args: Any, **options: Any) -> Any:
            await when_asked(lambda question: elsewhere.answer(question.pk))
            return await connect(*args, **options)

        monkeypatch.setattr(AsyncConnection, "connect", late)
        assert async_to_sync(wait_for)(user) == ACCEPTED

    def test_a_lost_connection_is_made_again_and_answers_are_looked_up_meanwhile(
        elsewhere: Answering,
        user: User,
        log: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def lose() -> None:
            (pid,) = listening_now()
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s)", [pid])

        async def lost() -> list[Any]:
            first = asyncio.ensure_future(wait_for(user))
            second = asyncio.ensure_future(wait_for(user))
            await until(lambda: Elicitation.objects.open().count() == 2)
            await until(lambda: times_said(log, HEARD))
            await sync_to_async(lose)()
            await until(lambda: times_said(log, UNHEARD))
            one, two = [question.pk async for question in Elicitation.objects.open()]
            await sync_to_async(elsewhere.answer)(one)
            told, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
            assert [task.result() for task in told] == [ACCEPTED]
            may_listen_again.set()
            await until(lambda: times_said(log, HEARD) == 2)
            await sync_to_async(elsewhere.answer)(two)
            return await asyncio.gather(first, second)

        may_listen_again, sleep = asyncio.Event(), asyncio.sleep

        async def rest(seconds: float) -> None:
            await (may_listen_again.wait() if seconds == listening.RETRY else sleep(seconds))

        monkeypatch.setattr(listening, "RETRY", 12345.0)
        monkeypatch.setattr(asyncio, "sleep", rest)
        assert async_to_sync(lost)() == [ACCEPTED] * 2
        assert times_said(log, UNHEARD) == 1

    def test_what_others_say_on_the_channel_is_passed_over(
        elsewhere: Answering, user: User, log: pytest.LogCaptureFixture
    ) -> None:
        def say(word: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, word])

        async def all_of_them() -> dict[str, Any]:
            waits = asyncio.ensure_future(wait_for(user))
            await until(lambda: times_said(log, HEARD))
            for word in ("", "no id", str(uuid.uuid4())):
                await sync_to_async(say)(word)
            await when_asked(lambda question: elsewhere.answer(question.pk))
            return await waits

        assert async_to_sync(all_of_them)() == ACCEPTED
        assert not times_said(log, UNHEARD)

    def test_it_is_said_once_that_the_database_cannot_be_listened_to(
        elsewhere: Answering,
        user: User,
        log: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(listening, "RETRY", 0.01)
        monkeypatch.setattr(
            listening,
            "_connection_params",
            lambda: {"host": "127.0.0.1", "port": 9, "dbname": "nowhere"},
        )
        told = async_to_sync(together)(
            wait_for(user),
            when_asked(lambda question: elsewhere.answer(question.pk)),
        )
        assert told == ACCEPTED
        assert times_said(log, UNHEARD) == 1

    def test_with_psycopg_2_answers_are_looked_up(
        elsewhere: Answering,
        user: User,
        log: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("django.db.backends.postgresql.psycopg_any.is_psycopg3", False)
        told = async_to_sync(together)(
            wait_for(user),
            when_asked(lambda question: elsewhere.answer(question.pk)),
        )
        assert told == ACCEPTED
        assert not times_said(log, HEARD)

    def test_only_what_a_server_waits_for_is_told_and_only_once_it_is_committed(
        policy: ServerPolicy, user: User
    ) -> None:
        from psycopg import Connection

        def question(**changes: Any) -> Elicitation:
            return asking.ask(user, FORM["requestedSchema"], **changes)

        params = listening._connection_params()
        assert params is not None
        parked, undone, waited, withdrawn = (
            question(),
            *(question(in_call=True, call=f"call-{n}") for n in range(3)),
        )
        with Connection.connect(**params, autocommit=True) as heard:
            heard.execute(f"LISTEN {CHANNEL}")
            inbox.decline(parked.pk, by=user)
            with transaction.atomic():
                inbox.decline(undone.pk, by=user)
                transaction.set_rollback(True)
            inbox.decline(waited.pk, by=user)
            inbox.withdraw_all([withdrawn], reason=inbox.REPLACED)
            told = [notice.payload for notice in heard.notifies(timeout=30, stop_after=2)]
        assert told == [str(waited.pk), str(withdrawn.pk)]
