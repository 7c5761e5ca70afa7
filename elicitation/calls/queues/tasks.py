"""The queue of ``django.tasks``: Django 6, or the package ``django-tasks`` before that."""

from __future__ import annotations

import uuid

from ..jobs import go_on_sync

try:
    from django.tasks import task  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from django_tasks import task  # type: ignore[no-redef,assignment,unused-ignore]


@task  # type: ignore[untyped-decorator,unused-ignore]
def go_on(parked_call_id: str) -> None:
    """Go on with a call."""
    go_on_sync(parked_call_id)


def enqueue(parked_call_id: uuid.UUID) -> None:
    """Enqueue a task."""
    go_on.enqueue(str(parked_call_id))
