"""Two copies of the outbox and one of the cleaning up beside eight workers.

Five seconds here; ``make soak`` runs a minute.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from elicitation.models import Elicitation, ParkedCall, ServerPolicy
from tests import processes

from .conftest import park

SECONDS = float(os.environ.get("SOAK_SECONDS", "5"))
OLD = 300


def deadlocks() -> int:
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def total(results: list[dict[str, Any]], what: str) -> int:
    return sum(result["counts"].get(what, 0) for result in results)


def old(user: User) -> None:
    """Leave rows that are to be deleted meanwhile."""
    (question,) = park(user, call="old")
    question.delete()
    question.state = Elicitation.State.DECLINED
    question.closed_at = question.delivered_at = timezone.now() - timedelta(days=91)
    rows = [copy(question) for _ in range(OLD)]
    for row in rows:
        row.pk = uuid.uuid4()
    Elicitation.objects.bulk_create(rows)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_sent_twice_and_nothing_fails(user: User, tmp_path: Path) -> None:
    ServerPolicy.objects.create(server="shop", policy="url_and_form")
    old(user)
    log = tmp_path / "received"
    log.touch()
    before = deadlocks()

    (results,) = processes.finish([processes.start("tests.ops.soak", str(SECONDS), str(log))])

    assert [error for result in results for error in result["errors"]] == []
    assert deadlocks() == before
    received = Counter(log.read_text().splitlines())
    assert received
    assert set(received.values()) == {1}
    rows_by_id = {str(row.pk): row for row in Elicitation.objects.all()}
    delivered = {
        key
        for key, row in rows_by_id.items()
        if row.state == "answered" and row.delivery == "delivered"
    }
    # What the audit says was delivered is what the server received: no more, no less.
    assert delivered == set(received)
    lost = [key for key, row in rows_by_id.items() if row.delivery == "round_lost"]
    assert lost == []
    # Each call that ended was acknowledged by one, or still waits to be; one is of ``old``.
    calls = ParkedCall.objects
    ended = total(results, "made") + 1 - calls.parked().count()
    assert total(results, "fetched") + calls.ended().count() == ended
    assert total(results, "fetched") > 0
    assert not Elicitation.objects.closed_before(timezone.now() - timedelta(days=90)).exists()
    print(  # noqa: T201
        f"\n{SECONDS:g} s: {len(received)} answers received, "
        f"{total(results, 'conflicts')} passing conflicts, "
        f"{Elicitation.objects.filter(resent__gt=0).count()} calls told again, "
        f"{total(results, 'fetched')} outcomes acknowledged, "
        f"{total(results, 'cleanups')} cleanups"
    )
    assert Elicitation.objects.filter(resent__gt=0).exists()
