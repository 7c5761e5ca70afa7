"""What it costs one worker to wait for many people: ``python -m bench.waiting --calls 200``.

The calls are those of a server of MCP 2025-06-18, which asks in their middle, so each has a
connection to the server that waits. Measured are the memory of the worker for each call, its
connections, the statements while nothing happens, and how long it takes until one more call asks.
Makes a database of its own and removes it; the worker and the server are processes of their own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import processes
from tests.torture.command import in_own_database

if TYPE_CHECKING:
    import subprocess

    from django.contrib.auth.models import User

#: How many calls of one person wait: more are refused by default.
FOR_EACH = 20
#: The longest until one more call asks, in seconds.
LONGEST = 1.0


@contextmanager
def working(servers: dict[str, Any], log: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a worker that goes on with the calls of these servers, and logs its statements."""
    process = processes.start("bench.waiting", "--worker", json.dumps(servers), str(log))
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "started" in line, process.communicate(timeout=processes.WAIT_SECONDS)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=processes.WAIT_SECONDS)


def work(servers: str, log: str) -> None:
    """Be the worker."""
    processes.use_test_database()
    from django.conf import settings
    from django.core.management import call_command
    from django.db.backends.signals import connection_created

    file = Path(log).open("a", buffering=1)  # noqa: SIM115  # until the worker is killed

    def note(execute: Any, sql: str, *args: Any) -> Any:
        file.write(sql.split(" SET ")[0].split(" FROM ")[-1][:80] + "\n")
        return execute(sql, *args)

    def watch(connection: Any, **kwargs: Any) -> None:
        # A connection that is opened again has it already.
        if note not in connection.execute_wrappers:
            connection.execute_wrappers.append(note)

    connection_created.connect(watch)
    settings.ELICITATION_SERVERS = json.loads(servers)
    call_command("elicitation_worker")


def kilobytes(pid: int) -> int:
    """The memory of a process that is resident."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


def database_connections() -> int | None:
    """How many connections to the database there are beside this one."""
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()"
            )
        elif connection.vendor == "mysql":
            cursor.execute(
                "SELECT count(*) - 1 FROM information_schema.processlist WHERE db = database()"
            )
        else:
            return None
        return int(cursor.fetchone()[0])


class Waiting:
    """People who are asked by calls that a worker makes."""

    def __init__(self, people: Sequence[User]) -> None:
        self.people = people
        self.begun = 0

    def begin(self, count: int) -> None:
        from elicitation import calls

        for _ in range(count):
            user = self.people[self.begun // FOR_EACH]
            calls.start_sync("shop", "ask", scope=self.begun, user=user)
            self.begun += 1

    def asked(self) -> int:
        from elicitation.models import Elicitation

        return Elicitation.objects.pending().count()

    def until_asked(self) -> float:
        """Wait until every call asks, and return how many seconds that took."""
        began = time.monotonic()
        while self.asked() < self.begun:
            assert time.monotonic() < began + 300, f"{self.asked()} of {self.begun} ask"
            time.sleep(0.02)
        return time.monotonic() - began


def measure(calls: int, idle: float) -> dict[str, float | None]:
    """Let so many calls wait, and nothing happen for so many seconds."""
    from django.contrib.auth.models import User
    from django.test import override_settings

    from tests.named.running import over_http

    people = [User.objects.create_user(f"person-{n}") for n in range(calls // FOR_EACH + 1)]
    waiting = Waiting(people)
    found: dict[str, float | None] = {}
    with tempfile.TemporaryDirectory(prefix="waiting-") as folder, ExitStack() as stack:
        shop = stack.enter_context(over_http(Path(folder), "shop", "legacy"))
        servers = {"shop": shop.options | {"policy": "url_and_form"}}
        stack.enter_context(override_settings(ELICITATION_SERVERS=servers))
        log = Path(folder) / "statements"
        worker = stack.enter_context(working(servers, log))
        # What the first call imports and connects is no part of what waiting costs.
        waiting.begin(1)
        waiting.until_asked()
        before = kilobytes(worker.pid)
        waiting.begin(calls - 1)
        found["seconds until all of them asked"] = waiting.until_asked()
        found["kilobytes of the worker for each call"] = (kilobytes(worker.pid) - before) / max(
            calls - 1, 1
        )
        found["kilobytes of the worker in all"] = kilobytes(worker.pid)
        found["connections to the database"] = database_connections()
        found["connections to the server"] = len(shop.connections)
        done = len(log.read_text().splitlines())
        time.sleep(idle)
        statements = len(log.read_text().splitlines()) - done
        found["statements in a minute in which nothing happens"] = statements * 60 / idle
        waiting.begin(1)
        found["seconds until one more call asked"] = waiting.until_asked()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.waiting", description=__doc__)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--idle", type=float, default=60, help="seconds in which nothing happens")
    parser.add_argument("--check", action="store_true", help="fail where one more call is late")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return 0
    with in_own_database(options.database_url):
        found = measure(options.calls, options.idle)
    print(f"\none worker, {options.calls} calls that wait for people in their middle")
    for name, value in found.items():
        print(f"{'not counted' if value is None else f'{value:,.1f}':>12}  {name}")
    late = (found["seconds until one more call asked"] or 0) > LONGEST
    return 1 if options.check and late else 0


if __name__ == "__main__":
    sys.exit(main())
