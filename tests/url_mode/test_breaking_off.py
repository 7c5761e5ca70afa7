"""A consent that the server was told is not lost where the call breaks off after its reply."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from elicitation import inbox
from elicitation.calls import parking
from elicitation.calls import requests as handler
from elicitation.mcp import client as mcp_sdk
from elicitation.models import Elicitation, StoredFormAnswer
from tests.integration.conftest import Host
from tests.integration.scripted import PLAN, ScriptedServer, ask, form, said, text, url


class Steps:
    """A tool that asks for its address, and then for the next thing, until it is `finished`."""

    def __init__(self, next_request: Any) -> None:
        self.next_request = next_request
        self.finished = False

    def __call__(self, params: Any) -> Any:
        if self.finished:
            return text("done")
        if params.input_responses:
            return ask("two", k=self.next_request)
        return ask("one", k=ADDRESS)


ADDRESS = url("Sign in.", "https://login.example.com/")


@pytest.mark.parametrize("where", ["read", "park"])
@pytest.mark.parametrize("next_request", [ADDRESS, form("Which plan?", PLAN)])
def test_a_call_that_breaks_off_after_a_reply_keeps_the_consent(
    host_for: Callable[[ScriptedServer], Host],
    user: User,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    next_request: Any,
) -> None:
    host = host_for(server := ScriptedServer(tool := Steps(next_request)))
    pending = host.pending()
    inbox.consent(pending.elicitation_ids[0], by=user)
    read = handler.read_requests

    def read_once(*args: Any, **kwargs: Any) -> Any:
        if server.answers:
            raise asyncio.CancelledError
        return read(*args, **kwargs)

    def cancelled(*args: Any, **kwargs: Any) -> None:
        raise asyncio.CancelledError

    async def break_off() -> None:
        async with server.connect() as session:
            with pytest.raises(asyncio.CancelledError):
                await mcp_sdk.resume(session, pending.parked_call_id, server="shop")

    with monkeypatch.context() as patch:
        if where == "read":
            patch.setattr(parking, "read_requests", read_once)
        else:
            patch.setattr(parking, "park", cancelled)
        async_to_sync(break_off)()
    assert server.answers == [("accept", None)]
    assert StoredFormAnswer.objects.count() == 1
    # The outbox still looks after the call.
    assert Elicitation.objects.get().delivered_at is None
    tool.finished = True
    assert said(host.resume(pending)) == "done"
    assert not StoredFormAnswer.objects.exists()
    assert Elicitation.objects.get().delivery == Elicitation.Delivery.DELIVERED


def test_a_call_that_breaks_off_while_it_is_claimed_can_be_resumed_at_once(
    host_for: Callable[[ScriptedServer], Host], user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = host_for(server := ScriptedServer(tool := Steps(ADDRESS)))
    pending = host.pending()
    inbox.consent(pending.elicitation_ids[0], by=user)
    claim = parking.resume

    def slowly(*args: Any, **kwargs: Any) -> Any:
        claimed = claim(*args, **kwargs)
        loops[0].call_soon_threadsafe(is_claimed.set)
        time.sleep(0.05)
        return claimed

    loops: list[asyncio.AbstractEventLoop] = []

    async def break_off() -> None:
        loops.append(asyncio.get_running_loop())
        async with server.connect() as session:
            resuming = asyncio.ensure_future(
                mcp_sdk.resume(session, pending.parked_call_id, server="shop")
            )
            await is_claimed.wait()
            resuming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await resuming

    is_claimed = asyncio.Event()
    with monkeypatch.context() as patch:
        patch.setattr(parking, "resume", slowly)
        async_to_sync(break_off)()
    tool.finished = True
    assert said(host.resume(pending)) == "done"
