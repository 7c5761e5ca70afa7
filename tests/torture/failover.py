"""PostgreSQL fails over under load: ``python -m tests.torture.failover --seconds 60``.

A primary and a standby are made on this machine. A process parks calls, answers them and goes on
with them, as fast as it can. Then the standby stops receiving, a moment later the primary is
killed, and the standby is promoted. Whatever waits there is gone on with. No answer may reach its
server twice. Again and again, until the time is up.

Without ``--synchronous`` commits are lost, and ``elicitation_restore`` runs before anything goes
on. With it (``synchronous_standby_names``) a commit that the app has seen is on the standby, and
nothing needs to be restored. ``--careless`` leaves the command out where it is needed: that must
be found faulty.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.processes import BASE_DIR, free_port, wait_until

from .command import report
from .log import Log, Story, read

#: How many calls wait at once: some of them are answered when the standby stops receiving.
BATCH = 6
FORM = {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"]}
#: Seconds for which the process works before the standby stops receiving, and after that.
WORKS, IS_BEHIND = 2.0, 1.0
#: PostgreSQL refuses to run as root. Debian's package makes this user.
USER = "postgres" if os.geteuid() == 0 else None

CONFIGURATION = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
shared_buffers = 16MB
max_connections = 20
# The machine does not lose power here: processes are killed.
fsync = off
"""


# --- PostgreSQL ------------------------------------------------------------------------------


def program(name: str) -> str:
    """Return the path of a program of PostgreSQL, of the newest version that is here."""
    # Debian's own wrappers in the path look for a cluster of Debian's.
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    path = str(found[-1]) if found else shutil.which(name)
    assert path, f"{name} is not installed (Debian: postgresql)."
    return path


def run(name: str, *arguments: str) -> None:
    """Run a program of PostgreSQL as its user."""
    subprocess.run(
        [program(name), *arguments],
        user=USER,
        cwd="/",
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=120,
    )


class Server:
    """A server of PostgreSQL in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def configure(self) -> None:
        (self.folder / "postgresql.conf").write_text(CONFIGURATION.format(port=self.port))

    def start(self) -> None:
        run("pg_ctl", "-D", str(self.folder), "-l", f"{self.folder}.log", "-w", "start")

    def stop(self) -> None:
        with suppress(subprocess.CalledProcessError):
            run("pg_ctl", "-D", str(self.folder), "-m", "immediate", "-w", "stop")

    def query(self, *statements: str) -> list[Any]:
        """Run statements, each committed by itself, and return the rows of the last one."""
        import psycopg

        with psycopg.connect(self.url.replace("postgres:", "postgresql:", 1)) as connection:
            connection.autocommit = True
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall()


@contextmanager
def servers(folder: Path, *, synchronous: bool) -> Iterator[tuple[Server, Server]]:
    """Make a primary and a standby that follows it, both stopped at the end."""
    primary, standby = Server(folder / "primary"), Server(folder / "standby")
    try:
        run("initdb", "-D", str(primary.folder), "-U", "postgres", "-A", "trust", "--no-sync")
        primary.configure()
        primary.start()
        follow = f"host=127.0.0.1 port={primary.port} user=postgres"
        run("pg_basebackup", "-D", str(standby.folder), "-R", "-c", "fast", "-d", follow)
        standby.configure()
        standby.start()
        state = "async"
        if synchronous:
            primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'", RELOAD)
            state = "sync"
        follows = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
        wait_until(lambda: primary.query(follows) == [(state,)], "a standby that follows")
        yield primary, standby
    finally:
        standby.stop()
        primary.stop()


RELOAD = "SELECT pg_reload_conf()"
#: The standby receives nothing more, as where the network between the two is gone.
CUT_OFF = ("ALTER SYSTEM SET primary_conninfo = ''", RELOAD)


# --- What works with the database: processes of their own ------------------------------------


def host(log: Log) -> Any:
    """Return a host whose server writes down each answer that reaches it."""
    from django.contrib.auth.models import User

    from tests.integration.conftest import Host
    from tests.integration.scripted import ScriptedServer, accepted, ask, form, text

    def tool(params: Any) -> Any:
        if not params.input_responses:
            return ask(k=form("Mark?", FORM))
        if content := accepted(params, "k"):
            log.write(event="received", mark=content["mark"])
        return text("ok")

    return Host(ScriptedServer(tool), User.objects.get())


def prepare(log: Log) -> None:
    """Make the tables, a person and a policy."""
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from elicitation.models import ServerPolicy

    call_command("migrate", verbosity=0)
    ServerPolicy.objects.create(server="shop", policy="url_and_form")
    User.objects.create_user("ada")


def work(log: Log) -> None:
    """Park calls, answer them and go on with them, until the database is gone."""
    from django.db import Error

    here = host(log)
    with suppress(Error):
        while True:
            waiting = [here.pending(call=str(uuid.uuid4())) for _ in range(BATCH)]
            for pending in waiting:
                mark = str(uuid.uuid4())
                here.answer(pending, mark=mark)
                log.write(event="answered", mark=mark)
            for pending in waiting:
                here.resume(pending)


def restore(log: Log) -> None:
    """Make the promoted database safe."""
    from django.core.management import call_command
    from django.utils import timezone

    call_command("elicitation_restore", before=timezone.now().isoformat(), stdout=sys.stderr)


def go_on(log: Log) -> None:
    """Go on with every call that waits in the promoted database."""
    from elicitation.core import ElicitationError, ElicitationPending
    from elicitation.models import Elicitation, ParkedCall

    here = host(log)
    for key in list(ParkedCall.objects.parked().values_list("pk", flat=True)):
        asked = Elicitation.objects.of_call(key).latest("asked_at")
        log.write(event="gone on with")
        with suppress(ElicitationError, ElicitationPending):
            here.resume(_Waiting(key, [asked.pk]))


class _Waiting:
    """What a host needs of a call that waits."""

    def __init__(self, parked_call_id: uuid.UUID, elicitation_ids: list[uuid.UUID]) -> None:
        self.parked_call_id, self.elicitation_ids = parked_call_id, elicitation_ids


ROLES = {each.__name__: each for each in (prepare, work, restore, go_on)}


def act(role: str, path: str) -> None:
    """Be one of the processes."""
    import logging

    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django

    django.setup()
    logging.disable(logging.CRITICAL)
    ROLES[role](Log(Path(path)))


def process(role: str, database: Server, log: Path) -> subprocess.Popen[bytes]:
    """Start one of the processes."""
    command = [sys.executable, "-m", "tests.torture.failover", "--act", role, str(log)]
    return subprocess.Popen(
        command, cwd=BASE_DIR, env={**os.environ, "DATABASE_URL": database.url}
    )


def done(role: str, database: Server, log: Path) -> None:
    """Let one of the processes do its work."""
    running = process(role, database, log)
    if running.wait(120) != 0:
        raise RuntimeError(f"{role} ended with {running.returncode}")


# --- The run ---------------------------------------------------------------------------------


def fail_over(folder: Path, logs: Path, *, synchronous: bool, careless: bool) -> None:
    """Fail over once, and go on with what waits."""
    with servers(folder, synchronous=synchronous) as (primary, standby):
        before, after = (logs / f"{uuid.uuid4()}.log" for _ in range(2))
        done("prepare", primary, before)
        working = process("work", primary, before)
        try:
            wait_until(lambda: b"received" in before.read_bytes(), "an answer")
            time.sleep(random.uniform(0, WORKS))
            standby.query(*CUT_OFF)
            time.sleep(random.uniform(0.2, IS_BEHIND))
            primary.stop()
            working.wait(120)
        finally:
            working.kill()
            working.wait()
        run("pg_ctl", "-D", str(standby.folder), "-w", "promote")
        if not synchronous and not careless:
            done("restore", standby, after)
        done("go_on", standby, after)


def judge(story: Story) -> tuple[Counter[str], list[str]]:
    """Count what happened, and say which answers reached their server twice."""
    received = Counter(event["mark"] for event in story.events_of("received"))
    counts: Counter[str] = Counter(
        {
            "answers that were stored": len(story.events_of("answered")),
            "answers that reached a server": len(received),
            "calls that waited in a promoted database": len(story.events_of("gone on with")),
        }
    )
    twice = [mark for mark, times in received.items() if times > 1]
    counts["answers that reached a server twice"] = len(twice)
    return counts, [f"{mark} reached its server {received[mark]} times" for mark in twice]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture.failover", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--synchronous", action="store_true", help="commits wait for the standby")
    parser.add_argument("--careless", action="store_true", help="without elicitation_restore")
    parser.add_argument("--act", nargs=2, metavar=("ROLE", "LOG"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.act:
        act(*options.act)
        return 0
    until = time.monotonic() + options.seconds
    times = 0
    with tempfile.TemporaryDirectory(prefix="failover-") as directory:
        logs = Path(directory) / "logs"
        logs.mkdir()
        while times == 0 or time.monotonic() < until:
            folder = Path(directory) / str(times)
            folder.mkdir()
            if USER is not None:
                shutil.chown(directory, USER)
                shutil.chown(folder, USER)
            fail_over(folder, logs, synchronous=options.synchronous, careless=options.careless)
            times += 1
        counts, wrong = judge(read(logs))
    counts["runs"] = times
    kind = "synchronous" if options.synchronous else "asynchronous"
    return 0 if report(f"failovers, {kind}", counts, wrong) else 1


if __name__ == "__main__":
    sys.exit(main())
