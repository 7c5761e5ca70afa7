"""A process that resumes a call, and stops on its way until it is continued.

``python -m tests.wire.resumer URL PARKED_CALL_ID LEASE_SECONDS WHERE`` prints how that ended. It
stops between the take and the ``send``, or with the ``result`` in its hand.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import timedelta

from tests.processes import use_test_database

use_test_database()

from django.conf import settings  # noqa: E402

from elicitation.core import ElicitationError  # noqa: E402
from elicitation.mcp import drive  # noqa: E402
from elicitation.mcp.client import aclient_options, resume  # noqa: E402
from elicitation.mcp.drive import Drive  # noqa: E402
from elicitation.mcp.transport import connect  # noqa: E402
from elicitation.models import ParkedCall  # noqa: E402


async def main() -> str:
    url, key, lease, where = sys.argv[1:]
    settings.ELICITATION_RESUME_LEASE = timedelta(seconds=float(lease))
    send = Drive._send_answers

    async def stop_first(self: Drive) -> drive.Event:
        # The answers are taken, and nothing is sent: here the whole process stands still.
        os.kill(os.getpid(), signal.SIGSTOP)
        return await send(self)

    if where == "send":
        Drive._send_answers = stop_first  # type: ignore[method-assign]
    async with connect(url, **await aclient_options("shop")) as client:
        try:
            await resume(client.session, key, server="shop")
        except ParkedCall.DoesNotExist:
            return "gone"
        except ElicitationError as error:
            return error.code
        if where == "result":
            os.kill(os.getpid(), signal.SIGSTOP)
    return "result"


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))  # noqa: T201
