"""The queue of Celery. Its workers are those of the site's own Celery app."""

from __future__ import annotations

import uuid

from celery import shared_task  # type: ignore[import-untyped,unused-ignore]

from ..jobs import go_on_sync


# Acknowledged at the end: what a worker that is killed had is done by another one.
@shared_task(name="elicitation.go_on", acks_late=True, ignore_result=True)  # type: ignore[untyped-decorator]
def go_on(parked_call_id: str) -> None:
    """Go on with a call."""
    go_on_sync(parked_call_id)


def enqueue(parked_call_id: uuid.UUID) -> None:
    """Send a task; once, as a person may wait for their page."""
    go_on.apply_async((str(parked_call_id),), retry=False)
