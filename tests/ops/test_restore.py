"""Case F 10: what a restored database holds is not sent a second time."""

from __future__ import annotations

from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import serializers
from django.core.management import CommandError, call_command
from django.utils import timezone

from elicitation import calls, inbox
from elicitation.calls import outcomes
from elicitation.calls.replies import RoundLostError
from elicitation.core import FormAnswer
from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer
from elicitation.signals import call_finished
from tests.asking import allow, ask
from tests.integration.conftest import Host
from tests.integration.scripted import PLAN, ScriptedServer, form, text
from tests.integration.scripted import ask as asks

from .conftest import NAME, answer, claimed, park

pytestmark = pytest.mark.django_db(transaction=True)

MODELS = (ParkedCall, Elicitation, StoredFormAnswer)


def one_round(params: Any) -> Any:
    return text("ok") if params.input_responses else asks(k=form("Which plan?", PLAN))


@pytest.fixture
def host(user: User) -> Host:
    allow()
    return Host(ScriptedServer(one_round), user)


def backup() -> str:
    return serializers.serialize("json", [row for each in MODELS for row in each.objects.all()])


def restored(copy: str) -> None:
    """Put the rows of a backup in place of those that there are."""
    for each in MODELS:
        each.objects.all().delete()
    for row in serializers.deserialize("json", copy):
        row.save()


def restore(before: datetime | None = None) -> str:
    out = StringIO()
    moment = (before or timezone.now()).isoformat()
    call_command("elicitation_restore", before=moment, stdout=out)
    return out.getvalue()


def test_case_F10_an_answer_that_was_sent_after_the_backup_is_not_sent_again(host: Host) -> None:
    pending = host.pending()
    host.answer(pending, plan="solo")
    copy = backup()
    host.resume(pending)
    restored(copy)
    assert "dropped answers 1, withdrawn requests 0, ended calls 1, dropped results 0" in restore()
    with pytest.raises(RoundLostError):
        host.resume(pending)
    assert host.server.answers == [("accept", {"plan": "solo"})]
    row = Elicitation.objects.get()
    assert (row.state, row.delivery) == ("answered", "restored")
    assert not StoredFormAnswer.objects.exists()


def test_case_F10_without_it_the_answer_is_sent_again(host: Host) -> None:
    # What the command is for: a database cannot know what happened after it was copied.
    pending = host.pending()
    host.answer(pending, plan="solo")
    copy = backup()
    host.resume(pending)
    restored(copy)
    host.resume(pending)
    assert len(host.server.answers) == 2


def test_case_F10_what_was_answered_after_the_backup_is_not_asked_again(host: Host) -> None:
    pending = host.pending()
    copy = backup()
    host.answer(pending, plan="solo")
    host.resume(pending)
    restored(copy)
    assert "withdrawn requests 1, ended calls 1" in restore()
    row = Elicitation.objects.get()
    assert (row.state, row.reason) == ("withdrawn", "restored")
    assert len(host.server.answers) == 1


def test_hosts_learn_that_the_call_is_lost_and_why(host: Host) -> None:
    received: list[dict[str, Any]] = []

    def receive(**kwargs: Any) -> None:
        received.append(kwargs)

    pending = host.pending()
    call_finished.connect(receive)
    try:
        restore()
    finally:
        call_finished.disconnect(receive)
    (told,) = received
    assert (told["code"], told["parked_call_id"]) == ("lost", pending.parked_call_id)
    assert pending.parked_call_id is not None
    outcome = outcomes.outcome(pending.parked_call_id)
    assert (outcome.code, outcome.reason) == ("lost", "restored")
    assert calls.acknowledge(outcome)


def test_a_result_that_may_have_been_fetched_is_dropped(host: Host) -> None:
    pending = host.pending()
    host.answer(pending, plan="solo")
    host.resume(pending)
    assert "dropped results 1" in restore()
    assert pending.parked_call_id is not None
    outcome = outcomes.outcome(pending.parked_call_id)
    assert (outcome.code, outcome.reason, outcome.result) == ("lost", "restored", None)
    # The delivery of the answer is known: it was in the backup.
    assert Elicitation.objects.get().delivery == "delivered"
    assert "dropped results 0" in restore()


def test_what_happened_after_that_moment_stays(host: Host) -> None:
    pending = host.pending()
    host.answer(pending, plan="solo")
    said = restore(timezone.now() - timedelta(hours=1))
    assert said.split(": ")[1].strip() == (
        "dropped answers 0, withdrawn requests 0, ended calls 0, dropped results 0"
    )
    host.resume(pending)
    assert len(host.server.answers) == 1


def test_what_waits_in_the_middle_of_a_call_is_withdrawn(user: User) -> None:
    asked = ask(user, NAME, in_call=True, alive_until=timezone.now() + timedelta(hours=1))
    assert "withdrawn requests 1, ended calls 0" in restore()
    asked.refresh_from_db()
    assert (asked.state, asked.reason) == ("withdrawn", "restored")


def test_a_call_that_a_process_is_resuming_is_left_and_said(user: User) -> None:
    (asked,) = park(user)
    answer(asked, user)
    lease = claimed(asked.parked_call_id)
    with pytest.raises(CommandError, match="is resuming: 1"):
        restore()
    lease.release()
    assert "ended calls 1" in restore()


def test_a_moment_in_the_future_and_one_that_is_none_are_refused(user: User) -> None:
    ask(user, NAME)
    with pytest.raises(CommandError, match="future"):
        restore(timezone.now() + timedelta(days=1))
    with pytest.raises(CommandError, match="--before takes an ISO date"):
        call_command("elicitation_restore", before="yesterday")
    assert Elicitation.objects.pending().exists()
    inbox.answer(Elicitation.objects.get().pk, {"name": FormAnswer(other_text="Ada")}, by=user)
