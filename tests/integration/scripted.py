"""MCP servers for the tests, made with the official SDK, that do what a test tells them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp
from mcp.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

from elicitation.mcp.client import aclient_options

PLAN = {
    "type": "object",
    "properties": {"plan": {"type": "string", "enum": ["solo", "team"]}},
    "required": ["plan"],
}
SEATS = {
    "type": "object",
    "properties": {"seats": {"type": "integer", "minimum": 1, "maximum": 50}},
    "required": ["seats"],
}
SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}


def form(message: str, schema: dict[str, Any]) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def url(message: str, address: str) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestURLParams(message=message, url=address))


def ask(state: str | None = "state", **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests or None, request_state=state)


def text(value: object, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=str(value))], is_error=is_error)


def said(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


class ScriptedServer:
    """A server whose one tool is a function of the call's parameters.

    ``calls`` has what the server received, as it came in. ``restart()`` forgets the key with
    which states are sealed, as a server does whose process ends.
    """

    def __init__(
        self, tool: Callable[[CallToolRequestParams], Any], *, sealed: bool = False
    ) -> None:
        self.tool = tool
        self.sealed = sealed
        self.calls: list[CallToolRequestParams] = []
        self.capabilities: Any = None
        self.restart()

    def restart(self) -> None:
        self.server = Server(
            "scripted", on_call_tool=self._call_tool, on_list_tools=self._list_tools
        )
        if self.sealed:
            self.server.middleware.append(
                RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="scripted")
            )

    async def _list_tools(self, ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="tool", input_schema={"type": "object"})])

    async def _call_tool(
        self, ctx: Any, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        self.calls.append(params)
        reply = self.tool(params)
        return await reply if inspect.isawaitable(reply) else reply

    @asynccontextmanager
    async def connect(self, server: str = "shop", **options: Any) -> AsyncIterator[Any]:
        options = await aclient_options(server) | options
        async with mcp.Client(self.server, mode="2026-07-28", **options) as client:
            yield client.session

    @property
    def answers(self) -> list[tuple[str, dict[str, Any] | None]]:
        """Every elicitation result the server has received, as action and content."""
        return [
            (result.action, result.content)
            for call in self.calls
            for result in (call.input_responses or {}).values()
            if isinstance(result, ElicitResult)
        ]


def accepted(params: CallToolRequestParams, key: str) -> dict[str, Any] | None:
    """What was accepted under this key, or ``None``."""
    result = (params.input_responses or {}).get(key)
    if isinstance(result, ElicitResult) and result.action == "accept":
        return result.content
    return None
