"""An MCP server in a process of its own, of either era and over either transport.

``python -m tests.named.server ERA LOG [PORT]``, with ``ERA`` ``modern`` or ``legacy``: over
streamable HTTP on PORT, else over stdio. Its tool ``ask`` asks for a note and returns it, ``say``
asks nothing, ``once`` asks as ``ask`` does and takes each of its states once, ``end`` ends the
process, ``fail`` is refused, and ``late`` asks after its call, once there is a file ``LOG.go``.
Each request is one line of LOG, with the token that came with it and the note that was answered.
Where there is a file ``LOG.tokens``, a request without one of its lines is refused with 401.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

ERA, LOG = sys.argv[1], Path(sys.argv[2])
TOKENS = LOG.with_suffix(".tokens")
MISSING_SESSION = (
    b'{"jsonrpc":"2.0","id":"server-error","error":'
    b'{"code":-32600,"message":"Bad Request: Missing session ID"}}'
)
#: The states that were used.
USED: set[str | None] = set()
NOTE = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}


def token_of(ctx: Any) -> str:
    return "" if ctx.request is None else ctx.request.headers.get("authorization", "")


def log(**line: Any) -> None:
    with LOG.open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), **line}) + "\n")


async def noted(ctx: Any, call_next: CallNext) -> HandlerResult:
    if ctx.method in ("server/discover", "initialize"):
        log(method=ctx.method, token=token_of(ctx), params=dict(ctx.params or {}))
    return await call_next(ctx)


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    tools = [Tool(name=name, input_schema={"type": "object"}) for name in ("ask", "say", "end")]
    return ListToolsResult(tools=tools)


late: list[asyncio.Task[None]] = []


async def ask_late(ctx: Any) -> None:
    while not LOG.with_suffix(".go").exists():
        await asyncio.sleep(0.01)
    told = await ctx.session.elicit_form("Which?", NOTE)
    log(method="late", said=told.action)


async def call_tool(
    ctx: Any, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    if params.name == "end":
        os._exit(0)
    if params.name == "fail":
        raise MCPError(code=INVALID_PARAMS, message="no")
    if params.name == "late":
        late.append(asyncio.create_task(ask_late(ctx)))
    said = "said"
    if params.name in ("ask", "once"):
        told = (params.input_responses or {}).get("k")
        if ERA == "legacy":
            told = await ctx.session.elicit_form("Which?", NOTE, ctx.request_id)
        elif told is None:
            asked = ElicitRequestFormParams(message="Which?", requested_schema=NOTE)
            return InputRequiredResult(
                input_requests={"k": ElicitRequest(params=asked)},
                request_state=str(uuid.uuid4()),
            )
        elif params.name == "once" and params.request_state in USED:
            raise MCPError(code=INVALID_PARAMS, message="requestState: already used")
        USED.add(params.request_state)
        assert isinstance(told, ElicitResult)
        said = told.action if told.content is None else str(told.content["note"])
    log(method="tools/call", token=token_of(ctx), said=said, arguments=params.arguments)
    return CallToolResult(content=[TextContent(type="text", text=said)])


class Guarded:
    """Refuses requests without a token that is valid now, and those of an era it does not know."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = dict(scope.get("headers", ()))
        token = headers.get(b"authorization", b"").decode()
        is_guarded = scope["type"] == "http" and TOKENS.exists()
        if is_guarded and token not in TOKENS.read_text().splitlines():
            log(method="401", token=token)
            return await respond(send, 401)
        if ERA == "legacy" and headers.get(b"mcp-protocol-version") == b"2026-07-28":
            # As the SDK 1.x does.
            return await respond(send, 400, MISSING_SESSION)
        return await self.app(scope, receive, send)


async def respond(send: Any, status: int, body: bytes = b"") -> None:
    headers = [(b"content-type", b"application/json")] if body else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def over_stdio(server: Server[Any]) -> None:
    async with stdio_server() as streams:
        if ERA == "legacy":
            async with server.lifespan(server) as state:
                await serve_loop(server, *streams, lifespan_state=state)
        else:
            await server.run(*streams, server.create_initialization_options())


def main() -> None:
    server: Server[Any] = Server("named", on_call_tool=call_tool, on_list_tools=list_tools)
    server.middleware.append(noted)
    if len(sys.argv) < 4:
        anyio.run(over_stdio, server)
    else:
        app = Guarded(server.streamable_http_app())
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[3]), log_level="error")


if __name__ == "__main__":
    main()
