"""What was not sent is looked after, whatever it was: the row says why, and the host is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from mcp.types import CallToolResult

from elicitation import inbox
from elicitation.calls import outbox
from elicitation.calls.replies import NotSentError
from elicitation.core import ElicitationPending
from elicitation.mcp import drive
from elicitation.models import Elicitation, ParkedCall
from elicitation.signals import call_due, elicitation_closed
from tests.wire.conftest import ANSWER, Host, check_kept, check_over, delivery, stored
from tests.wire.server import SEATS, Reply, Request, asks, http, message, raw, result

ACCEPT, DECLINE = ("accept", {"plan": ANSWER}), ("decline", None)
WORKS = message(result={"resultType": "input_required", "requestState": "at work"})
LINK = {"mode": "url", "message": "Sign in.", "url": "https://login.example/"}


@contextmanager
def told() -> Iterator[list[UUID]]:
    """The calls of which hosts are told that they can go on."""
    keys: list[UUID] = []

    def hear(parked_call_id: UUID, **fields: Any) -> None:
        keys.append(parked_call_id)

    for signal in (elicitation_closed, call_due):
        signal.connect(hear)
    yield keys
    for signal in (elicitation_closed, call_due):
        signal.disconnect(hear)


def check_told_at(retry_at: datetime | None, pending: ElicitationPending) -> None:
    """The outbox tells the host of the call at this moment, and not before."""
    assert retry_at is not None
    with told() as keys:
        outbox.resend_due(now=retry_at - timedelta(seconds=1))
        assert keys == []
        outbox.resend_due(now=retry_at + timedelta(seconds=1))
    assert keys == [pending.parked_call_id]


def not_sent(got: object, reason: str) -> NotSentError:
    assert isinstance(got, NotSentError), got
    assert (got.code, got.reason) == ("not_sent", reason)
    return got


# --- A round that is put to nobody -----------------------------------------------------------


def second(then: Reply) -> Reply:
    """Ask a second question of whoever answered the first."""

    def reply(request: Request) -> object:
        if "plan" in str(request.answers):
            return asks("second", SEATS, "How many?")(request)
        return then(request)

    return reply


@pytest.fixture
def declined(host: Host, settings: Any) -> ElicitationPending:
    """A call whose second round is declined, as it asks too often; its server is out of order."""
    settings.ELICITATION_MAX_ROUNDS = 1
    host.server.retry = second(http(503, kind="", Retry_After="600"))
    return host.answered()


def test_a_decline_that_was_not_sent_is_sent_later(
    declined: ElicitationPending, host: Host
) -> None:
    error = not_sent(host.resume(declined), "http_503")
    assert error.parked_call_id == declined.parked_call_id
    assert error.retry_at is not None
    assert error.retry_at > timezone.now() + timedelta(seconds=590)
    # The first round is over, and nothing goes on from there again.
    parked = ParkedCall.objects.get()
    assert (parked.round, parked.lease, parked.unsent_reason) == (2, None, "http_503")
    assert delivery(declined) == "delivered"
    check_told_at(error.retry_at, declined)
    host.server.retry = second(result())
    assert isinstance(host.resume(declined), CallToolResult)
    assert host.server.sent == [ACCEPT, DECLINE, DECLINE]
    assert [call.params.get("requestState") for call in host.server.calls] == [
        None,
        "state",
        "second",
        "second",
    ]
    assert host.server.ran == 1
    # Nobody was asked the second question.
    check_over(declined, said="delivered")
    assert Elicitation.objects.count() == 1


def test_the_pauses_grow(declined: ElicitationPending, host: Host) -> None:
    host.server.retry = second(http(503, kind=""))
    pauses = []
    for _ in range(4):
        before = timezone.now()
        error = not_sent(host.resume(declined), "http_503")
        assert error.retry_at is not None
        pauses.append(round((error.retry_at - before).total_seconds() / 60))
    assert pauses == [1, 2, 4, 8]


def test_a_process_that_dies_with_such_a_round_leaves_it_to_the_outbox(
    declined: ElicitationPending, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(self: drive.Drive) -> None:
        raise KeyboardInterrupt

    async def nothing(self: drive.Drive, *args: Any) -> None:
        return None

    with monkeypatch.context() as patched:
        patched.setattr(drive.Drive, "_decline", dies)
        patched.setattr(drive.Drive, "_recorded", nothing)
        with pytest.raises(BaseExceptionGroup):
            raise host.resume(declined)
    parked = ParkedCall.objects.get()
    assert parked.lease is not None
    ParkedCall.objects.update(leased_until=timezone.now() - timedelta(days=1))
    check_told_at(parked.look_at, declined)


# --- A server at work ------------------------------------------------------------------------


def test_a_server_at_work_that_cannot_be_reached_is_looked_after_when_it_says(
    host: Host,
) -> None:
    pending = host.answered()
    host.server.retry = WORKS
    host.resume(pending)
    host.server.retry = http(503, kind="", Retry_After="600")
    error = not_sent(host.resume(pending), "http_503")
    assert ParkedCall.objects.get().unsent_reason == "http_503"
    check_told_at(error.retry_at, pending)
    host.server.retry = result()
    assert isinstance(host.resume(pending), CallToolResult)


def test_one_that_has_asked_nothing_yet_is_parked_with_its_state(host: Host) -> None:
    host.server.first = WORKS
    host.server.retry = http(503, kind="")
    error = not_sent(host.call(), "http_503")
    assert error.parked_call_id is not None
    pending = ElicitationPending(
        server_name="shop",
        tool_name="buy",
        message="",
        questions=[],
        fingerprint="",
        parked_call_id=error.parked_call_id,
    )
    check_told_at(error.retry_at, pending)
    host.server.retry = result()
    assert isinstance(host.resume(pending), CallToolResult)
    assert [call.params.get("requestState") for call in host.server.calls] == [
        None,
        "at work",
        "at work",
    ]


# --- Answers ---------------------------------------------------------------------------------


def test_the_pauses_of_the_outbox_grow_though_the_host_tries_each_time(host: Host) -> None:
    pending = host.answered()
    host.server.retry = http(503, kind="")
    now, pauses = timezone.now(), []
    for _ in range(4):
        host.resume(pending)
        (due,) = Elicitation.objects.values_list("resume_at", flat=True)
        assert due is not None
        pauses.append(round((due - now).total_seconds() / 60))
        now = due
        assert outbox.resend_due(now=now).sent == 1
    assert pauses == [1, 2, 4, 8]


def test_a_session_of_another_revision_is_said_in_the_row_and_told_again(host: Host) -> None:
    pending = host.answered()
    (answer,) = stored()
    host.mode = "legacy"
    error = not_sent(host.resume(pending), "wrong_revision")
    assert error.parked_call_id == pending.parked_call_id
    check_kept(pending, reason="wrong_revision", until=answer.expires_at)
    check_told_at(error.retry_at, pending)
    host.mode = "2026-07-28"
    assert isinstance(host.resume(pending), CallToolResult)
    assert host.server.sent == [ACCEPT]
    check_over(pending, said="delivered")


def test_a_call_that_waits_for_people_says_so_in_any_session(host: Host) -> None:
    pending = host.asked()
    host.mode = "legacy"
    assert isinstance(host.resume(pending), ElicitationPending)
    parked = ParkedCall.objects.get()
    assert (parked.unsent_reason, parked.lease, parked.look_at) == ("", None, None)


# --- Consents --------------------------------------------------------------------------------


def asks_to_open(request: Request) -> object:
    asked = {"k": {"method": "elicitation/create", "params": LINK}}
    body = {"resultType": "input_required", "inputRequests": asked, "requestState": "state"}
    return message(result=body)(request)


def test_a_consent_whose_connection_breaks_is_kept_and_the_host_told_why(host: Host) -> None:
    """Nobody can know whether it arrived: unlike an answer it can be sent again."""
    host.server.first = asks_to_open
    pending = host.asked()
    inbox.consent(pending.elicitation_ids[0], by=host.user)
    (consent,) = stored()
    host.server.retry = raw()
    error = not_sent(host.resume(pending), "consent_broken_off")
    assert error.may_have_run
    assert "may have run" in str(error)
    assert error.parked_call_id == pending.parked_call_id
    check_kept(pending, reason="consent_broken_off", until=consent.expires_at)
    check_told_at(error.retry_at, pending)
    host.server.retry = result()
    assert isinstance(host.resume(pending), CallToolResult)
    assert host.server.sent == [("accept", None)] * 2
    check_over(pending, said="delivered")
