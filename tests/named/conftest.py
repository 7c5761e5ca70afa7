from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User

from elicitation import inbox
from elicitation.calls import background
from elicitation.mcp import connections
from elicitation.models import Elicitation

from .running import Running, over_http, over_stdio

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

#: Runs a server under a name: ``serve("shop", "http", "modern", label="The shop")``.
Serve = Callable[..., Running]
HttpServers = Callable[[str, str], Running]


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop, and its work on the database in the thread of the tests.

    Connections that no call uses are closed before the loop ends: a loop that ends while one is
    being closed leaves its socket to the garbage collector, which warns in the middle of another
    test.
    """

    async def and_close(*args: Any, **kwargs: Any) -> None:
        await test(*args, **kwargs)
        for connection in kept():
            connection.retire()
        await until(lambda: all(connection.users for connection in kept()))

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async_to_sync(and_close)(*args, **kwargs)

    return run


@pytest.fixture(scope="session")
def http_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServers]:
    """Servers over HTTP, each started once for all tests that want one of its name and era."""
    running: dict[tuple[str, str], Running] = {}
    folder = tmp_path_factory.mktemp("named")
    with ExitStack() as stack:

        def get(name: str, era: str) -> Running:
            key = name, era
            if key not in running:
                running[key] = stack.enter_context(over_http(folder, "-".join(key), era))
            running[key].forget()
            return running[key]

        yield get


@pytest.fixture
def serve(tmp_path: Path, settings: SettingsWrapper, http_servers: HttpServers) -> Serve:
    settings.ELICITATION_SERVERS = {}

    def run(name: str, way: str, era: str = "modern", **options: Any) -> Running:
        running = http_servers(name, era) if way == "http" else over_stdio(tmp_path, name, era)
        entry = running.options | {"policy": "url_and_form"} | options
        settings.ELICITATION_SERVERS = {**settings.ELICITATION_SERVERS, name: entry}
        return running

    return run


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No connection outlives its loop, nor a test."""
    yield
    background.stop()
    assert connections._connections == {}


def kept() -> list[connections.Connection]:
    """Return the connections of this loop."""
    return list(connections._connections.get(asyncio.get_running_loop(), ()))


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


async def answer(user: User, note: str) -> None:
    """Answer what this person is asked, as soon as it is there."""
    pending = Elicitation.objects.pending().filter(respondent=user)
    async with asyncio.timeout(30):
        while (asked := await pending.afirst()) is None:
            await asyncio.sleep(0.01)
    answers = asked.schema.answers_from_content({"note": note})
    await sync_to_async(inbox.answer)(asked.pk, answers, by=user)
