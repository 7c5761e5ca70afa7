"""Answers to two servers and of two people cross in time: ``python -m tests.torture.crossing``.

Each of two people has one conversation, in which tools of both servers ask again and again. They
answer in any order, and the calls go on in any order, many at once, in one event loop and in
threads. Each server writes down which token came with which answer: none may be at another server
than that which asked, and none come with the token of somebody else. Makes a database of its own
and removes it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .command import in_own_database, report

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from tests.named.running import Running

SERVERS = ("shop", "travel")

#: How many calls wait at once.
BATCH = 40


async def batch(people: list[User], numbers: range, chance: random.Random) -> None:
    """Let as many calls ask, be answered and go on as there are numbers."""
    from asgiref.sync import sync_to_async
    from django.db import connection

    from elicitation import calls, inbox
    from elicitation.core import ElicitationPending
    from elicitation.models import Elicitation

    asked: list[tuple[Any, str, User]] = []

    async def begin(number: int) -> None:
        server, person = SERVERS[number % 2], people[number // 2 % 2]
        try:
            await calls.call(server, "ask", scope=person.pk, user=person, call=number)
        except ElicitationPending as pending:
            asked.append((pending, f"{server} {person.username} {number}", person))

    def answer(pending: Any, note: str, person: User) -> None:
        question = Elicitation.objects.get(pk=pending.elicitation_ids[0])
        inbox.answer(question.pk, question.schema.answers_from_content({"note": note}), by=person)

    def go_on_in_a_thread(key: Any) -> None:
        try:
            calls.resume_sync(key)
        finally:
            connection.close()

    async def go_on(pending: Any, note: str, person: User) -> None:
        await sync_to_async(answer)(pending, note, person)
        if chance.random() < 0.5:
            await calls.resume(pending.parked_call_id)
        else:
            await asyncio.to_thread(go_on_in_a_thread, pending.parked_call_id)

    order = list(numbers)
    chance.shuffle(order)
    await asyncio.gather(*map(begin, order))
    chance.shuffle(asked)
    await asyncio.gather(*(go_on(*each) for each in asked))


def judge(servers: dict[str, Running], answers: int) -> tuple[Counter[str], list[str]]:
    """Count what the servers have received, and say what is wrong with it."""
    counts: Counter[str] = Counter(dict.fromkeys(("at another server", "another's token"), 0))
    wrong: list[str] = []
    seen: Counter[str] = Counter()
    for name, running in servers.items():
        for token, said in running.said:
            server, person, _ = said.split()
            seen[said] += 1
            faults = {"at another server": server != name, "another's token": person != token}
            for fault in (fault for fault, is_there in faults.items() if is_there):
                counts[fault] += 1
                wrong.append(f"{said}, at {name} with the token of {token}: {fault}")
    counts["answers"] = seen.total()
    counts["connections"] = sum(len(running.connections) for running in servers.values())
    if set(seen.values()) != {1} or len(seen) != answers:
        wrong.append(f"{len(seen)} different answers of {answers}, {seen.total()} in all")
    return counts, wrong


def cross(answers: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Let this many answers cross, and judge what came of it."""
    from asgiref.sync import async_to_sync
    from django.contrib.auth.models import User
    from django.test import override_settings

    from elicitation.calls import background
    from tests.named.running import bearer, over_http

    people = [User.objects.create_user(name) for name in ("ada", "grace")]
    chance = random.Random(seed)

    async def run() -> None:
        for first in range(0, answers, BATCH):
            await batch(people, range(first, min(first + BATCH, answers)), chance)

    with tempfile.TemporaryDirectory(prefix="crossing-") as folder, ExitStack() as stack:
        servers = {name: stack.enter_context(over_http(Path(folder), name)) for name in SERVERS}
        options = {"auth": bearer, "policy": "url_and_form"}
        named = {name: running.options | options for name, running in servers.items()}
        with override_settings(ELICITATION_SERVERS=named, ELICITATION_MAX_OPEN=BATCH):
            async_to_sync(run)()
            background.stop()
        return judge(servers, answers)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.crossing")
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    with in_own_database(options.database_url):
        counts, wrong = cross(options.answers, options.seed)
        return 0 if report(f"crossing, seed {options.seed}", counts, wrong) else 1


if __name__ == "__main__":
    sys.exit(main())
