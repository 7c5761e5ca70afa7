"""A whole flow beside other ways to do it: ``make bench-flow``, or in its environment
``python -m bench.flow --database-url postgres://…``.

One flow is: call a tool whose server asks once, answer, go on, and have the result. One MCP server
in a process of its own, one PostgreSQL and this one process serve all of them, in turn:

* ours: ``call_tool`` parks the call, ``inbox.answer`` records the answer (as a page's POST does),
  ``resume`` returns the result;
* by name: the same through ``calls.call`` and ``calls.resume``, over a connection that is kept;
* LangGraph: a node calls the tool, gives what is asked to ``interrupt()`` and answers with what
  ``Command(resume=…)`` brings; ``AsyncPostgresSaver`` keeps what is in between. A node is run
  again from its start, so the server is called three times;
* the SDK: a callback in memory answers at once, and nothing is kept;
* the page: as ours, answered by a POST to the question's page, with session and CSRF.

Ratios are of medians, in one run. ``--check`` fails where one is higher than it may be.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import functools
import gc
import json
import os
import pstats
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from unittest import mock

from .asked import CONTENT, MESSAGE, SCHEMA
from .database import set_up

if TYPE_CHECKING:
    from django.contrib.auth.models import User

BASE_DIR = Path(__file__).resolve().parent.parent
FLOWS, WARM_UP = 30, 5
OURS, LANGGRAPH, CALLBACK, PAGE = "ours", "LangGraph", "callback in memory", "ours, by the page"
NAMED = "ours, by name"
#: The most that our flow may take, as a multiple of another's median; either way.
MOST = {LANGGRAPH: 1.2, CALLBACK: 5.0}
#: Makes one flow of this number, says when each of its steps is done, and returns the result.
Flow = Callable[[int, Callable[[str], None]], Awaitable[str]]
RESULT = f"accept: {CONTENT['plan']}, {CONTENT['seats']} seats"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.flow",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--database-url", help="a PostgreSQL; default: DATABASE_URL")
    parser.add_argument("--flows", type=int, default=FLOWS, help="how many of each")
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    parser.add_argument("--check", action="store_true", help="fail where a ratio does not hold")
    parser.add_argument(
        "--profile", action="store_true", help="print where our flow spends its CPU, and end"
    )
    return parser.parse_args()


# --- What is measured ------------------------------------------------------------------------


class Ours:
    """Our flow, in steps that are timed one by one."""

    def __init__(self, session: Any, user: User) -> None:
        from elicitation.core import parse_requested_schema

        self.session = session
        self.user = user
        self.answers = parse_requested_schema(SCHEMA).answers_from_content(CONTENT)

    async def __call__(self, number: int, step: Callable[[str], None]) -> str:
        from elicitation.core import ElicitationPending

        try:
            await self.ask(number)
        except ElicitationPending as pending:
            parked = pending
        else:
            raise AssertionError("The server did not ask.")
        step("ask")
        [key] = parked.elicitation_ids
        await self.answer(key)
        step("answer")
        result = await self.resume(parked.parked_call_id)
        step("resume")
        return _text(result)

    async def ask(self, number: int) -> None:
        from elicitation.mcp.client import call_tool

        await call_tool(
            self.session,
            server="shop",
            tool="buy",
            arguments={"number": number},
            scope="bench",
            call=f"call-{number}",
            respondent=self.user,
        )

    async def resume(self, key: Any) -> Any:
        from elicitation.mcp.client import resume

        return await resume(self.session, key, server="shop")

    async def answer(self, key: Any) -> None:
        from asgiref.sync import sync_to_async

        from elicitation import inbox

        await sync_to_async(inbox.answer)(key, self.answers, by=self.user)


class ByName(Ours):
    """The same through ``elicitation.calls``, as most hosts do it."""

    def __init__(self, url: str, user: User) -> None:
        super().__init__(None, user)
        self.servers = {"shop": {"url": url}}

    async def __call__(self, number: int, step: Callable[[str], None]) -> str:
        from django.conf import settings

        # Of this kind alone: where servers have names, what is closed is told to a queue.
        settings.ELICITATION_SERVERS = self.servers
        try:
            return await super().__call__(number, step)
        finally:
            del settings.ELICITATION_SERVERS

    async def ask(self, number: int) -> None:
        from elicitation import calls

        await calls.call(
            "shop", "buy", {"number": number}, scope="bench", call=number, user=self.user
        )

    async def resume(self, key: Any) -> Any:
        from elicitation import calls

        return await calls.resume(key)


class ByPage(Ours):
    """The same, answered by a POST to the question's page."""

    def __init__(self, session: Any, user: User) -> None:
        from .visitor import Visitor

        super().__init__(session, user)
        self.visitor = Visitor(user)
        self.form: dict[str, str] = {}

    async def answer(self, key: Any) -> None:
        from asgiref.sync import sync_to_async

        await sync_to_async(self._post)(f"/elicitation/{key}/")

    def _post(self, path: str) -> None:
        from .visitor import filled_in

        # Every question is the same, so that one form, which the warm-up reads, fits them all.
        if not self.form:
            self.form = filled_in(self.visitor.request(path)())
        self.visitor.request(path, form=self.form, status="302")()


class _Purchase(TypedDict, total=False):
    number: int
    result: str


def langgraph_flow(session: Any, saver: Any) -> Flow:
    """A graph of one node, as LangGraph's documentation on interrupts has it."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt
    from mcp.types import ElicitResult, InputRequiredResult

    async def buy(state: _Purchase) -> _Purchase:
        made = {"number": state["number"]}
        reply = await session.call_tool("buy", made, allow_input_required=True)
        if isinstance(reply, InputRequiredResult):
            asked = reply.input_requests or {}
            answers = interrupt(
                {
                    key: request.params.model_dump(by_alias=True, mode="json", exclude_none=True)
                    for key, request in asked.items()
                }
            )
            reply = await session.call_tool(
                "buy",
                made,
                input_responses={
                    key: ElicitResult(action="accept", content=answers[key]) for key in asked
                },
                request_state=reply.request_state,
            )
        return {"result": _text(reply)}

    builder = StateGraph(_Purchase)
    builder.add_node("buy", buy)
    builder.add_edge(START, "buy")
    builder.add_edge("buy", END)
    graph = builder.compile(checkpointer=saver)

    async def flow(number: int, step: Callable[[str], None]) -> str:
        config: Any = {"configurable": {"thread_id": f"call-{number}"}}
        stopped = await graph.ainvoke({"number": number}, config)
        [asked] = stopped["__interrupt__"]
        assert asked.value["plan"]["message"] == MESSAGE
        step("ask")
        found = await graph.ainvoke(Command(resume={"plan": CONTENT}), config)
        step("resume")
        return str(found["result"])

    return flow


@asynccontextmanager
async def langgraph_saver(settings: Mapping[str, Any]) -> AsyncIterator[Any]:
    """LangGraph's checkpointer in the database that Django uses, with its tables made."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.conninfo import make_conninfo

    given = {
        "dbname": settings["NAME"],
        "user": settings["USER"],
        "password": settings["PASSWORD"],
        "host": settings["HOST"],
        "port": settings["PORT"],
    }
    conninfo = make_conninfo(**{name: value for name, value in given.items() if value})
    async with AsyncPostgresSaver.from_conn_string(conninfo) as saver:
        await saver.setup()
        yield saver


def callback_flow(client: Any) -> Flow:
    async def flow(number: int, step: Callable[[str], None]) -> str:
        result = await client.call_tool("buy", {"number": number})
        step("all")
        return _text(result)

    return flow


def _text(result: Any) -> str:
    assert not result.is_error, result
    return str(result.content[0].text)


# --- Measuring -------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Times:
    """What the flows of one kind took: milliseconds of the clock and of this process's CPU."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.wall)

    def as_dict(self) -> dict[str, Any]:
        return {
            "median": self.median,
            "quartiles": statistics.quantiles(self.wall, n=4),
            "cpu": statistics.median(self.cpu),
            "steps": {name: statistics.median(times) for name, times in self.steps.items()},
        }


class Flows:
    """All kinds of flow, and what makes one after the other."""

    def __init__(self, kinds: Mapping[str, Flow]) -> None:
        self.kinds = kinds
        self.number = 0

    async def once(
        self, kind: str, times: Times, noted: Callable[[str], None] | None = None
    ) -> None:
        self.number += 1
        began = time.perf_counter()
        before = began

        def step(name: str) -> None:
            nonlocal before
            now = time.perf_counter()
            times.steps.setdefault(name, []).append((now - before) * 1e3)
            if noted is not None:
                noted(name)
            before = now

        cpu = time.process_time()
        assert await self.kinds[kind](self.number, step) == RESULT
        times.wall.append((time.perf_counter() - began) * 1e3)
        times.cpu.append((time.process_time() - cpu) * 1e3)

    async def in_turn(self, flows: int) -> dict[str, Times]:
        """Make so many of each kind: one of the first, one of the second, and so on."""
        found = {kind: Times() for kind in self.kinds}
        for _ in range(flows):
            for kind, times in found.items():
                await self.once(kind, times)
        return found


class Counted:
    """What one flow does, by step: statements, commits, hops into a thread, requests."""

    def __init__(self) -> None:
        self.steps: dict[str, Counter[str]] = {}
        self.now: Counter[str] = Counter()
        #: Our statements, each with the function of the app that it comes from.
        self.statements: list[str] = []

    def step(self, name: str) -> None:
        self.steps[name] = self.now
        self.now = Counter()
        self.statements.append(f"-- that was: {name}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count while this lasts; statements where each side's driver is called."""
        from asgiref.sync import SyncToAsync
        from django.db import connection
        from django.db.backends.base.base import BaseDatabaseWrapper
        from django.db.backends.utils import CursorWrapper
        from mcp import ClientSession

        patched: list[tuple[Any, str, Any]] = [
            (CursorWrapper, "execute", self._statement(CursorWrapper.execute)),
            (CursorWrapper, "executemany", self._statement(CursorWrapper.executemany)),
            (BaseDatabaseWrapper, "commit", self._noting("commits", BaseDatabaseWrapper.commit)),
            (SyncToAsync, "__call__", self._noting("hops", SyncToAsync.__call__)),
            (ClientSession, "send_request", self._noting("requests", ClientSession.send_request)),
        ]
        if connection.vendor == "postgresql":
            from psycopg import AsyncCursor

            patched += [
                (AsyncCursor, "execute", self._noting("statements", AsyncCursor.execute)),
                (AsyncCursor, "executemany", self._many(AsyncCursor.executemany)),
            ]
        with ExitStack() as stack:
            for owner, name, replacement in patched:
                stack.enter_context(mock.patch.object(owner, name, replacement))
            yield

    def _statement(self, method: Any) -> Any:
        def execute(cursor: Any, sql: Any, *args: Any) -> Any:
            # SQLite's is a statement of Django's; the others' is the driver's own.
            if str(sql).startswith("BEGIN"):
                return method(cursor, sql, *args)
            self.now["statements"] += 1
            self.statements.append(f"{_short(str(sql))}  <- {_caller()}")
            if cursor.db.get_autocommit() and not str(sql).lstrip().upper().startswith("SELECT"):
                self.now["commits"] += 1
            return method(cursor, sql, *args)

        return execute

    def _noting(self, what: str, method: Any) -> Any:
        def noted(*args: Any, **options: Any) -> Any:
            self.now[what] += 1
            if what == "commits":
                self.statements.append("COMMIT")
            return method(*args, **options)

        return noted

    def _many(self, method: Any) -> Any:
        def noted(cursor: Any, query: Any, params: Any, **options: Any) -> Any:
            rows = list(params)
            self.now["statements"] += len(rows)
            return method(cursor, query, rows, **options)

        return noted


def _short(sql: str) -> str:
    """A statement without the list of its columns."""
    verb, _space, rest = sql.partition(" ")
    if verb == "SELECT" and " FROM " in rest:
        columns, _from, rest = rest.partition(" FROM ")
        return f"SELECT ({columns.count(',') + 1}) FROM {rest}".replace('"', "")[:220]
    return sql.replace('"', "")[:220]


def _caller() -> str:
    """The app's functions that led here, the innermost last."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        path = frame.f_code.co_filename
        if f"{BASE_DIR}/elicitation/" in path:
            found.append(f"{Path(path).stem}.{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return " > ".join(reversed(found[:4]))


@contextmanager
def mcp_server() -> Iterator[str]:
    """Run the MCP server in a process of its own; its address."""
    from tests import processes

    port = processes.free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.flow_server", str(port)],
        cwd=BASE_DIR,
        stdin=subprocess.DEVNULL,
    )
    try:
        processes.wait_until(lambda: processes.answers(port), "The MCP server answers")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.kill()
        server.wait(30)


@asynccontextmanager
async def all_flows(url: str, user: User) -> AsyncIterator[Flows]:
    """Connect everybody to the server, and LangGraph to the same database."""
    import mcp
    from asgiref.sync import sync_to_async
    from django.db import connection, connections
    from mcp.types import ElicitResult

    from elicitation.mcp.client import client_options

    async def callback(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=dict(CONTENT))

    async with AsyncExitStack() as stack:

        async def client(**options: Any) -> Any:
            made = mcp.Client(url, mode="2026-07-28", **options)
            return await stack.enter_async_context(made)

        ours = await client(**await sync_to_async(client_options)("shop"))
        kinds: dict[str, Flow] = {OURS: Ours(ours.session, user)}
        if connection.vendor == "postgresql":
            theirs = await client(elicitation_callback=callback)
            saver = await stack.enter_async_context(langgraph_saver(connection.settings_dict))
            kinds[LANGGRAPH] = langgraph_flow(theirs.session, saver)
        kinds[CALLBACK] = callback_flow(await client(elicitation_callback=callback))
        kinds[NAMED] = ByName(url, user)
        kinds[PAGE] = await sync_to_async(lambda: ByPage(ours.session, user))()
        try:
            yield Flows(kinds)
        finally:
            # The rows are read and written in a thread that has a connection of its own.
            await sync_to_async(connections.close_all)()


async def measure(url: str, user: User, flows: int) -> dict[str, Any]:
    async with all_flows(url, user) as kinds:
        await kinds.in_turn(WARM_UP)
        # What was imported and cached is not looked through again by the garbage collector, which
        # is left on: a flow pays for its own garbage.
        gc.collect()
        gc.freeze()
        times = await kinds.in_turn(flows)
        counts = {}
        for kind in kinds.kinds:
            counted = Counted()
            with counted.watching():
                await kinds.once(kind, Times(), counted.step)
            counts[kind] = counted.steps
    return {
        "flows": flows,
        "kinds": {
            kind: one.as_dict() | {"counts": {name: dict(c) for name, c in counts[kind].items()}}
            for kind, one in times.items()
        },
        "ratios": [
            {
                "ours": ours,
                "kind": kind,
                "ratio": times[ours].median / times[kind].median,
                "most": most,
                "holds": times[ours].median <= most * times[kind].median,
            }
            for ours in (OURS, NAMED)
            for kind, most in MOST.items()
            if kind in times
        ],
    }


# --- Where the time goes ---------------------------------------------------------------------


class Spent:
    """The milliseconds that flows spend in some parts: of the clock, and of the thread's CPU."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time them while this lasts. Each has those in it that it waits for."""
        from asgiref.sync import SyncToAsync
        from django.db.backends.base.base import BaseDatabaseWrapper
        from django.db.backends.utils import CursorWrapper
        from mcp import ClientSession

        hop, work = "hops into a thread", "work in the thread"
        hop_over, request = SyncToAsync.__call__, ClientSession.send_request

        async def hopped(this: Any, *args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            # One after the other: a flow is in one thread at a time.
            func = this.func
            plain: Any = func.func if isinstance(func, partial) else func
            name = f"{plain.__module__}.{plain.__qualname__}"
            this.func = self._timed(work, self._timed(f"of it: {name}", func))
            try:
                return await hop_over(this, *args, **options)
            finally:
                this.func = func
                self._add(hop, began)

        async def requested(*args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return await request(*args, **options)
            finally:
                self._add("requests to the MCP server", began)

        with ExitStack() as stack:
            for owner, name, replacement in (
                (SyncToAsync, "__call__", hopped),
                (ClientSession, "send_request", requested),
                (
                    CursorWrapper,
                    "_execute",
                    self._timed("statements in the driver", CursorWrapper._execute),
                ),
                (
                    BaseDatabaseWrapper,
                    "_commit",
                    self._timed("commits", BaseDatabaseWrapper._commit),
                ),
            ):
                stack.enter_context(mock.patch.object(owner, name, replacement))
            yield

    def _timed(self, part: str, work: Any) -> Any:
        @functools.wraps(work)
        def timed(*args: Any, **options: Any) -> Any:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return work(*args, **options)
            finally:
                self._add(part, began, cpu)

        return timed

    def _add(self, part: str, began: float, cpu: float | None = None) -> None:
        self.wall[part] = self.wall.get(part, 0) + (time.perf_counter() - began) * 1e3
        if cpu is not None:
            self.cpu[part] = self.cpu.get(part, 0) + (time.thread_time() - cpu) * 1e3


async def profile(
    url: str, user: User, flows: int
) -> tuple[Sequence[str], Times, Spent, Sequence[cProfile.Profile]]:
    """Profile our flow alone: this thread, and the one that has the database."""
    from asgiref.sync import sync_to_async

    here, there = cProfile.Profile(), cProfile.Profile()
    times, spent = Times(), Spent()
    counted = Counted()
    async with all_flows(url, user) as kinds:
        for _ in range(WARM_UP):
            await kinds.once(OURS, Times())
        with counted.watching():
            await kinds.once(OURS, Times(), counted.step)
        with spent.watching():
            for _ in range(flows):
                await kinds.once(OURS, times)
        await sync_to_async(there.enable)()
        here.enable()
        for _ in range(flows):
            await kinds.once(OURS, Times())
        here.disable()
        await sync_to_async(there.disable)()
    return counted.statements, times, spent, [here, there]


def show_profile(
    statements: Sequence[str],
    times: Times,
    spent: Spent,
    profiles: Sequence[cProfile.Profile],
    flows: int,
    lines: int = 50,
) -> None:
    """Print where a flow's time goes, and the functions that took most of it."""
    print("\n".join(statements) + "\n")
    print(f"one flow without the profiler\n{'ms':>8}{'CPU ms':>8}  part (means)")
    print(f"{statistics.fmean(times.wall):>8.1f}{statistics.fmean(times.cpu):>8.1f}  the whole")
    # The functions come after the parts, each by what it takes.
    for part, took in sorted(
        spent.wall.items(), key=lambda item: (item[0].startswith("of it"), -item[1])
    ):
        cpu = f"{spent.cpu[part] / flows:.1f}" if part in spent.cpu else ""
        print(f"{took / flows:>8.1f}{cpu:>8}  {part}")
    found: Any = pstats.Stats(*profiles).stats  # type: ignore[attr-defined]
    # In what waits, a profiler's time is the clock's and not the CPU's.
    waits = ("epoll", "'acquire' of '_thread.lock'", "_queue.SimpleQueue")
    rows = [
        (cumulative / flows * 1e3, own / flows * 1e3, calls / flows, where)
        for where, (_primitive, calls, own, cumulative, _callers) in found.items()
        if not any(word in where[2] for word in waits)
    ]
    total = sum(row[1] for row in rows)
    print(f"\nUnder the profiler one flow takes {total:.1f} ms; look at the shares.")
    ours = [row for row in rows if f"{BASE_DIR}/elicitation" in row[3][0]]
    for title, among, key in (
        ("the app's functions, by cumulative time", ours, 0),
        ("all functions, by cumulative time", rows, 0),
        ("all functions, by own time", rows, 1),
    ):
        print(f"\n{title}\n{'ms':>8}{'share':>7}{'own ms':>9}{'calls':>8}  function")
        for cumulative, own, calls, where in sorted(among, key=lambda row: -row[key])[:lines]:
            print(
                f"{cumulative:>8.2f}{(cumulative, own)[key] / total:>7.1%}{own:>9.2f}{calls:>8.1f}"
                f"  {_place(where)}"
            )
    packages: Counter[str] = Counter()
    for _cumulative, own, _calls, where in rows:
        packages[_package(where)] += own
    print(f"\nby package\n{'own ms':>8}{'share':>7}  package")
    for package, own in packages.most_common(25):
        print(f"{own:>8.2f}{own / total:>7.1%}  {package}")


def _place(where: tuple[str, int, str]) -> str:
    path, line, name = where
    if path == "~":
        return name
    for mark in ("site-packages/", "lib/python", f"{BASE_DIR}/"):
        path = path.rpartition(mark)[2]
    return f"{path}:{line} {name}"


def _package(where: tuple[str, int, str]) -> str:
    if where[0] == "~":
        return "(built in)"
    place = _place(where).split(":")[0].split("/")
    depth = {"django": 3, "elicitation": 2, "mcp": 2}.get(place[0], 1)
    return "/".join(place[:depth])


# --- Showing ---------------------------------------------------------------------------------

COUNTED = ("statements", "commits", "hops", "requests")


def show(found: Mapping[str, Any]) -> None:
    print(f"{found['database']}, {found['flows']} flows of each, in turn; milliseconds")
    print(f"{'':<22}{'median':>8}{'quartiles':>16}{'CPU':>8}  steps")
    for kind, one in found["kinds"].items():
        low, _median, high = one["quartiles"]
        steps = ", ".join(f"{name} {took:.1f}" for name, took in one["steps"].items())
        print(
            f"{kind:<22}{one['median']:>8.1f}{f'{low:.1f} to {high:.1f}':>16}{one['cpu']:>8.1f}"
            f"  {steps}"
        )
    print(f"\n{'one flow':<32}" + "".join(f"{what:>12}" for what in COUNTED))
    for kind, one in found["kinds"].items():
        for name, counts in one["counts"].items():
            # LangGraph's driver commits each statement, or each batch of them, by itself.
            numbers = "".join(
                f"{'' if (kind, what) == (LANGGRAPH, 'commits') else counts.get(what, 0):>12}"
                for what in COUNTED
            )
            print(f"{kind + ': ' + name:<32}{numbers}")
    print()
    for line in found["ratios"]:
        name = f"{line['ours']} / {line['kind']}"
        verdict = "holds" if line["holds"] else "FAILS"
        print(f"{name:<36}{line['ratio']:>8.2f}   at most {line['most']:.1f}  {verdict}")


def main() -> int:
    options = arguments()
    # Tracing would send what is measured to a service.
    os.environ["LANGSMITH_TRACING"] = "false"
    set_up(options)
    from django.contrib.auth.models import User
    from django.db import connection

    from elicitation.models import ServerPolicy

    if connection.vendor != "postgresql":
        if options.check or options.write:
            raise SystemExit(
                "LangGraph's checkpointer needs PostgreSQL: name one by --database-url."
            )
        print("Without LangGraph, whose checkpointer needs PostgreSQL.", file=sys.stderr)
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        ServerPolicy.objects.create(server="shop", policy="url_and_form")
        user = User.objects.create_user("ada")
        with mcp_server() as url:
            if options.profile:
                show_profile(*asyncio.run(profile(url, user, options.flows)), options.flows)
                return 0
            found = asyncio.run(measure(url, user, options.flows))
        version = ".".join(map(str, connection.get_database_version()))
        found = {"database": f"{connection.display_name} {version}", **found}
    finally:
        with suppress(NameError):
            connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)
    show(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    if options.write:
        from .report import write_flow

        write_flow(found, BASE_DIR / "docs")
    holds = all(line["holds"] for line in found["ratios"])
    return 1 if options.check and not holds else 0


if __name__ == "__main__":
    sys.exit(main())
