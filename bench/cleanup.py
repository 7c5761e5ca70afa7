"""How long cleaning up locks anything, and how much it slows what runs beside it.

``python -m bench.cleanup --database-url URL`` fills a database of its own with 1,000,000
questions and as many answers, of which 100,000 of each are due and 100,000 are too old, and
runs ``elicitation_cleanup`` in another process while this one opens the inbox and takes
answers. Ends with 1 where a bound does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: The longest that anything may be locked, in seconds, and the most that others may be slowed.
LONGEST_LOCK, MOST_SLOWED = 0.2, 1.5
#: How often what runs beside is measured with nothing else running, before and after.
ALONE = 300
PAUSE = 0.01
DATABASE = "BENCH_CLEANUP_DATABASE"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cleanup", description=__doc__)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--due", type=int, default=100_000)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def set_up(options: argparse.Namespace) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    if options.database_url:
        os.environ["DATABASE_URL"] = options.database_url
    import django
    from django.conf import settings
    from django.db import connection

    settings.DATABASES["default"]["CONN_MAX_AGE"] = None
    if options.child:
        settings.DATABASES["default"]["NAME"] = os.environ[DATABASE]
    django.setup()
    if connection.vendor != "sqlite":
        connection.settings_dict["TEST"]["NAME"] = f"bench_cleanup_{os.getpid()}"


class Locks:
    """How long this process holds locks: at most from a transaction's begin to its commit."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.over = 0
        self.transactions = 0
        self._begin: float | None = None

    def watch(self, connection: Any) -> None:
        set_autocommit = connection.set_autocommit

        def watched(autocommit: bool, *args: Any, **kwargs: Any) -> None:
            # Called when the outermost block begins, and when it has committed.
            if not autocommit:
                self._begin = time.perf_counter()
            set_autocommit(autocommit, *args, **kwargs)
            if autocommit and self._begin is not None:
                self._note(self._begin)
                self._begin = None

        def statement(execute: Callable[..., Any], *args: Any) -> Any:
            begin = time.perf_counter()
            try:
                return execute(*args)
            finally:
                if self._begin is None and not args[0].lstrip().startswith("SELECT"):
                    self._note(begin)

        connection.set_autocommit = watched
        connection.execute_wrappers.append(statement)

    def _note(self, begin: float) -> None:
        seconds = time.perf_counter() - begin
        self.transactions += 1
        self.over += seconds > LONGEST_LOCK
        self.longest = max(self.longest, seconds)


def child() -> None:
    """Clean up, and print how long that took and locked."""
    from django.core.management import call_command
    from django.db import connection

    connection.ensure_connection()
    locks = Locks()
    locks.watch(connection)
    begin = time.perf_counter()
    call_command("elicitation_cleanup", stdout=sys.stderr)
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - begin,
                "longest": locks.longest,
                "over": locks.over,
                "transactions": locks.transactions,
            }
        )
    )


class Beside:
    """What others do meanwhile: open the inbox, and take an answer."""

    def __init__(self) -> None:
        from django.contrib.auth.models import User
        from django.test import Client

        from elicitation.models import ServerPolicy
        from tests.asking import ask, schema

        ServerPolicy.objects.create(server="shop", policy="url_and_form")
        self.user: User = User.objects.create_user("ada")
        self.client = Client()
        self.client.force_login(self.user)
        for number in range(20):
            ask(self.user, schema(name={"type": "string"}), f"Question {number}?")
        self.number = 0
        self.longest = 0.0
        self.times: dict[str, list[float]] = {}

    def once(self) -> None:
        from elicitation.core import FormAnswer
        from elicitation.store import DatabaseFormAnswerStore
        from tests.asking import form_elicitation, schema

        self.number += 1
        store = DatabaseFormAnswerStore(scope="bench", call=f"call-{self.number}")
        asked = form_elicitation(schema(name={"type": "string"}))
        store.record_form_answer(asked, "accept", {"name": FormAnswer(other_text="x")})
        self._time("take", lambda: store.take_form_answer(asked))
        self._time("page", lambda: self.client.get("/elicitation/"))
        time.sleep(PAUSE)

    def _time(self, name: str, work: Callable[[], Any]) -> None:
        begin = time.perf_counter()
        result = work()
        self.times.setdefault(name, []).append(time.perf_counter() - begin)
        assert result is not None

    def alone(self) -> dict[str, float]:
        """Measure with nothing beside."""
        for _ in range(ALONE):
            self.once()
        self.longest = max(self.longest, *self.times["take"])
        return self.medians()

    def medians(self) -> dict[str, float]:
        """Return what was measured since the last time."""
        found = {name: statistics.median(times) for name, times in self.times.items()}
        self.times = {}
        return found


def make_due(rows: int, due: int) -> None:
    """Let so many questions and answers be due, and so many questions too old."""
    from datetime import timedelta

    from django.utils import timezone

    from elicitation.models import Elicitation, StoredFormAnswer

    past = timezone.now() - timedelta(minutes=1)
    questions = Elicitation.objects.filter(server="shop", tool="buy")
    # One of ten rows that were filled in is pending.
    pending = questions.pending().order_by().values_list("pk", flat=True)[:due]
    Elicitation.objects.filter(pk__in=list(pending)).update(expires_at=past)
    old = questions.closed().order_by().values_list("pk", flat=True)[:due]
    Elicitation.objects.filter(pk__in=list(old)).update(closed_at=past - timedelta(days=91))
    answers = StoredFormAnswer.objects.order_by().values_list("pk", flat=True)[:due]
    StoredFormAnswer.objects.filter(pk__in=list(answers)).update(expires_at=past)


def main() -> int:
    options = arguments()
    set_up(options)
    if options.child:
        child()
        return 0
    from django.db import connection

    from .fill import analyze, fill

    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        fill(0, options.rows)
        make_due(options.rows, options.due)
        beside = Beside()
        analyze()
        for _ in range(50):
            beside.once()
        beside.medians()
        before = beside.alone()
        name = str(connection.settings_dict["NAME"])
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.cleanup", "--child"],
            env={**os.environ, DATABASE: name},
            stdout=subprocess.PIPE,
            text=True,
        )
        while process.poll() is None:
            beside.once()
        during = beside.medians()
        assert process.stdout is not None
        found = json.loads(process.stdout.read())
        after = beside.alone()
        version = f"{connection.display_name} {connection.get_database_version()}"
    finally:
        with suppress(NameError):
            connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)
    print(f"{version}: {options.rows:,} rows, {options.due:,} of each kind due")
    print(
        f"cleaned up in {found['seconds']:.0f} s and {found['transactions']:,} transactions; "
        f"the longest was {found['longest'] * 1e3:.0f} ms (bound: {LONGEST_LOCK * 1e3:.0f}, "
        f"exceeded {found['over']} times); the longest take with nothing beside it was "
        f"{beside.longest * 1e3:.0f} ms, which says how busy the machine was"
    )
    holds = found["longest"] <= LONGEST_LOCK
    for name, duration in during.items():
        alone = (before[name] + after[name]) / 2
        ratio = duration / alone
        holds &= ratio <= MOST_SLOWED
        print(
            f"a {name} beside it: {duration * 1e3:.2f} ms, alone {alone * 1e3:.2f} ms, "
            f"ratio {ratio:.2f} (bound: {MOST_SLOWED})"
        )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
