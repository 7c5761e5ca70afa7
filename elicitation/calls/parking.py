"""A tool call that waits between rounds: park it, find it, claim it, close it.

The parked round takes the place of the server's first reply, so that there is one way
through a call, for the first time and for every time it is resumed.

Locks are taken in one order everywhere: the call's row, its questions, its answers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import uuid
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from asgiref.sync import sync_to_async
from django.db import models
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from .. import inbox, store
from ..conf import settings
from ..core import ElicitationError, ElicitationPending
from ..models import (
    MAX_LABEL_CHARS,
    Elicitation,
    InvalidNameError,
    ParkedCall,
    StoredFormAnswer,
    check_name,
    encode_json,
)

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

logger = logging.getLogger("elicitation")

Delivery = Elicitation.Delivery

T = TypeVar("T")


class CallInProgressError(ElicitationError):
    """Another process is resuming this call just now."""

    def __init__(self) -> None:
        seconds = settings.RESUME_LEASE.total_seconds()
        super().__init__(
            "Another process is resuming this call. If that process has died, the call can be "
            f"resumed {seconds:g} seconds after its last sign of life.",
            code="call_in_progress",
        )


class AnotherRespondentError(ElicitationError):
    """The call waits for somebody else: the respondent is fixed when it starts."""

    def __init__(self) -> None:
        super().__init__(
            "This call waits for the answer of another person. A call keeps the respondent it "
            "started with; use another call id to ask somebody else.",
            code="another_respondent",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call as the host makes it, or made it before it was parked.

    ``arguments`` is a JSON object, ``respondent`` the person who is asked. Without a call id
    of the host's, the arguments tell calls of one tool apart.

    Raises:
        InvalidNameError: A name that no row can hold, or a respondent who has no row.
        TooLargeError: The arguments are no JSON, or too much of it.
    """

    scope: str
    server: str
    tool: str
    arguments: Mapping[str, Any] | None
    respondent: AbstractBaseUser
    id: str = ""
    scope_label: str = ""
    arguments_json: str = field(init=False)

    def __post_init__(self) -> None:
        for name in ("scope", "server", "tool"):
            check_name(f"The {name}", getattr(self, name))
        check_name("The call", self.id, blank=True)
        check_name("The scope label", self.scope_label, blank=True)
        if len(self.scope_label) > MAX_LABEL_CHARS:
            raise InvalidNameError(
                "The scope label", f"is longer than {MAX_LABEL_CHARS} characters"
            )
        if self.respondent.pk is None:
            raise InvalidNameError(
                "The respondent",
                "must be a user who is in the database, not an anonymous or unsaved one; pass "
                "None where nobody can be asked",
            )
        text = encode_json("arguments", self.arguments, settings.MAX_CALL_BYTES)
        object.__setattr__(self, "arguments_json", text)
        if not self.id:
            canonical = json.dumps(self.arguments, sort_keys=True)
            digest = hashlib.sha256(canonical.encode()).hexdigest()
            object.__setattr__(self, "id", f"arguments:{digest}")

    @classmethod
    def of(cls, parked: ParkedCall) -> Self:
        """Return the call of a parked row, with the arguments it was made with."""
        return cls(
            scope=parked.scope,
            server=parked.server,
            tool=parked.tool,
            arguments=json.loads(parked.arguments),
            respondent=parked.respondent,
            id=parked.call,
            scope_label=parked.scope_label,
        )

    @property
    def key(self) -> uuid.UUID:
        """The key of the call's row."""
        return store.call_key(scope=self.scope, call=self.id, server=self.server, tool=self.tool)

    @property
    def answers(self) -> store.DatabaseFormAnswerStore:
        """The answers recorded for this call."""
        return store.DatabaseFormAnswerStore(
            scope=self.scope, call=self.id, respondent_id=self.respondent.pk
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a server asks for before it goes on with a call (MCP 2026-07-28, MRTR).

    ``requests`` holds the requests by the server's keys, ``request_state`` what it wants back
    byte for byte, ``None`` where it sent none. Rounds are counted from 1; servers forget a
    state some time after ``received_at``. ``plain`` is a round that came as an error (MCP
    2025-11-25, ``URLElicitationRequiredError``): its retry is the same call, and nothing more.
    """

    number: int
    # No part of a repr, which may end in a log: addresses carry secrets.
    requests: Mapping[str, Mapping[str, Any]] = field(repr=False)
    request_state: str | None = field(repr=False)
    received_at: datetime = field(default_factory=timezone.now)
    plain: bool = False

    @classmethod
    def of(cls, parked: ParkedCall) -> Self:
        """Return the round in which a call was parked."""
        return cls(
            number=parked.round,
            requests=json.loads(parked.requests),
            request_state=json.loads(parked.request_state),
            received_at=parked.received_at,
            plain=parked.plain,
        )

    @property
    def is_stale(self) -> bool:
        """Whether the server may have forgotten the state by now."""
        return self.received_at + settings.STATE_MAX_AGE <= timezone.now()


def find(call: Call) -> ParkedCall | None:
    """Return the row of this call, if it is parked.

    Raises:
        AnotherRespondentError: It waits for somebody else.
    """
    parked = (
        ParkedCall.objects.using(store.write_alias())
        .select_related("respondent")
        .filter(pk=call.key)
        .first()
    )
    if parked is not None and parked.respondent_id != call.respondent.pk:
        raise AnotherRespondentError
    return parked


def get(parked_call_id: uuid.UUID | str) -> ParkedCall:
    """Return the parked call with this id.

    Raises:
        ParkedCall.DoesNotExist: It has finished, or there never was one.
    """
    rows = ParkedCall.objects.using(store.write_alias()).select_related("respondent")
    return rows.get(pk=parked_call_id)


def still_asked(parked: ParkedCall) -> list[Elicitation]:
    """Return the questions a call still waits for; those whose time is up are closed first."""
    rows = Elicitation.objects.using(store.write_alias()).of_call(parked.pk)
    pending = list(rows.pending().order_by("asked_at", "number"))
    for elicitation in pending:
        if elicitation.is_expired():
            inbox.expire(elicitation.pk)
    return [elicitation for elicitation in pending if elicitation.is_open()]


def questions(elicitation_ids: Collection[uuid.UUID]) -> list[Elicitation]:
    """Return these questions, in whatever state they are."""
    rows = Elicitation.objects.using(store.write_alias()).filter(pk__in=elicitation_ids)
    return list(rows.order_by("asked_at", "number"))


def pending(elicitations: Sequence[Elicitation]) -> ElicitationPending:
    """Return the exception that tells the host what its call waits for: at least one question.

    Of several questions it has the messages one after the other, the questions in one list,
    the first fingerprint and the earliest deadline.
    """
    asked = [elicitation.pending() for elicitation in elicitations]
    return ElicitationPending(
        server_name=asked[0].server_name,
        tool_name=asked[0].tool_name,
        message="\n\n".join(one.message for one in asked),
        questions=[question for one in asked for question in one.questions],
        fingerprint=asked[0].fingerprint,
        opens_address=any(one.opens_address for one in asked),
        elicitation_ids=[elicitation.pk for elicitation in elicitations],
        urls=[elicitation.get_absolute_url() for elicitation in elicitations],
        parked_call_id=elicitations[0].parked_call_id,
        deadline=min(elicitation.expires_at for elicitation in elicitations),
    )


def claim(parked_call_id: uuid.UUID) -> ParkedCall:
    """Make this process the one that resumes the call, until its lease runs out.

    Returns:
        The call as it is now that nobody else goes on with it.

    Raises:
        CallInProgressError: Another process has it.
        ParkedCall.DoesNotExist: It has finished.
    """
    now = timezone.now()
    rows = ParkedCall.objects.using(store.write_alias()).filter(pk=parked_call_id)
    until = now + settings.RESUME_LEASE
    claimed = store.in_transaction(lambda: rows.unclaimed(now).update(claimed_until=until))
    parked = get(parked_call_id)
    if claimed != 1:
        raise CallInProgressError
    return parked


def renew(parked: ParkedCall) -> bool:
    """Prolong the lease of a call that this process is resuming; whether it still had it."""
    until = timezone.now() + settings.RESUME_LEASE
    rows = _still_claimed(parked)
    if store.in_transaction(lambda: rows.update(claimed_until=until)) != 1:
        return False
    parked.claimed_until = until
    return True


def release(parked: ParkedCall) -> None:
    """Let any process resume the call again, if this one still has it."""
    rows = _still_claimed(parked)
    store.in_transaction(lambda: rows.update(claimed_until=None))


def _still_claimed(parked: ParkedCall) -> models.QuerySet[ParkedCall]:
    # Another process that has claimed it since did so until another moment.
    rows = ParkedCall.objects.using(store.write_alias())
    return rows.filter(pk=parked.pk, claimed_until=parked.claimed_until)


@sensitive_variables()
def park(
    call: Call,
    round: Round,
    questions: Sequence[inbox.Question],
    *,
    resumed: bool,
    lease: ParkedCall | None = None,
    deliveries: Mapping[uuid.UUID, str] | None = None,
    unsent: Sequence[StoredFormAnswer] = (),
    started_afresh: bool = False,
) -> list[Elicitation]:
    """Store a round, ask what is not asked or answered yet, and clear away the rest.

    One transaction: a park that fails in the middle leaves nothing behind.

    Args:
        call: The call.
        round: The round it stops in.
        questions: The round's questions; those that already wait, or have a recorded answer,
            are not asked again.
        resumed: Whether the caller found the call parked. If not, and it is parked by now,
            the same call was made twice: it joins the questions that wait.
        lease: The parked call that the caller goes on with, if it does.
        deliveries: How it ended with questions whose answers were sent since.
        unsent: Answers that were taken and refused unread; they are put back.
        started_afresh: Whether the server has refused a state of this call unread.

    Returns:
        The questions that wait for the person.

    Raises:
        AnotherRespondentError: Somebody else was asked meanwhile, by the same call.
        CallInProgressError: The caller's lease ran out, and another process has the call.
        TooLargeError: The round's requests or state have too many bytes.
    """
    alias = store.write_alias()
    row = ParkedCall(
        id=call.key,
        scope=call.scope,
        scope_label=call.scope_label,
        call=call.id,
        server=call.server,
        tool=call.tool,
        respondent_id=call.respondent.pk,
        arguments=call.arguments_json,
        round=round.number,
        requests=encode_json("requests", round.requests, settings.MAX_CALL_BYTES),
        request_state=encode_json("request state", round.request_state, settings.MAX_CALL_BYTES),
        received_at=round.received_at,
        plain=round.plain,
        started_afresh=started_afresh,
    )
    answer_keys = {
        call.answers.key(question.elicitation, question.number): question for question in questions
    }

    def park() -> list[Elicitation]:
        # Inserted first and locked then: locking a missing row blocks MariaDB's inserters.
        ParkedCall.objects.using(alias).bulk_create([row], ignore_conflicts=True)
        there = ParkedCall.objects.using(alias).select_for_update().get(pk=row.pk)
        if there.respondent_id != row.respondent_id:
            raise AnotherRespondentError
        if lease is not None and there.claimed_until != lease.claimed_until:
            raise CallInProgressError
        asked = Elicitation.objects.using(alias).of_call(row.pk).open().order_by("asked_at")
        if not resumed and (joined := list(asked)):
            return joined
        # The lease is not ours to end here, and may not be ours at all.
        row.claimed_until = there.claimed_until
        row.asked = there.asked
        back = [answer for answer in unsent if answer.pk in answer_keys]
        _record_unless_newer(back)
        # A consent that the server was told and asks for again: told, and still in the outbox.
        waits_on = {answer.elicitation_id for answer in back if answer.elicitation_id}
        waits_on &= set(deliveries or {})
        Elicitation.objects.using(alias).filter(pk__in=waits_on).update(
            delivery=Delivery.DELIVERED
        )
        note_deliveries(
            {key: how for key, how in (deliveries or {}).items() if key not in waits_on}
        )
        _note_delivery(
            (answer for answer in unsent if answer.pk not in answer_keys), Delivery.DROPPED
        )
        recorded = StoredFormAnswer.objects.using(alias).filter(pk__in=answer_keys)
        keep = {
            answer.pk: answer
            for answer in recorded
            if call.answers.can_be_sent(answer, answer_keys[answer.pk].elicitation)
        }
        waiting = {(one.fingerprint, one.number): one for one in asked}
        waits = []
        for key, question in answer_keys.items():
            if key in keep:
                continue
            what = (question.elicitation.fingerprint(), question.number)
            if (one := waiting.get(what)) is None:
                row.asked = there.asked + 1
                one = inbox.ask(
                    question,
                    parked_call_id=row.pk,
                    scope=call.scope,
                    scope_label=call.scope_label,
                    call=call.id,
                    round=round.number,
                    respondent=call.respondent,
                )
            waits.append(one)
        if lease is not None and waits:
            # It waits for a person now: whoever hears of the answer first may go on.
            row.claimed_until = None
        row.save(using=alias, force_update=True)
        inbox.replace(row.pk, keep={one.pk for one in waits}, reason=inbox.REPLACED)
        _settle(row.pk, keep=keep)
        return waits

    return store.in_transaction(park)


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end, though the caller is being cancelled.

    Once is not enough: anyio, and so the SDK, cancels again at every ``await``.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


def put_back(
    answers: Iterable[StoredFormAnswer],
    *,
    lease: ParkedCall | None = None,
    started_afresh: bool = False,
) -> None:
    """Record again answers that were taken and that the server cannot have acted on.

    An answer that was recorded meanwhile is newer, and stays.

    Args:
        answers: The answers.
        lease: The parked call that this process goes on with, if it does.
        started_afresh: Whether its server has refused a state unread; noted in its row, so
            that the server can say that only once.
    """
    rows = list(answers)

    def put() -> None:
        if lease is not None and started_afresh:
            _still_claimed(lease).update(started_afresh=True)
        _record_unless_newer(rows)

    if rows or started_afresh:
        store.in_transaction(put)


def _record_unless_newer(rows: Sequence[StoredFormAnswer]) -> None:
    # What is there under the same key was recorded after these were taken.
    StoredFormAnswer.objects.using(store.write_alias()).bulk_create(rows, ignore_conflicts=True)


def close(
    call_key: uuid.UUID,
    respondent_id: Any,
    *,
    deliveries: Mapping[uuid.UUID, str] | None = None,
    unsent: Iterable[StoredFormAnswer] = (),
) -> None:
    """Forget a call that has ended, and note in its questions how that was.

    Args:
        call_key: The call.
        respondent_id: Whose call it is; where the same call waits for somebody else by now,
            that is left alone.
        deliveries: How it ended with questions whose answers were sent since it was parked.
        unsent: Answers that were taken and refused unread, and that nobody asks for now.
    """

    def close() -> None:
        rows = ParkedCall.objects.using(store.write_alias()).filter(pk=call_key)
        rows.filter(respondent=respondent_id).delete()
        note_deliveries(deliveries or {})
        _note_delivery(unsent, Delivery.DROPPED)
        if not rows.exists():
            inbox.replace(call_key, keep=set(), reason=inbox.FINISHED)
            _settle(call_key, keep={})

    store.in_transaction(close)


def close_abandoned(since: datetime, *, limit: int = 100) -> int:
    """Close up to ``limit`` calls that ask nothing since ``since`` and that nobody goes on with.

    Each is a transaction of its own, under the call's lease: a host that comes back at this
    very moment finds it in progress, and then gone.
    """
    rows = ParkedCall.objects.using(store.write_alias())
    closed = 0
    abandoned = rows.abandoned(since)
    for key in abandoned.unclaimed().values_list("pk", flat=True)[:limit]:
        try:
            parked = claim(key)
        except (CallInProgressError, ParkedCall.DoesNotExist):
            continue
        # Looked at again now that nobody else goes on with it: it may ask anew.
        if abandoned.filter(pk=key).exists():
            close(parked.pk, parked.respondent_id)
            closed += 1
            logger.info(
                "A parked call was closed: nobody went on with it",
                extra={
                    "parked_call_id": str(parked.pk),
                    "server": parked.server,
                    "tool": parked.tool,
                    "round": parked.round,
                },
            )
        else:
            release(parked)
    return closed


def delete_expired(*, now: datetime | None = None, limit: int = 500) -> int:
    """Delete up to ``limit`` answers whose time is up; the audit says that they were not sent.

    Their questions stay in the outbox: a call that is resumed after this asks again.
    """
    now = now or timezone.now()
    alias = store.write_alias()
    expired = StoredFormAnswer.objects.using(alias).expired(now).order_by("expires_at")
    found = dict(expired.values_list("pk", "elicitation_id")[:limit])

    def delete() -> int:
        questions = Elicitation.objects.using(alias).undelivered().filter(delivery="")
        theirs = questions.filter(pk__in=[key for key in found.values() if key])
        store.lock_now(theirs)
        # Locked before the answers, as everywhere; the rows themselves are of no interest.
        list(theirs.select_for_update().order_by("pk").values_list("pk"))
        gone = store.delete_expired(list(found), now)
        ids = {found[key] for key in gone}
        questions.filter(pk__in=[key for key in ids if key]).update(
            delivery=Delivery.NEVER_RESUMED
        )
        return len(gone)

    return store.in_transaction(delete, redoable=True) if found else 0


def note_deliveries(deliveries: Mapping[uuid.UUID, str]) -> None:
    """Write down how it ended with each of these questions."""
    for delivery in set(deliveries.values()):
        ids = [key for key, its_delivery in deliveries.items() if its_delivery == delivery]
        Elicitation.objects.using(store.write_alias()).filter(pk__in=ids).update(
            delivered_at=timezone.now(), delivery=delivery, resume_at=None
        )
        for key in ids:
            logger.info(
                "An elicitation has ended with its server",
                extra={"elicitation_id": str(key), "delivery": str(delivery)},
            )


def _note_delivery(answers: Iterable[StoredFormAnswer], delivery: str) -> None:
    note_deliveries({row.elicitation_id: delivery for row in answers if row.elicitation_id})


def _settle(call_key: uuid.UUID, *, keep: Mapping[uuid.UUID, StoredFormAnswer]) -> None:
    """Drop the answers that are not kept, and say in the audit what became of each."""
    rows = Elicitation.objects.using(store.write_alias()).of_call(call_key).undelivered()
    dropped = store.drop(call_key, keep=keep)
    # Not of a consent that the server was told before.
    told = set(rows.filter(delivery=Delivery.DELIVERED).values_list("pk", flat=True))
    lost = [row for row in dropped if row.elicitation_id not in told]
    _note_delivery((row for row in lost if not row.is_expired()), Delivery.DROPPED)
    _note_delivery((row for row in lost if row.is_expired()), Delivery.NEVER_RESUMED)
    kept = [row.elicitation_id for row in keep.values() if row.elicitation_id]
    left = dict(rows.exclude(pk__in=kept).order_by("pk").values_list("pk", "delivery"))
    # What is closed and left without an answer was taken by a process that broke off, unless
    # its answer was deleted when its time was up.
    note_deliveries({key: delivery or Delivery.ROUND_LOST for key, delivery in left.items()})


afind = sync_to_async(find)
aget = sync_to_async(get)
aquestions = sync_to_async(questions)
astill_asked = sync_to_async(still_asked)
aclaim = sync_to_async(claim)
arenew = sync_to_async(renew)
arelease = sync_to_async(release)
apark = sync_to_async(park)
aclose = sync_to_async(close)
aput_back = sync_to_async(put_back)
anote_deliveries = sync_to_async(note_deliveries)
aclose_abandoned = sync_to_async(close_abandoned)
adelete_expired = sync_to_async(delete_expired)
