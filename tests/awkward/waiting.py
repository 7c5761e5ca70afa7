"""A process whose call waits for a person: ``python -m tests.awkward.waiting USER PATIENCE``.

PATIENCE is how many seconds it listens before it believes that it is deaf. Prints what is logged
about listening, and at last what the server is told.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys

from tests.processes import use_test_database

use_test_database()

from django.contrib.auth.models import User  # noqa: E402

from elicitation.calls.in_call import answer_in_call  # noqa: E402
from elicitation.inbox import listening  # noqa: E402

SCHEMA = {
    "type": "object",
    "properties": {"plan": {"type": "string", "enum": ["solo", "team"]}},
    "required": ["plan"],
}


class Printer(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.module == "listening":
            print(record.getMessage(), flush=True)  # noqa: T201


def main() -> None:
    user = User.objects.get(pk=sys.argv[1])
    logger = logging.getLogger("elicitation")
    logger.addHandler(Printer())
    logger.setLevel(logging.DEBUG)
    listening.PATIENCE = float(sys.argv[2])
    params = {"message": "Which plan?", "requestedSchema": SCHEMA}
    names = {"server": "shop", "tool": "buy", "scope": "chat"}
    told = asyncio.run(answer_in_call(params, **names, respondent=user, timeout=60))
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    main()
