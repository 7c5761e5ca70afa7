"""Look after calls that nobody goes on with: tell hosts again, give up, clear away."""

from __future__ import annotations

import logging
import uuid
from datetime import datetime
from functools import partial
from typing import NamedTuple

from django.utils import timezone

from .. import backoff, inbox, store
from ..conf import settings
from ..inbox.rows import announce, log_fields
from ..models import Elicitation, ParkedCall, StoredFormAnswer
from ..signals import call_due, elicitation_closed
from ..transactions import in_transaction, lock_now, write_alias
from . import parking
from .lease import Lease

logger = logging.getLogger("elicitation")

Delivery = Elicitation.Delivery


class Resent(NamedTuple):
    """What ``resend_due`` did: for how many calls the host was told again, or given up."""

    sent: int
    given_up: int


def resend_due(*, now: datetime | None = None, limit: int = 100) -> Resent:
    """Send ``elicitation_closed`` again for calls that nobody went on with.

    The outbox is the closed elicitations whose answers were not sent yet. One stays in it if a
    process died before or after it sent the signal. The pause grows, and after
    ``RESUME_ATTEMPTS`` times the audit says ``never_resumed``. If the call's row is gone, it says
    so at once. Safe in several processes at a time: the one whose ``UPDATE`` counted a row sends
    its signal.

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
    sent |= _look_after_working(now, limit)
    return Resent(len(sent), len(given_up))


def _look_after_working(now: datetime, limit: int) -> set[uuid.UUID]:
    """Send ``call_due`` for calls whose server was at work; return their keys."""
    rows = ParkedCall.objects.using(write_alias())
    sent = set()
    for parked in rows.due(now).only("scope", "call", "server", "tool", "look_at")[:limit]:
        # One of several processes sends the signal. If nobody resumes the call, it is due again.
        mine = rows.unleased().filter(pk=parked.pk, look_at=parked.look_at)
        if in_transaction(partial(mine.update, look_at=now + parking.LONGEST_PAUSE)) != 1:
            continue
        sent.add(parked.pk)
        call_due.send_robust(
            sender=ParkedCall,
            parked_call_id=parked.pk,
            scope=parked.scope,
            call=parked.call,
            server=parked.server,
            tool=parked.tool,
        )
    return sent


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
        parking.close(parked.pk, parked.respondent_id, lease=lease)
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
