"""What people see of a task that their answer has gone to, and how they stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from elicitation import calls
from elicitation.calls.lease import Lease
from elicitation.core import ElicitationPending
from elicitation.models import Elicitation, ParkedCall, ServerPolicy
from elicitation.transactions import in_transaction

from .server import WORKING, TaskServer, asks, completed
from .test_tasks import answer, begun, resume, server, told

if TYPE_CHECKING:
    from uuid import UUID

    from pytest_django.fixtures import SettingsWrapper

__all__ = ["server"]

pytestmark = pytest.mark.django_db(transaction=True)

STOP = ">Stop this</button>"
EVIL = "<b>50 %</b>\u202eevil"


@pytest.fixture
def asked(server: TaskServer, user: User) -> Elicitation:
    """What was asked and answered by a task that goes on since then."""
    key = begun(user).parked_call_id
    server.states = [asks(a="Which?")]
    with pytest.raises(ElicitationPending):
        resume(key)
    answer(user, a="blue")
    server.states = [WORKING | {"statusMessage": EVIL}]
    for _ in range(2):
        with pytest.raises(ElicitationPending):
            resume(key)
    return Elicitation.objects.get()


@pytest.fixture
def may_stop(settings: SettingsWrapper, asked: Elicitation) -> None:
    settings.ELICITATION_SERVERS["shop"]["people_may_stop"] = True
    settings.ELICITATION_SERVERS = dict(settings.ELICITATION_SERVERS)


def page(client: Client, asked: Elicitation) -> str:
    return client.get(asked.get_absolute_url()).content.decode()


def stop(client: Client, asked: Elicitation) -> int:
    return client.post(reverse("elicitation:stop", args=[asked.pk])).status_code


def test_line_04_the_words_of_a_task_are_text_in_a_block_of_their_own(
    asked: Elicitation, ada: Client
) -> None:
    shown = page(ada, asked)
    assert "is working on it" in shown
    assert '<div class="elicitation-said" dir="auto">&lt;b&gt;50 %&lt;/b&gt;' in shown
    assert "U+202E" in shown
    assert "\u202e" not in shown


def test_line_27_the_page_says_when_the_task_is_over(
    server: TaskServer, asked: Elicitation, ada: Client
) -> None:
    assert "data-elicitation-refresh" in page(ada, asked)
    server.states = [completed("bought")]
    resume(asked.parked_call_id)
    shown = page(ada, asked)
    assert "is working on it" not in shown
    assert "data-elicitation-refresh" not in shown


@pytest.mark.usefixtures("may_stop")
def test_a_person_stops_a_task(server: TaskServer, asked: Elicitation, ada: Client) -> None:
    assert STOP in page(ada, asked)
    assert stop(ada, asked) == 302
    assert len(told(server)) == 1
    outcome = calls.outcome(asked.parked_call_id)
    assert (outcome.code, outcome.reason) == ("cancelled", "server_at_work")
    shown = page(ada, asked)
    assert "was asked to stop" in shown
    assert STOP not in shown
    # Pressed once more, as in another tab.
    assert stop(ada, asked) == 302
    assert len(told(server)) == 1


def test_nobody_stops_what_the_operator_does_not_let_them(
    server: TaskServer, asked: Elicitation, ada: Client
) -> None:
    assert not ServerPolicy().people_may_stop
    assert STOP not in page(ada, asked)
    assert stop(ada, asked) == 302
    assert told(server) == []
    assert ParkedCall.objects.parked().exists()


@pytest.mark.usefixtures("may_stop")
def test_line_19_nobody_stops_the_task_of_another_person(
    server: TaskServer, asked: Elicitation, client: Client, other_user: User
) -> None:
    client.force_login(other_user)
    assert stop(client, asked) == 404
    assert client.get(reverse("elicitation:stop", args=[asked.pk])).status_code == 405
    assert told(server) == []


@pytest.mark.usefixtures("may_stop")
def test_a_task_that_is_read_just_now_is_not_stopped_and_the_page_says_so(
    server: TaskServer, asked: Elicitation, ada: Client
) -> None:
    key: UUID = asked.parked_call_id
    lease = Lease(parked_call_id=key)
    assert in_transaction(lease.claim)
    response = ada.post(reverse("elicitation:stop", args=[asked.pk]))
    assert response.status_code == 409
    assert "The tool call could not be stopped" in response.content.decode()
    assert told(server) == []
