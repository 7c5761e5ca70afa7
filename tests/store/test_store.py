"""Recording and taking answers, on whatever database the tests run on."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError, OperationalError, connection, connections, transaction
from django.db.models.signals import pre_delete
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from elicitation import transactions
from elicitation.core import Accept, AnswerRefusal, Ask, Decline, StoredFormAnswers
from elicitation.models import InvalidNameError, StoredFormAnswer
from elicitation.store import DatabaseFormAnswerStore
from elicitation.transactions import OuterTransactionError, in_transaction
from tests.store.conftest import elicitation, plan

pytestmark = pytest.mark.django_db(transaction=True)


def statements(captured: CaptureQueriesContext) -> list[str]:
    """The statements, each by its first words; what a driver says of transactions left out."""
    found = []
    for query in captured.captured_queries:
        sql = query["sql"].upper()
        if sql.startswith(("BEGIN", "COMMIT", "SET ", "SAVEPOINT", "RELEASE")):
            continue
        found.append("SELECT FOR UPDATE" if sql.endswith("FOR UPDATE") else sql.split()[0])
    return found


def test_a_take_costs_a_peek_a_lock_and_a_counted_delete(store: DatabaseFormAnswerStore) -> None:
    store.record_form_answer(elicitation(), "accept", plan("team"))
    with CaptureQueriesContext(connection) as captured:
        assert store.take_form_answer(elicitation()) is not None
    expected = {
        # It has no row locks; the no-op update takes its write lock at once.
        "sqlite": ["SELECT", "UPDATE", "SELECT", "DELETE"],
        "postgresql": ["SELECT", "SELECT FOR UPDATE", "DELETE"],
        "mysql": ["SELECT", "SELECT FOR UPDATE", "DELETE"],
    }
    assert statements(captured) == expected[connection.vendor]


def test_a_miss_costs_the_peek_alone(
    store: DatabaseFormAnswerStore, django_assert_num_queries: Callable[[int], Any]
) -> None:
    with django_assert_num_queries(1):
        assert store.take_form_answer(elicitation()) is None


def test_an_answer_is_taken_once(store: DatabaseFormAnswerStore) -> None:
    store.record_form_answer(elicitation(), "accept", plan("team"))
    taken = store.take_form_answer(elicitation())
    assert taken is not None
    assert (taken.action, taken.answers) == ("accept", plan("team"))
    assert store.take_form_answer(elicitation()) is None


def test_a_newer_answer_takes_the_place_of_the_older(store: DatabaseFormAnswerStore) -> None:
    store.record_form_answer(elicitation(), "accept", plan("team"))
    store.record_form_answer(elicitation(), "accept", plan("solo"))
    assert StoredFormAnswer.objects.count() == 1
    taken = store.take_form_answer(elicitation())
    assert taken is not None
    assert taken.answers == plan("solo")


def test_several_are_taken_together_or_not_at_all(store: DatabaseFormAnswerStore) -> None:
    asked = [elicitation("One?"), elicitation("Two?"), elicitation("One?")]
    store.record_form_answer(asked[0], "accept", plan("team"))
    store.record_form_answer(asked[2], "accept", plan("solo"), number=1)
    assert store.take_form_answers(asked) is None
    assert StoredFormAnswer.objects.count() == 2
    store.record_form_answer(asked[1], "decline", {})
    taken = store.take_form_answers(asked)
    assert taken is not None
    assert [row.action for row in taken] == ["accept", "decline", "accept"]
    assert [row.answers for row in taken] == [plan("team"), {}, plan("solo")]
    assert not StoredFormAnswer.objects.exists()


def test_nothing_asked_takes_nothing(
    store: DatabaseFormAnswerStore, django_assert_num_queries: Callable[[int], Any]
) -> None:
    with django_assert_num_queries(0):
        assert store.take_form_answers([]) == []


def test_an_expired_answer_is_not_taken_and_stays(
    store: DatabaseFormAnswerStore, settings: Any
) -> None:
    settings.ELICITATION_ANSWER_TTL = timedelta(minutes=1)
    row = store.record_form_answer(elicitation(), "accept", plan("team"))
    assert row.expires_at - row.recorded_at == timedelta(minutes=1)
    StoredFormAnswer.objects.update(expires_at=timezone.now())
    assert store.take_form_answer(elicitation()) is None
    assert StoredFormAnswer.objects.expired().count() == 1


def test_a_strangers_answer_is_neither_taken_nor_burnt(user: Any, other_user: Any) -> None:
    names = {"scope": "s", "call": "c"}
    hers = DatabaseFormAnswerStore(**names, respondent_id=user.pk)
    his = DatabaseFormAnswerStore(**names, respondent_id=other_user.pk)
    hers.record_form_answer(elicitation(), "accept", plan("team"))
    assert his.take_form_answer(elicitation()) is None
    assert hers.take_form_answer(elicitation()) is not None


def test_an_answer_that_no_longer_fits_is_left_and_not_logged(
    store: DatabaseFormAnswerStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.record_form_answer(elicitation(), "accept", plan("team"))
    StoredFormAnswer.objects.update(answers_json='{"plan": {"selected": ["canary"]}}')
    with caplog.at_level(logging.DEBUG, "elicitation"):
        assert store.take_form_answer(elicitation()) is None
    assert "no longer fits" in caplog.text
    assert "canary" not in str([vars(record) for record in caplog.records])


def test_an_answer_that_does_not_fit_is_not_recorded(store: DatabaseFormAnswerStore) -> None:
    with pytest.raises(AnswerRefusal):
        store.record_form_answer(elicitation(), "accept", plan("never offered"))
    assert not StoredFormAnswer.objects.exists()


# --- Names that databases call equal ---------------------------------------------------------

LOOKALIKES = [
    "Billing",
    "billing",
    "Billing ",
    " Billing",
    "B\u00edlling",
    "Bi\u0301lling",
    "Billing/x",
    "Billing_x",
    "Billing\u200b",
    "\uff22illing",
    "ﬁ",
    "fi",
    "ß",
    "ss",
    "😀",
    "😁",
]


@pytest.mark.parametrize("part", ["scope", "call", "server", "tool", "message"])
def test_names_that_only_look_the_same_never_meet(part: str) -> None:
    def at(name: str) -> tuple[DatabaseFormAnswerStore, Any]:
        names = {"scope": "s", "call": "c", "server": "v", "tool": "t", "message": "m"}
        names[part] = name
        place = DatabaseFormAnswerStore(scope=names["scope"], call=names["call"])
        return place, elicitation(names["message"], server=names["server"], tool=names["tool"])

    for name in LOOKALIKES:
        store, asked = at(name)
        store.record_form_answer(asked, "accept", plan("team"))
        for other in LOOKALIKES:
            if other != name:
                store, asked = at(other)
                assert store.take_form_answer(asked) is None, (name, other)
        store, asked = at(name)
        assert store.take_form_answer(asked) is not None


def test_parts_do_not_run_together() -> None:
    store = DatabaseFormAnswerStore(scope="ab", call="c")
    store.record_form_answer(elicitation(), "accept", plan("team"))
    assert DatabaseFormAnswerStore(scope="a", call="bc").take_form_answer(elicitation()) is None


@pytest.mark.parametrize("name", ["", "  ", "a\x00b", "\ud800", "x" * 201, 7, None])
def test_a_name_that_no_row_holds_is_refused_before_any_query(
    name: Any, django_assert_num_queries: Callable[[int], Any]
) -> None:
    with django_assert_num_queries(0):
        with pytest.raises(InvalidNameError):
            DatabaseFormAnswerStore(scope=name, call="c")
        with pytest.raises(InvalidNameError):
            DatabaseFormAnswerStore(scope="s", call=name)
        store = DatabaseFormAnswerStore(scope="s", call="c")
        for asked in (elicitation(server=name), elicitation(tool=name)):
            with pytest.raises(InvalidNameError):
                store.take_form_answer(asked)
            with pytest.raises(InvalidNameError):
                store.record_form_answer(asked, "decline", {})


# --- Transactions ----------------------------------------------------------------------------


def test_a_take_inside_a_transaction_is_refused(store: DatabaseFormAnswerStore) -> None:
    store.record_form_answer(elicitation(), "accept", plan("team"))
    with pytest.raises(OuterTransactionError, match="ATOMIC_REQUESTS"), transaction.atomic():
        store.take_form_answer(elicitation())
    assert store.take_form_answer(elicitation()) is not None


def test_recording_inside_a_transaction_is_undone_with_it(store: DatabaseFormAnswerStore) -> None:
    def record_and_fail() -> None:
        with transaction.atomic():
            store.record_form_answer(elicitation(), "accept", plan("team"))
            raise LookupError

    with pytest.raises(LookupError):
        record_and_fail()
    assert not StoredFormAnswer.objects.exists()


def test_a_connection_that_never_commits_is_refused(
    store: DatabaseFormAnswerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "AUTOCOMMIT", False)
    with pytest.raises(ImproperlyConfigured, match="AUTOCOMMIT"):
        store.record_form_answer(elicitation(), "accept", plan("team"))


class Code(Exception):
    """A driver's error, as each driver carries its code."""

    def __init__(self, *args: object, **attributes: object) -> None:
        super().__init__(*args)
        vars(self).update(attributes)


TRANSIENT = [
    Code(sqlstate="40001"),
    Code(sqlstate="40P01"),
    Code(sqlstate="55P03"),
    Code(1213, "deadlock"),
    Code(1205, "lock wait"),
    Code(sqlite_errorcode=5),
    Code(sqlite_errorcode=5 | 2 << 8),
    Code(sqlite_errorcode=6),
]
LASTING = [
    Code(sqlstate="57014"),
    Code(sqlstate="23505"),
    Code(1969, "statement timeout"),
    Code(sqlite_errorcode=1),
    Code("no code at all"),
    Code(),
]


def failing(cause: Exception, times: int) -> tuple[Callable[[], str], list[int]]:
    calls: list[int] = []

    def work() -> str:
        calls.append(1)
        if len(calls) <= times:
            raise OperationalError from cause
        return "done"

    return work, calls


@pytest.mark.parametrize("cause", TRANSIENT, ids=str)
def test_a_passing_conflict_is_tried_again(
    cause: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "FIRST_PAUSE", 0)
    work, calls = failing(cause, 2)
    assert in_transaction(work) == "done"
    assert len(calls) == 3


def test_a_conflict_that_stays_is_raised_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "FIRST_PAUSE", 0)
    work, calls = failing(TRANSIENT[0], 99)
    with pytest.raises(OperationalError):
        in_transaction(work)
    assert len(calls) == transactions.ATTEMPTS


@pytest.mark.parametrize("cause", LASTING, ids=str)
def test_any_other_error_is_raised_at_once(cause: Exception) -> None:
    work, calls = failing(cause, 99)
    with pytest.raises(OperationalError):
        in_transaction(work)
    assert len(calls) == 1


def test_nothing_is_tried_again_inside_an_outer_transaction() -> None:
    work, calls = failing(TRANSIENT[0], 99)
    with pytest.raises(OperationalError), transaction.atomic():
        in_transaction(work)
    assert len(calls) == 1


def test_receivers_of_delete_signals_do_not_weaken_the_take(
    store: DatabaseFormAnswerStore,
) -> None:
    seen: list[object] = []

    def receiver(instance: object, **kwargs: object) -> None:
        seen.append(instance)

    pre_delete.connect(receiver, sender=StoredFormAnswer)
    try:
        store.record_form_answer(elicitation(), "accept", plan("team"))
        assert store.take_form_answer(elicitation()) is not None
        assert store.take_form_answer(elicitation()) is None
    finally:
        pre_delete.disconnect(receiver, sender=StoredFormAnswer)
    assert len(seen) == 1


def in_thread(work: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_taker_waits_for_a_recorder_and_gets_what_it_recorded(
    store: DatabaseFormAnswerStore,
) -> None:
    """A taker that locks nothing would destroy the answer recorded a moment later."""
    store.record_form_answer(elicitation(), "accept", plan("team"))
    taken: list[StoredFormAnswer | None] = []
    with transaction.atomic():
        store.record_form_answer(elicitation(), "accept", plan("solo"))
        thread = in_thread(lambda: taken.append(store.take_form_answer(elicitation())))
        thread.join(0.3)
        assert thread.is_alive(), "the take did not wait"
    thread.join(20)
    (row,) = taken
    assert row is not None
    assert row.answers == plan("solo")


# --- The core's handler over this store ------------------------------------------------------


def test_the_cores_handler_takes_from_it(store: DatabaseFormAnswerStore) -> None:
    handler = StoredFormAnswers(store)
    assert handler.answer_form(elicitation()) == Ask()
    store.record_form_answer(elicitation(), "accept", plan("team"))
    assert handler.answer_form(elicitation()) == Accept({"plan": "team"})
    store.record_form_answer(elicitation(), "decline", {})
    assert handler.answer_form(elicitation()) == Decline()
    assert handler.answer_form(elicitation()) == Ask()


def test_a_row_tells_nothing_of_the_answer(store: DatabaseFormAnswerStore) -> None:
    row = store.record_form_answer(elicitation(), "accept", plan("team"))
    assert "team" not in str(row) + repr(row)


# --- Work that can be done again -------------------------------------------------------------

#: Says whether a commit waits for the disk, where that can be chosen for one transaction.
WAITS_FOR_THE_DISK = {
    "postgresql": ("SHOW synchronous_commit", {True: "on", False: "off"}),
    "mysql": ("SELECT 'as ever'", {True: "as ever", False: "as ever"}),
    "sqlite": ("SELECT 'as ever'", {True: "as ever", False: "as ever"}),
}


def waits_for_the_disk() -> str:
    with connection.cursor() as cursor:
        cursor.execute(WAITS_FOR_THE_DISK[connection.vendor][0])
        return str(cursor.fetchone()[0])


@pytest.mark.parametrize("outer", [False, True])
def test_only_work_that_can_be_done_again_does_not_wait_for_the_disk(outer: bool) -> None:
    """Part of somebody else's transaction, it leaves that as it is."""
    expected = WAITS_FOR_THE_DISK[connection.vendor][1]
    assert in_transaction(waits_for_the_disk) == expected[True]
    if outer:
        with transaction.atomic():
            assert in_transaction(waits_for_the_disk, redoable=True) == expected[True]
            assert waits_for_the_disk() == expected[True]
    else:
        assert in_transaction(waits_for_the_disk, redoable=True) == expected[False]
    assert in_transaction(waits_for_the_disk) == expected[True]


@pytest.mark.parametrize("is_duplicate", [True, False])
def test_a_row_in_the_way_is_told_from_a_row_that_is_missing(
    store: DatabaseFormAnswerStore, is_duplicate: bool
) -> None:
    row = store.record_form_answer(elicitation(), "accept", plan("team"))
    if not is_duplicate:
        row.pk, row.respondent_id = uuid.uuid4(), 1_000_000
    with pytest.raises(IntegrityError) as refused:
        row.save(force_insert=True)
    assert transactions.is_duplicate(refused.value) == is_duplicate


# --- A connection that breaks ----------------------------------------------------------------


def test_a_connection_that_breaks_after_its_commit_is_closed(
    monkeypatch: pytest.MonkeyPatch, store: DatabaseFormAnswerStore
) -> None:
    connection.ensure_connection()
    commit = connection.commit

    def commits() -> None:
        commit()
        connection.connection.close()

    def fails() -> None:
        raise OperationalError("lost")

    with monkeypatch.context() as patched:
        patched.setattr(connection, "commit", commits)
        # On MariaDB this is a statement of its own, and fails by itself.
        patched.setattr(connection, "_set_autocommit", lambda on: on and fails())
        with pytest.raises(OperationalError):
            in_transaction(lambda: None)
    for _ in range(2):
        store.record_form_answer(elicitation(), "accept", plan("team"))
    assert store.take_form_answer(elicitation()) is not None
