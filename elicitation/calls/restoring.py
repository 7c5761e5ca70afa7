"""Make a restored database safe: what it holds may have been sent after it was copied."""

from __future__ import annotations

import uuid
from datetime import datetime
from functools import partial
from typing import NamedTuple

from django.db.models import Q
from django.utils import timezone

from .. import inbox
from ..conf import settings
from ..models import Elicitation, StoredFormAnswer
from ..transactions import in_transaction, write_alias
from . import parking
from .ended import RESTORED, Code, Ended
from .lease import Lease

Delivery = Elicitation.Delivery


class Restored(NamedTuple):
    """What ``make_safe`` did, in numbers."""

    #: Answers that may have been sent already.
    answers: int
    #: Requests that may have been answered already.
    withdrawn: int
    #: Calls that may have gone on already. Their hosts receive the outcome ``lost``.
    calls: int
    #: Results that may have been fetched already. Their hosts receive ``lost`` in place of them.
    results: int
    #: Calls that a process is resuming: something works with the database already.
    in_progress: int


def make_safe(before: datetime) -> Restored:
    """Drop what was stored before a moment, and may have been sent or fetched after it.

    Run it before anything else works with the restored database. Each call is a transaction of
    its own. If this is cut off, call it again.

    Args:
        before: The moment until which the database had lost nothing: after that, what had
            happened is not in it.
    """
    answers = in_transaction(partial(_drop_answers, before))
    calls = parking.rows().parked().filter(parked_at__lt=before).order_by("pk")
    done = [in_transaction(partial(_end, key)) for (key,) in list(calls.values_list("pk"))]
    withdrawn = sum(number for number in done if number is not None)
    ended = sum(number is not None for number in done)
    busy = calls.values("pk")
    # In the middle of calls, whose processes are gone, and of calls that are gone.
    asked = Elicitation.objects.using(write_alias()).pending().filter(asked_at__lt=before)
    others = asked.exclude(parked_call_id__in=busy).order_by("pk")
    withdrawn += sum(in_transaction(partial(_withdraw, row)) for row in list(others))
    results = in_transaction(partial(_drop_results, before))
    return Restored(answers, withdrawn, ended, results, len(done) - ended)


def _drop_answers(before: datetime) -> int:
    """Drop answers, and say in the audit that nobody knows whether they were sent."""
    answers = StoredFormAnswer.objects.using(write_alias()).filter(recorded_at__lt=before)
    asked = Elicitation.objects.using(write_alias()).undelivered()
    theirs = Q(pk__in=list(answers.values_list("elicitation_id", flat=True)))
    # Some were taken already, when the database was copied.
    asked.filter(theirs | Q(closed_at__lt=before)).update(**parking.ending(Delivery.RESTORED))
    return answers.delete()[0]


def _end(key: uuid.UUID) -> int | None:
    """End a call as lost, and return how many requests of it were withdrawn.

    ``None`` if a process is resuming it.
    """
    parked = parking.rows().parked().filter(pk=key)
    lease = Lease(parked_call_id=key)
    if not lease.hold(parked.unleased()):
        return None
    asked = Elicitation.objects.using(write_alias()).of_call(key).pending().order_by("pk")
    withdrawn = sum(_withdraw(row) for row in asked)
    parking.close(parked.get(), Ended(code=Code.LOST, reason=RESTORED), lease=lease)
    return withdrawn


def _withdraw(row: Elicitation) -> bool:
    return inbox.withdraw_all([row], reason=inbox.RESTORED) is False


def _drop_results(before: datetime) -> int:
    """Put ``lost`` in place of outcomes that hosts may have fetched."""
    now = timezone.now()
    ended = parking.rows().ended().filter(ended_at__lt=before).exclude(outcome_reason=RESTORED)
    return ended.update(
        outcome=Code.LOST,
        outcome_reason=RESTORED,
        result="",
        outcome_expires_at=now + settings.RESULT_TTL,
        look_at=now,
        looked=0,
    )
