"""What happens to a question that was put in front of a person.

Ask, answer, decline, withdraw, expire: every face (page, API, admin, commands, the SDK
integration) calls these functions and writes no row itself. The first to close a question
wins, whoever it is: closing is one conditional ``UPDATE`` that counts one.

An answered question leaves an answer in ``store``. So does one that was declined, withdrawn
or has expired: on the wire all three are ``decline`` (the person accepted nothing), and the call
that is resumed finds one thing in one place. In our own rows they are different states.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import Max, Q
from django.db.models.functions import Coalesce
from django.dispatch import Signal
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.views.decorators.debug import sensitive_variables

from ..conf import settings
from ..core import (
    AnswerRefusal,
    AnyElicitation,
    ElicitationError,
    FormAnswer,
    FormAnswerAction,
    URLElicitation,
    refuse_credentials,
)
from ..models import (
    Elicitation,
    ElicitationQuerySet,
    InvalidNameError,
    StoredFormAnswer,
    check_name,
    row_key,
)
from ..signals import elicitation_asked, elicitation_closed
from ..store import DatabaseFormAnswerStore, in_transaction, record, write_alias
from . import access
from .listening import tell

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

logger = logging.getLogger("elicitation")

State = Elicitation.State
Via = Elicitation.Via

#: Reasons for which the app itself takes a question back.
REPLACED, FINISHED = "replaced", "finished"
#: The reason of a decline that takes back a consent given before.
TAKEN_BACK = "taken_back"

#: The longest pause before a host is told again that a question of its is closed.
LONGEST_PAUSE = timedelta(hours=1)


class ElicitationClosedError(ElicitationError):
    """The question is closed, otherwise than was asked for now.

    ``code`` is its state, or ``replaced`` where the server asked something else meanwhile.
    """

    def __init__(self, elicitation: Elicitation, *, code: str = "") -> None:
        self.elicitation = elicitation
        if not code:
            replaced = elicitation.reason == REPLACED
            code = REPLACED if replaced else str(elicitation.current_state())
        super().__init__(f"The question is closed: {code}.", code=code)


class ElicitationReplacedError(ElicitationClosedError):
    """The form that was sent is not the one that waits now; nothing was stored."""

    def __init__(self, elicitation: Elicitation) -> None:
        super().__init__(elicitation, code=REPLACED)


class AnswerRefusals(ElicitationError):
    """Answers that do not fit; ``errors`` has one ``AnswerRefusal`` by property name."""

    def __init__(self, errors: Mapping[str, AnswerRefusal]) -> None:
        self.errors = dict(errors)
        super().__init__(f"Answers that do not fit: {len(self.errors)}.", code="answers")


class WrongModeError(ElicitationError):
    """A form was to be consented to, or the consent to an address sent as a form's answer.

    Only ``consent`` consents: a program that answers confirmations without looking at what is
    asked must not agree to an address by that.
    """

    def __init__(self, elicitation: Elicitation) -> None:
        asks = "to open an address, not for answers" if elicitation.is_url else "for answers"
        super().__init__(f"The question asks {asks}.", code="wrong_mode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A validated question set of one round, before it is asked.

    ``requested_schema`` is the server's own JSON text, in its order; ``number`` counts
    identical question sets of the round from 0.
    """

    elicitation: AnyElicitation
    requested_schema: str
    allow_confirmation: bool
    number: int
    wide_limits: bool = False


@sensitive_variables()
def ask(
    question: Question,
    *,
    parked_call_id: uuid.UUID,
    scope: str,
    scope_label: str,
    call: str,
    round: int,
    respondent: AbstractBaseUser,
    expires_at: datetime | None = None,
    in_call: bool = False,
    id: uuid.UUID | None = None,
) -> Elicitation:
    """Put a question in front of a person; inside the transaction that parks the call.

    Args:
        question: What is asked.
        parked_call_id: The call that asks.
        scope: Its scope.
        scope_label: What people see as the name of the scope.
        call: The host's id of the call.
        round: The call's round, from 1.
        respondent: Who is asked.
        expires_at: Until when; by default as long as ``ELICITATION_QUESTION_TTL`` says.
        in_call: Whether the server waits, so that the answer cannot outlive its request.
        id: The question's own id, where the caller has to know it before.
    """
    now = timezone.now()
    asked = question.elicitation
    address = asked if isinstance(asked, URLElicitation) else None
    elicitation = Elicitation.objects.using(write_alias()).create(
        id=id or uuid.uuid4(),
        parked_call_id=parked_call_id,
        scope=scope,
        scope_key=row_key(scope),
        scope_label=scope_label,
        call=call,
        server=question.elicitation.server_name,
        policy_id=row_key(question.elicitation.server_name),
        tool=question.elicitation.tool_name,
        key=question.elicitation.key,
        round=round,
        number=question.number,
        message=question.elicitation.message,
        requested_schema=question.requested_schema,
        url=address.url.text if address else "",
        url_host=address.url.host if address else "",
        url_id=address.url_id if address else "",
        allow_confirmation=question.allow_confirmation,
        wide_limits=question.wide_limits,
        fingerprint=question.elicitation.fingerprint(),
        respondent_id=respondent.pk,
        asked_at=now,
        expires_at=expires_at or now + settings.QUESTION_TTL,
        in_call=in_call,
    )
    _announce(elicitation_asked, elicitation)
    return elicitation


def ask_in_call(question: Question, **arguments: Any) -> Elicitation:
    """Put a question in front of a person while its server waits; arguments as for ``ask``.

    It gets a number of its own among identical ones of the call: each request waits for the
    answer to its own question.
    """

    def ask_it() -> Elicitation:
        rows = Elicitation.objects.using(write_alias()).of_call(arguments["parked_call_id"])
        same = rows.filter(fingerprint=question.elicitation.fingerprint())
        last = same.aggregate(last=Max("number"))["last"]
        numbered = dataclasses.replace(question, number=0 if last is None else last + 1)
        return ask(numbered, in_call=True, **arguments)

    return in_transaction(ask_it)


def recorded(parked_call_id: uuid.UUID, elicitation: AnyElicitation) -> int | None:
    """Return the number of an answer to this question that nobody waits for any more.

    An answer whose own request is still open belongs to that one.
    """
    answers = StoredFormAnswer.objects.using(write_alias()).of_call(parked_call_id)
    found = answers.filter(fingerprint=elicitation.fingerprint()).order_by("-recorded_at")
    rows = Elicitation.objects.using(write_alias()).of_call(parked_call_id)
    # Nor is it an answer that nobody gave one in time to a request that is gone.
    not_these = set(
        rows.filter(
            Q(in_call=True, expires_at__gt=timezone.now())
            | Q(state__in=(State.EXPIRED, State.WITHDRAWN))
        ).values_list("pk", flat=True)
    )
    numbers = found.values_list("number", "elicitation_id")
    return next((number for number, key in numbers if key not in not_these), None)


def consented(
    parked_call_id: uuid.UUID, elicitation: AnyElicitation, *, by: AbstractBaseUser
) -> bool:
    """Whether this person has agreed to open this address for this call, and may still do so."""
    rows = Elicitation.objects.using(write_alias()).of_call(parked_call_id)
    same = rows.for_respondent(by).filter(
        state=State.ANSWERED,
        fingerprint=elicitation.fingerprint(),
        closed_at__gt=timezone.now() - settings.ANSWER_TTL,
    )
    return isinstance(elicitation, URLElicitation) and same.exists()


def closed_among(elicitation_ids: Collection[uuid.UUID]) -> list[uuid.UUID]:
    """Return those of these questions that are not pending any more."""
    rows = Elicitation.objects.using(write_alias()).closed().filter(pk__in=elicitation_ids)
    return list(rows.values_list("pk", flat=True))


def get(user: AbstractBaseUser, elicitation_id: object) -> Elicitation:
    """Return the question with this id, and its server's policy, if this person may see it.

    Raises:
        Elicitation.DoesNotExist: There is none, it is somebody else's, or the id is none.
            Nobody learns which.
    """
    try:
        key = uuid.UUID(str(elicitation_id))
    except ValueError:
        raise Elicitation.DoesNotExist from None
    # From the writer: a replica may not have the row yet that the person was just sent to.
    rows = Elicitation.objects.using(write_alias()).with_policies()
    return access.visible(rows, user).get(pk=key)


def visible(user: AbstractBaseUser) -> ElicitationQuerySet:
    """Every question that this person may see, whatever became of it."""
    return access.visible(Elicitation.objects.all(), user)


def waiting(user: AbstractBaseUser) -> ElicitationQuerySet:
    """What waits for this person, the oldest deadline first."""
    return visible(user).open()


def recent(user: AbstractBaseUser) -> ElicitationQuerySet:
    """What this person answered, declined or let expire, the latest first.

    A question whose time is up is among them, whether its row says so yet or not.
    """
    theirs = visible(user)
    return (theirs.closed() | theirs.due()).order_by(
        Coalesce("closed_at", "expires_at").desc(), "id"
    )


def shown(elicitation: Elicitation) -> None:
    """Note, for the audit, that the question was shown; only the first time counts."""
    if elicitation.first_shown_at is None:
        rows = Elicitation.objects.using(write_alias())
        unseen = rows.filter(pk=elicitation.pk, first_shown_at=None)
        in_transaction(lambda: unseen.update(first_shown_at=timezone.now()))


def follow_up(elicitation: Elicitation) -> Elicitation | None:
    """Return what the same call asks the same person now, if it asks anything."""
    return (
        Elicitation.objects.using(write_alias())
        .of_call(elicitation.parked_call_id)
        .open()
        .filter(respondent=elicitation.respondent_id)
        .exclude(pk=elicitation.pk)
        .first()
    )


@sensitive_variables()
def answer(
    elicitation_id: uuid.UUID,
    answers: Mapping[str, FormAnswer],
    *,
    by: AbstractBaseUser,
    via: str = Via.PAGE,
    fingerprint: str | None = None,
    unread: Mapping[str, AnswerRefusal] | None = None,
) -> Elicitation:
    """Record a person's answer, once it was found to fit what was asked.

    The same answer sent again succeeds again; another one finds the question closed.

    Args:
        elicitation_id: The question.
        answers: By property name.
        by: Who answers.
        via: Through which face.
        fingerprint: That of the form the person saw, where the face knows it.
        unread: What the face could not read as an answer, by the name sent; it is refused
            with what does not fit, and nothing is stored.

    Raises:
        AnswerRefusals: An answer does not fit, or has the format of a credential.
        ElicitationClosedError: It was answered otherwise, declined or withdrawn, or its time is
            up.
        ElicitationReplacedError: The form is not the one that was asked.
        WrongModeError: It asks to open an address.
        Elicitation.DoesNotExist: There is no such question for this person.
    """
    elicitation = _same(get(by, elicitation_id), fingerprint)
    if elicitation.is_url:
        raise WrongModeError(elicitation)
    schema = elicitation.schema
    content, errors = schema.check_answers(answers)
    for name, given in answers.items():
        try:
            refuse_credentials(schema, {name: given})
        except AnswerRefusal as refusal:
            errors.setdefault(name, refusal)
    errors.update(unread or {})
    if errors:
        # A closed question says that it is closed, whatever was typed.
        if not elicitation.is_open():
            raise ElicitationClosedError(
                _expire(elicitation) if elicitation.is_expired() else elicitation
            )
        raise AnswerRefusals(errors)
    digest = salted_hmac(
        "elicitation.answer",
        f"{elicitation.pk}:{json.dumps(content, sort_keys=True)}",
        algorithm="sha256",
    ).hexdigest()
    # Only what was asked is kept.
    kept = {name: answers[name] for name in (p.name for p in schema.properties)}
    return _accept(elicitation, kept, digest, by=by, via=via)


def consent(
    elicitation_id: uuid.UUID,
    *,
    by: AbstractBaseUser,
    via: str = Via.PAGE,
    fingerprint: str | None = None,
) -> Elicitation:
    """Record that a person agrees to open an address; agreeing again succeeds again.

    The server is told ``accept``, without content, as often as it asks for the same address
    within ``ELICITATION_ANSWER_TTL`` (MCP 2026-07-28, client/elicitation, "URL Mode").

    Args:
        elicitation_id: The question.
        by: Who agrees.
        via: Through which face.
        fingerprint: That of the address the person saw, where the face knows it.

    Raises:
        URLPolicyRefusal: The server's policy does not list the address any more.
        URLRefusal: Nor is it one that is put in front of anyone any more.
        ElicitationClosedError: Somebody else agreed, or it was declined or withdrawn, or its time
            is up.
        ElicitationReplacedError: The address is not the one that was asked.
        WrongModeError: It is a form.
        Elicitation.DoesNotExist: There is no such question for this person.
    """
    elicitation = _same(get(by, elicitation_id), fingerprint)
    if not elicitation.is_url:
        raise WrongModeError(elicitation)
    if elicitation.is_open():
        # What the person sees next is the link: the policy of now decides.
        elicitation.server_policy.parse_url(elicitation.url)
    return _accept(elicitation, {}, "", by=by, via=via)


def consent_lasts(elicitation: Elicitation) -> bool:
    """Whether a person agreed to open the address, and may still do so."""
    return (
        elicitation.is_url
        and elicitation.state == State.ANSWERED
        and elicitation.closed_at is not None
        and elicitation.closed_at + settings.ANSWER_TTL > timezone.now()
    )


def waits_for_completion(elicitation: Elicitation) -> bool:
    """Whether a person agreed to open the address, and the server still asks for the same."""
    rows = Elicitation.objects.using(write_alias())
    return elicitation.is_url and rows.going_on().filter(pk=elicitation.pk).exists()


def go_on(elicitation_id: uuid.UUID, *, by: AbstractBaseUser) -> Elicitation:
    """Note that a person has done what they opened the address for, and tell the host.

    The host is told by ``elicitation_closed``, once more, and goes on with the call. Where the
    call has ended meanwhile, or somebody else agreed, nothing happens.

    Raises:
        WrongModeError: It is a form.
        Elicitation.DoesNotExist: There is no such question for this person.
    """
    elicitation = get(by, elicitation_id)
    if not elicitation.is_url:
        raise WrongModeError(elicitation)
    if elicitation.closed_by_id == by.pk:
        _go_on(elicitation)
    return elicitation


def complete(server: str, url_id: str) -> int:
    """Go on with the calls of this server for which it says that the person has finished.

    MCP 2025-11-25, client/elicitation, "Completion Notifications"; unknown ids are passed over,
    and so is what it has said before: a server must not wake a host as often as it likes.

    Args:
        server: The name under which this site configured the server that sent the notification.
        url_id: Its ``elicitationId``.

    Returns:
        How many calls that were.
    """
    try:
        check_name("The elicitationId", url_id)
    except InvalidNameError:
        return 0
    since = timezone.now() - settings.ANSWER_TTL
    rows = Elicitation.objects.using(write_alias()).filter(closed_at__gt=since, url_id=url_id)
    # Compared once more: some databases call `A1` and `a1` equal.
    found = [row for row in rows.going_on() if (row.server, row.url_id) == (server, url_id)]
    return sum(_go_on(row, url_id="") for row in found)


def _go_on(elicitation: Elicitation, **others: Any) -> bool:
    now = timezone.now()
    # An id that counts once may have counted meanwhile.
    going_on = (
        Elicitation.objects.using(write_alias()).going_on().filter(url_id=elicitation.url_id)
    )

    def go_on() -> bool:
        changed = _change(
            elicitation,
            going_on,
            continued_at=now,
            # In the outbox again, should nobody go on with the call.
            resume_at=now + settings.RESUME_AFTER,
            resent=0,
            delivered_at=None,
            **others,
        )
        if changed:
            _announce(elicitation_closed, elicitation)
        return changed

    return in_transaction(go_on)


def continued(elicitation_ids: Collection[uuid.UUID], since: datetime) -> datetime | None:
    """Return when somebody last said, since then, that they finished at one of these addresses."""
    rows = Elicitation.objects.using(write_alias()).filter(pk__in=elicitation_ids)
    said: datetime | None = rows.filter(continued_at__gte=since).aggregate(
        last=Max("continued_at")
    )["last"]
    return said


def _same(elicitation: Elicitation, fingerprint: str | None) -> Elicitation:
    if fingerprint is not None and fingerprint != elicitation.fingerprint:
        raise ElicitationReplacedError(elicitation)
    return elicitation


@sensitive_variables()
def _accept(
    elicitation: Elicitation,
    answers: Mapping[str, FormAnswer],
    digest: str,
    *,
    by: AbstractBaseUser,
    via: str,
) -> Elicitation:
    closed = _close(
        elicitation, State.ANSWERED, by=by, via=via, answers=answers, answer_digest=digest
    )
    # The same person: somebody else who may answer must not find out by guessing.
    same = closed.answer_digest == digest and closed.closed_by_id == by.pk
    if closed.state != State.ANSWERED or not same:
        raise ElicitationClosedError(closed)
    return closed


def decline(
    elicitation_id: uuid.UUID, *, by: AbstractBaseUser, via: str = Via.PAGE
) -> Elicitation:
    """Record that a person declined; declining again succeeds again.

    Who agreed to open an address can still decline as long as the server asks for it.

    Raises:
        ElicitationClosedError: It was answered or withdrawn, or its time is up.
        Elicitation.DoesNotExist: There is no such question for this person.
    """
    closed = _close(get(by, elicitation_id), State.DECLINED, by=by, via=via)
    if closed.is_url and closed.state == State.ANSWERED and closed.closed_by_id == by.pk:
        _take_back(closed, via=via)
    if closed.state != State.DECLINED:
        raise ElicitationClosedError(closed)
    return closed


def withdraw(
    elicitation_id: uuid.UUID,
    *,
    by: AbstractBaseUser | None = None,
    via: str = Via.HOST,
    reason: str = "",
) -> Elicitation:
    """Take a question back; withdrawing again succeeds again. The server is told ``decline``.

    Args:
        elicitation_id: The question.
        by: Who takes it back; nobody where a program does.
        via: Through which face.
        reason: A code for the audit, such as ``replaced``.

    Raises:
        ElicitationClosedError: It is closed otherwise.
        Elicitation.DoesNotExist: There is no such question.
    """
    elicitation = Elicitation.objects.using(write_alias()).get(pk=elicitation_id)
    closed = _close(elicitation, State.WITHDRAWN, by=by, via=via, reason=reason)
    if closed.state != State.WITHDRAWN:
        raise ElicitationClosedError(closed)
    return closed


def expire(elicitation_id: uuid.UUID, *, via: str = Via.HOST) -> Elicitation:
    """Note that a question's time is up, if it is; the server is told ``decline``.

    Raises:
        Elicitation.DoesNotExist: There is no such question.
    """
    elicitation = Elicitation.objects.using(write_alias()).get(pk=elicitation_id)
    return _expire(elicitation, via=via) if elicitation.is_expired() else elicitation


def expire_now(
    elicitation_id: uuid.UUID, *, by: AbstractBaseUser | None = None, via: str = Via.HOST
) -> Elicitation:
    """End the time to answer a question, before its deadline; again succeeds again.

    Raises:
        ElicitationClosedError: It is closed otherwise.
        Elicitation.DoesNotExist: There is no such question.
    """
    elicitation = Elicitation.objects.using(write_alias()).get(pk=elicitation_id)
    closed = _close(elicitation, State.EXPIRED, by=by, via=via)
    if closed.state != State.EXPIRED:
        raise ElicitationClosedError(closed)
    return closed


def expire_due(*, now: datetime | None = None, via: str = Via.COMMAND, limit: int = 500) -> int:
    """Close up to ``limit`` questions whose time is up, and announce each; return how many.

    Each is a transaction of its own: none is locked for longer than its own closing takes.
    """
    due = Elicitation.objects.using(write_alias()).due(now).order_by("expires_at")[:limit]
    closed = [
        _close(elicitation, State.EXPIRED, via=via, now=now, redoable=True) for elicitation in due
    ]
    return sum(elicitation.state == State.EXPIRED for elicitation in closed)


class Resent(NamedTuple):
    """What ``resend_due`` did: for how many calls the host was told again, or given up."""

    sent: int
    given_up: int


def resend_due(*, now: datetime | None = None, limit: int = 100) -> Resent:
    """Send ``elicitation_closed`` again for calls that nobody went on with.

    A closed question of which the server was told nothing is its own outbox: a process that
    died between the commit and the signal, or after it, leaves it due. The pause grows, and
    after ``RESUME_ATTEMPTS`` times the audit says ``never_resumed``. So it does at once where
    the call's row is gone. Safe in several processes at a time: a row belongs to the one whose
    ``UPDATE`` moved it on.
    """
    now = now or timezone.now()
    rows = Elicitation.objects.using(write_alias())
    sent, given_up = set(), set()
    for elicitation in rows.strandable(now)[:limit]:
        mine = rows.undelivered().filter(pk=elicitation.pk, resent=elicitation.resent)
        parked = elicitation.is_parked  # type: ignore[attr-defined]  # annotated
        if elicitation.resent >= settings.RESUME_ATTEMPTS or not parked:
            give_up = partial(
                mine.update,
                delivered_at=now,
                # A consent that the server was told, and that it asks for again.
                delivery=elicitation.delivery or Elicitation.Delivery.NEVER_RESUMED,
                resume_at=None,
            )
            if in_transaction(give_up):
                given_up.add(elicitation.parked_call_id)
                logger.warning(
                    "A closed question was given up: nobody went on with its call",
                    extra=log_fields(elicitation) | {"resent": elicitation.resent},
                )
            continue
        times = elicitation.resent + 1
        if in_transaction(partial(mine.update, resent=times, resume_at=now + _pause(times))) != 1:
            continue
        # The questions of one round are one call to go on with.
        if elicitation.parked_call_id not in sent:
            sent.add(elicitation.parked_call_id)
            _announce(elicitation_closed, elicitation, resent=times)
    return Resent(len(sent), len(given_up))


def _pause(times: int) -> timedelta:
    """Return how long a host has to go on with a call that it was told of ``times`` times more."""
    # Bounded before it is doubled: an operator may choose any number of attempts.
    pause: timedelta = settings.RESUME_AFTER * 2 ** min(times, 16)
    return min(pause, LONGEST_PAUSE)


def forget_addresses(before: datetime, *, limit: int = 500) -> int:
    """Forget up to ``limit`` addresses of questions that were closed at ``before`` or earlier.

    They may hold secrets. Nobody is shown them any more once consent to them has expired.
    """
    rows = Elicitation.objects.using(write_alias()).closed_before(before).with_address()
    old = list(rows.order_by("closed_at").values_list("pk", flat=True)[:limit])

    def forget() -> int:
        return rows.filter(pk__in=old).update(url="")

    return in_transaction(forget, redoable=True) if old else 0


def delete_old(before: datetime, *, limit: int = 500) -> int:
    """Delete up to ``limit`` questions that were closed at ``before`` or earlier."""
    rows = Elicitation.objects.using(write_alias())
    # Keys first: MariaDB knows no LIMIT in a subquery, and a short DELETE holds short locks.
    old = list(
        rows.closed_before(before).order_by("closed_at").values_list("pk", flat=True)[:limit]
    )

    def delete() -> int:
        # A closed row stays closed, so the condition cannot become false meanwhile.
        return rows.closed_before(before).filter(pk__in=old).delete()[0]

    return in_transaction(delete, redoable=True) if old else 0


def replace(parked_call_id: uuid.UUID, *, keep: set[uuid.UUID], reason: str) -> None:
    """Withdraw what a call no longer asks; inside the transaction that parks or closes it.

    Args:
        parked_call_id: The call.
        keep: Questions that stay as they are.
        reason: ``REPLACED`` or ``FINISHED``.
    """
    now = timezone.now()
    pending = Elicitation.objects.using(write_alias()).of_call(parked_call_id).pending()
    for elicitation in pending.exclude(pk__in=keep).order_by("pk"):
        if _win(
            elicitation,
            state=State.WITHDRAWN,
            reason=reason,
            url="",
            closed_at=now,
            closed_via=Via.HOST,
            # There is nothing the server could be told of it.
            delivered_at=now,
            delivery=Elicitation.Delivery.DROPPED,
        ):
            _announce(elicitation_closed, elicitation)


def _expire(elicitation: Elicitation, *, via: str = Via.HOST) -> Elicitation:
    return _close(elicitation, State.EXPIRED, via=via)


@sensitive_variables()
def _close(
    elicitation: Elicitation,
    state: str,
    *,
    by: AbstractBaseUser | None = None,
    via: str,
    reason: str = "",
    answers: Mapping[str, FormAnswer] | None = None,
    answer_digest: str = "",
    now: datetime | None = None,
    redoable: bool = False,
) -> Elicitation:
    """Close a question in this state, if it is still open; return what it is then.

    Where its time is up it expires instead. Otherwise the first one wins.
    """

    def close() -> Elicitation:
        at = now or timezone.now()
        late = elicitation.expires_at <= at
        if not _win(
            elicitation,
            state=State.EXPIRED if late else state,
            # Only who agreed to open the address still needs it.
            url=elicitation.url if state == State.ANSWERED and not late else "",
            reason="" if late else reason,
            closed_at=at,
            closed_by=None if late else by,
            closed_via=via,
            answer_digest="" if late else answer_digest,
            resume_at=timezone.now() + settings.RESUME_AFTER,
        ):
            elicitation.refresh_from_db(using=write_alias())
            return elicitation
        _record(elicitation, answers or {})
        _announce(elicitation_closed, elicitation)
        return elicitation

    return in_transaction(close, redoable=redoable)


@sensitive_variables()
def _record(elicitation: Elicitation, answers: Mapping[str, FormAnswer]) -> None:
    """Leave what the server is to be told of a closed question."""
    accepted = elicitation.state == State.ANSWERED
    store = DatabaseFormAnswerStore(
        scope=elicitation.scope,
        call=elicitation.call,
        respondent_id=elicitation.respondent_id,
    )
    answer_row = store.answer_row(
        server=elicitation.server,
        tool=elicitation.tool,
        fingerprint=elicitation.fingerprint,
        action=FormAnswerAction.ACCEPT if accepted else FormAnswerAction.DECLINE,
        answers=answers,
        number=elicitation.number,
        elicitation_id=elicitation.pk,
    )
    record([answer_row])


def _take_back(elicitation: Elicitation, *, via: str) -> None:
    """Turn a consent into a decline, where the server still asks for the address."""
    now = timezone.now()
    going_on = Elicitation.objects.using(write_alias()).going_on()

    def take_back() -> None:
        if _change(
            elicitation,
            going_on,
            state=State.DECLINED,
            reason=TAKEN_BACK,
            url="",
            closed_at=now,
            closed_via=via,
            resume_at=now + settings.RESUME_AFTER,
            resent=0,
            delivered_at=None,
            delivery="",
        ):
            _record(elicitation, {})
            _announce(elicitation_closed, elicitation)

    in_transaction(take_back)


def _win(elicitation: Elicitation, **changes: object) -> bool:
    """Change a pending question, if nobody else closed it first."""
    pending = Elicitation.objects.using(write_alias()).pending()
    if not _change(elicitation, pending, **changes):
        return False
    if elicitation.in_call:
        # Only then does anybody listen: commits that tell something wait for one another.
        tell(elicitation.pk)
    return True


def _change(elicitation: Elicitation, among: ElicitationQuerySet, **changes: object) -> bool:
    """Change a question's row, and what is in hand of it, if it still is one of these."""
    if among.filter(pk=elicitation.pk).update(**changes) != 1:
        return False
    for name, value in changes.items():
        setattr(elicitation, name, value)
    return True


def log_fields(elicitation: Elicitation) -> dict[str, object]:
    """Return what every log record about a question carries: ids and states, no content."""
    fields: dict[str, object] = {
        "elicitation_id": str(elicitation.pk),
        "parked_call_id": str(elicitation.parked_call_id),
        "server": elicitation.server,
        "tool": elicitation.tool,
        "state": str(elicitation.state),
    }
    if elicitation.closed_at is not None:
        fields["duration"] = (elicitation.closed_at - elicitation.asked_at).total_seconds()
    return fields


def _announce(signal: Signal, elicitation: Elicitation, *, resent: int = 0) -> None:
    """Send a signal once the transaction has committed; a receiver's error is only logged."""
    fields = log_fields(elicitation)
    send = partial(
        signal.send_robust,
        sender=Elicitation,
        elicitation_id=elicitation.pk,
        parked_call_id=elicitation.parked_call_id,
        scope=elicitation.scope,
        state=str(elicitation.state),
    )

    def announce() -> None:
        if resent:
            logger.warning(
                "Nobody went on with a call; its host is told again",
                extra=fields | {"resent": resent},
            )
        else:
            logger.info("An elicitation changed its state", extra=fields)
        send()

    transaction.on_commit(announce, using=write_alias(), robust=True)


aget = sync_to_async(get)
aask_in_call = sync_to_async(ask_in_call)
aconsented = sync_to_async(consented)
arecorded = sync_to_async(recorded)
aanswer = sync_to_async(answer)
aconsent = sync_to_async(consent)
ago_on = sync_to_async(go_on)
acomplete = sync_to_async(complete)
acontinued = sync_to_async(continued)
adecline = sync_to_async(decline)
awithdraw = sync_to_async(withdraw)
aexpire = sync_to_async(expire)
aexpire_now = sync_to_async(expire_now)
aexpire_due = sync_to_async(expire_due)
aresend_due = sync_to_async(resend_due)
aforget_addresses = sync_to_async(forget_addresses)
adelete_old = sync_to_async(delete_old)
afollow_up = sync_to_async(follow_up)
ashown = sync_to_async(shown)
