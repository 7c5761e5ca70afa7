"""A client with the tasks of MCP 2025-11-25, which the Python SDK 2.x has not: JSON-RPC by hand.

What a server asks goes to ``answer_in_call`` as it came over the wire: it needs no SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from elicitation.calls.in_call import answer_in_call
from tests.host import SCOPE, SERVER

if TYPE_CHECKING:
    from django.contrib.auth.models import User

REVISION = "2025-11-25"
#: Tasks that this client makes of elicitations; those of a server's tools need no capability.
CAPABILITIES = {
    "elicitation": {"form": {}},
    "tasks": {"requests": {"elicitation": {"create": {}}}},
}
TTL = 60_000


class TaskClient:
    """One connection, whose elicitations are put to one person."""

    def __init__(self, streams: Any, user: User) -> None:
        self._read, self._write = streams
        self.user = user
        self.tool = ""
        self.replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.answers: dict[str, asyncio.Task[dict[str, Any]]] = {}
        self.replying: set[asyncio.Task[None]] = set()

    async def shake_hands(self) -> None:
        """Say what this client can."""
        hello = {
            "protocolVersion": REVISION,
            "capabilities": CAPABILITIES,
            "clientInfo": {"name": "host", "version": "1"},
        }
        await self.request("initialize", hello)
        await self.send(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized"))

    async def call_task(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool as a task, and return what its result is in the end."""
        self.tool = tool
        params = {"name": tool, "arguments": arguments, "task": {"ttl": TTL}}
        made = await self.request("tools/call", params)
        return await self.request("tasks/result", {"taskId": made["task"]["taskId"]})

    async def call(self, tool: str) -> dict[str, Any]:
        """Call a tool as ever, and return its result."""
        self.tool = tool
        return await self.request("tools/call", {"name": tool, "arguments": {}})

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and return its result."""
        key = len(self.replies)
        self.replies[key] = asyncio.get_running_loop().create_future()
        await self.send(JSONRPCRequest(jsonrpc="2.0", id=key, method=method, params=params))
        return await self.replies[key]

    async def send(self, message: JSONRPCMessage) -> None:
        """Send whatever it is."""
        await self._write.send(SessionMessage(message))

    async def listen(self) -> None:
        """Take what comes, until the connection is closed."""
        async for received in self._read:
            message = received.message
            if isinstance(message, JSONRPCRequest):
                self.replying.add(asyncio.create_task(self._reply(message)))
            elif isinstance(message, JSONRPCResponse):
                self.replies[int(message.id)].set_result(message.result)
            elif isinstance(message, JSONRPCError) and message.id is not None:
                self.replies[int(message.id)].set_exception(AssertionError(message.error))

    async def _reply(self, asked: JSONRPCRequest) -> None:
        result = await self._answer(asked.method, asked.params or {})
        await self.send(JSONRPCResponse(jsonrpc="2.0", id=asked.id, result=result))

    async def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "elicitation/create":
            answer = asyncio.create_task(
                answer_in_call(
                    params, server=SERVER, tool=self.tool, scope=SCOPE, respondent=self.user
                )
            )
            if "task" not in params:
                return await answer
            key = f"task-{len(self.answers)}"
            self.answers[key] = answer
            return {"task": self._task(key)}
        if method == "tasks/get":
            return self._task(params["taskId"])
        if method == "tasks/result":
            return await self.answers[params["taskId"]]
        return {}

    def _task(self, key: str) -> dict[str, Any]:
        now = "2025-11-25T00:00:00Z"
        status = "completed" if self.answers[key].done() else "input_required"
        times = {"createdAt": now, "lastUpdatedAt": now, "ttl": TTL, "pollInterval": 100}
        return {"taskId": key, "status": status, **times}


@asynccontextmanager
async def connected(target: StdioServerParameters | str, user: User) -> AsyncIterator[TaskClient]:
    """Connect to a server."""
    transport = streamable_http_client(target) if isinstance(target, str) else stdio_client(target)
    async with transport as streams:
        client = TaskClient(streams, user)
        listening = asyncio.create_task(client.listen())
        try:
            await client.shake_hands()
            yield client
        finally:
            listening.cancel()
