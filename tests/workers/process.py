"""A worker in a process of its own, that can be made to die at a named point.

``python -m tests.workers.process SERVERS POINT``: SERVERS is ``ELICITATION_SERVERS`` as JSON, and
POINT where it kills itself, as if its machine did; empty: nowhere.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.processes import use_test_database

if __name__ == "__main__":
    use_test_database()

from django.conf import settings
from django.core.management import call_command

#: Where a worker dies, in the order of a call.
POINTS = (
    "before the call",
    "after the claim",
    "after the call",
    "after the ask",
    "after the take",
    "after the send",
    "after the result",
    "after the signal",
)


#: How long it takes until a dead worker is noticed.
SOON = timedelta(seconds=2)


def die(*args: object, **kwargs: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def after(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        function(*args, **kwargs)
        die()

    return wrapper


def die_at(point: str) -> None:
    """Put the process's end where it was asked for; the app knows nothing of it."""
    from elicitation.calls import parking
    from elicitation.mcp.drive import Drive
    from elicitation.signals import call_finished

    resume, send = parking.resume, Drive._send_once

    def dies_when(unsent: bool) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            resumed = resume(*args, **kwargs)
            return die() if (resumed.round.number == 0) is unsent else resumed

        return wrapper

    def sends(with_answers: bool) -> Callable[..., Any]:
        async def wrapper(self: Drive, number: int, round: Any, responses: Any) -> Any:
            event = await send(self, number, round, responses)
            return die() if (responses is not None) is with_answers else event

        return wrapper

    if point == "before the call":
        parking.resume = die
    elif point == "after the claim":
        parking.resume = dies_when(unsent=True)
    elif point == "after the call":
        Drive._send_once = sends(with_answers=False)  # type: ignore[method-assign]
    elif point == "after the ask":
        parking.park = after(parking.park)
    elif point == "after the take":
        parking.resume = dies_when(unsent=False)
    elif point == "after the send":
        Drive._send_once = sends(with_answers=True)  # type: ignore[method-assign]
    elif point == "after the result":
        call_finished.send_robust = die  # type: ignore[method-assign]
    elif point == "after the signal":
        call_finished.send_robust = after(call_finished.send_robust)  # type: ignore[method-assign]
    elif point:
        raise ValueError(point)


def main() -> None:
    settings.ELICITATION_SERVERS = json.loads(sys.argv[1])
    # A dead worker is noticed soon.
    settings.ELICITATION_RESUME_LEASE = settings.ELICITATION_ALIVE = SOON
    settings.ELICITATION_RESUME_AFTER = SOON
    die_at(sys.argv[2])
    call_command("elicitation_worker", "--patience=5")


if __name__ == "__main__":
    main()
