"""Queues: how whoever goes on with calls learns of those that can go on.

``ELICITATION_QUEUE`` names one. Each module here has a function ``enqueue``, which gets the id of
a call. What is lost in a queue is not lost: the outbox tells it again.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any

from django.db import connections

from ...conf import settings
from ...models import ParkedCall
from ...transactions import write_alias
from . import worker

logger = logging.getLogger("elicitation")


def go_on_with(parked_call_id: uuid.UUID, **kwargs: Any) -> None:
    """Enqueue a call that can go on: the receiver of ``elicitation_closed`` and ``call_due``.

    One that a process has, or that still asks somebody something, is passed over.
    """
    if not is_heard():
        return
    calls = ParkedCall.objects.using(write_alias())
    if calls.ready().filter(pk=parked_call_id).exists():
        enqueue(parked_call_id)


def enqueue(parked_call_id: uuid.UUID) -> None:
    """Give a call to the queue; a queue that fails is logged, and disturbs nobody."""
    try:
        settings.enqueue()(parked_call_id)
    except Exception as error:
        # Its text may have the URL of a broker, with a password.
        logger.error(
            "A call could not be enqueued; the outbox tells of it again",
            extra={"parked_call_id": str(parked_call_id), "error": type(error).__name__},
        )


def is_heard() -> bool:
    """Whether anybody hears of a call. Without ``NOTIFY``, workers look into the database."""
    if worker.__name__ != settings.QUEUE or worker.receivers:
        return True
    # Without named servers no worker could go on with anything.
    return connections[write_alias()].vendor == "postgresql" and bool(settings.SERVERS)
