"""A host process in the environment of one client, which calls tools by the code of the docs.

``python -m tests.clients.host NAME PACKAGE``: each line on standard input is one call as JSON,
each on standard output that begins with ``host:`` how it ended. NAME is that of a code block in
``docs/clients.md``, or of a module beside this one.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
from datetime import timedelta
from importlib.metadata import version
from typing import Any

from tests.processes import BASE_DIR, use_test_database

use_test_database()

from django.conf import settings  # noqa: E402
from django.contrib.auth import get_user_model  # noqa: E402

from elicitation.models import ParkedCall  # noqa: E402

BLOCKS = dict(
    re.findall(
        r"<!-- test: ([\w-]+) -->\n```python\n(.*?)```",
        (BASE_DIR / "docs" / "clients.md").read_text(),
        re.DOTALL,
    )
)


def functions(name: str) -> dict[str, Any]:
    """Return what a code block, or a module, defines."""
    if name in BLOCKS:
        names: dict[str, Any] = {}
        exec(compile(BLOCKS[name], f"docs/clients.md: {name}", "exec"), names)  # noqa: S102
        return names
    return vars(importlib.import_module(f"tests.clients.{name}"))


async def call(names: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Make one call, and say what it returned and whether it waits in the database."""
    settings.ELICITATION_QUESTION_TTL = timedelta(seconds=asked["timeout"])
    options: dict[str, Any] = {"conversation": asked["conversation"]}
    options["user"] = await get_user_model().objects.aget(username="ada")
    if asked["function"] == "run_tool":
        options["timeout"] = asked["timeout"]
    else:
        options["call_id"] = "call-1"
    try:
        said = await names[asked["function"]](asked["url"], asked["tool"], {}, **options)
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        return {"error": f"{type(error).__name__}: {error}"}
    parked = await ParkedCall.objects.parked().filter(scope=asked["conversation"]).aexists()
    return {"parked": parked, "said": said}


async def main() -> None:
    name, package = sys.argv[1:]
    names = functions(name)
    versions = {name: version(name) for name in ("django", "mcp", package)}
    while line := await asyncio.to_thread(sys.stdin.readline):
        ended = await call(names, json.loads(line))
        # A framework may print, too; it does not begin so.
        print("host:", json.dumps({"versions": versions, **ended}), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
