"""The demo agent: it starts calls of tools. A worker makes them, and goes on with them.

Nothing waits for the person but rows in the database: no thread, and no connection.
"""

import mcp
from asgiref.sync import async_to_sync
from django.conf import settings
from mcp.types import Tool

from elicitation import calls
from project.demo.models import DemoRun

PROTOCOL = "2026-07-28"


class ServerUnreachable(Exception):
    """The demo MCP server does not answer."""

    def __init__(self) -> None:
        super().__init__(
            f"The demo MCP server does not answer at {settings.DEMO_MCP_URL}. "
            "Start it with “make demo”, or alone with “python -m project.demo_server”."
        )


def list_tools() -> list[Tool]:
    """Ask the server what it offers."""
    return async_to_sync(_list_tools)()


async def _list_tools() -> list[Tool]:
    try:
        async with mcp.Client(settings.DEMO_MCP_URL, mode=PROTOCOL) as client:
            return (await client.list_tools()).tools
    except Exception as error:
        # Whatever ends a connection arrives in the exception groups of the SDK's task groups.
        raise ServerUnreachable from error


def start(run: DemoRun) -> None:
    """Have the tool of a run called; ``receivers.save`` receives how that ended."""
    calls.start_sync(
        settings.DEMO_SERVER,
        run.tool,
        scope=run.scope,
        scope_label="Demo agent",
        user=run.user,
    )
