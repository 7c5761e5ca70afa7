"""A closed question that nobody picked up is its own outbox."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connections
from django.utils import timezone

from elicitation import inbox
from elicitation.calls import outbox, parking
from elicitation.calls.ended import Code, Ended
from elicitation.management.commands import elicitation_resume
from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer
from elicitation.signals import elicitation_closed

from .conftest import ANSWER, age, answer, claimed, park

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

Lost = Callable[..., Elicitation]
Sent = list[dict[str, Any]]


def run(**options: Any) -> str:
    out = StringIO()
    call_command("elicitation_resume", stdout=out, **options)
    return out.getvalue()


def test_a_host_is_told_again_after_a_minute(user: User, sent: Sent) -> None:
    (asked,) = park(user)
    answer(asked, user)
    del sent[:]
    now = timezone.now()
    assert outbox.resend_due(now=now + timedelta(seconds=55)) == (0, 0)
    assert outbox.resend_due(now=now + timedelta(seconds=65)) == (1, 0)
    (carried,) = sent
    del carried["signal"]
    assert carried == {
        "sender": Elicitation,
        "elicitation_id": asked.pk,
        "parked_call_id": asked.parked_call_id,
        "scope": "chat-1",
        "call": "call-1",
        "server": "shop",
        "tool": "buy",
        "state": "answered",
    }


@pytest.mark.parametrize("how", ["declined", "withdrawn", "expired"])
def test_so_it_is_however_the_question_was_closed(user: User, sent: Sent, how: str) -> None:
    (asked,) = park(user)
    if how == "declined":
        inbox.decline(asked.pk, by=user)
    elif how == "withdrawn":
        inbox.withdraw(asked.pk)
    else:
        age(asked, expires_at=1)
        inbox.expire_due()
    age(asked, resume_at=1)
    del sent[:]
    assert outbox.resend_due().sent == 1
    assert sent[0]["state"] == how


def test_the_pause_grows_to_an_hour_and_then_it_is_given_up(lost: Lost, sent: Sent) -> None:
    question = lost()
    del sent[:]
    now = timezone.now()
    pauses = []
    for _ in range(10):
        assert outbox.resend_due(now=now) == (1, 0)
        assert outbox.resend_due(now=now) == (0, 0)
        question.refresh_from_db()
        assert question.resume_at is not None
        pauses.append(round((question.resume_at - now).total_seconds() / 60))
        now = question.resume_at
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    assert outbox.resend_due(now=now) == (0, 1)
    question.refresh_from_db()
    assert (question.delivery, question.resume_at) == ("never_resumed", None)
    assert outbox.resend_due(now=now + timedelta(days=1)) == (0, 0)
    assert len(sent) == 10


def test_the_settings_say_when_and_how_often(
    user: User, sent: Sent, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_RESUME_AFTER = timedelta(seconds=10)
    settings.ELICITATION_RESUME_ATTEMPTS = 1
    (asked,) = park(user)
    answer(asked, user)
    now = timezone.now()
    assert outbox.resend_due(now=now + timedelta(seconds=11)) == (1, 0)
    assert outbox.resend_due(now=now + timedelta(seconds=30)) == (0, 0)
    assert outbox.resend_due(now=now + timedelta(seconds=32)) == (0, 1)


def test_a_call_that_still_asks_something_else_is_not_due(user: User, sent: Sent) -> None:
    first, second = park(user, "Who?", "Where?")
    answer(first, user)
    age(first, resume_at=1)
    assert outbox.resend_due() == (0, 0)
    answer(second, user, "there")
    age(second, resume_at=1)
    del sent[:]
    # One call to go on with is one signal.
    assert outbox.resend_due() == (1, 0)
    assert len(sent) == 1
    assert outbox.resend_due() == (0, 0)


def test_a_call_whose_other_question_has_run_out_is_due(user: User, sent: Sent) -> None:
    first, second = park(user, "Who?", "Where?")
    answer(first, user)
    age(first, resume_at=1)
    # Its row does not say so yet: nothing has looked at it.
    age(second, expires_at=1)
    assert outbox.resend_due().sent == 1


def test_a_call_that_is_being_resumed_is_left_alone(lost: Lost) -> None:
    question = lost()
    claimed(question.parked_call_id)
    assert outbox.resend_due() == (0, 0)
    # The process that resumed it has died: its lease runs out.
    ParkedCall.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    assert outbox.resend_due().sent == 1


def test_a_call_that_went_on_is_left_alone(lost: Lost, user: User) -> None:
    question = lost()
    (asked,) = park(user, "And?", resumed=True, round=2)
    assert asked.pk != question.pk
    question.refresh_from_db()
    assert question.resume_at is None
    assert outbox.resend_due() == (0, 0)


def test_a_call_whose_row_is_gone_is_given_up_at_once(
    lost: Lost, sent: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    question = lost()
    ParkedCall.objects.all().delete()
    del sent[:]
    with caplog.at_level(logging.INFO, "elicitation"):
        assert outbox.resend_due() == (0, 1)
    question.refresh_from_db()
    assert (question.delivery, sent) == ("never_resumed", [])
    (record,) = caplog.records
    assert vars(record)["elicitation_id"] == str(question.pk)
    assert ANSWER not in str([vars(record) for record in caplog.records])


def test_a_call_that_was_given_up_can_still_be_resumed(lost: Lost, user: User) -> None:
    question = lost()
    Elicitation.objects.update(resent=10)
    assert outbox.resend_due().given_up == 1
    # The host takes it up after all: the answer is still there, and is sent.
    assert StoredFormAnswer.objects.all().delete()[0] == 1
    parking.close(
        question,
        Ended(code=Code.FINISHED),
        carried=parking.Carried(deliveries={question.pk: "delivered"}),
    )
    question.refresh_from_db()
    assert question.delivery == "delivered"


def test_a_receiver_that_fails_does_not_stop_the_others(lost: Lost, sent: Sent) -> None:
    lost("call-1")
    lost("call-2")
    del sent[:]

    def fail(**kwargs: object) -> None:
        raise RuntimeError

    elicitation_closed.connect(fail)
    try:
        assert outbox.resend_due().sent == 2
    finally:
        elicitation_closed.disconnect(fail)
    assert len(sent) == 2


def test_several_copies_send_each_once(lost: Lost, sent: Sent) -> None:
    questions = [lost(f"call-{number}") for number in range(40)]
    del sent[:]
    barrier = threading.Barrier(4)

    def work() -> None:
        try:
            barrier.wait(20)
            while any(outbox.resend_due(limit=7)):
                pass
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    told = Counter(carried["elicitation_id"] for carried in sent)
    assert told == Counter({question.pk: 1 for question in questions})


def test_the_log_says_what_was_sent_again_without_its_content(
    lost: Lost, caplog: pytest.LogCaptureFixture
) -> None:
    question = lost()
    with caplog.at_level(logging.INFO, "elicitation"):
        outbox.resend_due()
    record = vars(caplog.records[-1])
    assert record["parked_call_id"] == str(question.parked_call_id)
    assert (record["server"], record["tool"], record["state"]) == ("shop", "buy", "answered")
    assert (record["resent"], record["duration"] >= 0) == (1, True)
    assert ANSWER not in str([vars(each) for each in caplog.records])


# --- The command -----------------------------------------------------------------------------


def test_the_command_says_in_one_line_what_it_did(lost: Lost, sent: Sent) -> None:
    for number in range(5):
        lost(f"call-{number}")
    del sent[:]
    assert run(batch_size=2) == "elicitation_resume: sent again 5, given up 0\n"
    assert run() == "elicitation_resume: sent again 0, given up 0\n"
    assert len(sent) == 5


class Stop(threading.Event):
    """Stops the loop after so many pauses, and notes how long they were to be."""

    pauses: list[float]

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0)
        if len(self.pauses) == 3:
            self.set()
        return self.is_set()


def test_the_loop_goes_on_until_it_is_stopped(
    lost: Lost, sent: Sent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lost()
    del sent[:]
    real, calls = outbox.resend_due, []

    def resend_due(**options: Any) -> outbox.Resent:
        calls.append(options)
        if len(calls) == 1:
            raise DatabaseError("the server went away")
        return real(**options)

    monkeypatch.setattr(outbox, "resend_due", resend_due)
    monkeypatch.setattr(elicitation_resume, "Event", Stop)
    monkeypatch.setattr(Stop, "pauses", [], raising=False)
    # Elsewhere than in the main thread there are no signals to handle.
    result: list[str] = []

    def work() -> None:
        try:
            result.append(run(loop=True, interval=0.5))
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    with caplog.at_level(logging.WARNING, "elicitation"):
        thread.start()
        thread.join(30)
    assert result == ["elicitation_resume: sent again 1, given up 0\n"]
    assert Stop.pauses == [0.5] * 3
    assert len(sent) == 1
    assert vars(caplog.records[0])["error"] == "DatabaseError"


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"interval": 0.0}, {"interval": -1.0}])
def test_options_with_which_it_would_do_nothing_or_nothing_else(options: dict[str, Any]) -> None:
    with pytest.raises(CommandError, match="must be"):
        run(**options)


def test_it_stops_at_a_signal_after_what_it_is_at(lost: Lost, sent: Sent) -> None:
    for number in range(3):
        lost(f"call-{number}")
    del sent[:]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def stop(**kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    elicitation_closed.connect(stop)
    try:
        assert run(loop=True, batch_size=1) == "elicitation_resume: sent again 1, given up 0\n"
    finally:
        elicitation_closed.disconnect(stop)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert len(sent) == 1
