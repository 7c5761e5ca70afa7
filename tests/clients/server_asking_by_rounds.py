"""An MCP server of 2026-07-28, made with ``mcp`` 2.x, whose calls go in rounds.

``python server_asking_by_rounds.py PORT``. Its tools ask as the SDK recommends, by resolvers:
the SDK makes rounds of them, or requests in the middle of the call for a client that speaks an
older revision only.
"""

import json
import sys
from typing import Annotated, Any

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from pydantic import BaseModel, Field

server = MCPServer("rounds", log_level="ERROR")


class Who(BaseModel):
    name: str = Field(title="Name")
    seats: int = Field(title="Seats")


def told(answer: ElicitationResult[Who]) -> dict[str, Any]:
    if isinstance(answer, AcceptedElicitation):
        return {"action": "accept", "content": answer.data.model_dump()}
    return {"action": answer.action}


def result(ctx: Context, *answers: ElicitationResult[Who]) -> str:
    return json.dumps(
        {"revision": ctx.protocol_version, "told": [told(answer) for answer in answers]}
    )


async def who() -> Elicit[Who]:
    return Elicit("Who?", Who)


async def whom(first: Annotated[ElicitationResult[Who], Resolve(who)]) -> Elicit[Who]:
    assert isinstance(first, AcceptedElicitation)
    return Elicit(f"And whom does {first.data.name} know?", Who)


async def number_1() -> Elicit[Who]:
    return Elicit("Who is number 1?", Who)


async def number_2() -> Elicit[Who]:
    return Elicit("Who is number 2?", Who)


async def number_3() -> Elicit[Who]:
    return Elicit("Who is number 3?", Who)


Answer = ElicitationResult[Who]


@server.tool()
async def one(ctx: Context, answer: Annotated[Answer, Resolve(who)]) -> str:
    """Ask once."""
    return result(ctx, answer)


@server.tool()
async def two(
    ctx: Context,
    first: Annotated[Answer, Resolve(who)],
    second: Annotated[Answer, Resolve(whom)],
) -> str:
    """Ask, and ask again for what the first answer makes of it."""
    return result(ctx, first, second)


@server.tool()
async def several(
    ctx: Context,
    first: Annotated[Answer, Resolve(number_1)],
    second: Annotated[Answer, Resolve(number_2)],
    third: Annotated[Answer, Resolve(number_3)],
) -> str:
    """Ask three people's worth of questions in one round."""
    return result(ctx, first, second, third)


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
