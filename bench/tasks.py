"""What it costs one worker to look after many tasks: ``python -m bench.tasks --tasks 2000``.

Their server says how often each may be read. Measured are the requests and the statements of a
second in which every task is at work, and how long it takes until a person is asked what one of
them asks. Makes a database of its own and removes it; the worker is a process of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests import processes
from tests.tasks.server import CREATED, TaskServer, asks
from tests.torture.command import in_own_database

from .waiting import working

#: How much later than its interval what a task asks may be in front of its person, in seconds.
LATEST = 1.0


class Tasks(TaskServer):
    """A server whose tasks are at work, but for one that may ask."""

    def __init__(self, poll: float) -> None:
        super().__init__()
        self.poll = poll
        self.asking = ""

    def state(self, params: dict[str, Any]) -> dict[str, Any]:
        is_it = params["taskId"] == self.asking
        state: dict[str, Any] = asks(a="Which?") if is_it else {"status": "working"}
        return state | {"pollIntervalMs": self.poll * 1000}

    @property
    def reads(self) -> int:
        return len(self.of("tasks/get"))


def create(count: int, poll: float) -> list[str]:
    """Park calls that go on as tasks, whose next reads spread over one interval."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from elicitation.calls import parking
    from elicitation.calls.tasks import Task
    from elicitation.calls.values import Call, Round

    user, now = User.objects.create_user("ada"), timezone.now()
    received = CREATED | {"pollIntervalMs": poll * 1000}
    tasks = [Task.of(received | {"taskId": f"task-{number}"}, now) for number in range(count)]
    for number, task in enumerate(tasks):
        call = Call(
            scope="chat",
            server="shop",
            tool="buy",
            arguments=None,
            respondent_id=user.pk,
            call=task.id,
        )
        round = Round(number=1, requests={}, request_state=None, received_at=now, task=task)
        parked = parking.park(call, round, carried=parking.Carried(working_since=now))
        assert parked.lease is not None
        first = timezone.now() + timedelta(seconds=poll * number / count)
        parking.leave_working(parked.lease, looked=0, look_at=first, task=task)
    return [task.id for task in tasks]


def measure(count: int, poll: float) -> dict[str, float]:
    """Look after so many tasks, and count for one interval, which has one read of each."""
    from django.test import override_settings

    from elicitation.models import Elicitation

    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tasks-") as folder, ExitStack() as stack:
        server = Tasks(poll)
        stack.callback(server.stop)
        servers = {"shop": {"url": server.url, "policy": "url_and_form"}}
        stack.enter_context(override_settings(ELICITATION_SERVERS=servers))
        ids = create(count, poll)
        log = Path(folder) / "statements"
        stack.enter_context(working(servers, log))
        # Every task was read once, so that none is late because the worker has just begun.
        wait = 10 * poll + processes.WAIT_SECONDS
        processes.wait_until(lambda: server.reads >= count, "a read of each task", wait)
        read, done, began = server.reads, len(log.read_text().splitlines()), time.monotonic()
        time.sleep(poll)
        passed = time.monotonic() - began
        reads = server.reads - read
        statements = len(log.read_text().splitlines()) - done
        found["requests a second"] = reads / passed
        found["requests a second, at most, by the interval"] = count / poll
        found["statements a second"] = statements / passed
        found["statements for each request"] = statements / max(reads, 1)
        began = time.monotonic()
        server.asking = ids[count // 2]
        processes.wait_until(Elicitation.objects.pending().exists, "the question", wait)
        found["seconds until the person was asked"] = time.monotonic() - began
        found["seconds until then, at most"] = poll + LATEST
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tasks", description=__doc__)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--poll", type=float, default=60, help="the interval, in seconds")
    parser.add_argument("--check", action="store_true", help="fail where a person is asked late")
    options = parser.parse_args()
    with in_own_database(options.database_url):
        found = measure(options.tasks, options.poll)
    print(f"\none worker, {options.tasks} tasks that are read every {options.poll:g} seconds")
    for name, value in found.items():
        print(f"{value:>12,.1f}  {name}")
    late = found["seconds until the person was asked"] > found["seconds until then, at most"]
    return 1 if options.check and late else 0


if __name__ == "__main__":
    sys.exit(main())
