"""What it costs one worker to look after many tasks: ``python -m bench.tasks --tasks 2000``.

A server goes on with each call as a task, and says how often it may be read. Printed are
the requests to the server and the statements of the worker in a second, and the shortest pause
between two requests for one task. Then one task asks: how long until its person sees that.
Makes a database of its own and removes it; the worker is a process of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests import processes
from tests.tasks.server import CREATED, WORKING, TaskServer, asks
from tests.torture.command import in_own_database

from .waiting import working

#: How much later than its interval a task may be read, in seconds.
LATE = 1.0


class Server(TaskServer):
    """A server whose tasks work on, but for one that asks."""

    def __init__(self, interval: float) -> None:
        super().__init__()
        self.asking = ""
        self.call = lambda params: (
            CREATED
            | {
                "taskId": str(params["arguments"]["number"]),
                "pollIntervalMs": interval * 1000,
            }
        )
        self.interval = interval

    def state(self, params: dict[str, Any]) -> dict[str, Any]:
        doing = asks(a="Which?") if params["taskId"] == self.asking else WORKING
        return doing | {"pollIntervalMs": self.interval * 1000}

    def reads(self) -> dict[str, list[float]]:
        """When each task was read, in seconds."""
        found: dict[str, list[float]] = {}
        for at, request in list(zip(self.times, self.requests, strict=False)):
            if request["method"] == "tasks/get":
                found.setdefault(request["params"]["taskId"], []).append(at)
        return found


def measure(tasks: int, interval: float) -> dict[str, float]:
    """Let a worker look after so many tasks that may be read once in so many seconds."""
    from django.contrib.auth.models import User
    from django.test import override_settings

    from elicitation import calls
    from elicitation.models import Elicitation, ParkedCall

    user = User.objects.create_user("person")
    server = Server(interval)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tasks-") as folder, ExitStack() as stack:
        stack.callback(server.stop)
        servers = {"shop": {"url": server.url, "policy": "url_and_form"}}
        stack.enter_context(override_settings(ELICITATION_SERVERS=servers))
        log = Path(folder) / "statements"
        stack.enter_context(working(servers, log))
        for number in range(tasks):
            calls.start_sync(
                "shop", "buy", {"number": number}, scope="bench", user=user, call=number
            )
        processes.wait_until(
            lambda: ParkedCall.objects.exclude(task="").count() == tasks, "the tasks", 600
        )
        # From here on each is read at its interval.
        time.sleep(interval)
        statements, requests = len(log.read_text().splitlines()), len(server.requests)
        time.sleep(2 * interval)
        found["requests in a second"] = (len(server.requests) - requests) / (2 * interval)
        done = len(log.read_text().splitlines()) - statements
        found["statements in a second"] = done / (2 * interval)
        pauses = [
            later - sooner for all in server.reads().values() for sooner, later in pairwise(all)
        ]
        found["the shortest pause between two requests for a task, in seconds"] = min(pauses)
        found["the longest"] = max(pauses)
        server.asking = "0"
        began = time.monotonic()
        processes.wait_until(
            Elicitation.objects.pending().exists, "the question", 10 * interval + 60
        )
        found["seconds until one that asks is in front of its person"] = time.monotonic() - began
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tasks", description=__doc__)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--interval", type=float, default=60, help="pollIntervalMs, in seconds")
    parser.add_argument("--check", action="store_true", help="fail where a bound does not hold")
    options = parser.parse_args()
    with in_own_database(options.database_url):
        found = measure(options.tasks, options.interval)
    print(f"\none worker, {options.tasks} tasks, read once in {options.interval:g} seconds")
    for name, value in found.items():
        print(f"{value:>10,.1f}  {name}")
    bounds = {
        "requests in a second": options.tasks / options.interval * 1.05,
        "seconds until one that asks is in front of its person": options.interval + LATE,
    }
    failed = [name for name, most in bounds.items() if found[name] > most]
    for name in failed:
        print(f"at most {bounds[name]:,.1f} {name}", file=sys.stderr)
    return 1 if options.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
