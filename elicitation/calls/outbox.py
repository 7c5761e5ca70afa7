"""Look after calls that nobody goes on with: tell hosts again, give up, clear away."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from django.db import connections, models, transaction
from django.db.models import Min
from django.db.models.functions import Coalesce, Greatest
from django.utils import timezone

from .. import backoff, inbox, store
from ..conf import settings
from ..inbox.rows import announce, log_fields
from ..models import Elicitation, ParkedCall, Retention, StoredFormAnswer
from ..signals import call_due, elicitation_closed
from ..transactions import in_transaction, lock_now, write_alias
from . import parking, refusals
from .ended import NEVER_RESUMED, Code, Ended
from .ended import announce as announce_end
from .lease import Lease

logger = logging.getLogger("elicitation")

Delivery = Elicitation.Delivery


class Resent(NamedTuple):
    """What ``resend_due`` did: for how many calls the host was told again, or given up."""

    sent: int
    given_up: int


def resend_due(*, now: datetime | None = None, limit: int = 100) -> Resent:
    """Send signals again for calls that nobody went on with, or whose outcome nobody fetched.

    The outbox of ``elicitation_closed`` is the closed elicitations whose answers were not sent
    yet. One stays in it if a process died before or after it sent the signal. The pause grows, and
    after ``RESUME_ATTEMPTS`` times the audit says ``never_resumed``. If the call is no longer
    parked, it says so at once. Safe in several processes at a time: the one whose ``UPDATE``
    counted a row sends its signal.

    ``call_finished`` is sent again, after pauses that grow, until the outcome is acknowledged,
    and ``call_due`` for calls whose server was at work.

    First, elicitations in the middle of calls are closed if the process that waited is gone.
    """
    now = now or timezone.now()
    rows = Elicitation.objects.using(write_alias())
    close_orphans(limit=limit)
    sent, given_up = set(), set()
    for elicitation in rows.strandable(now)[:limit]:
        mine = rows.undelivered().filter(pk=elicitation.pk, resent=elicitation.resent)
        parked = elicitation.is_parked  # type: ignore[attr-defined]  # annotated
        if elicitation.resent >= settings.RESUME_ATTEMPTS or not parked:
            # Set already: a consent that the server has received and asks for again.
            delivery = elicitation.told or Delivery.NEVER_RESUMED
            if in_transaction(partial(mine.update, **parking.ending(delivery, now))):
                given_up.add(elicitation.parked_call_id)
                logger.warning(
                    "A closed elicitation was given up: nobody went on with its call",
                    extra=log_fields(elicitation) | {"resent": elicitation.resent},
                )
            continue
        times = elicitation.resent + 1
        resume_at = now + backoff.pause(times, settings.RESUME_AFTER, parking.LONGEST_PAUSE)
        if in_transaction(partial(mine.update, resent=times, resume_at=resume_at)) != 1:
            continue
        # The elicitations of one round belong to one call: one signal is enough.
        if elicitation.parked_call_id not in sent:
            sent.add(elicitation.parked_call_id)
            announce(elicitation_closed, elicitation, resent=times)
    sent |= _look_after(now, limit)
    return Resent(len(sent), len(given_up))


def resend(elicitation_id: uuid.UUID) -> bool:
    """Send the signal of a closed elicitation again now, if nothing was sent to its server yet.

    Returns:
        Whether it was sent.
    """

    def resend() -> bool:
        rows = Elicitation.objects.using(write_alias()).undelivered()
        elicitation = rows.filter(pk=elicitation_id).first()
        if elicitation is None:
            return False
        announce(elicitation_closed, elicitation, resent=elicitation.resent + 1)
        return True

    return in_transaction(resend)


def _look_after(now: datetime, limit: int) -> set[uuid.UUID]:
    """Tell hosts of calls that have ended, or are to be resumed; return their keys.

    One query where there are none. One of several processes tells each.
    """
    due = ParkedCall.objects.using(write_alias()).due(now)
    found = list(due.values_list("pk", flat=True)[:limit])

    def tell() -> list[ParkedCall]:
        # In key order, and past those that another process has locked.
        mine = due.filter(pk__in=found).order_by("pk")
        lock_now(mine)
        skips = connections[mine.db].features.has_select_for_update_skip_locked
        columns = ("scope", "call", "server", "tool", "looked", "round", "outcome", "task")
        rows = list(mine.only(*columns).select_for_update(skip_locked=skips))
        for told, alike in groupby(sorted(rows, key=_times_told), key=_times_told):
            # If nobody resumes a call, it is due again.
            pause = parking.LONGEST_PAUSE
            changes: dict[str, Any] = {}
            if told:
                pause = backoff.pause(told, settings.RESUME_AFTER, parking.LONGEST_PAUSE)
                changes = {"looked": told}
            keys = [row.pk for row in alike]
            parking.rows().filter(pk__in=keys).update(look_at=now + pause, **changes)
        if tasks := [row.pk for row in rows if row.task]:
            # If a worker dies that reads one, another reads it soon.
            parking.rows().filter(pk__in=tasks).update(look_at=now + settings.RESUME_AFTER)
        for row in rows:
            _tell(row)
        return rows

    return {row.pk for row in in_transaction(tell)} if found else set()


def _times_told(row: ParkedCall) -> int:
    """Return how often the host is told, this time included; 0 where it is told once an hour.

    Told with pauses that grow: how a call ended, and that a call is to be made.
    """
    return row.looked + 1 if row.outcome or not row.round else 0


def _tell(row: ParkedCall) -> None:
    """Send the signal of a call after the commit."""
    if row.outcome:
        announce_end(row, row.outcome, told=_times_told(row))
        return
    send = partial(
        call_due.send_robust,
        sender=ParkedCall,
        parked_call_id=row.pk,
        scope=row.scope,
        call=row.call,
        server=row.server,
        tool=row.tool,
    )
    transaction.on_commit(send, using=write_alias(), robust=True)


def close_orphans(*, limit: int = 100) -> int:
    """Withdraw up to ``limit`` elicitations that wait in the middle of calls of dead processes.

    What such a process had taken is lost: it may have sent it, and nobody can know.

    Returns:
        How many were withdrawn. The host of each is told.
    """
    rows = Elicitation.objects.using(write_alias())
    for elicitation in rows.taken_by_the_dead()[:limit]:
        # The same condition again: a process that is alive after all says itself what it sent.
        lost = rows.taken_by_the_dead().filter(pk=elicitation.pk)
        if in_transaction(partial(lost.update, **parking.ending(Delivery.ROUND_LOST))):
            logger.warning(
                "A process has died that had taken an answer in the middle of a call",
                extra=log_fields(elicitation) | {"delivery": str(Delivery.ROUND_LOST)},
            )
    return inbox.withdraw_orphans(rows, limit=limit)


def close_abandoned(since: datetime, *, limit: int = 100) -> int:
    """Close up to ``limit`` calls that ask nothing since ``since`` and that nobody goes on with.

    Each is a transaction of its own, under the call's lease: a host that comes back at this
    very moment finds it in progress, and then gone.
    """
    rows = ParkedCall.objects.using(write_alias())
    closed = 0
    for key in rows.abandoned(since).unleased().values_list("pk", flat=True)[:limit]:
        lease = Lease(parked_call_id=key)
        if not in_transaction(lease.claim):
            continue
        # Look again under the lease: the call may have asked something in the meantime.
        parked = rows.abandoned(since).filter(pk=key).first()
        if parked is None:
            parking.release(lease)
            continue
        asked = Elicitation.objects.using(write_alias()).of_call(key)
        last = asked.filter(round=parked.round).order_by()
        nobody = last.filter(state=Elicitation.State.EXPIRED).exists()
        ended = Ended(code=Code.EXPIRED if nobody else Code.GIVEN_UP, reason=NEVER_RESUMED)
        parking.close(parked, ended, lease=lease)
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
    return closed


def delete_unfetched(*, now: datetime | None = None, limit: int = 500) -> int:
    """Delete up to ``limit`` outcomes that nobody acknowledged in time; the audit says so."""
    now = now or timezone.now()
    unfetched = parking.rows().unfetched(now)
    found = list(unfetched.order_by("outcome_expires_at").values_list("pk", flat=True)[:limit])

    def delete() -> list[ParkedCall]:
        mine = unfetched.filter(pk__in=found)
        lock_now(mine)
        columns = ("server", "tool", "outcome")
        rows = list(mine.only(*columns).select_for_update().order_by("pk"))
        keys = [row.pk for row in rows]
        calls = ParkedCall.objects.filter(pk=models.OuterRef("parked_call_id"))
        # The same call may have been made before, and its outcome acknowledged.
        asked = Elicitation.objects.using(write_alias()).filter(
            models.Exists(calls.filter(parked_at__lte=models.OuterRef("asked_at"))),
            parked_call_id__in=keys,
        )
        asked.update(never_fetched=True)
        mine.filter(pk__in=keys).delete()
        return rows

    deleted = in_transaction(delete, redoable=True) if found else []
    for row in deleted:
        logger.warning(
            "The outcome of a call was never fetched, and is deleted",
            extra={
                "parked_call_id": str(row.pk),
                "server": row.server,
                "tool": row.tool,
                "outcome": row.outcome,
            },
        )
    return len(deleted)


def chores(limit: int, now: datetime | None = None) -> dict[str, Callable[[], int]]:
    """Return what keeps the tables small, by the name of what each batch counts.

    Args:
        limit: How many rows one transaction changes at most.
        now: The moment that counts.
    """
    now = now or timezone.now()
    unused, lapsed = now - settings.ABANDON_AFTER, now - settings.ANSWER_TTL
    return {
        "expired elicitations": lambda: inbox.expire_due(now=now, limit=limit),
        "orphaned elicitations": lambda: close_orphans(limit=limit),
        "deleted answers": lambda: delete_expired(now=now, limit=limit),
        "closed calls": lambda: close_abandoned(unused, limit=limit),
        "deleted outcomes": lambda: delete_unfetched(now=now, limit=limit),
        "removed URLs": lambda: inbox.forget_urls(lapsed, limit=limit),
        "deleted old elicitations": lambda: inbox.delete_old(Retention.at(now), limit=limit),
        "deleted refusals": lambda: refusals.delete_old(Retention.at(now), limit=limit),
    }


def next_moment() -> datetime | None:
    """Return when a signal is to be sent again, or an elicitation expires; ``None``: never."""
    asked = Elicitation.objects.using(write_alias())
    moments = (
        asked.undelivered().aggregate(at=Min("resume_at")),
        asked.pending().aggregate(at=Min("expires_at")),
        # A lease that was not given back ends by itself.
        parking.rows().aggregate(at=Min(Greatest("look_at", Coalesce("leased_until", "look_at")))),
    )
    return min((found["at"] for found in moments if found["at"] is not None), default=None)


def delete_expired(*, now: datetime | None = None, limit: int = 500) -> int:
    """Delete up to ``limit`` answers whose time is up; the audit says that they were not sent.

    Their elicitations stay in the outbox: a call that is resumed after this asks again.
    """
    now = now or timezone.now()
    alias = write_alias()
    expired = StoredFormAnswer.objects.using(alias).expired(now).order_by("expires_at")
    found = dict(expired.values_list("pk", "elicitation_id")[:limit])

    def delete() -> int:
        undelivered = (
            Elicitation.objects.using(alias)
            .undelivered()
            .filter(delivery__in=("", Delivery.NOT_SENT))
        )
        theirs = undelivered.filter(pk__in=[key for key in found.values() if key])
        lock_now(theirs)
        # Locked before the answers, as everywhere; the rows themselves are of no interest.
        list(theirs.select_for_update().order_by("pk").values_list("pk"))
        gone = store.delete_expired(list(found), now)
        ids = {found[key] for key in gone}
        undelivered.filter(pk__in=[key for key in ids if key]).update(
            delivery=Delivery.NEVER_RESUMED
        )
        return len(gone)

    return in_transaction(delete, redoable=True) if found else 0
