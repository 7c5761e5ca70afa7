"""The MCP server of ``bench.flow``: one tool that asks once, over streamable HTTP.

``python -m bench.flow_server PORT``; the shop of the demo, without its other tools.
"""

from __future__ import annotations

import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from .asked import MESSAGE, SCHEMA

server = MCPServer("shop", log_level="WARNING")


@server.tool()
async def buy(number: int, ctx: Context) -> str | InputRequiredResult:
    """Asks for a plan and a number of seats, and then sells them."""
    answer = (ctx.input_responses or {}).get("plan")
    if not isinstance(answer, ElicitResult):
        params = ElicitRequestFormParams(message=MESSAGE, requested_schema=SCHEMA)
        return InputRequiredResult(
            input_requests={"plan": ElicitRequest(params=params)}, request_state=f"sale {number}"
        )
    content = answer.content or {}
    return f"{answer.action}: {content['plan']}, {content['seats']} seats"


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
