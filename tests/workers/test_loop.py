"""The worker's event loop, in the process of the test."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection

from elicitation import calls
from elicitation.calls import background, worker
from elicitation.calls.in_call import waiting_calls
from elicitation.models import Elicitation, ParkedCall
from tests.named.conftest import Serve, in_a_loop, until

pytestmark = pytest.mark.django_db(transaction=True)


@in_a_loop
async def test_calls_that_wait_for_people_leave_room_for_others(serve: Serve, user: User) -> None:
    serve("shop", "http", "legacy")
    serve("other", "http")
    loop = worker.Worker(concurrency=2, patience=0.1)
    running = asyncio.create_task(loop.run())
    for number in range(6):
        await calls.start("shop", "ask", scope="chat", user=user, call=number)
    await until(lambda: len(waiting_calls()) == 6)
    key = await calls.start("other", "say", scope="chat", user=user)
    async with asyncio.timeout(30):
        while not await ParkedCall.objects.ended().filter(pk=key).aexists():
            await asyncio.sleep(0.05)
    # Its outcome is there a moment before its task has ended.
    await until(lambda: len(loop.running) == 6)
    assert len(waiting_calls()) == 6
    loop.stop()
    await running
    # What was cut off may have run.
    codes = [row.outcome async for row in ParkedCall.objects.filter(server="shop")]
    assert codes == ["lost"] * 6
    assert not await Elicitation.objects.pending().aexists()


def test_once(serve: Serve, user: User) -> None:
    serve("shop", "http")
    keys = [calls.start_sync("shop", "say", scope="chat", user=user, call=n) for n in range(3)]
    background.run(lambda: worker.Worker(concurrency=1).run(once=True))
    assert {calls.outcome(key).code for key in keys} == {"finished"}


@in_a_loop
async def test_one_call_that_fails_stops_nothing(
    serve: Serve, user: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    serve("shop", "http")
    go_on = worker.go_on
    keys = [await calls.start("shop", "say", scope="chat", user=user, call=n) for n in range(2)]

    async def fails_once(key: Any) -> None:
        if key == keys[0]:
            raise ValueError("s3cret")
        await go_on(key)

    monkeypatch.setattr(worker, "go_on", fails_once)
    await worker.Worker().run(once=True)
    assert (await calls.aoutcome(keys[1])).code == "finished"
    assert "could not go on" in caplog.text
    assert "s3cret" not in caplog.text


@in_a_loop
async def test_who_listens_does_not_look(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL nothing is asked of the database while nothing happens; elsewhere it is."""
    serve("shop", "http")
    asked: list[str] = []
    between = worker.between_requests

    async def noted(work: Any) -> Any:
        asked.append(repr(work))
        return await between(work)

    loop = worker.Worker()
    running = asyncio.create_task(loop.run())
    can_listen = connection.vendor == "postgresql"
    if can_listen:
        await until(lambda: loop.listener.hears)
    # Past the look into the outbox with which it begins.
    await asyncio.sleep(2)
    monkeypatch.setattr(worker, "between_requests", noted)
    await asyncio.sleep(2.5)
    assert (not asked) is can_listen
    loop.stop()
    await running


def test_its_options() -> None:
    with pytest.raises(CommandError, match="--concurrency"):
        call_command("elicitation_worker", "--concurrency=0")
    with pytest.raises(CommandError, match="--patience"):
        call_command("elicitation_worker", "--patience=-1")
    call_command("elicitation_worker", "--once")
