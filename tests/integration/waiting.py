"""A process of its own in which a server asks in the middle of calls, and waits for the answers.

``python -m tests.integration.waiting USER_ID LABEL [die]``: each line that comes in is the id of a
call; what its server is told is printed. ``die`` ends it, as if its machine did, between the take
of an answer and the reply.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from tests import processes

if TYPE_CHECKING:
    from subprocess import Popen

    from django.contrib.auth.models import User


class Waiting:
    """The process."""

    def __init__(self, user: User, label: str, *options: str) -> None:
        self.process: Popen[str] = processes.start(
            "tests.integration.waiting", str(user.pk), label, *options
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def begin(self, call: str) -> None:
        """Let the server ask."""
        print(call, file=self.stdin, flush=True)

    def told(self) -> dict[str, Any]:
        """Wait until the server was told something, and return it."""
        told: dict[str, Any] = json.loads(self.stdout.readline())
        return told

    def end(self) -> None:
        """Let it come to its end."""
        assert self.ended() == 0

    def kill(self) -> None:
        """End it as a lost machine does."""
        self.process.send_signal(signal.SIGKILL)
        self.ended()

    def ended(self) -> int:
        """Wait until it has ended, and return how."""
        self.process.communicate(timeout=processes.WAIT_SECONDS)
        return self.process.returncode


def die(*args: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def main(user_id: str, label: str, *options: str) -> None:
    processes.use_test_database()
    from django.contrib.auth.models import User

    from elicitation.calls import in_call

    if "die" in options:
        in_call._Request._reply = die  # type: ignore[method-assign]
    # Nothing here imports MCP's SDK, which would take longer to load than all the rest.
    plan = {"type": "string", "enum": ["solo", "team"]}
    requested = {"type": "object", "properties": {"plan": plan}, "required": ["plan"]}
    params = {"message": "Which plan?", "requestedSchema": requested}
    names = {"server": "shop", "tool": "buy", "scope": "chat", "scope_label": label}
    respondent = User.objects.get(pk=user_id)
    for line in sys.stdin:
        asked = in_call.answer_in_call(
            params, **names, respondent=respondent, call=line.strip(), timeout=60
        )
        print(json.dumps(asyncio.run(asked)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
