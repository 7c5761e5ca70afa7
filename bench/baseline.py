"""The same ORM statements as the app's, written down plainly: what its work is measured against.

Nothing here checks a name, a scope, a person or a time, or tries anything again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer

FIELDS = [field.name for field in StoredFormAnswer._meta.concrete_fields if not field.primary_key]
#: How long an answer can be sent.
TTL = timedelta(minutes=30)


def take(key: uuid.UUID) -> StoredFormAnswer | None:
    """Look, lock, delete, and count what was deleted."""
    rows = StoredFormAnswer.objects.filter(pk=key)
    if not rows.exists():
        return None
    with transaction.atomic(durable=True):
        if not connection.features.has_select_for_update:
            # SQLite: an update that changes nothing takes the write lock.
            rows.update(number=F("number"))
        row = rows.select_for_update().first()
        deleted, _by_model = rows.delete()
        return row if deleted == 1 else None


def record(values: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    """Make a row of these, and insert it, or replace the one that has its key."""
    now = timezone.now()
    row = StoredFormAnswer(
        **values, answers_json=json.dumps(answers), recorded_at=now, expires_at=now + TTL
    )
    features = connection.features
    with transaction.atomic():
        StoredFormAnswer.objects.bulk_create(
            [row],
            update_conflicts=True,
            update_fields=FIELDS,
            unique_fields=["pk"] if features.supports_update_conflicts_with_target else None,
        )


def ask(call: ParkedCall, asked: Elicitation) -> None:
    """Insert the two rows that a parked call with one question consists of."""
    with transaction.atomic():
        call.save(force_insert=True)
        asked.save(force_insert=True)
