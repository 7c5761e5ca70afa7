"""Connections that outlive a request: one that has died is noticed, and no answer is lost."""

from __future__ import annotations

import pytest
from django.core.signals import request_finished, request_started
from django.db import connection

from elicitation.models import StoredFormAnswer
from tests.awkward.urls import ASKED, store

pytestmark = pytest.mark.django_db(transaction=True)

KILL = {
    "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%s)"),
    "mysql": ("SELECT CONNECTION_ID()", "KILL %s"),
}


def kill_it() -> None:
    """End the connection from the other side, as a server does that restarts."""
    if connection.vendor == "sqlite":
        # It has no other side.
        connection.close()
        return
    whose, kill = KILL[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(whose)
        (number,) = cursor.fetchone()
    other = connection.copy("other")
    try:
        with other.cursor() as cursor:
            cursor.execute(kill, [number])
    finally:
        other.close()


def test_a_connection_that_died_between_requests_is_replaced() -> None:
    answers = ASKED.schema.answers_from_content({"plan": "team"})
    store().record_form_answer(ASKED, "accept", answers)
    request_finished.send(sender=None)
    assert connection.connection is not None
    kill_it()
    request_started.send(sender=None, environ={})
    assert store().take_form_answer(ASKED) is not None
    assert not StoredFormAnswer.objects.exists()
