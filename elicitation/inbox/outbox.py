"""Tell hosts again of closed elicitations whose calls nobody went on with."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from django.utils import timezone

from ..conf import settings
from ..models import Elicitation
from ..signals import elicitation_closed
from ..store import in_transaction, write_alias
from .rows import announce, log_fields

logger = logging.getLogger("elicitation")

#: The longest pause before a host is told again that a question of its is closed.
LONGEST_PAUSE = timedelta(hours=1)


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
            announce(elicitation_closed, elicitation, resent=times)
    return Resent(len(sent), len(given_up))


def _pause(times: int) -> timedelta:
    """Return how long a host has to go on with a call that it was told of ``times`` times more."""
    # Bounded before it is doubled: an operator may choose any number of attempts.
    pause: timedelta = settings.RESUME_AFTER * 2 ** min(times, 16)
    return min(pause, LONGEST_PAUSE)
