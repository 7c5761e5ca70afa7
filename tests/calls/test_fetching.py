"""An outcome waits: told again until it is acknowledged, once, and deleted in the end."""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, connections, transaction
from django.db.models.signals import pre_delete
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from elicitation import calls
from elicitation.calls import outbox, outcomes, parking
from elicitation.calls.ended import Ended
from elicitation.inbox import audit
from elicitation.mcp.client import CallEndedError
from elicitation.models import Elicitation, ParkedCall
from elicitation.signals import call_due, call_finished
from tests import processes
from tests.ops.conftest import park

pytestmark = pytest.mark.django_db(transaction=True)

Finished = list[dict[str, Any]]

RESULT = {"content": [{"type": "text", "text": "x"}]}


def end(user: User, call: str = "call-1", **ended: Any) -> ParkedCall:
    """Park a call and let it end."""
    (asked,) = park(user, call=call)
    parking.close(asked, Ended(**{"code": "finished", "result": RESULT} | ended))
    return ParkedCall.objects.get(pk=asked.parked_call_id)


# --- Told again --------------------------------------------------------------------------------


def test_a_host_is_told_again_after_pauses_that_grow_until_it_acknowledges(
    user: User, finished: Finished
) -> None:
    row = end(user)
    assert row.ended_at is not None
    now, pauses = row.ended_at, []
    for _ in range(9):
        row.refresh_from_db()
        assert row.look_at is not None
        pauses.append(round((row.look_at - now).total_seconds() / 60))
        now = row.look_at
        assert outbox.resend_due(now=now - timedelta(seconds=1)) == (0, 0)
        assert outbox.resend_due(now=now) == (1, 0)
        assert outbox.resend_due(now=now) == (0, 0)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert len(finished) == 10
    # The same every time.
    assert all(sent == finished[0] for sent in finished)
    assert calls.acknowledge(row.pk)
    assert outbox.resend_due(now=now + timedelta(days=1)) == (0, 0)
    assert len(finished) == 10


def test_the_log_says_so(user: User, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "elicitation"):
        row = end(user)
        outbox.resend_due(now=timezone.now() + timedelta(minutes=2))
    first, again = [vars(each) for each in caplog.records if "outcome" in vars(each)]
    assert (first["levelname"], again["levelname"]) == ("INFO", "WARNING")
    for each in (first, again):
        assert (each["parked_call_id"], each["outcome"]) == (str(row.pk), "finished")
    assert again["resent"] == 1


def test_many_are_told_with_few_queries_and_none_with_one(
    user: User, finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not the demo's receiver, which reads each outcome to see whose it is.
    monkeypatch.setattr(call_finished, "receivers", call_finished.receivers[-1:])

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            outbox.resend_due(now=timezone.now() + timedelta(minutes=2), limit=100)
        return sum("elicitation_parkedcall" in query["sql"][:80] for query in captured)

    before = queries()
    end(user)
    one = queries()
    for number in range(50):
        end(user, f"more-{number}")
    assert queries() == one
    assert len(finished) == 102
    # What reads the elicitations of the outbox is there in any case.
    assert before == one - 2 - (connection.vendor == "sqlite") == 1


def test_several_copies_tell_each_once(user: User, finished: Finished) -> None:
    rows = [end(user, f"call-{number}") for number in range(40)]
    del finished[:]
    now = timezone.now() + timedelta(minutes=2)
    barrier = threading.Barrier(4)

    def work() -> None:
        try:
            barrier.wait(20)
            while any(outbox.resend_due(now=now, limit=7)):
                pass
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    told = Counter(sent["parked_call_id"] for sent in finished)
    assert told == Counter({row.pk: 1 for row in rows})


def test_calls_at_work_and_outcomes_are_told_apart(user: User, finished: Finished) -> None:
    ended = end(user, "ended")
    (asked,) = park(user, call="works")
    past = timezone.now() - timedelta(minutes=5)
    ParkedCall.objects.filter(look_at=None).update(look_at=past, working_since=past, looked=3)
    ParkedCall.objects.update(look_at=past)
    del finished[:]
    due: list[Any] = []

    def receive(**kwargs: Any) -> None:
        due.append(kwargs["parked_call_id"])

    call_due.connect(receive)
    try:
        assert outbox.resend_due() == (2, 0)
    finally:
        call_due.disconnect(receive)
    assert due == [asked.parked_call_id]
    assert [sent["parked_call_id"] for sent in finished] == [ended.pk]
    # Who resumes it counts how often it was looked after.
    assert ParkedCall.objects.get(pk=asked.parked_call_id).looked == 3


@pytest.mark.slow
def test_killed_after_it_was_stored_and_before_it_was_told(user: User, finished: Finished) -> None:
    (asked,) = park(user)
    dying = processes.start("tests.calls.dying", str(asked.parked_call_id))
    _out, err = dying.communicate(timeout=60)
    assert dying.returncode == -signal.SIGKILL, err
    assert calls.outcome(asked.parked_call_id).result == {"content": []}
    assert finished == []
    assert outbox.resend_due(now=timezone.now() + timedelta(minutes=2)) == (1, 0)
    assert [sent["parked_call_id"] for sent in finished] == [asked.parked_call_id]


# --- Read and acknowledged ---------------------------------------------------------------------


def test_there_is_none_before_the_end_and_none_of_an_unknown_call(user: User) -> None:
    (asked,) = park(user)
    for function in (calls.outcome, calls.acknowledge):
        with pytest.raises(calls.CallNotEndedError):
            function(asked.parked_call_id)
    for unknown in (asked.pk, "no uuid"):
        with pytest.raises(ParkedCall.DoesNotExist):
            calls.outcome(unknown)
    assert calls.acknowledge(asked.pk) is False


def test_an_outcome_that_was_read_is_not_mistaken_for_the_next_of_the_same_call(
    user: User,
) -> None:
    first = calls.outcome(end(user).pk)
    # Somebody else is quicker; the same call is made again, and ends again.
    assert calls.acknowledge(first.parked_call_id)
    end(user, result={"content": ["another"]})
    assert calls.acknowledge(first) is False
    second = calls.outcome(first.parked_call_id)
    assert second.result == {"content": ["another"]}
    assert calls.acknowledge(second) is True


def test_what_a_host_saves_with_it_is_saved_exactly_once(user: User) -> None:
    outcome = calls.outcome(end(user).pk)

    def save() -> None:
        with transaction.atomic():
            if calls.acknowledge(outcome):
                Group.objects.create(name="a message of the host's")

    with transaction.atomic():
        assert calls.acknowledge(outcome)
        transaction.set_rollback(True)
    # Rolled back with the host's own rows: it waits as before.
    assert calls.outcome(outcome.parked_call_id) == outcome
    save()
    save()
    assert Group.objects.count() == 1


def test_a_second_one_waits_for_the_transaction_of_the_first(user: User) -> None:
    """On SQLite it cannot begin to write before that; elsewhere the row is locked."""
    outcome = calls.outcome(end(user).pk)
    begun, got = threading.Event(), []

    def second() -> None:
        try:
            begun.set()
            got.append(calls.acknowledge(outcome))
        finally:
            connections.close_all()

    thread = threading.Thread(target=second)
    with transaction.atomic():
        assert calls.acknowledge(outcome)
        thread.start()
        assert begun.wait(20)
        thread.join(0.3)
        assert got == []
    thread.join(60)
    assert got == [False]


@pytest.mark.slow
def test_of_several_processes_each_outcome_goes_to_one(user: User) -> None:
    keys = [str(end(user, f"call-{number}").pk) for number in range(60)]
    fetchers = [processes.start("tests.calls.fetcher") for _ in range(2)]
    for fetcher in fetchers:
        assert fetcher.stdin is not None
        assert fetcher.stdout is not None
        fetcher.stdin.write(json.dumps(keys) + "\n")
        fetcher.stdin.flush()
        assert fetcher.stdout.readline() == "ready\n"
    for fetcher in fetchers:
        assert fetcher.stdin is not None
        fetcher.stdin.write("go\n")
        fetcher.stdin.flush()
    got = Counter(key for found in processes.finish(fetchers) for key in found)
    assert got == Counter(dict.fromkeys(keys, 1))
    assert not ParkedCall.objects.exists()


def test_a_receiver_of_deletes_changes_nothing(user: User) -> None:
    """Django deletes by key alone then: the lock has to come first."""
    (asked,) = park(user)

    def note(**kwargs: object) -> None:
        pass

    pre_delete.connect(note, sender=ParkedCall)
    try:
        with pytest.raises(calls.CallNotEndedError):
            calls.acknowledge(asked.parked_call_id)
        assert ParkedCall.objects.parked().exists()
        assert calls.acknowledge(end(user, "another").pk)
    finally:
        pre_delete.disconnect(note, sender=ParkedCall)


# --- Too large ---------------------------------------------------------------------------------


def test_a_result_that_is_too_large_is_not_kept_and_the_outcome_says_so(
    user: User, settings: Any
) -> None:
    size = len(json.dumps(RESULT, separators=(",", ":")))
    settings.ELICITATION_MAX_RESULT_BYTES = size
    kept = calls.outcome(end(user).pk)
    assert (kept.result, kept.result_bytes, kept.is_too_large) == (RESULT, size, False)
    settings.ELICITATION_MAX_RESULT_BYTES = size - 1
    lost = calls.outcome(end(user, "another").pk)
    # The tool has run: it is still said to have finished.
    assert (lost.code, lost.result, lost.result_bytes) == ("finished", None, size)
    assert lost.is_too_large
    error = lost.error()
    assert isinstance(error, CallEndedError)
    assert (error.outcome, error.reason) == ("finished", "too_large")


# --- Never fetched -----------------------------------------------------------------------------


def test_what_nobody_fetches_is_deleted_in_the_end_and_the_audit_says_so(
    user: User, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.ELICITATION_RESULT_TTL = timedelta(hours=1)
    earlier = end(user, "same")
    assert calls.acknowledge(earlier.pk)
    (fetched,) = Elicitation.objects.values_list("pk", flat=True)
    row, kept = end(user, "same"), end(user, "kept")
    later = timezone.now() + timedelta(minutes=61)
    ParkedCall.objects.filter(pk=kept.pk).update(outcome_expires_at=later)
    assert outbox.delete_unfetched(now=later - timedelta(minutes=2)) == 0
    with caplog.at_level(logging.WARNING, "elicitation"):
        assert outbox.delete_unfetched(now=later - timedelta(seconds=1)) == 1
    (record,) = caplog.records
    assert vars(record)["parked_call_id"] == str(row.pk)
    assert ParkedCall.objects.get() == kept
    # Not the elicitation of the same call, made before, whose outcome was acknowledged.
    said = {each["id"]: each["never_fetched"] for each in audit.records()}
    assert len(said) == 3
    assert said[str(fetched)] is False
    assert sum(bool(each) for each in said.values()) == 1


# --- Received ----------------------------------------------------------------------------------


@pytest.fixture
def received() -> Iterator[list[calls.Outcome]]:
    """The outcomes that a function of the site receives; it raises what the list begins with."""
    found: list[Any] = []

    @calls.receive_outcomes
    def receive(outcome: calls.Outcome) -> None:
        Group.objects.create(name=outcome.as_tool_result())
        if found and isinstance(found[0], Exception):
            raise found.pop(0)
        found.append(outcome)

    yield found
    uid = ("elicitation.outcomes", f"{__name__}.{receive.__qualname__}")
    assert call_finished.disconnect(dispatch_uid=uid)


def test_a_function_receives_each_outcome_once(user: User, received: list[calls.Outcome]) -> None:
    (asked,) = park(user)
    parking.close(asked, Ended(code="finished", result=RESULT))
    (outcome,) = received
    assert outcome.result == RESULT
    assert not ParkedCall.objects.exists()
    # The signal can come again, from a process that looked before.
    call_finished.send(sender=ParkedCall, parked_call_id=asked.parked_call_id, scope="")
    # Or so late that the same call was made again, and has not ended.
    assert park(user)[0].parked_call_id == asked.parked_call_id
    call_finished.send(sender=ParkedCall, parked_call_id=asked.parked_call_id, scope="")
    assert len(received) == 1
    assert Group.objects.get().name == "x"


def test_what_another_process_acknowledges_in_the_meantime_is_not_received(
    user: User, received: list[calls.Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledge = outcomes.acknowledge

    def as_the_second(ended: calls.Outcome) -> bool:
        # Both have read the outcome, and the other one was quicker.
        assert acknowledge(ended)
        return acknowledge(ended)

    monkeypatch.setattr(outcomes, "acknowledge", as_the_second)
    (asked,) = park(user)
    parking.close(asked, Ended(code="finished", result=RESULT))
    assert received == []
    assert not Group.objects.exists()


def test_a_function_that_fails_receives_the_outcome_again(user: User, received: list[Any]) -> None:
    received.append(ValueError("the disk is full"))
    row = end(user)
    assert received == []
    assert not Group.objects.exists()
    assert row.look_at is not None
    outbox.resend_due(now=row.look_at)
    (outcome,) = received
    assert outcome.parked_call_id == row.pk
    assert Group.objects.get().name == "x"


def test_a_function_receives_its_own_alone(user: User) -> None:
    found: list[str] = []

    @calls.receive_outcomes(only=lambda outcome: outcome.call == "mine")
    def receive(outcome: calls.Outcome) -> None:
        found.append(outcome.call)

    try:
        for call in ("mine", "another's"):
            (asked,) = park(user, call=call)
            parking.close(asked, Ended(code="finished", result=RESULT))
    finally:
        uid = ("elicitation.outcomes", f"{__name__}.{receive.__qualname__}")
        assert call_finished.disconnect(dispatch_uid=uid)
    assert found == ["mine"]
    assert [row.call for row in ParkedCall.objects.all()] == ["another's"]


def test_a_coroutine_function_cannot_receive() -> None:
    async def receive(outcome: calls.Outcome) -> None: ...

    with pytest.raises(TypeError, match="plain function"):
        calls.receive_outcomes(receive)


@pytest.mark.parametrize(
    ("ended", "read"),
    [
        ({"result": {"content": [{"type": "text", "text": "a"}, {"type": "image"}]}}, "a"),
        (
            {"result": {"content": [{"type": "text", "text": t} for t in ("a", "b")]}},
            "a\n\nb",
        ),
        ({"result": {"content": [], "structuredContent": {"n": 1}}}, '"structuredContent"'),
        ({"code": "cancelled", "result": None}, "cancelled"),
    ],
)
def test_what_the_agents_model_reads(ended: dict[str, Any], read: str, user: User) -> None:
    assert read in calls.outcome(end(user, **ended).pk).as_tool_result()
