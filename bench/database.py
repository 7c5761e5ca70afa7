"""What it costs to take, record, ask, show and answer, each beside a baseline in the same run,
and how that grows with the tables. ``python -m bench.database --database-url URL``.

Makes a database of its own and removes it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .asked import CONTENT, MESSAGE, SCHEMA
from .measure import Growth, Prepare, Result, compare, median

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import QuerySet

    from elicitation.models import StoredFormAnswer

#: How many questions wait for the person whose inbox is measured.
WAITING = 200
#: Ready to run; each once.
Runs = Sequence[Callable[[], object]]

TAKE, RECORD = "take an answer", "record an answer"
REPLACE = "record an answer in place of an older one"
ASK = "ask: from the call to the parked call"
PAGE, INBOX = "question page", f"inbox page, {WAITING} questions"
API_LIST = f"API: list, {WAITING} questions"
#: The least that the baseline's time must be of ours, on PostgreSQL.
BARS = {TAKE: 0.9, RECORD: 0.9, REPLACE: 0.9, PAGE: 0.3}

ROWS = (1_000, 100_000, 1_000_000)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.database", description=__doc__)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="sizes of the tables")
    parser.add_argument("--runs", type=int, default=100, help="runs in a round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="measure what has this in its name")
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    parser.add_argument("--check", action="store_true", help="fail where a ratio does not hold")
    return parser.parse_args()


def set_up(options: argparse.Namespace) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    if options.database_url:
        os.environ["DATABASE_URL"] = options.database_url
    import django
    from django.conf import settings
    from django.db import connection

    from elicitation.signals import call_finished

    # A request closes its connection otherwise, and connecting would be most of its time.
    settings.DATABASES["default"]["CONN_MAX_AGE"] = None
    settings.REST_FRAMEWORK["DEFAULT_THROTTLE_RATES"] = {"elicitation": None}
    # One person is asked for every run of a measurement.
    settings.ELICITATION_MAX_OPEN = settings.ELICITATION_MAX_OPEN_PER_PERSON = 1_000_000
    settings.ROOT_URLCONF = "bench.urls"
    settings.TEMPLATES[0]["DIRS"].append(Path(__file__).parent / "templates")
    django.setup()
    # The demo site would read how each call ended, once more than is measured here.
    demo = ("elicitation.outcomes", "project.demo.receivers.save")
    call_finished.disconnect(dispatch_uid=demo)
    if connection.vendor != "sqlite":
        connection.settings_dict["TEST"]["NAME"] = f"bench_{os.getpid()}"


class Replies:
    """A session whose server asks at once, so that only the app's own work is measured."""

    protocol_version = "2026-07-28"

    async def send_request(self, request: object, reply: Any, **options: object) -> Any:
        from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

        params = ElicitRequestFormParams(message=MESSAGE, requested_schema=SCHEMA)
        asks = InputRequiredResult(
            input_requests={"k": ElicitRequest(params=params)}, request_state="state"
        )
        return reply.model_validate(asks.model_dump(by_alias=True, mode="json"))


class Bench:
    """All that is measured, with people and a policy in place."""

    def __init__(self, options: argparse.Namespace) -> None:
        from django.contrib.auth.models import User

        from elicitation.core import parse_requested_schema
        from elicitation.models import ServerPolicy
        from tests import asking

        from . import baseline
        from .visitor import Visitor

        self.options = options
        self.asking = asking
        self.baseline = baseline
        self.answers = parse_requested_schema(SCHEMA).answers_from_content(CONTENT)
        self.numbers = itertools.count()
        ServerPolicy.objects.create(server="shop", policy="url_and_form")
        self.user = User.objects.create_user("ada")
        self.busy = User.objects.create_user("grace")
        self.visitors = {user.pk: Visitor(user) for user in (self.user, self.busy)}

    # --- The store ---------------------------------------------------------------------------

    def places(self, runs: int) -> list[tuple[Any, Any]]:
        """Return the store of a call, and what that call asks, once for each run."""
        from elicitation.store import DatabaseFormAnswerStore

        found = []
        for number in itertools.islice(self.numbers, runs):
            place = DatabaseFormAnswerStore(
                scope="bench", call=f"call-{number}", respondent_id=self.user.pk
            )
            found.append((place, self.asking.form_elicitation(SCHEMA, MESSAGE)))
        return found

    def recorded(self, runs: int) -> list[tuple[Any, Any]]:
        """The same, with an answer recorded for each."""
        found = self.places(runs)
        for place, asked in found:
            place.record_form_answer(asked, "accept", self.answers)
        return found

    def rows(self, runs: int) -> QuerySet[StoredFormAnswer]:
        """Return the rows of answers that were just recorded."""
        from elicitation.models import StoredFormAnswer

        calls = [place.call for place, _asked in self.recorded(runs)]
        return StoredFormAnswer.objects.filter(call__in=calls)

    def take(self, runs: int) -> Runs:
        def run(place: Any, asked: Any) -> None:
            assert place.take_form_answer(asked) is not None

        return [_later(run, place, asked) for place, asked in self.recorded(runs)]

    def plain_take(self, runs: int) -> Runs:
        def run(key: Any) -> None:
            assert self.baseline.take(key) is not None

        return [_later(run, row.pk) for row in self.rows(runs)]

    def record(self, runs: int) -> Runs:
        self.forget()
        return [
            _later(place.record_form_answer, asked, "accept", self.answers)
            for place, asked in self.places(runs)
        ]

    def plain_record(self, runs: int) -> Runs:
        rows = self.rows(runs)
        found = self.plainly_recorded(rows)
        rows.delete()
        return found

    def replace(self, runs: int) -> Runs:
        return [
            _later(place.record_form_answer, asked, "accept", self.answers)
            for place, asked in self.recorded(runs)
        ]

    def plain_replace(self, runs: int) -> Runs:
        return self.plainly_recorded(self.rows(runs))

    def plainly_recorded(self, rows: QuerySet[StoredFormAnswer]) -> Runs:
        """Record each of these rows once more, plainly."""
        found = []
        for values in rows.values():
            answers = json.loads(values.pop("answers_json"))
            del values["recorded_at"], values["expires_at"]
            found.append(_later(self.baseline.record, values, answers))
        return found

    def forget(self) -> None:
        """Remove what earlier rounds left."""
        from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer

        StoredFormAnswer.objects.filter(respondent=self.user).delete()
        Elicitation.objects.filter(respondent=self.user).delete()
        ParkedCall.objects.filter(respondent=self.user).delete()

    # --- Asking ------------------------------------------------------------------------------

    def ask(self, runs: int) -> Runs:
        self.forget()
        return [_later(self.park, f"call-{n}") for n in itertools.islice(self.numbers, runs)]

    def park(self, call: str) -> None:
        from asgiref.sync import async_to_sync

        from elicitation.core import ElicitationPending
        from elicitation.mcp.client import call_tool

        with suppress(ElicitationPending):
            async_to_sync(call_tool)(
                Replies(),  # type: ignore[arg-type]  # all of a session that is used here
                server="shop",
                tool="buy",
                arguments={},
                scope="bench",
                call=call,
                respondent=self.user,
            )
            raise AssertionError("The call was not parked.")

    def plain_ask(self, runs: int) -> Runs:
        from elicitation.models import Elicitation, ParkedCall

        for run in self.ask(runs):
            run()
        asked = {
            row.parked_call_id: row for row in Elicitation.objects.filter(respondent=self.user)
        }
        calls = list(ParkedCall.objects.filter(respondent=self.user))
        self.forget()
        return [_later(self.baseline.ask, call, asked[call.pk]) for call in calls]

    def questions(self, runs: int) -> list[Any]:
        self.forget()
        return [
            self.asking.ask(
                self.user, SCHEMA, MESSAGE, call=f"call-{number}", allow_confirmation=False
            )
            for number in itertools.islice(self.numbers, runs)
        ]

    # --- Requests ----------------------------------------------------------------------------

    def request(self, path: str, user: User | None = None, **posted: Any) -> Callable[[], object]:
        """One request by a person who is signed in."""
        return self.visitors[(user or self.user).pk].request(path, **posted)

    def bare(self, runs: int) -> Runs:
        return [self.request("/bench/bare/")] * runs

    def bare_json(self, runs: int) -> Runs:
        return [self.request("/bench/json/")] * runs

    def page(self, runs: int) -> Runs:
        [question] = self.questions(1)
        return [self.request(f"/elicitation/{question.pk}/")] * runs

    def page_post(self, runs: int) -> Runs:
        from .visitor import filled_in

        questions = self.questions(runs)
        # Every question is the same, so that one form, filled in, fits them all.
        form = filled_in(self.request(f"/elicitation/{questions[0].pk}/")())  # type: ignore[arg-type]
        return [
            self.request(f"/elicitation/{question.pk}/", form=form, status="302")
            for question in questions
        ]

    def url_page(self, runs: int) -> Runs:
        self.forget()
        asked = self.asking.ask_to_open(self.user, call=f"call-{next(self.numbers)}")
        return [self.request(f"/elicitation/{asked.pk}/")] * runs

    def inbox_page(self, runs: int) -> Runs:
        return [self.request("/elicitation/", self.busy)] * runs

    def api_detail(self, runs: int) -> Runs:
        [question] = self.questions(1)
        return [self.request(f"/api/elicitation/elicitations/{question.pk}/")] * runs

    def api_list(self, runs: int) -> Runs:
        return [self.request("/api/elicitation/elicitations/", self.busy)] * runs

    def api_answer(self, runs: int) -> Runs:
        return [
            self.request(
                f"/api/elicitation/elicitations/{question.pk}/answer/", body={"content": CONTENT}
            )
            for question in self.questions(runs)
        ]

    # --- Growth ------------------------------------------------------------------------------

    def add_busy_person(self) -> None:
        """Somebody with 200 questions that wait, and as many that are closed."""
        from django.utils import timezone

        for number in range(2 * WAITING):
            closed = (
                {"state": "answered", "closed_at": timezone.now()} if number >= WAITING else {}
            )
            self.asking.ask(
                self.busy, SCHEMA, "Which plan?", call=f"busy-{number}", scope="busy", **closed
            )

    def plans(self, runs: Callable[[], object]) -> list[str]:
        """How the database goes about each statement of some work on the app's tables."""
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as captured:
            runs()
        found = []
        explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
        with connection.cursor() as cursor:
            for query in captured.captured_queries:
                sql = query["sql"]
                reads = sql.startswith(("SELECT", "DELETE", "UPDATE"))
                if not reads or "elicitation_" not in sql:
                    continue
                cursor.execute((explain + sql).replace("%", "%%"), ())
                for row in cursor.fetchall():
                    text = " ".join(str(column) for column in row if column is not None).strip()
                    # The few policies are read as a whole, whatever their index.
                    about_rows = "elicitation_serverpolicy" not in text
                    if about_rows and any(word in text for word in ACCESS[connection.vendor]):
                        found.append(f"{sql.split()[0]}: {text}")
        return found


#: What a line of an EXPLAIN has that says how a table is read, and what a full read is called.
ACCESS = {
    "postgresql": ("Scan",),
    "mysql": ("elicitation_",),
    "sqlite": ("SEARCH", "SCAN"),
}
FULL = {"postgresql": "Seq Scan on elicitation_", "mysql": " ALL ", "sqlite": "SCAN elicitation_"}


def _later(work: Callable[..., object], *args: Any, **options: Any) -> Callable[[], object]:
    return lambda: work(*args, **options)


def comparisons(bench: Bench) -> Iterator[Result]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    # Where Python is most of the time, as on SQLite, a ratio says little about what people feel.
    bars = BARS if connection.vendor == "postgresql" else {}
    upsert, view = "the same upsert", "bare view, empty template, signed-in user"
    cases: list[tuple[str, Prepare, str, Prepare]] = [
        (TAKE, bench.take, "the same statements", bench.plain_take),
        (RECORD, bench.record, upsert, bench.plain_record),
        (REPLACE, bench.replace, upsert, bench.plain_replace),
        (ASK, bench.ask, "INSERT of the two rows, in a transaction", bench.plain_ask),
        (PAGE, bench.page, view, bench.bare),
        ("question page: the answer (POST)", bench.page_post, view, bench.bare),
        ("page of a link", bench.url_page, view, bench.bare),
        (INBOX, bench.inbox_page, view, bench.bare),
        ("API: one question", bench.api_detail, "bare JSON view", bench.bare_json),
        (API_LIST, bench.api_list, "bare JSON view", bench.bare_json),
        ("API: answer", bench.api_answer, "bare JSON view", bench.bare_json),
    ]
    options = bench.options
    for name, ours, baseline_name, baseline in cases:
        if options.only not in name:
            continue
        result = compare(
            name,
            ours,
            baseline_name,
            baseline,
            runs=options.runs,
            rounds=options.rounds,
            least=bars.get(name),
        )
        [run] = ours(1)
        with CaptureQueriesContext(connection) as captured:
            body = run()
        # BEGIN, COMMIT and savepoints are among what is captured.
        result.statements = sum(
            query["sql"].startswith(("SELECT", "INSERT", "UPDATE", "DELETE"))
            for query in captured.captured_queries
        )
        result.bytes = len(body) if isinstance(body, bytes) else None
        yield result


def growths(bench: Bench) -> Iterator[Growth]:
    from django.db import connection

    from .fill import fill

    on_postgresql = connection.vendor == "postgresql"
    cases: dict[str, tuple[Any, float | None]] = {
        TAKE: (bench.take, 1.2 if on_postgresql else None),
        RECORD: (bench.record, None),
        ASK: (bench.ask, None),
        PAGE: (bench.page, None),
        INBOX: (bench.inbox_page, 1.3 if on_postgresql else None),
        API_LIST: (bench.api_list, None),
    }
    found = {
        name: Growth(name=name, most=most)
        for name, (_prepare, most) in cases.items()
        if bench.options.only in name
    }
    filled = 1
    sizes = [int(size) for size in bench.options.rows.split(",")]
    for size in sizes:
        print(f"filling up to {size:,} rows", file=sys.stderr)
        fill(filled, size + 1)
        filled = size + 1
        for name, growth in found.items():
            prepare, _most = cases[name]
            growth.microseconds[size] = median(
                prepare, runs=bench.options.runs, rounds=bench.options.rounds
            )
    # Only with many rows: a planner reads a small table as a whole, and is right.
    for name, growth in found.items():
        [run] = cases[name][0](1)
        growth.plans = bench.plans(run)
        growth.scans = [plan for plan in growth.plans if FULL[connection.vendor] in plan]
    yield from found.values()


def show(results: Sequence[Result], growth: Sequence[Growth]) -> None:
    print(
        f"{'':<44}{'µs':>10}{'baseline':>10}{'ratio':>8}{'at least':>10}{'statements':>12}"
        f"{'bytes':>9}"
    )
    for result in results:
        verdict = "" if result.least is None else ("  holds" if result.holds else "  FAILS")
        least = "" if result.least is None else f"{result.least:.2f}"
        size = "" if result.bytes is None else f"{result.bytes:,}"
        print(
            f"{result.name:<44}{result.ours:>10,.0f}{result.baseline:>10,.0f}{result.ratio:>8.2f}"
            f"{least:>10}{result.statements:>12}{size:>9}{verdict}"
        )
    if growth:
        sizes = sorted(growth[0].microseconds)
        print(f"\n{'rows':<44}" + "".join(f"{size:>11,}" for size in sizes) + "  factor  at most")
    for line in growth:
        most = "" if line.most is None else f"{line.most:.2f}"
        verdict = (
            ""
            if line.most is None and not line.scans
            else ("  holds" if line.holds else "  FAILS")
        )
        times = "".join(f"{line.microseconds[size]:>11,.0f}" for size in sizes)
        print(f"{line.name:<44}{times}{line.factor:>8.2f}{most:>9}{verdict}")
    for line in growth:
        for plan in line.plans:
            print(f"  {line.name}: {plan}")


def main() -> int:
    options = arguments()
    set_up(options)
    from django.db import connection

    from .fill import analyze

    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        bench = Bench(options)
        bench.add_busy_person()
        analyze()
        results = []
        for result in comparisons(bench):
            results.append(result)
            print(f"{result.name}: {result.ratio:.2f}", file=sys.stderr)
        growth = list(growths(bench)) if options.rows else []
        version = _version(connection)
    finally:
        connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)
    print(version)
    show(results, growth)
    if options.json:
        found = {
            "database": version,
            "vendor": connection.vendor,
            "results": [result.as_dict() for result in results],
            "growth": [line.as_dict() for line in growth],
        }
        options.json.write_text(json.dumps(found, indent=1))
    holds = all(line.holds for line in [*results, *growth])
    return 1 if options.check and not holds else 0


def _version(connection: Any) -> str:
    version = ".".join(map(str, connection.get_database_version()))
    return f"{connection.display_name} {version}"


if __name__ == "__main__":
    sys.exit(main())
