"""How an elicitation's row changes, and the signals that are sent after the commit."""

from __future__ import annotations

import logging
from functools import partial

from django.db import transaction
from django.dispatch import Signal

from ..models import Elicitation, ElicitationQuerySet
from ..store import write_alias
from .listening import tell

logger = logging.getLogger("elicitation")

#: Reasons for which the app itself withdraws an elicitation.
REPLACED, FINISHED = "replaced", "finished"
#: The reason of a decline that takes back a consent given before.
TAKEN_BACK = "taken_back"


def win(elicitation: Elicitation, **changes: object) -> bool:
    """Change a pending elicitation, if nobody else closed it first."""
    pending = Elicitation.objects.using(write_alias()).pending()
    if not change(elicitation, pending, **changes):
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
