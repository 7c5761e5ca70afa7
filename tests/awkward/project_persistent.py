"""Connections that outlive a request: one that has died is noticed, and no answer is lost."""

from __future__ import annotations

import pytest
from django.core.signals import request_finished, request_started
from django.db import connection

from elicitation.models import StoredFormAnswer
from tests.awkward.urls import ASKED, store

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_connection_that_died_between_requests_is_replaced() -> None:
    answers = ASKED.schema.answers_from_content({"plan": "team"})
    store().record_form_answer(ASKED, "accept", answers)
    request_finished.send(sender=None)
    assert connection.connection is not None
    # As a server does that restarts, or a firewall that forgets.
    connection.connection.close()
    if connection.vendor == "sqlite":
        connection.connection = None
    request_started.send(sender=None, environ={})
    assert store().take_form_answer(ASKED) is not None
    assert not StoredFormAnswer.objects.exists()
