"""A call by the name of its server costs no statement more than one over a session at hand.

``tests.integration.test_statements`` has the numbers: one for the policy, and those of each step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User

from elicitation import calls, inbox
from elicitation.core import ElicitationPending
from elicitation.models import Elicitation
from tests.integration.test_statements import WRITE_LOCK, counted

from .running import bearer

if TYPE_CHECKING:
    from .conftest import Serve

pytestmark = pytest.mark.django_db(transaction=True)


def test_asking_and_going_on(serve: Serve, user: User) -> None:
    serve("shop", "http", auth=bearer)
    with counted() as asking, pytest.raises(ElicitationPending) as caught:
        calls.call_sync("shop", "ask", scope="chat", user=user)
    assert asking.statements <= 1 + 8, asking.sql
    assert asking.transactions == 1
    asked = Elicitation.objects.get()
    inbox.answer(asked.pk, asked.schema.answers_from_content({"note": "blue"}), by=user)
    with counted() as going_on:
        calls.resume_sync(caught.value.parked_call_id)
    assert going_on.statements <= 1 + 12 + WRITE_LOCK, going_on.sql
    assert going_on.transactions <= 3
