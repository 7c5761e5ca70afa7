"""Who may send for a call, when a process stands still and when clocks differ (cases B)."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.utils import timezone
from mcp.types import CallToolResult

from elicitation import calls, inbox
from elicitation.calls import outbox, parking
from elicitation.core import ElicitationPending
from elicitation.mcp.client import CallInProgressError, resume
from elicitation.models import ParkedCall
from elicitation.signals import call_finished
from tests import processes
from tests.wire.conftest import ANSWER, Host, check_over, delivery, stored
from tests.wire.server import held, result, wait_for

#: Seconds of the lease of the process that stands still.
LEASE = 1.0

ACCEPT = ("accept", {"plan": ANSWER})
DECLINE = ("decline", None)


class Stopped:
    """Process A: it has taken the answer, or received the result, and stands still."""

    def __init__(
        self, host: Host, pending: ElicitationPending, lease: float = LEASE, where: str = "send"
    ) -> None:
        key = str(pending.parked_call_id)
        self.process = processes.start(
            "tests.wire.resumer", host.server.url, key, str(lease), where
        )
        self.wait_until_stopped()

    def wait_until_stopped(self) -> None:
        deadline = time.monotonic() + processes.WAIT_SECONDS
        while True:
            pid, status = os.waitpid(self.process.pid, os.WUNTRACED | os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                return
            assert not pid, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def go_on(self) -> str:
        """Let it go on, and return how it ended."""
        os.kill(self.process.pid, signal.SIGCONT)
        (said,) = processes.finish([self.process])
        return str(said)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def stopped(
    host: Host, pending: ElicitationPending, lease: float = LEASE, where: str = "send"
) -> Iterator[Stopped]:
    process = Stopped(host, pending, lease, where)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.kill()


def resume_once_free(host: Host, pending: ElicitationPending) -> Any:
    """Resume as process B, as soon as the lease of the other has run out."""
    deadline = time.monotonic() + processes.WAIT_SECONDS
    while isinstance(got := host.resume(pending), CallInProgressError):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return got


def decline(host: Host, pending: ElicitationPending) -> None:
    inbox.decline(pending.elicitation_ids[0], by=host.user)


def test_case_B1_what_the_person_said_last_is_what_the_tool_gets(host: Host) -> None:
    pending = host.answered()
    with stopped(host, pending) as a:
        assert stored() == []
        again = resume_once_free(host, pending)
        assert isinstance(again, ElicitationPending)
        assert delivery(pending) == "round_lost"
        decline(host, again)
        assert isinstance(host.resume(again), CallToolResult)
        assert a.go_on() in ("call_in_progress", "gone")
    assert host.server.sent == [DECLINE]
    check_over(again, said="delivered")


def test_case_B1_also_where_the_person_has_not_said_it_yet(host: Host) -> None:
    pending = host.answered()
    with stopped(host, pending) as a:
        again = resume_once_free(host, pending)
        assert isinstance(again, ElicitationPending)
        assert a.go_on() == "call_in_progress"
    assert host.server.sent == []
    # What A had taken is not put back behind the back of B, which has asked anew.
    assert stored() == []
    decline(host, again)
    assert isinstance(host.resume(again), CallToolResult)
    assert host.server.sent == [DECLINE]


def test_case_B1_one_that_stood_still_for_less_than_its_lease_sends(host: Host) -> None:
    pending = host.answered()
    with stopped(host, pending, lease=60) as a:
        assert isinstance(host.resume(pending), CallInProgressError)
        assert a.go_on() == "result"
    assert host.server.sent == [ACCEPT]
    check_over(pending, said="delivered")


def test_case_B1_one_whose_call_nobody_took_meanwhile_renews_its_lease(host: Host) -> None:
    pending = host.answered()
    with stopped(host, pending) as a:
        row = ParkedCall.objects.filter(pk=str(pending.parked_call_id))
        processes.wait_until(lambda: row.unleased().exists(), "the end of the lease")
        assert a.go_on() == "result"
    assert host.server.sent == [ACCEPT]
    check_over(pending, said="delivered")


def test_case_B1_one_that_is_killed_there_leaves_a_call_that_goes_on(host: Host) -> None:
    pending = host.answered()
    with stopped(host, pending) as a:
        a.kill()
    again = resume_once_free(host, pending)
    assert isinstance(again, ElicitationPending)
    assert delivery(pending) == "round_lost"
    host.answer(again)
    assert isinstance(host.resume(again), CallToolResult)
    assert host.server.sent == [ACCEPT]


# --- Clocks ----------------------------------------------------------------------------------

AHEAD = [timedelta(minutes=1), timedelta(days=1), -timedelta(minutes=1), -timedelta(days=1)]


@contextmanager
def clock(differs: timedelta) -> Iterator[None]:
    """Let this process's clock differ; that of the database does not."""
    now = timezone.now

    def differing() -> datetime:
        return now() + differs

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(timezone, "now", differing)
        yield


@pytest.mark.parametrize("differs", AHEAD, ids=str)
def test_case_B2_no_clock_takes_a_live_call_over(differs: timedelta, host: Host) -> None:
    server = host.server
    pending = host.answered()
    key = pending.parked_call_id
    assert key is not None
    go = threading.Event()
    server.retry = held(go, result())

    def look_after() -> None:
        outbox.resend_due(now=timezone.now())
        outbox.close_abandoned(timezone.now())

    async def run() -> Any:
        async with host.connected() as client, host.connected() as other:
            a = asyncio.ensure_future(resume(client.session, key, server="shop"))
            await asyncio.to_thread(wait_for, lambda: server.retries)
            with clock(differs):
                with pytest.raises(CallInProgressError):
                    await resume(other.session, key, server="shop")
                await sync_to_async(look_after)()
            go.set()
            return await a

    assert isinstance(async_to_sync(run)(), CallToolResult)
    assert server.sent == [ACCEPT]
    assert server.ran == 1
    check_over(pending, said="delivered")


@pytest.mark.parametrize("differs", AHEAD, ids=str)
def test_case_B3_a_lease_ends_by_the_clock_of_the_database(
    differs: timedelta, host: Host, settings: Any
) -> None:
    settings.ELICITATION_RESUME_LEASE = timedelta(seconds=0.5)
    pending = host.answered()
    assert pending.parked_call_id is not None
    with clock(differs):
        # A has the lease, and is killed.
        parking.resume(pending.parked_call_id, server="shop", is_modern=True)
    assert ParkedCall.objects.get().lease is not None
    again = resume_once_free(host, pending)
    if isinstance(again, ElicitationPending):
        # A had taken the answer; by a clock that is a day ahead it had expired, and stayed.
        assert differs < timedelta(days=1)
        host.answer(again)
        again = host.resume(again)
    assert isinstance(again, CallToolResult)
    assert host.server.sent == [ACCEPT]
    assert not ParkedCall.objects.parked().exists()


# --- Case A10: a worker that dies with the result ----------------------------------------------


def test_case_A10_the_result_of_a_worker_that_was_killed_is_told_again(host: Host) -> None:
    pending = host.answered()
    with stopped(host, pending, where="result") as worker:
        worker.kill()
    told: list[tuple[Any, str]] = []

    def fetch(parked_call_id: Any, code: str, **kwargs: Any) -> None:
        told.append((parked_call_id, code))

    call_finished.connect(fetch)
    try:
        outbox.resend_due(now=timezone.now() + timedelta(minutes=2))
    finally:
        call_finished.disconnect(fetch)
    assert told == [(pending.parked_call_id, "finished")]
    assert pending.parked_call_id is not None
    outcome = calls.outcome(pending.parked_call_id)
    assert outcome.result is not None
    assert outcome.result["content"][0]["text"] == "done"
    assert host.server.ran == 1
