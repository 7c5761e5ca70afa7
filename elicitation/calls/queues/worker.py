"""The queue of ``manage.py elicitation_worker``: no message is sent, the database is the queue.

On PostgreSQL ``NOTIFY`` wakes the workers. Elsewhere each looks for calls once a second.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from ...inbox.listening import tell

#: The channel of the ids of calls that can go on.
CHANNEL = "elicitation_call"

#: What the workers in this process are told by.
receivers: set[Callable[[uuid.UUID], None]] = set()


def enqueue(parked_call_id: uuid.UUID) -> None:
    """Wake the workers."""
    for receive in list(receivers):
        receive(parked_call_id)
    tell(parked_call_id, CHANNEL)
