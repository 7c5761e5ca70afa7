"""The torture test: ``python -m tests.torture --seconds 60 --database-url URL``.

Many processes record, replace, take, answer, decline, withdraw, expire and clean up at once, on
few rows, and one after the other is killed. Afterwards their logs are compared with each other
and with the tables (``check.py``). Makes a database of its own and removes it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

    from django.contrib.auth.models import User

    from .check import Left, Verdict

#: Rows that are there and that nobody touches; of each table.
BYSTANDERS, BYSTANDER_COUNT = "bystanders", 2_000

ISOLATION = ("read committed", "repeatable read", "serializable")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--isolation", choices=ISOLATION, help="default: the database's own")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--operations", type=int, default=1_000_000, help="at most, of each")
    parser.add_argument("--kill-every", type=float, default=1.0, help="seconds, on average")
    parser.add_argument("--logs", type=Path, help="an empty directory that keeps the logs")
    parser.add_argument(
        "--careless",
        choices=("lock", "count"),
        help="meet a take without this part, which must be found faulty; see careless.py",
    )
    parser.add_argument("--json", action="store_true", help="print the counts as one JSON object")
    return parser.parse_args()


def set_up(options: argparse.Namespace) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    if options.database_url:
        os.environ["DATABASE_URL"] = options.database_url
    import django
    from django.conf import settings
    from django.db import connection

    # Signing in happens once, before the processes start; no session is read from a table.
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    # Nobody here is a person who clicks too fast.
    settings.REST_FRAMEWORK["DEFAULT_THROTTLE_RATES"] = {"elicitation": None}
    django.setup()
    if connection.vendor != "sqlite":
        connection.settings_dict["TEST"]["NAME"] = f"torture_{os.getpid()}"
    if options.isolation:
        level: object = options.isolation
        if connection.vendor == "postgresql":
            from django.db.backends.postgresql.psycopg_any import IsolationLevel

            level = IsolationLevel[options.isolation.upper().replace(" ", "_")]
        elif connection.vendor != "mysql":
            raise SystemExit("SQLite has one isolation level.")
        connection.settings_dict["OPTIONS"]["isolation_level"] = level


class Processes:
    """The processes at work; one is killed now and then, and another takes its place."""

    def __init__(self, options: argparse.Namespace, directory: Path, people: object) -> None:
        from . import worker
        from .log import Log

        self.main = worker.main
        self.new_log = Log
        self.directory = directory
        self.people = people
        self.options = options
        self.until = time.monotonic() + options.seconds
        self.log = Log(directory / "supervisor.log")
        self.started = 0
        # A copy of this process, with all modules loaded: a new one is there at once.
        self.context = multiprocessing.get_context("fork")
        self.running = [self.start() for _ in range(options.processes)]

    def start(self) -> ForkProcess:
        name = f"{self.started:05}.log"
        log = self.new_log(self.directory / name)
        self.started += 1
        process = self.context.Process(
            name=name,
            target=self.main,
            args=(log, self.people, self.until, self.options.operations),
        )
        process.start()
        # The child has its own copy.
        os.close(log.file)
        return process

    def run(self) -> None:
        while (rest := self.until - time.monotonic()) > 0:
            pause = random.uniform(0, 2 * self.options.kill_every)
            time.sleep(max(0, min(pause, rest - 0.2)))
            if rest <= pause + 0.2 or not any(one.is_alive() for one in self.running):
                break
            place = random.randrange(len(self.running))
            victim = self.running[place]
            if victim.is_alive() and victim.pid is not None:
                os.kill(victim.pid, signal.SIGKILL)
                victim.join()
                self.log.write(event="kill", log=victim.name)
                self.running[place] = self.start()
        for process in self.running:
            process.join(self.options.seconds + 120)
            if process.exitcode != 0:
                self.log.write(
                    event="error", database=False, text=f"a process ended with {process.exitcode}"
                )
                process.kill()


def careless(options: argparse.Namespace) -> Verdict:
    """Let others come in the middle of takes that lack a part, and judge what came of that."""
    from django.contrib.auth.models import User
    from django.db import connection

    from .careless import LOCK_SHOWS, meet

    if options.careless == "lock" and connection.vendor not in LOCK_SHOWS:
        raise SystemExit("SQLite refuses what a take without a lock does: there is no fault.")
    user = User.objects.create_user("ada")
    with tempfile.TemporaryDirectory(prefix="torture-") as temporary:
        verdict, _ = meet(
            options.logs or Path(temporary),
            user.pk,
            what_is_left,
            without=options.careless,
            locks_hold=options.careless == "lock",
        )
    return verdict


def torture(options: argparse.Namespace) -> Verdict:
    """Run the processes and judge what they did."""
    from django.contrib.auth.models import User
    from django.db import connections
    from django.test import Client

    from elicitation.models import ServerPolicy

    from .check import check
    from .log import read
    from .worker import warm_up

    ServerPolicy.objects.create(server="shop", policy="url_and_form")
    people = {}
    for name in ("ada", "grace"):
        user = User.objects.create_user(name)
        people[user.pk] = Client()
        people[user.pk].force_login(user)
    with tempfile.TemporaryDirectory(prefix="torture-") as temporary:
        warm_up(Path(temporary), people)
        add_bystanders(user)
        connections.close_all()
        directory = options.logs or Path(temporary)
        Processes(options, directory, people).run()
        return check(read(directory), what_is_left(BYSTANDER_COUNT), end=time.monotonic())


def add_bystanders(user: User) -> None:
    """Fill the tables with rows that nobody touches.

    Without them a planner reads the whole table, and at SERIALIZABLE everybody who reads a
    table conflicts with everybody who writes to it: that is no database in use.
    """
    from django.db import connection
    from django.utils import timezone

    from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer, row_key

    now = timezone.now()
    later = now + timedelta(days=1)
    names = {"scope": BYSTANDERS, "call": "c", "server": "shop", "tool": "buy"}
    numbers = range(BYSTANDER_COUNT)
    Elicitation.objects.bulk_create(
        Elicitation(
            **names,
            parked_call_id=row_key("call", str(number)),
            scope_key=row_key(str(number)),
            round=1,
            message="",
            requested_schema="{}",
            fingerprint="",
            respondent=user,
            asked_at=now,
            expires_at=later,
            closed_at=now,
            state="declined",
        )
        for number in numbers
    )
    StoredFormAnswer.objects.bulk_create(
        StoredFormAnswer(
            **names,
            id=row_key("answer", str(number)),
            parked_call_id=row_key("call", str(number)),
            fingerprint="",
            respondent=user,
            action="decline",
            answers_json="{}",
            recorded_at=now,
            expires_at=later,
        )
        for number in numbers
    )
    ParkedCall.objects.bulk_create(
        ParkedCall(
            **names,
            id=row_key("call", str(number)),
            scope_key=row_key(BYSTANDERS),
            respondent=user,
            arguments="null",
            round=1,
            requests="{}",
            request_state="null",
            received_at=now,
        )
        for number in numbers
    )
    tables = [model._meta.db_table for model in (Elicitation, StoredFormAnswer, ParkedCall)]
    with connection.cursor() as cursor:
        for table in tables:
            verb = "ANALYZE TABLE" if connection.vendor == "mysql" else "ANALYZE"
            cursor.execute(f"{verb} {connection.ops.quote_name(table)}")


def what_is_left(bystanders: int = 0) -> Left:
    """Return what the tables hold; ``bystanders`` is how many rows of each nobody touched."""
    from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer

    from .check import Left
    from .worker import SCOPE, slot_of

    still_there = sum(
        model._default_manager.filter(scope=BYSTANDERS).count()
        for model in (Elicitation, StoredFormAnswer, ParkedCall)
    )
    rows = list(StoredFormAnswer.objects.exclude(scope=BYSTANDERS))
    return Left(
        slots={slot_of(row): str(row.elicitation_id) for row in rows if row.scope == SCOPE},
        answers={str(row.elicitation_id) for row in rows if row.scope != SCOPE},
        questions={
            str(row["id"]): row
            for row in Elicitation.objects.exclude(scope=BYSTANDERS).values(
                "id", "state", "delivery"
            )
        },
        bystanders_missing=3 * bystanders - still_there,
    )


def main() -> int:
    options = arguments()
    set_up(options)
    from django.db import connection

    from .check import FAULTS

    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        verdict = careless(options) if options.careless else torture(options)
    finally:
        connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)
    isolation = options.isolation or "the default"
    what = f"without its {options.careless}" if options.careless else f"{options.seconds:g} s"
    title = f"{connection.display_name}, isolation: {isolation}, {what}"
    if options.json:
        print(json.dumps({"title": title, "counts": verdict.counts, "wrong": verdict.wrong}))
    else:
        print(title)
        for name, count in sorted(verdict.counts.items(), key=lambda item: item[0] in FAULTS):
            print(f"{count:>10,}  {name}")
        print("clean" if not verdict.wrong else "NOT CLEAN")
        # The first of each tell enough; thousands of them bury it.
        for line in verdict.wrong[:20]:
            print(f"  {line}", file=sys.stderr)
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
