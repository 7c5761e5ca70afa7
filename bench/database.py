"""What it costs to take, record, ask, show and answer, each beside its floor in the same run,
and how that grows with the tables. ``python -m bench.database --database-url URL``.

Makes a database of its own and removes it.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .measure import Growth, Result, compare, median
from .schema import CONTENT, MESSAGE, SCHEMA

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ROWS = (1_000, 100_000, 1_000_000)
#: How many questions wait for the person whose inbox is measured.
WAITING = 200


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

    # A request closes its connection otherwise, and connecting would be most of its time.
    settings.DATABASES["default"]["CONN_MAX_AGE"] = None
    settings.REST_FRAMEWORK["DEFAULT_THROTTLE_RATES"] = {"elicitation": None}
    settings.ROOT_URLCONF = "bench.urls"
    settings.TEMPLATES[0]["DIRS"].append(Path(__file__).parent / "templates")
    django.setup()
    if connection.vendor != "sqlite":
        connection.settings_dict["TEST"]["NAME"] = f"bench_{os.getpid()}"


class Bench:
    """All that is measured, with people and a policy in place."""

    def __init__(self, options: argparse.Namespace) -> None:
        from django.contrib.auth.models import User
        from django.test import Client

        from elicitation.core import parse_requested_schema
        from elicitation.models import ServerPolicy
        from tests import asking

        from .raw import Raw

        self.options = options
        self.asking = asking
        self.schema = parse_requested_schema(SCHEMA)
        self.answers = self.schema.answers_from_content(CONTENT)
        self.numbers = itertools.count()
        self.raw = Raw()
        ServerPolicy.objects.create(server="shop", policy="url_and_form")
        self.user = User.objects.create_user("ada")
        self.busy = User.objects.create_user("grace")
        self.cookies = {}
        for user in (self.user, self.busy):
            client = Client()
            client.force_login(user)
            self.cookies[user.pk] = client.cookies.output(header="", sep=";").split(";")[0].strip()

    # --- The store ---------------------------------------------------------------------------

    def recorded(self, runs: int) -> list[Any]:
        """Record answers, and return what is needed to take each."""
        from elicitation import store
        from elicitation.core import FormAnswerAction, FormElicitation

        found = []
        for _ in range(runs):
            place = store.DatabaseFormAnswerStore(
                scope="bench", call=f"call-{next(self.numbers)}", respondent_id=self.user.pk
            )
            asked = FormElicitation(
                server_name="shop",
                tool_name="buy",
                key="k",
                message="Which plan would you like?",
                schema=self.schema,
            )
            row = place.answer_row(
                server=asked.server_name,
                tool=asked.tool_name,
                fingerprint=asked.fingerprint(),
                action=FormAnswerAction.ACCEPT,
                answers=self.answers,
                number=0,
                elicitation_id=None,
            )
            found.append((place, asked, row))
        return found

    def kept(self, runs: int) -> list[Any]:
        from elicitation import store

        found = self.recorded(runs)
        store.in_transaction(lambda: store.record([row for _place, _asked, row in found]))
        return found

    def take(self, runs: int) -> Sequence[Callable[[], object]]:
        def run(place: Any, asked: Any) -> None:
            assert place.take_form_answer(asked) is not None

        return [_later(run, place, asked) for place, asked, _row in self.kept(runs)]

    def raw_take(self, runs: int) -> Sequence[Callable[[], object]]:
        return [_later(self.raw.take, row.pk) for _place, _asked, row in self.kept(runs)]

    def record(self, runs: int) -> Sequence[Callable[[], object]]:
        self.forget()
        return [
            _later(place.record_form_answer, asked, "accept", self.answers)
            for place, asked, _row in self.recorded(runs)
        ]

    def raw_record(self, runs: int) -> Sequence[Callable[[], object]]:
        self.forget()
        return [
            _later(self.raw.record, self.raw.row(row))
            for _place, _asked, row in self.recorded(runs)
        ]

    def replace(self, runs: int) -> Sequence[Callable[[], object]]:
        found = self.kept(runs)
        return [
            _later(place.record_form_answer, asked, "accept", self.answers)
            for place, asked, _row in found
        ]

    def raw_replace(self, runs: int) -> Sequence[Callable[[], object]]:
        return [
            _later(self.raw.record, self.raw.row(row)) for _place, _asked, row in self.kept(runs)
        ]

    def forget(self) -> None:
        """Remove what earlier rounds left."""
        from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer

        StoredFormAnswer.objects.filter(respondent=self.user).delete()
        Elicitation.objects.filter(respondent=self.user).delete()
        ParkedCall.objects.filter(respondent=self.user).delete()

    # --- Asking ------------------------------------------------------------------------------

    def calls(self, runs: int) -> list[Any]:
        from elicitation import inbox
        from elicitation.calls import parking

        self.forget()
        found = []
        for number in itertools.islice(self.numbers, runs):
            asked = self.asking.form_elicitation(SCHEMA, "Which plan would you like?")
            call = parking.Call(
                scope="bench",
                server="shop",
                tool="buy",
                arguments={"number": number},
                respondent=self.user,
                id=f"call-{number}",
            )
            request = {"method": "elicitation/create", "params": {"requestedSchema": SCHEMA}}
            round = parking.Round(number=1, requests={"k": request}, request_state="state")
            question = inbox.Question(
                elicitation=asked,
                requested_schema=json.dumps(SCHEMA),
                allow_confirmation=False,
                number=0,
            )
            found.append((call, round, question))
        return found

    def ask(self, runs: int) -> Sequence[Callable[[], object]]:
        from elicitation.calls import parking

        return [
            _later(parking.park, call, round, [question], resumed=False)
            for call, round, question in self.calls(runs)
        ]

    def raw_ask(self, runs: int) -> Sequence[Callable[[], object]]:
        """The two rows that asking leaves behind, and nothing that it looks at before."""
        from elicitation.calls import parking
        from elicitation.models import Elicitation, ParkedCall

        for call, round, question in self.calls(runs):
            parking.park(call, round, [question], resumed=False)
        rows = list(
            zip(
                map(self.raw.row, ParkedCall.objects.filter(respondent=self.user).order_by("pk")),
                map(
                    self.raw.row,
                    Elicitation.objects.filter(respondent=self.user).order_by("parked_call_id"),
                ),
                strict=True,
            )
        )
        self.forget()
        return [_later(self.raw.ask, call, question) for call, question in rows]

    def questions(self, runs: int) -> list[Any]:
        self.forget()
        return [
            self.asking.ask(
                self.user,
                SCHEMA,
                "Which plan would you like?",
                call=f"call-{number}",
                allow_confirmation=False,
            )
            for number in itertools.islice(self.numbers, runs)
        ]

    # --- Requests ----------------------------------------------------------------------------

    def request(
        self, path: str, user: User | None = None, *, body: object = None
    ) -> Callable[[], object]:
        """One request through the whole WSGI stack of the site, signed in."""
        sent = b"" if body is None else json.dumps(body).encode()
        environ = {
            "REQUEST_METHOD": "GET" if body is None else "POST",
            "PATH_INFO": path,
            "QUERY_STRING": "",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_COOKIE": f"{self.cookies[(user or self.user).pk]}; csrftoken={CSRF}",
            "HTTP_X_CSRFTOKEN": CSRF,
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(sent)),
            "wsgi.url_scheme": "http",
            "wsgi.errors": sys.stderr,
            "wsgi.multiprocess": True,
            "wsgi.multithread": False,
            "wsgi.run_once": False,
        }

        def run() -> bytes:
            status: list[str] = []
            response = self.site(
                {**environ, "wsgi.input": io.BytesIO(sent)},
                lambda line, headers: status.append(line),
            )
            found = b"".join(response)
            response.close()
            assert status[0].startswith("200"), (path, status, found)
            return found

        return run

    @property
    def site(self) -> Any:
        from django.core.handlers.wsgi import WSGIHandler

        if not hasattr(self, "_site"):
            self._site = WSGIHandler()
        return self._site

    def bare(self, runs: int) -> Sequence[Callable[[], object]]:
        return [self.request("/bench/bare/")] * runs

    def bare_json(self, runs: int) -> Sequence[Callable[[], object]]:
        return [self.request("/bench/json/")] * runs

    def page(self, runs: int) -> Sequence[Callable[[], object]]:
        [question] = self.questions(1)
        return [self.request(f"/elicitation/{question.pk}/")] * runs

    def inbox_page(self, runs: int) -> Sequence[Callable[[], object]]:
        return [self.request("/elicitation/", self.busy)] * runs

    def api_detail(self, runs: int) -> Sequence[Callable[[], object]]:
        [question] = self.questions(1)
        return [self.request(f"/api/elicitation/elicitations/{question.pk}/")] * runs

    def api_list(self, runs: int) -> Sequence[Callable[[], object]]:
        return [self.request("/api/elicitation/elicitations/", self.busy)] * runs

    def api_answer(self, runs: int) -> Sequence[Callable[[], object]]:
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

    targets = {"take": 0.5, "record": 0.5, "page": 0.35}
    if connection.vendor != "postgresql":
        targets = {}
    options = bench.options
    runs, rounds = options.runs, options.rounds
    upsert = "raw upsert"
    cases: list[tuple[str, Any, str, Any, float | None]] = [
        (
            "take an answer",
            bench.take,
            "raw SELECT … FOR UPDATE, DELETE, in a transaction",
            bench.raw_take,
            targets.get("take"),
        ),
        ("record an answer", bench.record, upsert, bench.raw_record, targets.get("record")),
        (
            "record an answer in place of an older one",
            bench.replace,
            upsert,
            bench.raw_replace,
            targets.get("record"),
        ),
        (
            "ask: park a call with one question",
            bench.ask,
            "raw INSERT of the two rows, in a transaction",
            bench.raw_ask,
            None,
        ),
        (
            "question page",
            bench.page,
            "bare view, empty template, signed-in user",
            bench.bare,
            targets.get("page"),
        ),
        (
            "inbox page, 200 questions",
            bench.inbox_page,
            "bare view, empty template, signed-in user",
            bench.bare,
            None,
        ),
        ("API: one question", bench.api_detail, "bare JSON view", bench.bare_json, None),
        ("API: list, 200 questions", bench.api_list, "bare JSON view", bench.bare_json, None),
        ("API: answer", bench.api_answer, "bare JSON view", bench.bare_json, None),
    ]
    for name, ours, floor_name, floor, least in cases:
        if options.only in name:
            yield compare(name, ours, floor_name, floor, runs=runs, rounds=rounds, least=least)


def growths(bench: Bench) -> Iterator[Growth]:
    from django.db import connection

    from .fill import fill

    on_postgresql = connection.vendor == "postgresql"
    cases: dict[str, tuple[Any, float | None]] = {
        "take an answer": (bench.take, 1.2 if on_postgresql else None),
        "record an answer": (bench.record, None),
        "ask: park a call with one question": (bench.ask, None),
        "question page": (bench.page, None),
        "inbox page, 200 questions": (bench.inbox_page, 1.3 if on_postgresql else None),
        "API: list, 200 questions": (bench.api_list, None),
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


def round_trip(bench: Bench) -> Result:
    """A tool that asks once, on a real server over HTTP, from the call to the result."""
    from .round_trip import measure

    return measure(bench.user, rounds=bench.options.rounds * 2)


def show(results: Sequence[Result], growth: Sequence[Growth]) -> None:
    print(f"{'':<44}{'µs':>10}{'floor µs':>10}{'ratio':>8}{'at least':>10}")
    for result in results:
        verdict = "" if result.least is None else ("  holds" if result.holds else "  FAILS")
        least = "" if result.least is None else f"{result.least:.2f}"
        print(
            f"{result.name:<44}{result.ours:>10,.0f}{result.floor:>10,.0f}{result.ratio:>8.2f}"
            f"{least:>10}{verdict}"
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
        if options.only in "round trip":
            results.append(round_trip(bench))
        growth = list(growths(bench)) if options.rows else []
        version = _version(connection)
    finally:
        bench.raw.connection.close()
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
