"""A server of the Tasks extension, made with ``fastmcp[tasks]``, in an environment of its own.

``python fastmcp_server.py PORT LOG``. Each request about a task, and each run of a
tool to its end, is one line of LOG.
"""

import asyncio
import json
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp import MCPError
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
)

PORT, LOG = int(sys.argv[1]), Path(sys.argv[2])
NOTE: dict[str, Any] = {
    "type": "object",
    "properties": {"note": {"type": "string"}},
    "required": ["note"],
}

server = FastMCP("fastmcp")
server.add_extension(TasksExtension())
tool = server.tool(task=TaskConfig(poll_interval=timedelta(seconds=1)))


def log(**line: Any) -> None:
    with LOG.open("a") as file:
        file.write(json.dumps({"at": time.monotonic(), **line}) + "\n")


def asks(state: list[str], *messages: str) -> InputRequiredResult:
    """Ask these, by keys that are unique in the life of the task."""
    forms = {
        f"k{len(state) + number}": ElicitRequest(
            params=ElicitRequestFormParams(message=message, requested_schema=NOTE)
        )
        for number, message in enumerate(messages)
    }
    return InputRequiredResult(input_requests=forms, request_state=json.dumps(state))


def told(ctx: Context) -> list[str]:
    """What was answered so far, in the order of the keys."""
    answers = [ctx.input_responses[key] for key in sorted(ctx.input_responses or {})]
    said = [str((each.content or {}).get("note", each.action)) for each in answers]
    return [*json.loads(ctx.request_state or "[]"), *said]


def done(ctx: Context, said: list[str]) -> str:
    log(ran=said)
    return " ".join(["bought", *said])


@tool
async def nothing(ctx: Context) -> str:
    await asyncio.sleep(2)
    return done(ctx, [])


@tool
async def one(ctx: Context) -> Any:
    said = told(ctx)
    return done(ctx, said) if said else asks(said, "Which?")


@tool
async def rounds(ctx: Context) -> Any:
    said = told(ctx)
    return done(ctx, said) if len(said) == 2 else asks(said, ["Which?", "How many?"][len(said)])


@tool
async def at_once(ctx: Context) -> Any:
    said = told(ctx)
    return done(ctx, said) if said else asks(said, "Which?", "How many?")


@tool
async def slow(ctx: Context) -> Any:
    said = told(ctx)
    if not said:
        return asks(said, "Which?")
    await asyncio.sleep(60)
    return done(ctx, said)


@tool
async def error(ctx: Context) -> str:
    raise ValueError("no")


@tool
async def failing(ctx: Context) -> str:
    raise MCPError(code=-32603, message="no")


def main() -> None:
    app = server.http_app()

    async def logged(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        method = headers.get(b"mcp-method", b"").decode()
        if method.startswith("tasks/"):
            log(method=method, task=headers.get(b"mcp-name", b"").decode())
        await app(scope, receive, send)

    uvicorn.run(logged, host="127.0.0.1", port=PORT, log_level="error")


if __name__ == "__main__":
    main()
