"""How an elicitation's row changes, and the signals that are sent after the commit."""

from __future__ import annotations

import logging
from functools import partial

from django.db import transaction
from django.dispatch import Signal
from django.utils import timezone

from ..models import Elicitation, ElicitationQuerySet
from ..signals import elicitation_closed
from ..transactions import in_transaction, write_alias
from .listening import tell

logger = logging.getLogger("elicitation")

#: Reasons for which the app itself withdraws an elicitation.
REPLACED, FINISHED = "replaced", "finished"
#: The same, for one in the middle of a call: the request was cancelled, or its process is gone.
CANCELLED, PROCESS_GONE = "cancelled", "process_gone"
#: The reason where an operator has switched its server off.
SWITCHED_OFF = "switched_off"
#: The reason where the person it waited for has no account any more, or may not sign in.
PERSON_GONE = "person_gone"
#: The reason where the database was restored, and it may have been answered since.
RESTORED = "restored"
#: The reason of a decline that takes back a consent given before.
TAKEN_BACK = "taken_back"


def win(
    elicitation: Elicitation, among: ElicitationQuerySet | None = None, **changes: object
) -> bool:
    """Change a pending elicitation, if nobody else closed it first.

    Args:
        elicitation: The elicitation.
        among: The pending ones that it must be one of; by default all.
        changes: What is written.
    """
    if among is None:
        among = Elicitation.objects.using(write_alias()).pending()
    if not change(elicitation, among, **changes):
        return False
    if elicitation.in_call:
        # Commits that send ``NOTIFY`` wait for one another, so it is sent only if a call waits.
        tell(elicitation.pk)
    return True


def change(elicitation: Elicitation, among: ElicitationQuerySet, **changes: object) -> bool:
    """Change an elicitation's row and this object of it, if the row is among these."""
    if among.filter(pk=elicitation.pk).update(**changes) != 1:
        return False
    for name, value in changes.items():
        setattr(elicitation, name, value)
    return True


def withdraw_unasked(
    elicitation: Elicitation, *, reason: str, among: ElicitationQuerySet | None = None
) -> bool:
    """Withdraw what no server asks any more, inside a transaction; there is no answer to send.

    Args:
        elicitation: The elicitation.
        reason: A code for the audit.
        among: As for ``win``.

    Returns:
        Whether nobody else closed it first.
    """
    now = timezone.now()
    won = win(
        elicitation,
        among,
        state=Elicitation.State.WITHDRAWN,
        reason=reason,
        url="",
        closed_at=now,
        closed_via=Elicitation.Via.HOST,
        # There is nothing the server could be told of it.
        delivered_at=now,
        delivery=Elicitation.Delivery.DROPPED,
        alive_until=None,
    )
    if won:
        announce(elicitation_closed, elicitation)
    return won


def withdraw_orphans(among: ElicitationQuerySet, *, limit: int = 100) -> int:
    """Withdraw up to ``limit`` of these that wait in the middle of calls of dead processes.

    Each is a transaction of its own, and its host is told by ``elicitation_closed``.
    """
    rows = Elicitation.objects.using(write_alias())
    found = list(among.orphaned()[:limit])
    return sum(
        in_transaction(
            partial(withdraw_unasked, elicitation, reason=PROCESS_GONE, among=rows.orphaned())
        )
        for elicitation in found
    )


def log_fields(elicitation: Elicitation) -> dict[str, object]:
    """Return what every log record about an elicitation has: ids and states, no content."""
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


def announce(signal: Signal, elicitation: Elicitation, *, resent: int = 0) -> None:
    """Send a signal once the transaction has committed; a receiver's error is only logged."""
    fields = log_fields(elicitation)
    send = partial(
        signal.send_robust,
        sender=Elicitation,
        elicitation_id=elicitation.pk,
        parked_call_id=elicitation.parked_call_id,
        scope=elicitation.scope,
        call=elicitation.call,
        server=elicitation.server,
        tool=elicitation.tool,
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
