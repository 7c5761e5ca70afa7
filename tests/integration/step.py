"""One process that goes one step with a call, says how that ended, and is gone.

``python -m tests.integration.step URL TOOL USER_ID`` prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tests.processes import use_test_database

use_test_database()

import mcp  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402

from elicitation.core import ElicitationError, ElicitationPending  # noqa: E402
from elicitation.mcp.client import aclient_options, call_tool  # noqa: E402


async def main() -> dict[str, Any]:
    address, tool, user_id = sys.argv[1:]
    respondent = await User.objects.aget(pk=user_id)
    options = await aclient_options("shop")
    async with mcp.Client(address, mode="2026-07-28", **options) as client:
        try:
            result = await call_tool(
                client.session,
                server="shop",
                tool=tool,
                arguments={},
                scope="conversation",
                respondent=respondent,
            )
        except ElicitationPending as pending:
            return {"pending": [str(key) for key in pending.elicitation_ids]}
        except ElicitationError as error:
            return {"error": error.code}
    return {"result": result.content[0].text}  # type: ignore[union-attr]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))  # noqa: T201
