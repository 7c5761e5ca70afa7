"""What is done with old elicitations: let expire, forget their URLs, delete."""

from __future__ import annotations

from datetime import datetime

from ..models import Elicitation, Retention
from ..transactions import in_transaction, write_alias
from .closing import close

State = Elicitation.State
Via = Elicitation.Via


def expire_due(*, now: datetime | None = None, via: str = Via.COMMAND, limit: int = 500) -> int:
    """Let up to ``limit`` elicitations past their deadline expire; return how many did.

    Each is closed in a transaction of its own, so that each is locked for a short time only.
    """
    due = Elicitation.objects.using(write_alias()).due(now).order_by("expires_at")[:limit]
    closed = [
        close(elicitation, State.EXPIRED, via=via, now=now, redoable=True) for elicitation in due
    ]
    return sum(elicitation.state == State.EXPIRED for elicitation in closed)


def forget_urls(before: datetime, *, limit: int = 500) -> int:
    """Forget up to ``limit`` URLs of elicitations that were closed at ``before`` or earlier.

    URLs may hold secrets. No page shows them after the consent has expired.
    """
    rows = Elicitation.objects.using(write_alias()).closed_before(before).with_url()
    old = list(rows.order_by("closed_at").values_list("pk", flat=True)[:limit])

    def forget() -> int:
        return rows.filter(pk__in=old).update(url="")

    return in_transaction(forget, redoable=True) if old else 0


def delete_old(retention: Retention, *, limit: int = 500) -> int:
    """Delete up to ``limit`` closed elicitations that are old."""
    rows = Elicitation.objects.using(write_alias()).closed().filter(retention.is_old("closed_at"))
    # Keys first: MariaDB knows no LIMIT in a subquery, and a short DELETE holds short locks.
    old = list(rows.order_by("closed_at").values_list("pk", flat=True)[:limit])

    def delete() -> int:
        # A closed row stays closed, so the condition stays true.
        return rows.filter(pk__in=old).delete()[0]

    return in_transaction(delete, redoable=True) if old else 0
