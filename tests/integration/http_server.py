"""An MCP server in a process of its own, over streamable HTTP, that writes down what it saw.

``python -m tests.integration.http_server PORT LOG``: each call appends one JSON line to LOG.
States are sealed under a key that lives as long as the process: a state that came back with
one byte changed, or to another process, is refused before a tool sees it.
"""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

server = MCPServer("recorded", log_level="WARNING")
LOG = Path(sys.argv[2])

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def _note(ctx: Context) -> dict[str, Any]:
    answers = {
        key: [result.action, result.content]
        for key, result in (ctx.input_responses or {}).items()
        if isinstance(result, ElicitResult)
    }
    with LOG.open("a") as log:
        seen = {"id": ctx.request_id, "state": ctx.request_state, "answers": answers}
        log.write(json.dumps(seen) + "\n")
    return answers


def _ask(key: str, message: str, state: str) -> InputRequiredResult:
    params = ElicitRequestFormParams(message=message, requested_schema=NAME)
    return InputRequiredResult(
        input_requests={key: ElicitRequest(params=params)}, request_state=state
    )


@server.tool()
async def one(ctx: Context) -> str | InputRequiredResult:
    """Asks once, under a key that is new for each call."""
    answers = _note(ctx)
    if not answers:
        return _ask(uuid.uuid4().hex, "Who?", "the only state")
    return json.dumps(list(answers.values()))


@server.tool()
async def two(ctx: Context) -> str | InputRequiredResult:
    """Asks twice; the second question is made of the first answer."""
    answers = _note(ctx)
    if "first" in answers:
        name = answers["first"][1]["name"]
        return _ask(
            "second", f"And whom does {name} know?", f"first was {name} \u2028\t\U0001f600"
        )
    if "second" in answers:
        return f"{ctx.request_state} / {answers['second'][1]['name']}"
    return _ask("first", "Who?", "nothing yet")


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
