"""A call that waits between rounds: find it, claim it, park it, take its answers, close it.

Each function is one step of a call: all that the step does in the database, in one transaction.
Locks are taken in one order everywhere: the call's row, its elicitations, its answers.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import IntegrityError
from django.db.models import F
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from .. import backoff, inbox, store
from ..conf import settings
from ..core import ElicitationError, ElicitationPending, ElicitationRefusal
from ..models import (
    Elicitation,
    ElicitationQuerySet,
    ParkedCall,
    ParkedCallQuerySet,
    ServerPolicy,
    StoredFormAnswer,
    URLPolicyRefusal,
    encode_json,
    row_key,
)
from ..transactions import (
    in_transaction,
    is_duplicate,
    refuse_outer_transaction,
    write_alias,
)
from .abandoned import cancel_task
from .ended import AlreadyEnded, AnyCall, Code, Ended, Outcome, announce
from .lease import CallInProgressError, Lease
from .replies import NotSentError
from .requests import PolicyRefusal, read_requests, response, wanted_answers
from .tasks import Task
from .values import STARTED, Call, Round

logger = logging.getLogger("elicitation")

Delivery = Elicitation.Delivery

#: The longest pause before a host is told again of its call.
LONGEST_PAUSE = timedelta(hours=1)

#: What changes in a call's row once any process may resume it.
_GIVEN_BACK: Mapping[str, Any] = {"lease": None, "leased_until": None, "called_at": None}


class AnotherRespondentError(ElicitationError):
    """The call waits for somebody else: the respondent is fixed when it starts."""

    def __init__(self) -> None:
        super().__init__(
            "This call waits for the answer of another person. A call keeps the respondent it "
            "started with; use another call id to ask somebody else.",
            code="another_respondent",
        )


class TooManyOpenRefusal(ElicitationRefusal):
    """So many elicitations wait for this person that no more are put to them."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"The server '{server}' asks a person for whom too much waits already. See "
            "ELICITATION_MAX_OPEN and ELICITATION_MAX_OPEN_PER_PERSON.",
            code="too_many_open",
            reason="too many elicitations wait for this person",
        )


class AskedTooOften(Exception):  # no error: it is declined
    """The call has asked in as many rounds as ``ELICITATION_MAX_ROUNDS`` lets it."""


#: The same, for the log.
ASKS_TOO_OFTEN = "the call asks too often; see ELICITATION_MAX_ROUNDS"


class AlreadyParked(Exception):  # no error: the caller goes on with that one
    """The same call was made twice, and the other one is parked."""


def rows() -> ParkedCallQuerySet:
    """Return the rows of parked calls, in the database to which they are written."""
    return ParkedCall.objects.using(write_alias())


def find(call: Call) -> bool:
    """Whether this call is parked, or has ended with nobody's acknowledgement.

    Raises:
        AnotherRespondentError: It waits for somebody else.
        OuterTransactionError: Called inside a transaction: were it rolled back, the elicitations
            would be gone that people have been told of.
    """
    refuse_outer_transaction()
    found = rows().filter(pk=call.parked_call_id).order_by()
    for respondent_id in found.values_list("respondent_id", flat=True):
        if respondent_id != call.respondent_id:
            raise AnotherRespondentError
        return True
    return False


def waiting_for(parked_call_id: uuid.UUID) -> list[Elicitation]:
    """Return the elicitations a call still waits for; those whose time is up are closed first."""
    waiting = Elicitation.objects.using(write_alias()).of_call(parked_call_id).pending()
    found = list(waiting.order_by("asked_at", "number"))
    for elicitation in found:
        if elicitation.is_expired():
            inbox.expire(elicitation.pk)
    return [elicitation for elicitation in found if elicitation.is_open()]


def elicitations(elicitation_ids: Collection[uuid.UUID]) -> list[Elicitation]:
    """Return these elicitations, in whatever state they are."""
    found = Elicitation.objects.using(write_alias()).filter(pk__in=elicitation_ids)
    return list(found.order_by("asked_at", "number"))


def pending(waiting: Sequence[Elicitation]) -> ElicitationPending:
    """Return the exception that tells the host what its call waits for: at least one elicitation.

    Of several it has the messages one after the other, the questions in one list, the first
    fingerprint and the earliest deadline.
    """
    asked = [elicitation.pending() for elicitation in waiting]
    return ElicitationPending(
        server_name=asked[0].server_name,
        tool_name=asked[0].tool_name,
        message="\n\n".join(one.message for one in asked),
        questions=[question for one in asked for question in one.questions],
        fingerprint=asked[0].fingerprint,
        opens_url=any(one.opens_url for one in asked),
        elicitation_ids=[elicitation.pk for elicitation in waiting],
        urls=[url for elicitation in waiting if (url := elicitation.page_url)],
        parked_call_id=waiting[0].parked_call_id,
        deadline=min(elicitation.expires_at for elicitation in waiting),
        method=waiting[0].method,
    )


# --- Going on --------------------------------------------------------------------------------


class WrongServerError(ElicitationError):
    """A call was to go on at another server than the one that asked."""

    def __init__(self) -> None:
        super().__init__(
            "This call was parked for another server, and its answers go to no other. Resume it "
            "with a session of its own server; the signals and the call's row name it.",
            code="wrong_server",
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Taken:
    """The answers of a round, taken together, with what each of them tells the server."""

    requests: Sequence[inbox.ElicitationRequest]
    #: In the order of the requests.
    answers: Sequence[StoredFormAnswer]
    #: By the server's keys, each the JSON of an ``ElicitResult``.
    responses: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A parked call that this process goes on with."""

    call: Call
    round: Round
    lease: Lease
    row: ParkedCall
    #: The answers of its round, if they were taken with the claim.
    taken: Taken | None = None
    #: Whether all that it puts to people is answered, if nothing was taken yet.
    is_complete: bool = False
    #: Why the round cannot be put to people any more.
    refusal: ElicitationRefusal | None = None


@sensitive_variables()
def resume(parked_call_id: uuid.UUID | str, *, server: str, is_modern: bool) -> Resumed:
    """Make this process the one that goes on with a call, and take the answers of its round.

    Args:
        parked_call_id: The call.
        server: The name of the server that the caller's session belongs to.
        is_modern: Whether that session agreed on a revision that has request states.

    Raises:
        ElicitationPending: People have to answer first.
        WrongServerError: It is another server's call.
        NotSentError: The server would ignore the state and the answers in this session.
        CallInProgressError: Another process has it.
        OuterTransactionError: Called inside a transaction.
        AlreadyEnded: It has ended, and its outcome waits.
        ParkedCall.DoesNotExist: It has ended, and its outcome was acknowledged.
    """
    lease = Lease(parked_call_id=as_uuid(parked_call_id))
    asked = Elicitation.objects.using(write_alias()).of_call(lease.parked_call_id)

    def resume() -> Resumed | NotSentError | None:
        if not lease.claim():
            raise _NotNow
        row = rows().select_related("policy").get(pk=lease.parked_call_id)
        if row.server != server:
            raise WrongServerError
        call, round = Call.of(row), Round.of(row)
        if round.number == STARTED:
            return _started(Resumed(call=call, round=round, lease=lease, row=row))
        if not (is_modern or round.plain):
            return _wrong_revision(row, lease)
        resumed = partial(Resumed, call=call, round=round, lease=lease, row=row)
        if row.working_since is not None:
            return resumed()
        try:
            requests = read(call, round, row.server_policy)
        except ElicitationRefusal as refusal:
            return resumed(refusal=refusal)
        if len(requests) < len(round.requests):
            # The host's own callables come before the take.
            wanted = wanted_answers(call.answers, requests)
            usable = store.answers(wanted).filter(expires_at__gt=timezone.now())
            return resumed(is_complete=usable.count() == len(wanted))
        return resumed(taken=_take(call, requests))

    def resume_unless_asked() -> Resumed | NotSentError | None:
        resumed = resume()
        taken = resumed.taken if isinstance(resumed, Resumed) else None
        # Every elicitation of the round is closed if it is one of them that each answer is to.
        is_closed = taken is not None and all(answer.elicitation_id for answer in taken.answers)
        if not is_closed and asked.pending().exists():
            raise _NotNow
        return resumed

    while True:
        with suppress(_NotNow):
            found = in_transaction(resume_unless_asked, durable=True)
            if isinstance(found, NotSentError):
                raise found
            if found is not None:
                return found
        _raise_why_not(lease.parked_call_id, server)


class _NotNow(Exception):  # no error: rolls back, and then it is looked why
    """The call cannot be claimed: another process has it, people are asked, or it is over."""


def _started(resumed: Resumed) -> Resumed | None:
    """Note that the first request goes out, so that no other process sends it once more.

    Returns:
        The call; ``None`` where a process has noted that before and is gone. Nobody can know
        whether the tool ran: the call is lost, and closed here.
    """
    if resumed.row.called_at is None:
        resumed.lease.rows().update(called_at=timezone.now())
        return resumed
    logger.warning(
        "A process has died while it made a call",
        extra={
            "parked_call_id": str(resumed.row.pk),
            "server": resumed.row.server,
            "tool": resumed.row.tool,
        },
    )
    close(resumed.call, Ended(code=Code.LOST, reason=inbox.PROCESS_GONE), lease=resumed.lease)
    return None


def _wrong_revision(row: ParkedCall, lease: Lease) -> NotSentError:
    """Give a call back of which nothing was taken, and have its host told again."""
    reason = "wrong_revision"
    retry_at = next_try(row.looked)
    closed = Elicitation.objects.using(write_alias()).of_call(row.pk).undelivered()
    ids = list(closed.order_by().values_list("pk", flat=True))
    lease.rows().update(**_GIVEN_BACK, **_unsent(ids, reason, retry_at))
    _tell_again(ids, retry_at)
    return NotSentError(row.server, row.tool, reason, parked_call_id=row.pk, retry_at=retry_at)


def next_try(looked: int) -> datetime:
    """Return when a call is tried again that was looked after so often, by pauses that grow."""
    return timezone.now() + backoff.pause(looked, settings.RESUME_AFTER, LONGEST_PAUSE)


def _unsent(ids: Collection[uuid.UUID], reason: str, retry_at: datetime) -> dict[str, Any]:
    """Return what changes in the row of a call whose request was not sent.

    Args:
        ids: The closed elicitations that are in the outbox for it. Without one, the host is told
            by the call's own row.
        reason: Why it was not sent, as a code.
        retry_at: When the host is told again.
    """
    looked = {} if ids else {"look_at": retry_at, "looked": F("looked") + 1}
    return {"unsent_reason": reason, **looked}


def _tell_again(ids: Collection[uuid.UUID], retry_at: datetime) -> None:
    """Let the outbox tell hosts of closed elicitations at this moment, or later."""
    closed = Elicitation.objects.using(write_alias()).filter(pk__in=ids).undelivered()
    # The pauses of the outbox grow: where it waits for longer already, that stays.
    closed.exclude(resume_at__gt=retry_at).update(resume_at=retry_at)
    closed.filter(delivery="").update(delivery=Delivery.NOT_SENT)


def _raise_why_not(parked_call_id: uuid.UUID, server: str) -> None:
    """Say why a call cannot be claimed; return where it can be by now."""
    row = rows().filter(pk=parked_call_id)
    found = row.get()
    if found.ended_at is not None:
        if found.server != server:
            raise WrongServerError
        raise AlreadyEnded(Outcome.of(found))
    if waiting := waiting_for(parked_call_id):
        raise pending(waiting)
    if row.leased().exists():
        raise CallInProgressError


def as_uuid(value: uuid.UUID | str) -> uuid.UUID:
    """Return the key of a call's row.

    Raises:
        ParkedCall.DoesNotExist: No row can have it.
    """
    try:
        return value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))
    except ValueError:
        raise ParkedCall.DoesNotExist from None


def renew(lease: Lease) -> bool:
    """Prolong a lease; whether this process still had it."""
    return in_transaction(lease.renew)


def renew_all(leases: Collection[Lease], duration: timedelta) -> None:
    """Prolong leases of one duration, those that this process still has."""
    in_transaction(lambda: Lease.renew_all(leases, duration))


def release(lease: Lease) -> None:
    """Let any process resume the call again, if this one still has it."""
    in_transaction(lease.release)


# --- Taking ----------------------------------------------------------------------------------


@sensitive_variables()
def take(call: Call, round: Round, lease: Lease) -> Taken | None:
    """Take the answers of a round, under the lease and the policy of the moment.

    Args:
        call: The call.
        round: Its round.
        lease: The lease under which they are sent.

    Returns:
        The answers; ``None`` where one is missing, in which case all of them stay.

    Raises:
        ElicitationRefusal: The policy does not let the server ask any more.
        CallInProgressError: The lease ran out, and another process has the call.
        OuterTransactionError: Called inside a transaction.
    """

    def take() -> Taken | None:
        if not lease.renew():
            raise CallInProgressError
        return _take(call, read(call, round))

    return in_transaction(take, durable=True)


def _take(call: Call, requests: Sequence[inbox.ElicitationRequest]) -> Taken | None:
    """Take the answers to these requests or none, inside a transaction."""
    answers = store.take(wanted_answers(call.answers, requests))
    if answers is None:
        return None
    responses = {
        request.elicitation.key: response(answer, request)
        for request, answer in zip(requests, answers, strict=True)
    }
    return Taken(requests=requests, answers=answers, responses=responses)


def read(
    call: Call, round: Round, policy: ServerPolicy | None = None
) -> list[inbox.ElicitationRequest]:
    """Return what a round puts to people, as the policy of this moment lets it.

    Args:
        call: The call.
        round: Its round.
        policy: The policy of its server, if the caller has read it in this transaction.

    Raises:
        ElicitationRefusal: It cannot be put to a person.
    """
    if policy is None:
        policy = ServerPolicy.objects.for_server(call.server)
    return read_requests(round.requests, server=call.server, tool=call.tool, policy=policy)


@sensitive_variables()
def put_back(
    answers: Iterable[StoredFormAnswer],
    *,
    lease: Lease | None = None,
    deliveries: Mapping[uuid.UUID, str] | None = None,
    fresh_after: Collection[int] | None = None,
    unsent_reason: str = "",
    retry_at: datetime | None = None,
) -> None:
    """Record again answers that were taken and that the server cannot have acted on.

    An answer that was recorded meanwhile is newer, and stays. Under a lease that another process
    has by now nothing is put back: that process has said in the audit that they are lost.

    Args:
        answers: The answers.
        lease: The lease under which they were taken; given back.
        deliveries: How it ended with others, by the ids of their elicitations.
        fresh_after: The rounds after which the call was made afresh, where that has changed.
        unsent_reason: Why the request did not reach the server, as a code.
        retry_at: When the host is told again.
    """
    back = list(answers)
    ids = [answer.elicitation_id for answer in back if answer.elicitation_id]

    def put() -> None:
        if lease is not None:
            changes: dict[str, Any] = dict(_GIVEN_BACK)
            if fresh_after is not None:
                changes["fresh_after"] = json.dumps(sorted(fresh_after))
            if retry_at is not None:
                changes |= _unsent(ids, unsent_reason, retry_at)
            if lease.rows().update(**changes) != 1:
                note_deliveries(deliveries or {})
                return
        if retry_at is not None:
            _tell_again(ids, retry_at)
        _record_unless_newer(back)
        note_deliveries({key: how for key, how in (deliveries or {}).items() if key not in ids})

    in_transaction(put)


def _record_unless_newer(answers: Sequence[StoredFormAnswer]) -> None:
    # What is there under the same key was recorded after these were taken.
    if answers:
        StoredFormAnswer.objects.using(write_alias()).bulk_create(answers, ignore_conflicts=True)


def dropped_by(refusal: ElicitationError | None) -> str:
    """Return what the audit says of an answer that is not sent: who did not want it.

    Args:
        refusal: Why the round cannot be put to people any more, if that is why.
    """
    is_by_policy = isinstance(refusal, PolicyRefusal | URLPolicyRefusal)
    return Delivery.SWITCHED_OFF if is_by_policy else Delivery.DROPPED


# --- Parking ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What a pass through the rounds brings to the call's row, beside the round itself."""

    #: How it ended with elicitations whose answers were sent, by their ids.
    deliveries: Mapping[uuid.UUID, str] = field(default_factory=dict)
    #: Answers that the server has not read, or consents that it asks for again.
    in_hand: Sequence[StoredFormAnswer] = ()
    #: Why the round cannot be put to people any more.
    refusal: ElicitationError | None = None
    #: The rounds after which the call was made afresh.
    fresh_after: Collection[int] = ()
    #: Since when the server is at work and asks nothing; ``None`` where it asks.
    working_since: datetime | None = None

    @property
    def dropped(self) -> str:
        """What the audit says of answers that are not sent any more."""
        return dropped_by(self.refusal)

    def drop(self, answers: Iterable[StoredFormAnswer]) -> dict[uuid.UUID, str]:
        """Return what the audit says of answers in hand that are not sent any more.

        A consent that the server asked for again had reached it, and stays delivered.
        """
        ids = {answer.elicitation_id for answer in answers} - set(self.deliveries)
        return {key: self.dropped for key in ids if key is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """What came of parking a round."""

    #: The elicitations that wait for people; none where every answer is recorded.
    waiting: Sequence[Elicitation]
    #: The lease under which the caller goes on; ``None`` where people have to answer first.
    lease: Lease | None
    #: Whether nobody is asked, and the round is declined: the call has asked too often.
    is_declined: bool = False


@sensitive_variables()
def park(
    call: Call, round: Round, *, lease: Lease | None = None, carried: Carried | None = None
) -> Parked:
    """Store a round, ask what is not asked or answered yet, and clear away the rest.

    One transaction: a park that fails in the middle leaves nothing behind. If every answer is
    recorded nobody is asked, and the caller has the call's lease to go on with.

    Args:
        call: The call.
        round: The round it stops in.
        lease: The lease under which the caller goes on with a parked call; ``None`` the first
            time.
        carried: What the caller brings.

    Raises:
        ElicitationRefusal: It cannot be put to a person.
        AlreadyParked: The same call was made twice, and the other one is parked, or was until
            just now: its round stays.
        AnotherRespondentError: Somebody else was asked meanwhile, by the same call.
        CallInProgressError: The caller's lease ran out, and another process has the call.
        TooLargeError: The round's requests or state have too many bytes.
    """
    carried = carried or Carried()
    requests = read(call, round)
    row = _row(call, round, carried)
    wanted = wanted_answers(call.answers, requests)
    by_key = {each.key: each for each in wanted}

    def park() -> Parked:
        if lease is None:
            row.save(using=write_alias(), force_insert=True)
            there = row
        else:
            there = _locked(row, lease)
        before = _Before.of(call.parked_call_id, is_new=lease is None)
        before.put_back(carried, by_key, round.number)
        answered = store.answered(wanted, before.answers)
        missing = [
            request
            for request, each in zip(requests, wanted, strict=True)
            if each.key not in answered
        ]
        may_ask = there is row or there.asked < settings.MAX_ROUNDS
        try:
            waiting, asks = _ask(call, round, missing, before, may_ask=may_ask)
        except AskedTooOften:
            # Stored all the same, so that the decline can be sent later if it is not now.
            waiting, asks, answered = [], False, set()
            row.look_at = timezone.now() + settings.RESUME_AFTER
            row.looked = there.looked if there.round == row.round else 0
            is_declined = True
        else:
            is_declined = False
        before.clear(
            keep_answers=answered,
            keep_elicitations={elicitation.pk for elicitation in waiting},
            later_than=round.number,
            reason=inbox.REPLACED,
        )
        held = None if waiting else lease or Lease(parked_call_id=call.parked_call_id)
        _update(row, there, held, asks)
        return Parked(waiting=waiting, lease=held, is_declined=is_declined)

    try:
        return in_transaction(park)
    except IntegrityError as error:
        if lease is not None or not is_duplicate(error):
            raise
        # For somebody else it is an error; the same one may even have finished since.
        find(call)
        raise AlreadyParked from None


def _row(call: Call, round: Round, carried: Carried) -> ParkedCall:
    """Return the row of a call in this round, unwritten.

    Raises:
        TooLargeError: The round's requests or state have too many bytes.
    """
    return ParkedCall(
        id=call.parked_call_id,
        scope=call.scope,
        scope_key=row_key(call.scope),
        scope_label=call.scope_label,
        call=call.call,
        server=call.server,
        policy_id=row_key(call.server),
        tool=call.tool,
        method=call.method,
        respondent_id=call.respondent_id,
        arguments=call.arguments_json,
        options=encode_json("options", dict(call.options), settings.MAX_CALL_BYTES),
        round=round.number,
        requests=encode_json("requests", round.requests, settings.MAX_CALL_BYTES),
        request_state=encode_json("request state", round.request_state, settings.MAX_CALL_BYTES),
        received_at=round.received_at,
        plain=round.plain,
        task="" if round.task is None else round.task.as_json(),
        # A first round nearly always asks: its row then needs no second statement.
        asked=1 if round.requests else 0,
        working_since=carried.working_since,
        # If this process dies, its lease ends, and the outbox looks after the call from then on.
        look_at=None if carried.working_since is None else timezone.now() + settings.RESUME_AFTER,
        fresh_after=json.dumps(sorted(carried.fresh_after)),
    )


def _locked(row: ParkedCall, lease: Lease) -> ParkedCall:
    """Return the call's row as it is, locked.

    Raises:
        CallInProgressError: The lease is another process's by now, or the call is over.
    """
    light = rows().only("asked", "lease", "round", "looked").select_for_update()
    there = light.filter(pk=row.pk).first()
    if there is None or there.lease != lease.token:
        raise CallInProgressError
    return there


def _update(row: ParkedCall, there: ParkedCall, held: Lease | None, asks: bool) -> None:
    """Write the round into the call's row; a new row that waits for people has it already."""
    is_new = there is row
    asked = int(asks) + (0 if is_new else there.asked)
    changes: dict[str, Any] = {"asked": asked} if asked != row.asked else {}
    if not is_new:
        row.asked = asked
        if asks:
            # A person answers this round anew, so the call can be made afresh after it once more.
            again = [number for number in row.fresh_after_rounds if number != row.round]
            row.fresh_after = json.dumps(again)
        changes = {name: getattr(row, name) for name in _CHANGES}
    if held is not None:
        held.hold(rows().filter(pk=row.pk), **changes)
    elif changes:
        # People have to answer now. Any process may resume the call afterwards.
        rows().filter(pk=row.pk).update(**_GIVEN_BACK, **changes)


#: What a later round changes in the row of its call.
_CHANGES = (
    "round",
    "requests",
    "request_state",
    "received_at",
    "plain",
    "task",
    "fresh_after",
    "asked",
    "unsent_reason",
    "look_at",
    "working_since",
    "looked",
)


def _ask(
    call: Call,
    round: Round,
    missing: Sequence[inbox.ElicitationRequest],
    before: _Before,
    *,
    may_ask: bool,
) -> tuple[list[Elicitation], bool]:
    """Ask what is missing, unless it waits already; return what waits, and whether it asked.

    Raises:
        AskedTooOften: A person would have to be asked, and the call may ask no more.
    """
    open_ones = {
        (each.fingerprint, each.number): each for each in before.elicitations if each.is_open()
    }
    new = [each for each in missing if (each.fingerprint, each.number) not in open_ones]
    if new:
        if not may_ask:
            raise AskedTooOften
        refuse_too_many(call, len(new))
    asked = {
        (request.fingerprint, request.number): elicitation
        for request, elicitation in zip(
            new,
            inbox.ask_all(
                new,
                parked_call_id=call.parked_call_id,
                scope=call.scope,
                scope_label=call.scope_label,
                call=call.call,
                round=round.number,
                respondent_id=call.respondent_id,
                method=call.method,
            ),
            strict=True,
        )
    }
    found = open_ones | asked
    return [found[each.fingerprint, each.number] for each in missing], bool(new)


def refuse_too_many(call: Call, more: int) -> None:
    """Raise ``TooManyOpenRefusal`` where too much waits for this person already."""
    rows = Elicitation.objects.using(write_alias()).filter(respondent=call.respondent_id)

    def are_too_many(theirs: ElicitationQuerySet) -> bool:
        most = settings.MAX_OPEN_PER_PERSON
        servers = list(theirs.order_by().values_list("policy_id", flat=True)[: most + 1])
        of_this = servers.count(row_key(call.server))
        return len(servers) + more > most or of_this + more > settings.MAX_OPEN

    # Which of them can still be answered matters only where all together would be too many.
    if are_too_many(rows.pending()) and are_too_many(rows.open()):
        raise TooManyOpenRefusal(call.server)


@dataclass(slots=True, kw_only=True)
class _Before:
    """What a call has asked and been answered, of which its server got nothing yet."""

    parked_call_id: uuid.UUID
    #: Pending ones, and closed ones of which the server got nothing.
    elicitations: list[Elicitation]
    #: Recorded answers by their keys.
    answers: dict[uuid.UUID, StoredFormAnswer]

    @classmethod
    def of(cls, parked_call_id: uuid.UUID, *, is_new: bool = False) -> _Before:
        """Read it. Elicitations first: one that is answered in between has its answer then.

        A call whose row is new has asked nothing yet; a host may have recorded an answer.
        """
        alias = write_alias()
        if is_new and not StoredFormAnswer.objects.using(alias).of_call(parked_call_id).exists():
            return cls(parked_call_id=parked_call_id, elicitations=[], answers={})
        asked = Elicitation.objects.using(alias).of_call(parked_call_id)
        unsettled = asked.filter(delivered_at=None).defer("requested_schema")
        elicitations = list(unsettled.order_by("asked_at", "number"))
        answers = StoredFormAnswer.objects.using(alias).of_call(parked_call_id)
        return cls(
            parked_call_id=parked_call_id,
            elicitations=elicitations,
            answers={answer.pk: answer for answer in answers},
        )

    def put_back(self, carried: Carried, wanted: Collection[uuid.UUID], round_number: int) -> None:
        """Record what the caller has in hand and the call still needs; the rest is dropped."""
        back = [
            answer
            for answer in carried.in_hand
            if answer.pk in wanted or answer.round > round_number
        ]
        _record_unless_newer(back)
        for answer in back:
            self.answers.setdefault(answer.pk, answer)
        ids = {answer.elicitation_id for answer in back if answer.elicitation_id}
        # A consent that the server got and asks for again: delivered, and still in the outbox.
        again = ids & set(carried.deliveries)
        if again:
            told = Elicitation.objects.using(write_alias()).filter(pk__in=again)
            told.update(delivery=Delivery.DELIVERED)
        self.note({key: how for key, how in carried.deliveries.items() if key not in ids})
        self.note(carried.drop(answer for answer in carried.in_hand if answer not in back))

    def note(self, deliveries: Mapping[uuid.UUID, str]) -> None:
        """Write down how it ended with elicitations, which are settled by that."""
        note_deliveries(deliveries)
        self.elicitations = [each for each in self.elicitations if each.pk not in deliveries]

    def clear(
        self,
        *,
        keep_answers: Collection[uuid.UUID],
        keep_elicitations: Collection[uuid.UUID],
        later_than: int | None = None,
        reason: str,
        dropped_as: str = Delivery.DROPPED,
    ) -> None:
        """Take back what is not asked any more, and say in the audit what became of the rest.

        Args:
            keep_answers: The keys of answers that are needed.
            keep_elicitations: The ids of elicitations that go on waiting.
            later_than: Answers to later rounds stay: after a fresh call they are asked for again.
            reason: Why a pending elicitation is withdrawn.
            dropped_as: What the audit says of an answer that is not needed.
        """
        if not self.elicitations and not self.answers:
            return
        is_pending = Elicitation.State.PENDING
        pending = [each for each in self.elicitations if each.state == is_pending]
        closed = [each for each in self.elicitations if each.state != is_pending]
        was_quicker = inbox.withdraw_all(
            [each for each in pending if each.pk not in keep_elicitations], reason=reason
        )
        kept = {
            key: answer
            for key, answer in self.answers.items()
            if key in keep_answers
            or (later_than is not None and answer.round > later_than and not answer.is_expired())
        }
        unneeded = [key for key in self.answers if key not in kept]
        dropped = store.drop(unneeded) if unneeded else []
        became: dict[uuid.UUID, str] = {
            answer.elicitation_id: (Delivery.NEVER_RESUMED if answer.is_expired() else dropped_as)
            for answer in dropped
            if answer.elicitation_id is not None
        }
        waits = {answer.elicitation_id for answer in kept.values()}
        # What is closed and left without an answer was taken by a process that broke off. A
        # consent that the server got before was delivered.
        note_deliveries(
            {
                each.pk: each.told or became.get(each.pk, Delivery.ROUND_LOST)
                for each in closed
                if each.pk not in waits
            }
        )
        if was_quicker:
            # Somebody answered one of them just now: that answer is dropped as well.
            again = _Before.of(self.parked_call_id)
            again.clear(
                keep_answers=keep_answers,
                keep_elicitations=keep_elicitations,
                later_than=later_than,
                reason=reason,
                dropped_as=dropped_as,
            )


def leave_working(
    lease: Lease, *, looked: int, look_at: datetime, task: Task | None = None
) -> None:
    """Give back a call whose server is at work; it is looked after again at ``look_at``."""
    changes: dict[str, Any] = {"looked": looked, "look_at": look_at}
    if task is not None:
        changes["task"] = task.left_until(look_at).as_json()
    in_transaction(lambda: lease.rows().update(**_GIVEN_BACK, **changes))


@sensitive_variables()
def close(
    call: AnyCall,
    ended: Ended,
    *,
    lease: Lease | None = None,
    carried: Carried | None = None,
    asked_once: bool = False,
) -> None:
    """Write down how a call ended, and in its elicitations what became of them.

    Args:
        call: The call. Where the same call waits for somebody else by now, that is left alone.
        ended: How it ended.
        lease: The lease under which the caller went on with it. Where another process has the
            call by now, only what became of the answers is noted.
        carried: What became of the answers. The server asks for none of those in hand.
        asked_once: Whether nothing else of the call can be left.
    """
    carried = carried or Carried()
    changes = ended.changes()

    def close() -> None:
        parked = rows().parked().filter(pk=call.parked_call_id)
        mine = parked.filter(respondent=call.respondent_id)
        if lease is not None:
            mine = mine.filter(lease=lease.token)
        if mine.update(**changes):
            announce(call, ended.code)
            if isinstance(call, ParkedCall):
                # No process is resuming it, which would tell its server itself.
                cancel_task(call)
        elif parked.exists():
            note_deliveries({**carried.deliveries, **carried.drop(carried.in_hand)})
            return
        if asked_once and not carried.in_hand:
            note_deliveries(carried.deliveries)
            return
        before = _Before.of(call.parked_call_id)
        before.put_back(carried, wanted=(), round_number=NO_ROUND)
        before.clear(
            keep_answers=(),
            keep_elicitations=(),
            reason=inbox.CANCELLED if ended.code == Code.CANCELLED else inbox.FINISHED,
            dropped_as=carried.dropped,
        )

    in_transaction(close)


#: Above every round: nothing is asked in a later one.
NO_ROUND = 1 << 15


def ending(delivery: str, at: datetime | None = None) -> dict[str, Any]:
    """Return what changes in the row of an elicitation that has ended with its server."""
    return {
        "delivered_at": at or timezone.now(),
        "delivery": delivery,
        "resume_at": None,
        "alive_until": None,
    }


def note_deliveries(deliveries: Mapping[uuid.UUID, str]) -> None:
    """Write down how it ended with each of these elicitations."""
    for delivery in set(deliveries.values()):
        ids = [key for key, its_delivery in deliveries.items() if its_delivery == delivery]
        rows = Elicitation.objects.using(write_alias()).filter(pk__in=ids)
        rows.update(**ending(delivery))
        for key in ids:
            logger.info(
                "An elicitation has ended with its server",
                extra={"elicitation_id": str(key), "delivery": str(delivery)},
            )
