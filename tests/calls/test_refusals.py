"""What is put to nobody is in the operator's log, once a minute for each server and code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from elicitation.calls import refusals
from elicitation.calls.in_call import answer_in_call
from elicitation.calls.parking import TooManyOpenRefusal
from elicitation.mcp.client import client_options
from elicitation.models import ServerPolicy
from tests.integration.conftest import Host
from tests.integration.scripted import PLAN, ScriptedServer, ask, form, text
from tests.integration.test_in_call import FORM, names

NOBODY = "put to nobody"


class Clock:
    """A clock that a test turns."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(refusals, "monotonic", clock)
    return clock


@pytest.fixture
def host(transactional_db: None, user: User, settings: Any) -> Host:
    """A host of two servers; of each a question waits for the person, which is the most."""
    settings.ELICITATION_MAX_OPEN = 1
    for server in ("shop", "kitchen"):
        ServerPolicy.objects.create(server=server, policy="url_and_form")

    def tool(params: Any) -> Any:
        return text("ok") if params.input_responses else ask(k=form("Which plan?", PLAN))

    host = Host(ScriptedServer(tool), user)
    for server in ("shop", "kitchen"):
        host.pending(server=server, call="the first")
    return host


def parked(host: Host, server: str = "shop") -> None:
    with pytest.raises(TooManyOpenRefusal):
        host.call(server=server)


def in_call(host: Host, server: str = "shop") -> None:
    assert host.respondent is not None
    told = async_to_sync(answer_in_call)(FORM, **names(host.respondent, server=server))
    assert told == {"action": "decline"}


def lines(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record for record in caplog.records if NOBODY in record.getMessage()]


@pytest.mark.parametrize("refuse", [parked, in_call])
def test_a_flood_is_one_warning_a_minute(
    refuse: Callable[..., None], host: Host, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(4):
        refuse(host)
    clock.now += 59.9
    refuse(host)
    (first,) = lines(caplog)
    assert first.levelname == "WARNING"
    assert "'shop'" in first.getMessage()
    assert (first.server, first.code) == ("shop", "too_many_open")
    assert (first.tool, first.left_out) == ("tool" if refuse is parked else "buy", 0)
    assert first.parked_call_id
    clock.now += 0.2
    refuse(host)
    _, second = lines(caplog)
    assert second.left_out == 4
    assert "4 more" in second.getMessage()


def test_each_server_and_each_code_has_its_own(
    host: Host, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        parked(host)
        # The same server and code, the other way: no line of its own.
        in_call(host)
        parked(host, "kitchen")
        host.call(respondent=None)
    assert [(one.server, one.code) for one in lines(caplog)] == [
        ("shop", "too_many_open"),
        ("kitchen", "too_many_open"),
        ("shop", "unattended"),
    ]


def test_a_client_without_a_callback_says_so_once_a_minute(
    host: Host, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    decline = client_options("shop")["elicitation_callback"]
    for _ in range(3):
        assert asyncio.run(decline(None, None)).action == "decline"
    (line,) = lines(caplog)
    assert (line.server, line.code) == ("shop", "no_callback")
    assert "elicitation_callback" in line.getMessage()


def test_threads_count_together(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with ThreadPoolExecutor(8) as pool:
        for _ in range(400):
            pool.submit(refusals.log_refusal, "shop", "schema", "too large")
    clock.now += 61
    refusals.log_refusal("shop", "schema", "too large")
    assert [one.left_out for one in lines(caplog)] == [0, 399]
