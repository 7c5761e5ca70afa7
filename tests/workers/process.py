"""A worker in a process of its own, that can be made to die at a named point.

``python -m tests.workers.process SERVERS POINT [RECEIVED]``: SERVERS is ``ELICITATION_SERVERS`` as
JSON, and POINT where it kills itself, as if its machine did; empty: nowhere. RECEIVED is a file to
which it writes what each call ended with, as a host would keep it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
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

#: How a call of a tool that asks may end, by the point where its first worker died.
ENDS = {
    "before the call": {"finished"},
    # The row says that a request went out, and nobody can know.
    "after the claim": {"lost"},
    "after the call": {"lost"},
    "after the ask": {"finished"},
    # The answer was on its way, so the person is asked once more; their state is used up then,
    # if it had arrived.
    "after the take": {"finished"},
    "after the send": {"lost"},
    "after the result": {"finished"},
    "after the signal": {"finished"},
}

#: How long it takes until a dead worker is noticed, and until something is told again.
SOON = timedelta(seconds=2)
#: Names in the environment how many seconds a worker that says nothing counts as alive instead.
PATIENT = "ELICITATION_TEST_PATIENT"


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


def receive_in(file: Path) -> None:
    """Receive every outcome; one line for each."""
    from elicitation import calls

    @calls.receive_outcomes
    def receive(outcome: calls.Outcome) -> None:
        line = {"key": str(outcome.parked_call_id), "code": outcome.code}
        with file.open("a") as lines:
            lines.write(json.dumps(line) + "\n")


def main(die_at: Callable[[str], None] = die_at) -> None:
    # The SDK logs a traceback if a connection is closed while a message arrives.
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
    settings.ELICITATION_SERVERS = json.loads(sys.argv[1])
    alive = timedelta(seconds=float(os.environ.get(PATIENT, SOON.total_seconds())))
    settings.ELICITATION_RESUME_LEASE = settings.ELICITATION_ALIVE = alive
    settings.ELICITATION_RESUME_AFTER = SOON
    die_at(sys.argv[2])
    if sys.argv[3:]:
        receive_in(Path(sys.argv[3]))
    call_command("elicitation_worker", "--patience=5")


if __name__ == "__main__":
    main()
