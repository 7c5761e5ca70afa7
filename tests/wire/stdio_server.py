"""An MCP server on stdin and stdout: it asks once, and meets the retry as its argument says.

``python -m tests.wire.stdio_server LOG WAY``, with ``WAY`` one of ``result``, ``die`` (the process
ends), ``garbage`` (a line that is no JSON, then the result), ``refuse`` (an error with id null,
then its end). Each retry is one line of LOG.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.wire.server import PLAN


def main(log: Path, way: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") != "tools/call":
            continue
        answers = message["params"].get("inputResponses")
        if not answers:
            params = {"mode": "form", "message": "Which?", "requestedSchema": PLAN}
            asked = {"k": {"method": "elicitation/create", "params": params}}
            result = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
            say({"jsonrpc": "2.0", "id": message["id"], "result": result})
            continue
        with log.open("a") as file:
            file.write(json.dumps(answers) + "\n")
        if way == "garbage":
            print("no JSON", flush=True)  # noqa: T201
        if way == "refuse":
            say({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "no"}})
        if way in ("die", "refuse"):
            return
        done = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
        say({"jsonrpc": "2.0", "id": message["id"], "result": done})


def say(message: object) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
