"""An MCP server over streamable HTTP that writes down the very bytes that a client sends.

``python -m tests.integration.wire_server PORT LOG``: the body of each request is one line of LOG.
Its one tool asks what its arguments say, in the manner of the client's revision: in its result
(MCP 2026-07-28), or in the middle of the call. ``swap`` in the arguments is put into the bytes of
the reply, so that it can say what the SDK would not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

NAME = "ask"


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name=NAME, input_schema={"type": "object"})])


async def call_tool(
    ctx: Any, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    arguments: dict[str, Any] = params.arguments or {}
    schema = arguments["schema"]
    if arguments["waits"]:
        result = await ctx.session.elicit_form("Please.", schema, ctx.request_id)
        said = result.action
    elif params.input_responses:
        said = params.input_responses["k"].action  # type: ignore[union-attr]
    else:
        asked = ElicitRequestFormParams(message="Please.", requested_schema=schema)
        return InputRequiredResult(
            input_requests={"k": ElicitRequest(params=asked)}, request_state="s"
        )
    return CallToolResult(content=[TextContent(type="text", text=said)])


class Tee:
    """Writes down what comes in, and swaps bytes of what goes out where the request says so."""

    def __init__(self, app: Any, log: Path) -> None:
        self.app = app
        self.log = log

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = bytearray()
        swap: list[bytes] = []

        async def teed() -> Any:
            message = await receive()
            if message["type"] == "http.request":
                body.extend(message.get("body", b""))
                if body and not message.get("more_body"):
                    with self.log.open("ab") as log:
                        log.write(body + b"\n")
                    asked = json.loads(body).get("params", {}).get("arguments", {})
                    swap[:] = [text.encode() for text in asked.get("swap", [])]
            return message

        async def swapped(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    header for header in message["headers"] if header[0] != b"content-length"
                ]
            elif swap:
                message["body"] = message.get("body", b"").replace(*swap)
            await send(message)

        await self.app(scope, teed, swapped)


if __name__ == "__main__":
    server: Server[Any] = Server("wire", on_call_tool=call_tool, on_list_tools=list_tools)
    app = Tee(server.streamable_http_app(), Path(sys.argv[2]))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
