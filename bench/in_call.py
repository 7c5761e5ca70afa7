"""Calls that wait in the middle: ``python -m bench.in_call --database-url URL``.

How long it takes from the commit of an answer in another process until the call has it, while 30
and while 500 calls wait; how many queries waiting costs; and how many questions eight processes
close in a second, with and without telling those who wait. Makes a database of its own and
removes it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

from .asked import CONTENT, SCHEMA
from .database import set_up

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ANSWERS, WAITING, CLOSERS, EACH = 30, 500, 8, 200
QUIET_SECONDS = 5
PARAMS = {"message": "Which plan would you like?", "requestedSchema": SCHEMA}


def start(*arguments: str) -> Any:
    from tests import processes

    child = processes.start("bench.in_call", *arguments)
    child.stdout.readline()
    return child


def close_each(user_id: str) -> None:
    """Answer each question that is named on a line, and print when the last was committed."""
    from tests.processes import use_test_database

    use_test_database()
    from django.contrib.auth.models import User

    from elicitation import inbox
    from elicitation.core import parse_requested_schema
    from elicitation.signals import elicitation_closed

    committed = []

    def note(**kwargs: Any) -> None:
        committed.append(time.monotonic())

    elicitation_closed.connect(note)
    by = User.objects.get(pk=user_id)
    answers = parse_requested_schema(SCHEMA).answers_from_content(CONTENT)
    print("ready", flush=True)
    for line in sys.stdin:
        for key in line.split():
            inbox.answer(uuid.UUID(key), answers, by=by)
        print(json.dumps(committed[-1]), flush=True)


async def waiting(user: User, answerer: Any, *, calls: int) -> dict[str, float]:
    """Let calls wait, answer some one by one, and return how long they took in milliseconds."""
    from asgiref.sync import sync_to_async
    from django.db import connection

    from elicitation import inbox
    from elicitation.calls.in_call import answer_in_call
    from elicitation.models import Elicitation

    async def wait(scope: str) -> float:
        await answer_in_call(PARAMS, server="shop", tool="buy", scope=scope, respondent=user)
        return time.monotonic()

    tasks = {
        scope: asyncio.ensure_future(wait(scope)) for scope in (f"run-{n}" for n in range(calls))
    }
    while await Elicitation.objects.open().acount() < calls:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    # The connection that listens has to be there, too.
    await asyncio.sleep(2)
    queries = await sync_to_async(lambda: _counting(connection))()
    await asyncio.sleep(QUIET_SECONDS)
    asked = len(queries)
    took = []
    questions = [(one.pk, one.scope) async for one in Elicitation.objects.open()[:ANSWERS]]
    loop = asyncio.get_running_loop()
    for key, scope in questions:
        print(key, file=answerer.stdin, flush=True)
        committed = json.loads(await loop.run_in_executor(None, answerer.stdout.readline))
        took.append((await tasks[scope] - committed) * 1000)
        # Out of step with whatever looks once a second.
        await asyncio.sleep(0.13)
    open_ones = [one.pk async for one in Elicitation.objects.open()]
    await sync_to_async(lambda: [inbox.withdraw(key) for key in open_ones])()
    await asyncio.gather(*tasks.values())
    return {
        "median": statistics.median(took),
        "p95": statistics.quantiles(took, n=20)[-1],
        "longest": max(took),
        "queries": asked / QUIET_SECONDS,
    }


def _counting(connection: Any) -> list[str]:
    """Return a list that grows with each query of this thread's connection."""
    queries: list[str] = []

    def count(execute: Any, sql: str, *rest: Any) -> Any:
        queries.append(sql)
        return execute(sql, *rest)

    connection.execute_wrappers.append(count)
    return queries


def closing(user: User, *, in_call: bool) -> float:
    """How many questions all processes together close in a second."""
    from elicitation.models import Elicitation
    from tests import asking

    children = [start("--close", str(user.pk)) for _ in range(CLOSERS)]
    for child in children:
        keys = [asking.ask(user, SCHEMA, call=str(uuid.uuid4())).pk for _ in range(EACH)]
        Elicitation.objects.filter(pk__in=keys).update(in_call=in_call)
        child.keys = " ".join(map(str, keys))
    begin = time.monotonic()
    for child in children:
        print(child.keys, file=child.stdin, flush=True)
    last = max(json.loads(child.stdout.readline()) for child in children)
    for child in children:
        child.stdin.close()
        child.wait(30)
    return CLOSERS * EACH / (last - begin)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.in_call", description=__doc__)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--close", metavar="USER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.close:
        close_each(options.close)
        return
    set_up(options)
    from asgiref.sync import async_to_sync
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.db import connection

    from elicitation.models import ServerPolicy

    # All wait for one person.
    settings.ELICITATION_MAX_OPEN = settings.ELICITATION_MAX_OPEN_PER_PERSON = WAITING
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        ServerPolicy.objects.create(server="shop", policy="url_and_form")
        user = User.objects.create_user("ada")
        answerer = start("--close", str(user.pk))
        print(f"{connection.display_name}, from the commit elsewhere to the call, in milliseconds")
        print(f"{'calls that wait':<20}{'median':>10}{'p95':>10}{'longest':>10}{'queries/s':>12}")
        for calls in (ANSWERS, WAITING):
            line = async_to_sync(waiting)(user, answerer, calls=calls)
            print(
                f"{calls:<20}{line['median']:>10.1f}{line['p95']:>10.1f}{line['longest']:>10.1f}"
                f"{line['queries']:>12.1f}"
            )
        answerer.stdin.close()
        answerer.wait(30)
        print(f"\n{CLOSERS} processes close questions, in a second")
        for _ in range(3):
            parked, waited = closing(user, in_call=False), closing(user, in_call=True)
            print(f"parked calls: {parked:,.0f}, calls that wait: {waited:,.0f}")
    finally:
        connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)


if __name__ == "__main__":
    main()
