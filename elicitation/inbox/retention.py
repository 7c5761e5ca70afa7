"""What is done with old elicitations: let expire, forget their URLs, delete."""

from __future__ import annotations

from datetime import datetime

from ..models import Elicitation
from ..store import in_transaction, write_alias
from .closing import close

State = Elicitation.State
Via = Elicitation.Via


def expire_due(*, now: datetime | None = None, via: str = Via.COMMAND, limit: int = 500) -> int:
    """Close up to ``limit`` questions whose time is up, and announce each; return how many.

    Each is a transaction of its own: none is locked for longer than its own closing takes.
    """
    due = Elicitation.objects.using(write_alias()).due(now).order_by("expires_at")[:limit]
    closed = [
        close(elicitation, State.EXPIRED, via=via, now=now, redoable=True) for elicitation in due
    ]
    return sum(elicitation.state == State.EXPIRED for elicitation in closed)


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
