"""The database fails while a later round is parked, after the server has read an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from mcp.types import CallToolResult

from elicitation.calls import parking
from elicitation.calls.replies import RoundLostError
from elicitation.core import ElicitationPending
from elicitation.mcp import drive
from elicitation.models import Elicitation, ParkedCall
from tests.wire.conftest import ANSWER, Host, check_over, check_silent, delivery, is_parked, stored
from tests.wire.server import SEATS, Reply, Request, asks, error, result

ACCEPT = ("accept", {"plan": ANSWER})
TRIES = 1 + len(drive.RECORD_PAUSES)

Break = Callable[..., list[str]]


def second(then: Reply) -> Reply:
    """Ask a second question of whoever answered the first."""

    def reply(request: Request) -> object:
        if "plan" in str(request.answers):
            return asks("second", SEATS, "How many?")(request)
        return then(request)

    return reply


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch, host: Host) -> Break:
    """Let the database fail so often as rounds are parked, before or after the commit."""
    monkeypatch.setattr(drive, "RECORD_PAUSES", (0.0,) * len(drive.RECORD_PAUSES))
    host.server.retry = second(result())

    def breaks(times: int, *, after: bool = False, kind: Any = OperationalError) -> list[str]:
        park, failed = parking.park, list[str]()

        def fails(*args: Any, **options: Any) -> parking.Parked:
            if len(failed) >= times:
                return park(*args, **options)
            if after:
                park(*args, **options)
            failed.append(ANSWER)
            raise kind(f"server closed the connection: {ANSWER}")

        monkeypatch.setattr(parking, "park", fails)
        return failed

    return breaks


def check_goes_on(got: object, host: Host, first: ElicitationPending) -> None:
    """The second question is asked, once, and its answer ends the call."""
    assert isinstance(got, ElicitationPending), got
    assert delivery(first) == "delivered"
    assert Elicitation.objects.count() == 2
    assert ParkedCall.objects.get().round == 2
    host.answer(got, seats=3)
    assert isinstance(host.resume(got), CallToolResult)
    assert host.server.sent == [ACCEPT, ("accept", {"seats": 3})]
    assert host.server.ran == 1
    check_over(got, said="delivered")


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
@pytest.mark.parametrize("times", [1, TRIES - 1])
def test_it_is_tried_again(times: int, kind: type[Exception], breaks: Break, host: Host) -> None:
    pending = host.answered()
    failed = breaks(times, kind=kind)
    got = host.resume(pending)
    assert len(failed) == times
    check_goes_on(got, host, pending)


def test_what_was_committed_without_an_acknowledgement_is_found(breaks: Break, host: Host) -> None:
    pending = host.answered()
    breaks(1, after=True)
    check_goes_on(host.resume(pending), host, pending)


def test_so_is_a_first_round(breaks: Break, host: Host) -> None:
    breaks(1, after=True)
    pending = host.call()
    assert isinstance(pending, ElicitationPending), pending
    assert Elicitation.objects.count() == 1
    assert len(host.server.calls) == 1


def test_where_it_stays_broken_the_host_knows_that_the_tool_has_run_in_part(
    breaks: Break, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    pending = host.answered()
    failed = breaks(99)
    got = host.resume(pending)
    assert len(failed) == TRIES
    assert isinstance(got, RoundLostError), got
    assert (got.code, got.reason) == ("round_lost", "not_stored")
    check_silent(got, caplog)
    # The server has read the answer.
    check_over(pending, said="delivered")
    assert host.server.sent == [ACCEPT]


def test_a_first_round_that_cannot_be_stored_is_the_database_s_error(
    breaks: Break, host: Host
) -> None:
    """Nobody was asked, and nothing was answered: the host may make the call again."""
    breaks(99)
    assert isinstance(host.call(), OperationalError)
    assert not ParkedCall.objects.exists()


def test_an_answer_in_hand_is_put_back(breaks: Break, host: Host) -> None:
    """The server has not read it, and has asked something else by a fresh call."""
    pending = host.answered()
    host.server.retry = error(-32602, "requestState expired")
    host.server.first = asks("fresh", SEATS, "How many?")
    breaks(99)
    assert isinstance(host.resume(pending), OperationalError)
    assert is_parked(pending)
    assert [answer.elicitation_id for answer in stored()] == list(pending.elicitation_ids)
