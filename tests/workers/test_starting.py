"""What ``start`` stores, what it refuses, and when the queue hears of it."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from elicitation import calls
from elicitation.calls import jobs, outbox, parking
from elicitation.calls.rounds import Event, Rounds, State
from elicitation.models import ParkedCall
from elicitation.signals import call_due
from tests.docs.test_hosts import HOSTS
from tests.processes import free_port

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

told: list[uuid.UUID] = []


def enqueue(parked_call_id: uuid.UUID) -> None:
    """Be the queue of a host's own."""
    told.append(parked_call_id)


@pytest.fixture(autouse=True)
def queue(settings: SettingsWrapper) -> None:
    told.clear()
    settings.ELICITATION_QUEUE = f"{__name__}.enqueue"
    # Nobody is there.
    url = f"http://127.0.0.1:{free_port()}/mcp"
    settings.ELICITATION_SERVERS = {"shop": {"url": url, "policy": "url_and_form"}}


def begin(user: User, call: str = "1") -> uuid.UUID:
    return calls.start_sync("shop", "buy", {"plan": "team"}, scope=7, user=user, call=call)


def test_a_call_is_enqueued_once_and_after_the_commit(user: User) -> None:
    with transaction.atomic():
        key = begin(user)
        assert told == []
    assert told == [key]
    # The same call again is the same call.
    assert begin(user) == key
    assert told == [key]
    row = ParkedCall.objects.get()
    assert (row.scope, row.call, row.round, row.arguments) == ("7", "1", 0, '{"plan":"team"}')


def test_the_example_of_the_page(user: User) -> None:
    names = {"chat": SimpleNamespace(pk=7), "request": SimpleNamespace(user=user)}
    exec(HOSTS["start"], names)  # noqa: S102
    assert [names["parked_call_id"]] == told


def test_a_call_is_not_made_where_the_transaction_was_rolled_back(user: User) -> None:
    with transaction.atomic():
        begin(user)
        transaction.set_rollback(True)
    assert told == []
    assert not ParkedCall.objects.exists()


def test_what_cannot_be_started(user: User, other_user: User) -> None:
    with pytest.raises(ImproperlyConfigured, match="has no server 'shops'"):
        calls.start_sync("shops", "buy", scope="chat", user=user)
    begin(user)
    with pytest.raises(parking.AnotherRespondentError):
        begin(other_user)


def test_a_server_that_is_away_is_called_later(user: User) -> None:
    key = begin(user)
    jobs.go_on_sync(key)
    row = ParkedCall.objects.get()
    assert (row.ended_at, row.lease, row.called_at) == (None, None, None)
    assert row.look_at is not None
    heard: list[uuid.UUID] = []

    def hear(parked_call_id: uuid.UUID, **kwargs: object) -> None:
        heard.append(parked_call_id)

    call_due.connect(hear)
    try:
        pauses = []
        for _ in range(3):
            now = ParkedCall.objects.get().look_at
            outbox.resend_due(now=now)
            later = ParkedCall.objects.get().look_at
            assert now is not None
            assert later is not None
            pauses.append(later - now)
    finally:
        call_due.disconnect(hear)
    assert heard == [key] * 3
    # Once by start, and each time that the host was told.
    assert told == [key] * 4
    assert pauses[0] < pauses[1] < pauses[2]


def test_what_was_started_can_be_cancelled(user: User) -> None:
    key = begin(user)
    assert calls.cancel(key)
    assert calls.outcome(key).code == "cancelled"
    jobs.go_on_sync(key)
    assert calls.outcome(key).code == "cancelled"


def test_a_call_of_no_named_server_is_not_for_workers(
    user: User, settings: SettingsWrapper
) -> None:
    key = begin(user)
    settings.ELICITATION_SERVERS = {}
    jobs.go_on_sync(key)
    assert ParkedCall.objects.get().lease is None


@pytest.mark.parametrize("event", [Event.UNKNOWN, Event.UNREAD])
def test_a_call_that_was_started_is_never_made_a_second_time(event: Event) -> None:
    rounds = Rounds(State.STARTED)
    rounds.feed(Event.RESUMED)
    assert rounds.feed(event) is State.LOST
