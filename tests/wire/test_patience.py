"""People who need minutes for an answer, and servers whose states are good for ten of them.

The servers are the SDK's, over HTTP. A tool makes a draft before it asks, and an order once it is
told: whatever it does twice shows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn
from django.contrib.auth.models import User
from mcp.server import Server as SdkServer
from mcp.server import request_state
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

from elicitation.calls.replies import NotSentError
from elicitation.core import ElicitationPending
from elicitation.models import Elicitation, ParkedCall, ServerPolicy
from tests import processes
from tests.integration.scripted import ask, form
from tests.wire.conftest import ANSWER, Host, Way, stored
from tests.wire.server import PLAN, SEATS, Server, wait_for

#: How long a state is good for, in seconds.
TTL = 600.0


class Shop:
    """A server of the SDK that seals its states; ``restart`` gives it a new key."""

    def __init__(self) -> None:
        #: Whether each question has a price of its own, and how many rounds there are.
        self.has_prices = False
        self.rounds = 1
        self.drafts = 0
        self.orders: list[dict[str, Any]] = []
        self.port = processes.free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def start(self) -> None:
        server: SdkServer[Any] = SdkServer(
            "shop", on_call_tool=self._buy, on_list_tools=self._list
        )
        security = RequestStateSecurity.ephemeral(ttl=TTL)
        server.middleware.append(RequestStateBoundary(security, default_audience="shop"))
        self.server = uvicorn.Server(
            uvicorn.Config(
                server.streamable_http_app(),
                host="127.0.0.1",
                port=self.port,
                log_level="error",
                timeout_graceful_shutdown=1,
            )
        )
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        wait_for(lambda: self.server.started)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(30)

    def restart(self) -> None:
        self.stop()
        self.start()

    async def _list(self, ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="buy", input_schema={"type": "object"})])

    async def _buy(
        self, ctx: Any, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        answers = {
            key: answer.content or {}
            for key, answer in (params.input_responses or {}).items()
            if isinstance(answer, ElicitResult)
        }
        if "plan" not in answers and params.request_state is None:
            self.drafts += 1
            price = f" It costs {self.drafts}.99." if self.has_prices else ""
            return ask(f"draft {self.drafts}", plan=form(f"Which plan?{price}", PLAN))
        if self.rounds == 2 and "seats" not in answers:
            return ask(f"{params.request_state}, planned", seats=form("How many?", SEATS))
        self.orders.append({"state": params.request_state, **answers})
        return CallToolResult(content=[TextContent(type="text", text="done")])


class Clock:
    """The clock by which the server judges its states."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        clock = SimpleNamespace(time=lambda: time.time() + self.ahead)
        monkeypatch.setattr(request_state, "time", clock)

    def passes(self, minutes: float) -> None:
        self.ahead += 60 * minutes
        for parked in ParkedCall.objects.all():
            parked.received_at -= timedelta(minutes=minutes)
            parked.save()
        for elicitation in Elicitation.objects.all():
            elicitation.asked_at -= timedelta(minutes=minutes)
            elicitation.expires_at -= timedelta(minutes=minutes)
            elicitation.save()


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    yield shop
    shop.stop()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture(params=["transport", "plain"])
def customer(request: pytest.FixtureRequest, shop: Shop, policy: ServerPolicy, user: User) -> Host:
    way: Way = request.param
    return Host(cast(Server, shop), user, way)


def finished(got: Any) -> bool:
    assert isinstance(got, CallToolResult), got
    return not got.is_error


@pytest.mark.parametrize("minutes", [4, 6])
@pytest.mark.parametrize("has_prices", [False, True])
def test_a_state_that_is_still_good_runs_the_tool_once(
    minutes: int, has_prices: bool, shop: Shop, clock: Clock, customer: Host
) -> None:
    shop.has_prices = has_prices
    pending = customer.asked()
    clock.passes(minutes)
    customer.answer(pending)
    assert finished(customer.resume(pending))
    assert shop.drafts == 1
    assert shop.orders == [{"state": "draft 1", "plan": {"plan": ANSWER}}]
    assert stored() == []


@pytest.mark.parametrize("minutes", [11, 60])
def test_after_that_the_answer_arrives_where_the_same_is_asked(
    minutes: int, shop: Shop, clock: Clock, customer: Host
) -> None:
    pending = customer.asked()
    clock.passes(minutes)
    customer.answer(pending)
    assert finished(customer.resume(pending))
    # The state was refused unread: a new draft could not be helped, a second order could.
    assert shop.drafts == 2
    assert shop.orders == [{"state": "draft 2", "plan": {"plan": ANSWER}}]
    assert Elicitation.objects.count() == 1


@pytest.mark.parametrize("minutes", [11, 60])
def test_and_the_person_is_asked_anew_where_it_is_not(
    minutes: int, shop: Shop, clock: Clock, customer: Host
) -> None:
    shop.has_prices = True
    pending = customer.asked()
    clock.passes(minutes)
    customer.answer(pending)
    again = customer.resume(pending)
    assert isinstance(again, ElicitationPending)
    assert "2.99" in again.message
    assert (shop.orders, stored()) == ([], [])
    clock.passes(6)
    customer.answer(again)
    assert finished(customer.resume(again))
    assert shop.drafts == 2
    assert shop.orders == [{"state": "draft 2", "plan": {"plan": ANSWER}}]
    deliveries = Elicitation.objects.order_by("asked_at").values_list("delivery", flat=True)
    assert list(deliveries) == ["dropped", "delivered"]


def test_a_person_who_is_slow_each_time_is_asked_each_time(
    shop: Shop, clock: Clock, customer: Host
) -> None:
    """A question with a price in it, four times: each answer was refused unread, none was lost."""
    shop.has_prices = True
    pending = customer.asked()
    for _ in range(3):
        clock.passes(11)
        customer.answer(pending)
        pending = customer.resume(pending)
        assert isinstance(pending, ElicitationPending), pending
    customer.answer(pending)
    assert finished(customer.resume(pending))
    assert shop.drafts == 4
    assert shop.orders == [{"state": "draft 4", "plan": {"plan": ANSWER}}]
    deliveries = Elicitation.objects.order_by("asked_at").values_list("delivery", flat=True)
    assert sorted(deliveries) == ["delivered", "dropped", "dropped", "dropped"]


@pytest.mark.parametrize("minutes", [4, 6, 11, 60])
def test_two_rounds(minutes: int, shop: Shop, clock: Clock, customer: Host) -> None:
    """The person needs as long for each; each round's state is as old as its own question."""
    shop.rounds = 2
    first = customer.asked()
    clock.passes(minutes)
    customer.answer(first)
    second = customer.resume(first)
    assert isinstance(second, ElicitationPending)
    clock.passes(minutes)
    customer.answer(second, seats=3)
    got = customer.resume(second)
    is_good = minutes < 10
    if not is_good:
        # Afresh after round 2 as well: the plan was delivered, so it is asked for again.
        assert isinstance(got, ElicitationPending)
        customer.answer(got)
        got = customer.resume(got)
    assert finished(got)
    assert len(shop.orders) == 1
    assert shop.orders[0]["seats"] == {"seats": 3}
    assert shop.drafts == (1 if is_good else 3)
    # Nobody is asked for the seats twice.
    assert Elicitation.objects.filter(message="How many?").count() == 1


def test_a_server_that_was_restarted_in_round_2(shop: Shop, clock: Clock, customer: Host) -> None:
    shop.rounds = 2
    first = customer.answered()
    second = customer.resume(first)
    assert isinstance(second, ElicitationPending)
    customer.answer(second, seats=3)
    (before,) = stored()
    shop.restart()
    again = customer.resume(second)
    assert isinstance(again, ElicitationPending)
    # Round 2's answer is in hand, and keeps its time.
    assert [(one.pk, one.expires_at) for one in stored()] == [(before.pk, before.expires_at)]
    customer.answer(again)
    assert finished(customer.resume(again))
    assert len(shop.orders) == 1
    assert shop.orders[0]["seats"] == {"seats": 3}
    assert stored() == []
    assert not ParkedCall.objects.parked().exists()


def test_a_server_that_is_down_for_a_while(
    shop: Shop, clock: Clock, policy: ServerPolicy, user: User
) -> None:
    """The connection shows that nobody was there, and nothing is lost."""
    customer = Host(cast(Server, shop), user)
    pending = customer.answered()
    shop.stop()
    for _ in range(3):
        got = customer.resume(pending)
        assert isinstance(got, NotSentError)
        assert got.reason == "connect"
    shop.start()
    assert finished(customer.resume(pending))
    # The new process has a new key.
    assert shop.drafts == 2
    assert shop.orders == [{"state": "draft 2", "plan": {"plan": ANSWER}}]
