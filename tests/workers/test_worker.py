"""Calls that a worker process makes and goes on with, from the start to the outcome."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User

from elicitation import calls, inbox
from elicitation.models import Elicitation, ParkedCall
from tests.named.conftest import Serve
from tests.processes import WAIT_SECONDS, wait_until

from .conftest import StartWorker

if TYPE_CHECKING:
    from uuid import UUID

pytestmark = pytest.mark.django_db(transaction=True)


def begin(user: User, tool: str = "ask", call: str = "1") -> UUID:
    return calls.start_sync("shop", tool, scope="chat", user=user, call=call)


def answer(user: User, note: str = "blue") -> None:
    """Answer what is asked, once it is."""
    pending = Elicitation.objects.pending().filter(respondent=user)
    wait_until(pending.exists, "the question")
    asked = pending.get()
    inbox.answer(asked.pk, asked.schema.answers_from_content({"note": note}), by=user)


def ended(key: UUID) -> calls.Outcome:
    wait_until(ParkedCall.objects.ended().filter(pk=key).exists, "the outcome")
    return calls.outcome(key)


def text(outcome: calls.Outcome) -> str:
    assert outcome.result is not None, outcome
    said: str = outcome.result["content"][0]["text"]
    return said


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("way", ["http", "stdio"])
def test_a_call_is_made_and_gone_on_with(
    way: str, era: str, serve: Serve, user: User, worker: StartWorker
) -> None:
    shop = serve("shop", way, era)
    process = worker()
    key = begin(user)
    answer(user)
    outcome = ended(key)
    assert (outcome.code, text(outcome)) == ("finished", "blue")
    assert [said for _, said in shop.said] == ["blue"]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out) == (0, "elicitation_worker: stopped\n"), err


def test_a_call_that_was_started_before_the_worker(
    serve: Serve, user: User, worker: StartWorker
) -> None:
    serve("shop", "http")
    keys = [begin(user, "say", str(number)) for number in range(5)]
    # The same call, started twice.
    assert begin(user, "say", "0") == keys[0]
    worker()
    assert {ended(key).code for key in keys} == {"finished"}
