"""What ``elicitation_cleanup`` does, and what it leaves alone."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.signals import pre_delete
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from elicitation import store
from elicitation.calls import outbox, parking, refusals
from elicitation.calls.ended import Code, Ended
from elicitation.calls.lease import Lease
from elicitation.core import ElicitationRefusal
from elicitation.models import Elicitation, ParkedCall, Refusal, ServerPolicy, StoredFormAnswer
from tests.asking import ask

from .conftest import ANSWER, NAME, age, answer, claimed, park

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

DAY = 86_400


def run(**options: Any) -> str:
    out = StringIO()
    call_command("elicitation_cleanup", stdout=out, **options)
    return out.getvalue()


def line(
    expired: int = 0,
    answers: int = 0,
    calls: int = 0,
    outcomes: int = 0,
    addresses: int = 0,
    old: int = 0,
    refusals: int = 0,
) -> str:
    return (
        f"expired elicitations {expired}, deleted answers {answers}, closed calls {calls}, "
        f"deleted outcomes {outcomes}, removed URLs {addresses}, deleted old elicitations {old}, "
        f"deleted refusals {refusals}\n"
    )


@pytest.fixture
def everything(user: User) -> dict[str, Elicitation]:
    """One of each that is due, and one of each that is not."""
    made: dict[str, Elicitation] = {}
    for call in ("due", "waits", "unused", "answered", "abandoned", "old"):
        (made[call],) = park(user, call=call)
    age(made["due"], expires_at=1)
    for call in ("unused", "answered", "abandoned", "old"):
        answer(made[call], user)
    past = timezone.now() - timedelta(seconds=1)
    StoredFormAnswer.objects.filter(elicitation_id=made["unused"].pk).update(expires_at=past)
    age(made["abandoned"], closed_at=8 * DAY)
    parking.close(
        made["old"],
        Ended(code=Code.FINISHED),
        carried=parking.Carried(deliveries={made["old"].pk: "delivered"}),
    )
    age(made["old"], closed_at=91 * DAY)
    month = timezone.now() - timedelta(days=8)
    ParkedCall.objects.filter(pk=made["abandoned"].parked_call_id).update(received_at=month)
    return made


def test_it_does_what_is_due_and_says_so_in_one_line(
    everything: dict[str, Elicitation], sent: list[dict[str, Any]]
) -> None:
    expected = line(expired=1, answers=1, calls=1, old=1)
    assert run(dry_run=True) == f"elicitation_cleanup (dry run): {expected}"
    assert run(dry_run=True) == f"elicitation_cleanup (dry run): {expected}"
    assert sent == []
    assert run() == f"elicitation_cleanup: {expected}"
    assert run() == f"elicitation_cleanup: {line()}"
    rows = {
        call: Elicitation.objects.filter(pk=one.pk).first() for call, one in everything.items()
    }
    assert rows["old"] is None
    left = {call: (row.state, row.delivery, row.closed_via) for call, row in rows.items() if row}
    assert left == {
        "due": ("expired", "", "command"),
        "waits": ("pending", "", ""),
        # Still in the outbox: a call that is resumed now asks again.
        "unused": ("answered", "never_resumed", "page"),
        "answered": ("answered", "", "page"),
        "abandoned": ("answered", "dropped", "page"),
    }
    assert rows["unused"] is not None
    assert rows["unused"].delivered_at is None
    assert [signal["elicitation_id"] for signal in sent] == [everything["due"].pk]
    answers = set(StoredFormAnswer.objects.values_list("elicitation_id", flat=True))
    assert answers == {everything["due"].pk, everything["answered"].pk}
    calls = set(ParkedCall.objects.parked().values_list("call", flat=True))
    assert calls == {"due", "waits", "unused", "answered"}
    # The host is told that nobody went on with it.
    ended = ParkedCall.objects.ended().get(call="abandoned")
    assert (ended.outcome, ended.outcome_reason) == ("given_up", "never_resumed")


def test_batches_are_as_large_as_was_said(user: User) -> None:
    for number in range(5):
        (asked,) = park(user, call=f"call-{number}")
        age(asked, expires_at=1)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert run(batch_size=2) == f"elicitation_cleanup: {line(expired=5)}"
    assert sum("LIMIT 2" in query["sql"] for query in captured.captured_queries) >= 3
    StoredFormAnswer.objects.update(expires_at=timezone.now())
    Elicitation.objects.update(closed_at=timezone.now() - timedelta(days=91))
    ParkedCall.objects.update(received_at=timezone.now() - timedelta(days=91))
    assert run(batch_size=2) == f"elicitation_cleanup: {line(answers=5, calls=5, old=5)}"
    with pytest.raises(CommandError, match="at least 1"):
        run(batch_size=0)


def test_the_settings_say_how_long_rows_stay(
    everything: dict[str, Elicitation], settings: SettingsWrapper
) -> None:
    settings.ELICITATION_RETENTION_DAYS = None
    settings.ELICITATION_ABANDON_AFTER = timedelta(days=9)
    assert run() == f"elicitation_cleanup: {line(expired=1, answers=1)}"
    settings.ELICITATION_RETENTION_DAYS = 91
    settings.ELICITATION_ABANDON_AFTER = timedelta(days=7)
    assert run() == f"elicitation_cleanup: {line(calls=1, old=1)}"


def test_a_call_whose_answer_was_deleted_is_resumed_by_asking_again(
    everything: dict[str, Elicitation], user: User
) -> None:
    run()
    (again,) = park(user, call="unused", resumed=True)
    before = Elicitation.objects.get(pk=everything["unused"].pk)
    assert again.pk != before.pk
    # Not "round lost": nothing of it was sent.
    assert before.delivery == "never_resumed"
    assert before.delivered_at is not None


def test_an_answer_recorded_meanwhile_stays(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    (asked,) = park(user)
    answer(asked, user)
    StoredFormAnswer.objects.update(expires_at=timezone.now())
    real = store.delete_expired

    def delete(*args: Any) -> Any:
        # Between the look and the delete the person is asked again, and answers.
        later = timezone.now() + timedelta(minutes=30)
        StoredFormAnswer.objects.update(expires_at=later)
        return real(*args)

    monkeypatch.setattr(store, "delete_expired", delete)
    assert outbox.delete_expired() == 0
    assert StoredFormAnswer.objects.count() == 1
    assert Elicitation.objects.get().delivery == ""


def test_an_answer_without_a_question_is_deleted_too(user: User) -> None:
    (asked,) = park(user)
    answer(asked, user)
    StoredFormAnswer.objects.update(expires_at=timezone.now(), elicitation_id=None)
    assert outbox.delete_expired() == 1
    assert Elicitation.objects.get().delivery == ""


@pytest.fixture
def watched() -> Iterator[list[StoredFormAnswer]]:
    deleted: list[StoredFormAnswer] = []

    def note(instance: StoredFormAnswer, **kwargs: object) -> None:
        deleted.append(instance)

    pre_delete.connect(note, sender=StoredFormAnswer)
    yield deleted
    pre_delete.disconnect(note, sender=StoredFormAnswer)


def test_receivers_of_deletes_change_nothing(
    everything: dict[str, Elicitation], watched: list[StoredFormAnswer]
) -> None:
    assert run() == f"elicitation_cleanup: {line(expired=1, answers=1, calls=1, old=1)}"
    assert {row.elicitation_id for row in watched} == {
        everything["unused"].pk,
        everything["abandoned"].pk,
    }


def test_a_call_that_is_being_resumed_is_not_closed(everything: dict[str, Elicitation]) -> None:
    claimed(everything["abandoned"].parked_call_id)
    assert "closed calls 0" in run()


def test_a_call_that_another_process_takes_first_is_left_to_it(
    everything: dict[str, Elicitation], monkeypatch: pytest.MonkeyPatch
) -> None:
    since = timezone.now() - timedelta(days=7)

    with monkeypatch.context() as patched:
        patched.setattr(Lease, "claim", lambda self: False)
        assert outbox.close_abandoned(since) == 0
    real = Lease.claim

    def claim_and_ask(lease: Lease) -> bool:
        # The host has gone on with it meanwhile: it waits in a new round.
        ParkedCall.objects.filter(pk=lease.parked_call_id).update(received_at=timezone.now())
        return real(lease)

    with monkeypatch.context() as patched:
        patched.setattr(Lease, "claim", claim_and_ask)
        assert outbox.close_abandoned(since) == 0
    row = ParkedCall.objects.get(pk=everything["abandoned"].parked_call_id)
    assert row.lease is None


def test_a_question_that_cannot_be_read_any_more_expires_like_any_other(user: User) -> None:
    (broken,) = park(user)
    age(broken, expires_at=60)
    # A later version of this app may refuse what was fine when it was asked.
    Elicitation.objects.update(requested_schema='{"type": "array"}')
    with pytest.raises(ElicitationRefusal):
        assert Elicitation.objects.get(pk=broken.pk).schema
    assert run() == f"elicitation_cleanup: {line(expired=1)}"


def test_no_log_record_has_an_answer(
    everything: dict[str, Elicitation], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "elicitation"):
        run()
        outbox.resend_due(now=timezone.now() + timedelta(hours=1))
    assert len(caplog.records) > 3
    assert ANSWER not in str([vars(record) for record in caplog.records])


def test_a_server_keeps_its_records_as_long_as_its_policy_says(
    user: User, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_SERVERS = {"short": {"command": "short", "retention_days": 1}}
    ServerPolicy.objects.create(server="long", retention_days=200)
    old = timezone.now() - timedelta(days=100)
    for server in ("short", "long", "shop"):
        for closed in (old, timezone.now() - timedelta(days=2)):
            ask(user, NAME, server=server, state="expired", closed_at=closed)
        refusals.count(server, "schema", "why")
        refusals.count(server, "url", "why")
    Refusal.objects.filter(code="schema").update(last_at=old)
    Refusal.objects.filter(code="url").update(last_at=timezone.now() - timedelta(days=2))
    assert "deleted old elicitations 3, deleted refusals 3" in run(dry_run=True)
    assert "deleted old elicitations 3, deleted refusals 3" in run()
    kept = {"long": 2, "shop": 1}
    for rows in (Elicitation.objects, Refusal.objects):
        assert Counter(rows.values_list("server", flat=True)) == kept
    # Without end for the others, it still holds for the one.
    settings.ELICITATION_RETENTION_DAYS = None
    ask(user, NAME, server="short", state="expired", closed_at=old)
    assert "deleted old elicitations 1, deleted refusals 0" in run()
