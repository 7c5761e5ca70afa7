"""Open streams in one process: ``python -m bench.live --database-url URL``.

What 500 and what 2,000 of them need while nothing happens, each of another person, and how long it
takes from the commit of an elicitation in another process until its person's stream says so. Makes
a database of its own and removes it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
import urllib.request
import uuid
from typing import TYPE_CHECKING, Any

from .asked import SCHEMA
from .database import set_up

if TYPE_CHECKING:
    from django.contrib.auth.models import User

STREAMS, ASKED = (500, 2000), 50
QUIET_SECONDS = 5
PATH = "/elicitation/events/"


class Reader:
    """One stream, read by hand: two thousand browsers would not fit into this machine."""

    def __init__(self, port: int, cookie: str) -> None:
        self.port, self.cookie = port, cookie
        self.is_open = asyncio.Event()
        #: When it said first that an elicitation was asked.
        self.said: dict[str, float] = {}

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        lines = (
            f"GET {PATH} HTTP/1.1",
            "Host: localhost",
            "Accept: text/event-stream",
            f"Cookie: sessionid={self.cookie}",
        )
        writer.write("\r\n".join([*lines, "", ""]).encode())
        try:
            async for line in reader:
                if b'"waiting"' in line:
                    self.is_open.set()
                elif line.startswith(b"data: "):
                    self.said.setdefault(json.loads(line[6:])["id"], time.monotonic())
        finally:
            writer.close()


def measured(port: int) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/measured", timeout=60) as response:
        found: dict[str, int] = json.load(response)
        return found


def people(number: int) -> list[tuple[User, str]]:
    """Return people with the keys of their sessions."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore

    found = []
    for user in User.objects.bulk_create(
        [User(username=f"person-{uuid.uuid4().hex}") for _ in range(number)]
    ):
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.save()
        found.append((user, str(session.session_key)))
    return found


async def measure(port: int, number: int) -> dict[str, float]:
    from asgiref.sync import sync_to_async

    from tests import asking

    loop = asyncio.get_running_loop()
    # The first request imports what is imported late.
    await loop.run_in_executor(None, measured, port)
    theirs = await sync_to_async(people)(number)
    before = await loop.run_in_executor(None, measured, port)
    readers = [Reader(port, cookie) for _user, cookie in theirs]
    tasks = []
    for reader in readers:
        tasks.append(asyncio.ensure_future(reader.run()))
        # As many at once as a server accepts.
        if len(tasks) % 50 == 0:
            await asyncio.gather(*(one.is_open.wait() for one in readers[: len(tasks)]))
    await asyncio.gather(*(reader.is_open.wait() for reader in readers))
    # The connection that listens has to be there, too.
    await asyncio.sleep(2)
    opened = await loop.run_in_executor(None, measured, port)
    await asyncio.sleep(QUIET_SECONDS)
    quiet = await loop.run_in_executor(None, measured, port)
    took = []
    for (user, _cookie), reader in list(zip(theirs, readers, strict=True))[:ASKED]:
        asked = await sync_to_async(asking.ask)(user, SCHEMA, call=str(uuid.uuid4()))
        committed = time.monotonic()
        while str(asked.pk) not in reader.said:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        took.append((reader.said[str(asked.pk)] - committed) * 1000)
        # Out of step with whatever looks once a second.
        await asyncio.sleep(0.13)
    after = await loop.run_in_executor(None, measured, port)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "kilobytes": (opened["kilobytes"] - before["kilobytes"]) / number,
        "threads": opened["threads"],
        "queries": (quiet["queries"] - opened["queries"]) / QUIET_SECONDS,
        "each": (after["queries"] - quiet["queries"]) / ASKED,
        "median": statistics.median(took),
        "p95": statistics.quantiles(took, n=20)[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.live", description=__doc__)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--streams", type=int, nargs="*", default=STREAMS)
    options = parser.parse_args()
    set_up(options)
    from asgiref.sync import async_to_sync
    from django.db import connection

    from tests import processes

    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        print(f"{connection.display_name}, each stream of another person")
        print(
            f"{'streams':<10}{'KB each':>10}{'threads':>10}{'queries/s':>12}{'per event':>12}"
            f"{'median ms':>12}{'p95 ms':>10}"
        )
        for number in options.streams:
            port = processes.free_port()
            server: Any = processes.start(
                "uvicorn",
                "bench.live_site:application",
                *("--port", str(port), "--log-level", "error", "--lifespan", "off"),
            )
            try:
                processes.wait_until(
                    lambda port=port: processes.answers(port),  # type: ignore[misc]
                    "the site",
                )
                line = async_to_sync(measure)(port, number)
            finally:
                server.terminate()
                server.communicate(timeout=processes.WAIT_SECONDS)
            print(
                f"{number:<10}{line['kilobytes']:>10.0f}{line['threads']:>10.0f}"
                f"{line['queries']:>12.1f}{line['each']:>12.1f}{line['median']:>12.0f}"
                f"{line['p95']:>10.0f}",
                flush=True,
            )
    finally:
        connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)


if __name__ == "__main__":
    main()
