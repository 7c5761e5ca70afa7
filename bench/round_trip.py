"""A whole round trip with a real MCP server in a process of its own, over streamable HTTP.

Ours: the call is parked, the person's answer recorded, the same call made again and its result
returned. The floor: the SDK alone, with a callback in memory that answers at once.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mcp
from asgiref.sync import sync_to_async
from django.db import connections
from mcp.types import ElicitResult

from elicitation import inbox
from elicitation.core import ElicitationPending, FormAnswer
from elicitation.mcp.client import aclient_options, call_tool

from .measure import Result

if TYPE_CHECKING:
    from django.contrib.auth.models import User

BASE_DIR = Path(__file__).resolve().parent.parent
NAME = {"name": "Ada"}


def measure(user: User, *, rounds: int) -> Result:
    with tempfile.TemporaryDirectory() as directory:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = ["tests.integration.http_server", str(port), f"{directory}/seen"]
        server = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=BASE_DIR,
            env=os.environ,
            stdin=subprocess.DEVNULL,
        )
        try:
            _wait_for(port)
            return asyncio.run(_compare(f"http://127.0.0.1:{port}/mcp", user, rounds))
        finally:
            server.kill()
            server.wait(30)


def _wait_for(port: int) -> None:
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise SystemExit("The MCP server did not start.")


async def _compare(url: str, user: User, rounds: int) -> Result:
    numbers = itertools.count()

    async def callback(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=NAME)

    options = await aclient_options("shop")
    async with (
        mcp.Client(url, mode="2026-07-28", **options) as client,
        mcp.Client(url, mode="2026-07-28", elicitation_callback=callback) as plain,
    ):

        async def ours() -> None:
            made = {
                "server": "shop",
                "tool": "one",
                "arguments": {},
                "scope": "round-trip",
                "call": f"call-{next(numbers)}",
                "respondent": user,
            }
            try:
                await call_tool(client.session, **made)
            except ElicitationPending as pending:
                [key] = pending.elicitation_ids
            await inbox.aanswer(key, {"name": FormAnswer(other_text="Ada")}, by=user)
            result = await call_tool(client.session, **made)
            assert not result.is_error

        async def floor() -> None:
            result = await plain.call_tool("one", {})
            assert not result.is_error

        pairs = [(await _timed(ours), await _timed(floor)) for _ in range(rounds + 3)][3:]
        # The rows are read and written in a thread that has a connection of its own.
        await sync_to_async(connections.close_all)()
    return Result(
        name="round trip with a real MCP server",
        floor_name="the SDK with a callback in memory",
        ours=statistics.median(pair[0] for pair in pairs),
        floor=statistics.median(pair[1] for pair in pairs),
        ratio=statistics.median(low / mine for mine, low in pairs),
    )


async def _timed(work: Callable[[], Awaitable[None]], runs: int = 5) -> float:
    begin = time.perf_counter()
    for _ in range(runs):
        await work()
    return (time.perf_counter() - begin) / runs * 1e6
