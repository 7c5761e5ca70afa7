"""``ATOMIC_REQUESTS``: a take inside a request's transaction is refused, never undone."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.dispatch import receiver
from django.test import Client

from elicitation import inbox
from elicitation.models import Elicitation, StoredFormAnswer
from elicitation.signals import elicitation_closed
from elicitation.transactions import OuterTransactionError
from tests import asking
from tests.awkward.urls import ASKED, QUESTION, store

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def recorded() -> None:
    answers = ASKED.schema.answers_from_content({"plan": "team"})
    store().record_form_answer(ASKED, "accept", answers)


def test_a_view_that_takes_inside_the_transaction_is_refused(client: Client) -> None:
    with pytest.raises(OuterTransactionError, match="non_atomic_requests"):
        client.get("/host/take/")
    assert StoredFormAnswer.objects.count() == 1


def test_a_view_that_is_marked_takes(client: Client) -> None:
    assert client.get("/host/take-outside/").content == b"team"
    assert not StoredFormAnswer.objects.exists()


def test_what_a_receiver_does_wrong_undoes_no_answer(client: Client, user: User) -> None:
    asking.allow()
    question = asking.ask(user, QUESTION)

    @receiver(elicitation_closed, weak=False)
    def fail(**kwargs: object) -> None:
        raise RuntimeError("the host's own code")

    try:
        client.force_login(user)
        address = f"/api/elicitation/elicitations/{question.pk}/answer/"
        body = {"content": {"plan": "team"}}
        sent = client.post(address, body, content_type="application/json")
    finally:
        elicitation_closed.disconnect(fail)
    assert sent.status_code == 200
    assert Elicitation.objects.get().state == "answered"
    assert inbox.get(user, question.pk).state == "answered"
