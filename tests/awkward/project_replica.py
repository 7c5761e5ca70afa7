"""A router and a replica: whatever decides reads and writes the writer."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from elicitation import inbox
from elicitation.models import Elicitation, StoredFormAnswer
from elicitation.transactions import OuterTransactionError, write_alias
from tests import asking
from tests.awkward.urls import ASKED, QUESTION, store

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


def test_recording_and_taking_leave_the_replica_alone() -> None:
    assert write_alias() == "default"
    assert Elicitation.objects.all().db == "replica"
    answers = ASKED.schema.answers_from_content({"plan": "team"})
    with (
        CaptureQueriesContext(connections["replica"]) as replica,
        CaptureQueriesContext(connections["other"]) as other,
    ):
        row = store().record_form_answer(ASKED, "accept", answers)
        assert row._state.db == "default"
        taken = store().take_form_answer(ASKED)
    assert taken is not None
    assert taken._state.db == "default"
    assert replica.captured_queries == []
    assert other.captured_queries == []


def test_answering_declining_and_withdrawing_leave_the_replica_alone(user: User) -> None:
    questions = [asking.ask(user, QUESTION, call=f"call-{n}") for n in range(3)]
    answers = ASKED.schema.answers_from_content({"plan": "team"})
    with CaptureQueriesContext(connections["replica"]) as replica:
        inbox.answer(questions[0].pk, answers, by=user)
        inbox.decline(questions[1].pk, by=user)
        inbox.withdraw(questions[2].pk)
        inbox.expire_due()
    assert replica.captured_queries == []
    states = Elicitation.objects.using("default").order_by("call").values_list("state", flat=True)
    assert list(states) == ["answered", "declined", "withdrawn"]
    assert StoredFormAnswer.objects.using("default").count() == 3


def test_only_a_transaction_on_the_writer_is_in_the_way() -> None:
    answers = ASKED.schema.answers_from_content({"plan": "team"})
    store().record_form_answer(ASKED, "accept", answers)
    with transaction.atomic(using="default"), pytest.raises(OuterTransactionError):
        store().take_form_answer(ASKED)
    with transaction.atomic(using="other"):
        assert store().take_form_answer(ASKED) is not None
