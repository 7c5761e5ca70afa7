"""The callbacks for clients of every kind, by the SDK's own client and its types.

``tests/clients`` has the clients themselves, each in an environment of its own.
"""

from __future__ import annotations

from typing import Any

import mcp
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from mcp.types import ElicitRequestParams, ElicitResult

from elicitation.mcp import client as mcp_sdk
from elicitation.mcp.callbacks import can_ask, elicitation_callback, elicitation_handler
from elicitation.mcp.capabilities import URLModeOnly
from elicitation.models import Elicitation, ServerPolicy
from tests.integration.scripted import said
from tests.integration.test_in_call import answer_plan, server, together, when_asked


def test_the_module_for_the_sdk_has_the_same_callback() -> None:
    assert mcp_sdk.elicitation_callback is elicitation_callback


def test_it_is_said_once_where_an_sdk_does_not_let_the_modes_be_declared(
    policy: ServerPolicy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ServerPolicy.objects.update(policy="url")
    monkeypatch.setattr(URLModeOnly, "complained", False)
    monkeypatch.delattr(mcp.ClientSession, "_build_capabilities")
    for _ in range(2):
        assert isinstance(mcp_sdk.client_options("shop")["elicitation_callback"], URLModeOnly)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "does not let the modes" in caplog.text


def test_a_handler_as_fastmcp_calls_it(policy: ServerPolicy, user: User) -> None:
    handler = elicitation_handler("shop", "buy", "chat", user, call="c1", scope_label="Chat")

    async def as_fastmcp_does(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return await handler(params.message, dict, params, context)

    async def call() -> Any:
        client = mcp.Client(server, mode="legacy", elicitation_callback=as_fastmcp_does)
        async with client:
            return await together(client.call_tool("buy", {}), when_asked(answer_plan(user)))

    assert said(async_to_sync(call)()) == "bought team"
    question = Elicitation.objects.get()
    assert (question.tool, question.call, question.scope_label) == ("buy", "c1", "Chat")


@pytest.mark.parametrize(
    ("decided", "is_there", "can"),
    [("url_and_form", True, True), ("url_and_form", False, False), ("none", True, False)],
)
def test_who_can_be_asked(
    policy: ServerPolicy, user: User, decided: str, is_there: bool, can: bool
) -> None:
    ServerPolicy.objects.update(policy=decided)
    assert can_ask("shop", user if is_there else None) is can
