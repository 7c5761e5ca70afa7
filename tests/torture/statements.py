"""The database fails at each statement: ``python -m tests.torture.statements --database-url URL``.

Before and after every statement of ask, answer and resume the connection is killed on PostgreSQL
and MariaDB, and on SQLite the statement fails. A COMMIT fails as well before it is done, when it
is done and nobody hears of it, and after it. Each is a run of its own, and afterwards the flow is
taken up again (``flows``). Makes a database of its own and removes it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from .command import in_own_database, report

if TYPE_CHECKING:
    from .flows import Flow

#: How long the database has to end a killed connection, in seconds.
PATIENCE = 20


class Fault:
    """Lets the database fail at one point of what is done over a connection.

    Args:
        at: Which point, from 0; points are counted as they come.
    """

    def __init__(self, at: int) -> None:
        self.at = at
        self.point = 0
        #: What failed, once it did.
        self.happened = ""

    @contextmanager
    def installed(self) -> Iterator[None]:
        from unittest.mock import patch

        from django.db import connection

        commit = connection._commit
        with ExitStack() as stack:
            stack.enter_context(connection.execute_wrapper(self._statement))
            stack.enter_context(
                patch.object(connection, "_commit", lambda: self._commit(connection, commit))
            )
            yield

    def _is_here(self, what: str) -> bool:
        is_here = self.point == self.at
        self.point += 1
        if is_here:
            self.happened = what
        return is_here

    def _statement(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        connection = context["connection"]
        name = sql[:40]
        if self._is_here(f"before {name}"):
            _break(connection)
        result = execute(sql, params, many, context)
        # SQLite is no network away: whoever calls it knows what came of it.
        if connection.vendor != "sqlite" and self._is_here(f"after {name}"):
            _break(connection)
        return result

    def _commit(self, connection: Any, commit: Callable[[], Any]) -> None:
        from django.db import OperationalError

        if connection.connection is None:
            return
        if self._is_here("before COMMIT"):
            _break(connection)
        commit()
        if connection.vendor == "sqlite":
            return
        if self._is_here("COMMIT without its acknowledgement"):
            _break(connection)
            raise OperationalError("the connection was lost while COMMIT was acknowledged")
        if self._is_here("after COMMIT"):
            _break(connection)


def _break(connection: Any) -> None:
    """Kill a connection, or let what is done on SQLite fail."""
    from django.db import OperationalError

    if connection.vendor == "sqlite":
        raise OperationalError("disk I/O error")
    params = connection.get_connection_params()
    if connection.vendor == "postgresql":
        import psycopg

        pid = connection.connection.info.backend_pid
        params.pop("cursor_factory", None)
        with psycopg.connect(**params, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [pid])
            _wait_until_gone(
                lambda: other.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]
                ).fetchone()
            )
    else:
        pid = connection.connection.thread_id()
        other = connection.Database.connect(**params)
        try:
            with other.cursor() as cursor:
                cursor.execute("KILL %s", [pid])

                def is_there() -> Any:
                    cursor.execute(
                        "SELECT 1 FROM information_schema.processlist WHERE id = %s", [pid]
                    )
                    return cursor.fetchone()

                _wait_until_gone(is_there)
        finally:
            other.close()


def _wait_until_gone(is_there: Callable[[], Any]) -> None:
    until = time.monotonic() + PATIENCE
    while is_there():
        assert time.monotonic() < until, "the database does not end a killed connection"
        time.sleep(0.005)


def break_each(
    new_flow: Callable[[], Flow], *, first: int = 0, every: int = 1
) -> Iterator[tuple[str, Flow]]:
    """Run a flow with a fault at each point, until there are no more points; yield what failed.

    Args:
        new_flow: Makes a flow.
        first: The first point.
        every: Which of the points from there on: each, or every second, ….
    """
    at = first
    while True:
        fault, flow = Fault(at), new_flow()
        for step in flow.steps:
            flow.another_process()
            with fault.installed():
                step(flow)
            if fault.happened:
                break
        flow.finish()
        yield fault.happened or "nothing", flow
        if not fault.happened:
            return
        at += every


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.statements")
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    options = parser.parse_args()
    with in_own_database(options.database_url):
        from .flows import KINDS, add_up, prepare, without_pauses

        user = prepare()
        is_clean = True
        for name, kind in KINDS.items():
            flows = []
            with without_pauses():
                for what, flow in break_each(lambda kind=kind: kind(user)):
                    flow.wrong = [f"{what}: {line}" for line in flow.wrong]
                    flows.append(flow)
            is_clean &= report(name, *add_up(flows))
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
