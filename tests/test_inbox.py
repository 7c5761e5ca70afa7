"""What happens to a question in front of a person, whichever face it is shown on."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import connections, transaction
from django.utils import timezone

from elicitation import inbox
from elicitation.core import FormAnswer, FormElicitation, parse_requested_schema
from elicitation.core.schema import check_answers
from elicitation.models import Elicitation, StoredFormAnswer, parked_call_id
from elicitation.signals import elicitation_asked, elicitation_closed

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

SCHEMA = """{"type": "object", "required": ["name"], "properties": {
    "name": {"type": "string", "maxLength": 100}, "age": {"type": "integer"}}}"""
ADA = {"name": FormAnswer(other_text="Ada"), "age": FormAnswer(skipped=True)}
GRACE = {"name": FormAnswer(other_text="Grace"), "age": FormAnswer(other_text="37")}


def put(
    respondent: User, *, message: str = "Who?", scope: str = "conversation", number: int = 0
) -> Elicitation:
    """Ask a person something, as a parked call does."""
    question = inbox.ElicitationRequest(
        elicitation=FormElicitation(
            server_name="shop",
            tool_name="buy",
            key="k",
            message=message,
            schema=parse_requested_schema(SCHEMA),
        ),
        requested_schema=SCHEMA,
        allow_confirmation=False,
        number=number,
    )
    with transaction.atomic():
        return inbox.ask(
            question,
            parked_call_id=parked_call_id(scope=scope, call="c", server="shop", tool="buy"),
            scope=scope,
            scope_label="",
            call="c",
            round=1,
            respondent_id=respondent.pk,
        )


@pytest.fixture
def question(user: User) -> Elicitation:
    return put(user)


@pytest.fixture
def sent() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """The app's signals, as they were sent."""
    signals = {"asked": elicitation_asked, "closed": elicitation_closed}
    received: list[tuple[str, dict[str, Any]]] = []
    receivers = {
        name: lambda name=name, **kwargs: received.append((name, kwargs)) for name in signals
    }
    for name, receiver in receivers.items():
        signals[name].connect(receiver)
    yield received
    for name, receiver in receivers.items():
        signals[name].disconnect(receiver)


def past_deadline(question: Elicitation) -> None:
    Elicitation.objects.filter(pk=question.pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )


def test_a_question_has_24_hours(question: Elicitation) -> None:
    assert question.expires_at - question.asked_at == timedelta(hours=24)


def test_an_answer_is_stored_and_the_question_closed(question: Elicitation, user: User) -> None:
    closed = inbox.answer(question.pk, ADA, by=user, fingerprint=question.fingerprint)
    question.refresh_from_db()
    assert closed.state == question.state == "answered"
    assert question.closed_by == user
    assert question.closed_via == "page"
    row = StoredFormAnswer.objects.get()
    assert row.answers == ADA
    assert (row.elicitation_id, row.respondent, row.action) == (question.pk, user, "accept")
    assert row.expires_at - row.recorded_at == timedelta(minutes=30)


def test_answers_to_what_was_not_asked_are_not_kept(question: Elicitation, user: User) -> None:
    inbox.answer(question.pk, ADA | {"never_asked": FormAnswer(other_text="x")}, by=user)
    assert StoredFormAnswer.objects.get().answers == ADA


def test_the_same_answer_again_succeeds_and_another_does_not(
    question: Elicitation, user: User, sent: list[Any]
) -> None:
    inbox.answer(question.pk, ADA, by=user)
    again = {**ADA, "name": FormAnswer(other_text="  Ada\r\n")}
    assert inbox.answer(question.pk, again, by=user).state == "answered"
    with pytest.raises(inbox.ElicitationClosedError) as refused:
        inbox.answer(question.pk, GRACE, by=user)
    assert refused.value.code == "answered"
    with pytest.raises(inbox.ElicitationClosedError):
        inbox.decline(question.pk, by=user)
    assert StoredFormAnswer.objects.get().answers == ADA
    assert len([name for name, _ in sent if name == "closed"]) == 1


def test_the_digest_of_an_answer_has_a_key(
    question: Elicitation, user: User, settings: SettingsWrapper
) -> None:
    key = settings.SECRET_KEY
    inbox.answer(question.pk, ADA, by=user)
    settings.SECRET_KEY = "another"
    with pytest.raises(inbox.ElicitationClosedError):
        inbox.answer(question.pk, ADA, by=user)
    settings.SECRET_KEY = key
    assert inbox.answer(question.pk, ADA, by=user).state == "answered"


def test_declining_stores_a_decline_and_can_be_repeated(question: Elicitation, user: User) -> None:
    inbox.decline(question.pk, by=user)
    assert inbox.decline(question.pk, by=user).state == "declined"
    with pytest.raises(inbox.ElicitationClosedError) as refused:
        inbox.answer(question.pk, ADA, by=user)
    assert refused.value.code == "declined"
    row = StoredFormAnswer.objects.get()
    assert (row.action, row.answers) == ("decline", {})


def test_withdrawing_can_be_repeated_and_says_why(question: Elicitation, user: User) -> None:
    inbox.withdraw(question.pk, by=user, via="admin", reason="mistake")
    closed = inbox.withdraw(question.pk)
    assert (closed.state, closed.reason, closed.closed_via) == ("withdrawn", "mistake", "admin")
    with pytest.raises(inbox.ElicitationClosedError) as refused:
        inbox.decline(question.pk, by=user)
    assert refused.value.code == "withdrawn"


def test_what_is_answered_cannot_be_withdrawn(question: Elicitation, user: User) -> None:
    inbox.answer(question.pk, ADA, by=user)
    with pytest.raises(inbox.ElicitationClosedError):
        inbox.withdraw(question.pk)


@pytest.mark.parametrize("action", ["answer", "bad answer", "decline", "withdraw", "expire"])
def test_past_the_deadline_a_question_expires_whatever_is_done(
    question: Elicitation, user: User, sent: list[Any], action: str
) -> None:
    past_deadline(question)
    acts = {
        "answer": lambda: inbox.answer(question.pk, ADA, by=user),
        "bad answer": lambda: inbox.answer(question.pk, {}, by=user),
        "decline": lambda: inbox.decline(question.pk, by=user),
        "withdraw": lambda: inbox.withdraw(question.pk),
        "expire": lambda: inbox.expire(question.pk),
    }
    if action == "expire":
        acts[action]()
    else:
        with pytest.raises(inbox.ElicitationClosedError) as refused:
            acts[action]()
        assert refused.value.code == "expired"
    question.refresh_from_db()
    assert (question.state, question.closed_by, question.answer_digest) == ("expired", None, "")
    # On the wire it is a decline; in our rows it is none.
    assert StoredFormAnswer.objects.get().action == "decline"
    assert [kwargs["state"] for name, kwargs in sent if name == "closed"] == ["expired"]


def test_a_question_in_time_does_not_expire(question: Elicitation) -> None:
    assert inbox.expire(question.pk).state == "pending"
    assert inbox.expire_due() == 0


def test_what_is_due_is_expired_in_batches(user: User, sent: list[Any]) -> None:
    due = [put(user, message=f"{number}?") for number in range(5)]
    waits = put(user, message="Later?")
    for question in due:
        past_deadline(question)
    assert inbox.expire_due(limit=3) == 3
    assert inbox.expire_due(limit=3) == 2
    assert inbox.expire_due(limit=3) == 0
    assert list(Elicitation.objects.pending()) == [waits]
    assert {kwargs["elicitation_id"] for name, kwargs in sent if name == "closed"} == {
        question.pk for question in due
    }


def test_nobody_else_sees_that_a_question_exists(
    question: Elicitation, user: User, other_user: User
) -> None:
    assert inbox.get(user, str(question.pk)) == question
    for who, what in [
        (other_user, question.pk),
        (user, uuid.uuid4()),
        (user, "no-id"),
        (user, None),
    ]:
        with pytest.raises(Elicitation.DoesNotExist):
            inbox.get(who, what)
    with pytest.raises(Elicitation.DoesNotExist):
        inbox.answer(question.pk, ADA, by=other_user)
    with pytest.raises(Elicitation.DoesNotExist):
        inbox.decline(question.pk, by=other_user)
    assert list(inbox.waiting(other_user)) == []
    assert not StoredFormAnswer.objects.exists()


def test_a_form_that_was_replaced_stores_nothing(question: Elicitation, user: User) -> None:
    with pytest.raises(inbox.ElicitationReplacedError) as refused:
        inbox.answer(question.pk, ADA, by=user, fingerprint="0" * 64)
    assert refused.value.code == "replaced"
    assert not StoredFormAnswer.objects.exists()
    inbox.withdraw_all([question], reason=inbox.REPLACED)
    with pytest.raises(inbox.ElicitationClosedError) as closed:
        inbox.answer(question.pk, ADA, by=user)
    assert closed.value.code == "replaced"


def test_every_error_is_reported_at_once(question: Elicitation, user: User) -> None:
    answers = {"name": FormAnswer(other_text=" "), "age": FormAnswer(other_text="old")}
    with pytest.raises(inbox.AnswerRefusals) as refused:
        inbox.answer(question.pk, answers, by=user)
    assert {name: error.code for name, error in refused.value.errors.items()} == {
        "name": "blank",
        "age": "not_a_number",
    }
    question.refresh_from_db()
    assert question.state == "pending"


def test_a_credential_is_refused_and_never_repeated(
    question: Elicitation, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    token = "ghp_" + "aB3d" * 9
    with (
        caplog.at_level(logging.DEBUG, "elicitation"),
        pytest.raises(inbox.AnswerRefusals) as refused,
    ):
        inbox.answer(
            question.pk, {**ADA, "name": FormAnswer(other_text=f"it is {token}")}, by=user
        )
    assert refused.value.errors["name"].code == "credential"
    assert token not in f"{refused.value} {refused.value.errors} {caplog.text}"
    assert not StoredFormAnswer.objects.exists()


# --- Signals ---------------------------------------------------------------------------------


def test_signals_carry_ids_and_a_state(user: User, sent: list[Any]) -> None:
    question = put(user)
    inbox.answer(question.pk, ADA, by=user)
    common = {
        "sender": Elicitation,
        "elicitation_id": question.pk,
        "parked_call_id": question.parked_call_id,
        "scope": "conversation",
        "call": question.call,
        "server": "shop",
        "tool": "buy",
    }
    received = [
        (name, {key: value for key, value in kwargs.items() if key != "signal"})
        for name, kwargs in sent
    ]
    assert received == [
        ("asked", {**common, "state": "pending"}),
        ("closed", {**common, "state": "answered"}),
    ]


def test_signals_wait_for_the_commit(question: Elicitation, user: User, sent: list[Any]) -> None:
    with transaction.atomic():
        inbox.answer(question.pk, ADA, by=user)
        assert [name for name, _ in sent] == []
    assert [name for name, _ in sent] == ["closed"]


def test_a_rolled_back_answer_sends_no_signal(
    question: Elicitation, user: User, sent: list[Any]
) -> None:
    def answer_and_fail() -> None:
        with transaction.atomic():
            inbox.answer(question.pk, ADA, by=user)
            raise LookupError

    with pytest.raises(LookupError):
        answer_and_fail()
    question.refresh_from_db()
    assert question.state == "pending"
    assert sent == []


def test_a_receiver_that_fails_disturbs_nobody(
    question: Elicitation, user: User, sent: list[Any]
) -> None:
    def fail(**kwargs: object) -> None:
        raise RuntimeError("receiver")

    elicitation_closed.connect(fail)
    try:
        assert inbox.answer(question.pk, ADA, by=user).state == "answered"
    finally:
        elicitation_closed.disconnect(fail)
    assert [name for name, _ in sent] == ["closed"]


# --- Races -----------------------------------------------------------------------------------


def at_once(*works: Any) -> list[Any]:
    barrier = threading.Barrier(len(works))
    outcomes: list[Any] = [None] * len(works)

    def run(index: int) -> None:
        try:
            barrier.wait(20)
            outcomes[index] = works[index]()
        except inbox.ElicitationClosedError as closed:
            outcomes[index] = closed
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return outcomes


def test_of_several_at_the_same_moment_one_wins(user: User) -> None:
    for number in range(15):
        question = put(user, message=f"{number}?")
        outcomes = at_once(
            lambda q=question: inbox.answer(q.pk, ADA, by=user),
            lambda q=question: inbox.answer(q.pk, GRACE, by=user),
            lambda q=question: inbox.decline(q.pk, by=user),
            lambda q=question: inbox.withdraw(q.pk),
        )
        won = [outcome for outcome in outcomes if isinstance(outcome, Elicitation)]
        lost = [
            outcome for outcome in outcomes if isinstance(outcome, inbox.ElicitationClosedError)
        ]
        assert len(won) == 1, outcomes
        assert len(lost) == 3
        assert {refusal.code for refusal in lost} == {str(won[0].state)}
        row = StoredFormAnswer.objects.get(elicitation_id=question.pk)
        assert row.action == ("accept" if won[0].state == "answered" else "decline")


# --- What people find ------------------------------------------------------------------------


def test_what_waits_comes_oldest_deadline_first(user: User, other_user: User) -> None:
    late, soon, over = (put(user, message=m) for m in ("late", "soon", "over"))
    put(other_user, message="not mine")
    Elicitation.objects.filter(pk=soon.pk).update(expires_at=timezone.now() + timedelta(hours=1))
    past_deadline(over)
    assert list(inbox.waiting(user)) == [soon, late]
    # It has expired, though no row says so yet.
    assert list(inbox.recent(user)) == [over]
    inbox.decline(late.pk, by=user)
    assert list(inbox.recent(user)) == [late, over]


def test_a_follow_up_is_what_the_same_call_asks_next(user: User) -> None:
    first, other = put(user), put(user, scope="another conversation")
    assert inbox.follow_up(first) is None
    inbox.answer(first.pk, ADA, by=user)
    second = put(user, message="And now?")
    assert inbox.follow_up(first) == second
    assert inbox.follow_up(other) is None


def test_the_first_time_it_was_shown_is_noted_once(question: Elicitation) -> None:
    inbox.shown(question)
    question.refresh_from_db()
    first = question.first_shown_at
    assert first is not None
    inbox.shown(question)
    question.refresh_from_db()
    assert question.first_shown_at == first


def test_scopes_that_look_the_same_are_told_apart(user: User) -> None:
    one, two = put(user, scope="Run"), put(user, scope="run")
    assert list(Elicitation.objects.in_scope("Run")) == [one]
    assert list(Elicitation.objects.in_scope("run")) == [two]


def test_a_question_tells_nothing_of_its_answer(question: Elicitation, user: User) -> None:
    closed = inbox.answer(question.pk, ADA, by=user)
    assert "Ada" not in f"{closed} {closed!r} {vars(closed)}"


def test_only_what_a_person_said_is_used_where_the_same_is_asked_again(user: User) -> None:
    """What is left of an elicitation that nobody answered in time is nobody's answer."""
    closings: dict[str, Callable[[Elicitation], Any]] = {
        "answered": lambda one: inbox.answer(one.pk, ADA, by=user),
        "declined": lambda one: inbox.decline(one.pk, by=user),
        "withdrawn": lambda one: inbox.withdraw(one.pk),
        "expired": lambda one: inbox.expire_now(one.pk),
    }
    for state, close in closings.items():
        elicitation = put(user, scope=state, number=3)
        assert inbox.recorded(elicitation.parked_call_id, elicitation.fingerprint) is None
        assert close(elicitation).state == state
        # Its server is told something all the same: a decline where nobody said anything.
        assert StoredFormAnswer.objects.filter(elicitation_id=elicitation.pk).exists()
        said = inbox.recorded(elicitation.parked_call_id, elicitation.fingerprint)
        assert said == (3 if state in ("answered", "declined") else None), state


@pytest.mark.parametrize("operation", ["answer", "decline", "consent", "go_on"])
def test_a_row_is_taken_as_read_only_from_whoever_read_it(
    question: Elicitation, user: User, other_user: User, operation: str
) -> None:
    """A row that came from elsewhere proves nothing: whether the person may see it is asked."""
    arguments = (ADA,) if operation == "answer" else ()
    for row in (question, Elicitation.objects.get(pk=question.pk), inbox.get(user, question.pk)):
        with pytest.raises(Elicitation.DoesNotExist):
            getattr(inbox, operation)(row, *arguments, by=other_user)
    question.refresh_from_db()
    assert question.is_open()


def test_answers_are_not_taken_as_checked_where_they_were_checked_against_something_else(
    question: Elicitation, user: User
) -> None:
    anything = parse_requested_schema(SCHEMA.replace("100", "200"))
    checked = check_answers(anything, {**ADA, "name": FormAnswer(other_text="x" * 150)})
    row = inbox.get(user, question.pk)
    with pytest.raises(inbox.AnswerRefusals) as refused:
        inbox.answer(row, checked, by=user)
    assert [refusal.code for refusal in refused.value.errors.values()] == ["too_long"]
    assert inbox.answer(row, check_answers(row.schema, ADA), by=user).state == "answered"
    assert "Ada" not in repr(check_answers(row.schema, ADA))


def test_what_hosts_call_from_coroutines_has_a_twin(question: Elicitation, user: User) -> None:
    async def run() -> None:
        assert (await inbox.aanswer(question.pk, ADA, by=user)).state == "answered"
        with pytest.raises(inbox.ElicitationClosedError):
            await inbox.adecline(question.pk, by=user)
        with pytest.raises(inbox.ElicitationClosedError):
            await inbox.awithdraw(question.pk)
        with pytest.raises(inbox.ElicitationClosedError):
            await inbox.aexpire_now(question.pk)

    async_to_sync(run)()
