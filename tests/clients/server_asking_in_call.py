"""An MCP server of before 2026-07-28, made with ``mcp`` 1.x, that asks in the middle of a call.

``python server_asking_in_call.py PORT``, in an environment with ``mcp`` 1.x. Its tools return
what they were told as JSON, and which revision was spoken.
"""

import asyncio
import json
import sys
from typing import Any

import mcp.types
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS

server = FastMCP("in-call", log_level="ERROR", host="127.0.0.1", port=int(sys.argv[1]))

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name"},
        "seats": {"type": "integer", "title": "Seats"},
    },
    "required": ["name", "seats"],
}


async def ask(ctx: Context, message: str) -> dict[str, Any]:
    told = await ctx.session.elicit(message, SCHEMA, related_request_id=ctx.request_id)
    return told.model_dump(include={"action", "content"}, exclude_none=True)


def result(ctx: Context, *told: dict[str, Any]) -> str:
    params = ctx.session.client_params
    assert params is not None
    wanted = str(params.protocolVersion)
    known = wanted in SUPPORTED_PROTOCOL_VERSIONS
    revision = wanted if known else mcp.types.LATEST_PROTOCOL_VERSION
    return json.dumps({"revision": revision, "told": told})


@server.tool()
async def one(ctx: Context) -> str:
    """Ask once."""
    return result(ctx, await ask(ctx, "Who?"))


@server.tool()
async def two(ctx: Context) -> str:
    """Ask, and ask again for what the first answer makes of it."""
    first = await ask(ctx, "Who?")
    return result(ctx, first, await ask(ctx, f"And whom does {first['content']['name']} know?"))


@server.tool()
async def several(ctx: Context) -> str:
    """Ask three people's worth of questions at once."""
    return result(
        ctx, *await asyncio.gather(*(ask(ctx, f"Who is number {n}?") for n in (1, 2, 3)))
    )


if __name__ == "__main__":
    server.run("streamable-http")
