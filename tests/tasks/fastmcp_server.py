"""Tools that FastMCP runs as tasks; in an environment with ``fastmcp[tasks]``, over HTTP.

``python fastmcp_server.py PORT FILE``: logs the method of each request, and each start of a tool,
to the file, a line each, with the seconds of a clock that only goes forward.
"""

from __future__ import annotations

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
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

NOTE = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}

mcp = FastMCP("tasks")
mcp.add_extension(TasksExtension())
as_task = mcp.tool(task=TaskConfig(mode="required", poll_interval=timedelta(seconds=1)))


def log(line: str) -> None:
    with Path(sys.argv[2]).open("a") as file:
        file.write(f"{time.monotonic()} {line}\n")


def asks(**messages: str) -> InputRequiredResult:
    requests: Any = {
        key: ElicitRequest(params=ElicitRequestFormParams(message=text, requested_schema=NOTE))
        for key, text in messages.items()
    }
    return InputRequiredResult(input_requests=requests, request_state=json.dumps(sorted(messages)))


def said(context: Context) -> dict[str, str]:
    """Return what people answered so far in this leg."""
    answers = context.input_responses or {}
    return {
        key: str((answer.content or {}).get("note"))
        if answer.action == "accept"
        else answer.action
        for key, answer in answers.items()
    }


@as_task
async def say() -> str:
    log("say")
    return "said"


@as_task
async def ask(context: Context) -> Any:
    log("ask")
    answers = said(context)
    return answers["a"] if "a" in answers else asks(a="Which?")


@as_task
async def ask_twice(context: Context) -> Any:
    log("ask_twice")
    answers = said(context)
    if "b" in answers:
        return f"{context.request_state}: {answers['b']}"
    return asks(b="How many?") if "a" in answers else asks(a="Which?")


@as_task
async def ask_both(context: Context) -> Any:
    log("ask_both")
    answers = said(context)
    return f"{answers['a']}, {answers['b']}" if answers else asks(a="Which?", b="How many?")


@as_task
async def ask_then_work(context: Context) -> Any:
    log("ask_then_work")
    answers = said(context)
    if "a" not in answers:
        return asks(a="Which?")
    await asyncio.sleep(3)
    return answers["a"]


@as_task
async def fail() -> str:
    log("fail")
    raise ValueError("s3cret")


@as_task
async def hang() -> str:
    log("hang")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        log("hang cancelled")
        raise
    return "hung"


class Logged:
    """Logs the method of each request before the server sees it."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {key.decode(): value.decode() for key, value in scope["headers"]}
            if "mcp-method" in headers:
                log(f"{headers['mcp-method']} {headers.get('mcp-name', '')}".strip())
        await self.app(scope, receive, send)


if __name__ == "__main__":
    uvicorn.run(Logged(mcp.http_app()), port=int(sys.argv[1]), log_level="warning")
