"""SIGTERM while calls wait: the worker ends what it can, and leaves the rest to another one."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from elicitation import calls
from elicitation.models import Elicitation, ParkedCall
from tests.named.conftest import Serve
from tests.processes import WAIT_SECONDS, wait_until

from .conftest import StartWorker
from .test_worker import answer, ended, text

if TYPE_CHECKING:
    from subprocess import Popen
    from uuid import UUID

    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def asked_by(server: str, user: User) -> UUID:
    """Start a call, and wait until it has asked."""
    key = calls.start_sync(server, "ask", scope="chat", user=user, call="1")
    pending = Elicitation.objects.pending().filter(parked_call_id=key)
    wait_until(pending.exists, "the question")
    return key


def stopping(process: Popen[str], user: User) -> UUID:
    """Stop a worker, and start one more call."""
    process.send_signal(signal.SIGTERM)
    return calls.start_sync("shop", "say", scope="chat", user=user, call="2")


def stopped(process: Popen[str]) -> None:
    out, err = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out, err) == (0, "elicitation_worker: stopped\n", "")


def test_an_answer_that_comes_in_time_is_sent(
    serve: Serve, user: User, worker: StartWorker
) -> None:
    serve("shop", "http")
    old = serve("old", "http", "legacy")
    process = worker()
    key = asked_by("old", user)
    process.send_signal(signal.SIGTERM)
    answer(user)
    assert text(ended(key)) == "blue"
    stopped(process)
    assert [said for _, said in old.said] == ["blue"]


def test_what_waits_longer(serve: Serve, user: User, worker: StartWorker) -> None:
    serve("shop", "http")
    old = serve("old", "http", "legacy")
    process = worker()
    parked, waiting = asked_by("shop", user), asked_by("old", user)
    late = stopping(process, user)
    stopped(process)
    # Nobody else can go on with a call whose connection has ended.
    assert calls.outcome(waiting).code == "lost"
    assert Elicitation.objects.get(parked_call_id=waiting).state == "withdrawn"
    assert old.said == []
    # The others are as they were: neither ended nor held.
    rows = ParkedCall.objects.parked().filter(pk__in=[parked, late])
    assert [row.lease for row in rows] == [None, None]
    worker()
    answer(user)
    assert text(ended(parked)) == "blue"
    assert text(ended(late)) == "said"
