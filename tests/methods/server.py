"""An MCP server in a process of its own: a tool, a prompt and a resource, which ask twice each.

``python -m tests.methods.server ERA LOG PORT``, with ``ERA`` ``modern`` or ``legacy``. All three
have the name ``review``, or are the resource whose URI begins with it. Each request is one line of
LOG: its method, its arguments, and what was answered with it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    GetPromptResult,
    InputRequiredResult,
    ListToolsResult,
    PromptMessage,
    ReadResourceResult,
    Result,
    TextContent,
    TextResourceContents,
    Tool,
)

ERA, LOG, PORT = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
NOTE = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
#: What both are asked, in every method.
QUESTIONS = ("Which file?", "Which line?")


def log(**line: Any) -> None:
    with LOG.open("a") as file:
        file.write(json.dumps(line) + "\n")


def told(answer: object) -> str:
    assert isinstance(answer, ElicitResult)
    return answer.action if answer.content is None else str(answer.content["note"])


async def ask(ctx: Any, params: Any, method: str, what: Any) -> str | InputRequiredResult:
    """Ask twice, and return both answers; by rounds, or in the middle of the request."""
    if ERA == "legacy":
        log(method=method, what=what)
        return " ".join(
            [told(await ctx.session.elicit_form(each, NOTE, ctx.request_id)) for each in QUESTIONS]
        )
    answers = [told(each) for each in (params.input_responses or {}).values()]
    log(method=method, what=what, state=params.request_state, answers=answers)
    said = json.loads(params.request_state or "[]") + answers
    if len(said) == len(QUESTIONS):
        return " ".join(said)
    form = ElicitRequestFormParams(message=QUESTIONS[len(said)], requested_schema=NOTE)
    return InputRequiredResult(
        input_requests={"k": ElicitRequest(params=form)}, request_state=json.dumps(said)
    )


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name="review", input_schema={"type": "object"})])


async def call_tool(ctx: Any, params: Any) -> Result:
    said = await ask(ctx, params, "tools/call", params.arguments)
    if isinstance(said, InputRequiredResult):
        return said
    return CallToolResult(content=[TextContent(type="text", text=said)])


async def get_prompt(ctx: Any, params: Any) -> Result:
    said = await ask(ctx, params, "prompts/get", params.arguments)
    if isinstance(said, InputRequiredResult):
        return said
    content = TextContent(type="text", text=said)
    return GetPromptResult(messages=[PromptMessage(role="user", content=content)])


async def read_resource(ctx: Any, params: Any) -> Result:
    said = await ask(ctx, params, "resources/read", str(params.uri))
    if isinstance(said, InputRequiredResult):
        return said
    return ReadResourceResult(
        contents=[TextResourceContents(uri=params.uri, text=said)], ttl_ms=0, cache_scope="private"
    )


def main() -> None:
    server: Server[Any] = Server(
        "methods",
        on_call_tool=call_tool,
        on_list_tools=list_tools,
        on_get_prompt=get_prompt,
        on_read_resource=read_resource,
    )
    app: Any = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if ERA == "legacy" and headers.get(b"mcp-protocol-version") == b"2026-07-28":
            # As the SDK 1.x does.
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    uvicorn.run(guarded, host="127.0.0.1", port=PORT, log_level="error")


if __name__ == "__main__":
    main()
