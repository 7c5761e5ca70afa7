"""``docs/layout.md``: how often a room is entered in each of the four walks, by tracing calls."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.docs.test_layout import PACKAGE, PAGE, WALKS, thing
from tests.integration.conftest import Host
from tests.integration.scripted import ScriptedServer, said
from tests.integration.test_rounds import one_round

#: The walks' names in the table, and the function with which each begins.
FIRST_HOPS = dict(
    zip(
        ("a schema arrives", "GET", "POST", "resume"),
        (re.findall(r"^\| 1 \| `([\w.]+)`", table, re.MULTILINE)[0] for _, _, table in WALKS),
        strict=True,
    )
)
#: What ``mcp.drive`` asks between hops.
ENGINE = {"calls.hand", "calls.keeping", "calls.rounds", "calls.steps"}
#: What is asked of a value, in one line.
LOOK_UPS = {"calls.lease.Lease.is_live"}


def table() -> dict[str, dict[str, int]]:
    """Return how often each room is entered in each walk, as the page says."""
    head, _, *rows = re.findall(r"^\|.*\|$", PAGE[PAGE.index("| walk |") :], re.MULTILINE)
    rooms = re.findall(r"`(\w+)`", head)
    found = {}
    for row in rows:
        walk, *counts = (cell.strip() for cell in row.strip("|").split("|"))
        found[walk] = {room: int(count or 0) for room, count in zip(rooms, counts, strict=True)}
    return found


TABLE = table()
ROOMS = set(TABLE["GET"])


def name_of(code: CodeType) -> tuple[str, str] | None:
    """Return the module of the package that this is code of, and its name there."""
    if not code.co_filename.startswith(f"{PACKAGE}/"):
        return None
    path = code.co_filename.removeprefix(f"{PACKAGE}/").removesuffix(".py")
    return path.replace("/", "."), code.co_qualname


def room_of(module: str) -> str:
    return module.partition(".")[0]


class Entries:
    """The calls that lead into a room, by the names of what was called.

    A call from another room is one, and so is a call from a thread or from Django. A call back
    into a room that is still at work is none: a function for a transaction, a part of a page.

    Args:
        first_hop: The function with which the walk begins.
    """

    def __init__(self, first_hop: str) -> None:
        self.first_hop = first_hop
        self.found: list[tuple[str, str]] = []
        #: A coroutine that goes on is called once more, in the same frame.
        self.seen: set[FrameType] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        named = name_of(frame.f_code) if event == "call" else None
        if named is None or frame in self.seen:
            return
        self.seen.add(frame)
        module, qualname = named
        name = f"{module}.{qualname}"
        if not self.found:
            if name.startswith(self.first_hop):
                self.found.append((room_of(module), name))
            return
        if room_of(module) in ROOMS and not self._is_part_of_its_room(frame, module, qualname):
            self.found.append((room_of(module), name))

    def _is_part_of_its_room(self, frame: FrameType, module: str, qualname: str) -> bool:
        if module in ENGINE or f"{module}.{qualname}" in LOOK_UPS:
            return True
        if qualname.endswith(("<module>", ".__init__", ".__post_init__")):
            # A module is loaded, or a value made.
            return True
        caller = frame.f_back
        is_coroutine = frame.f_code.co_flags & inspect.CO_COROUTINE
        if is_coroutine and caller and caller.f_code is asyncio.Handle._run.__code__:
            # A task: the room itself has begun it.
            return True
        while caller is not None:
            at_work = name_of(caller.f_code)
            if at_work is not None and room_of(at_work[0]) == room_of(module):
                return True
            caller = caller.f_back
        return False

    def into(self, room: str) -> list[str]:
        return [name for its_room, name in self.found if its_room == room]


@contextmanager
def traced(walks: dict[str, Entries], walk: str) -> Iterator[None]:
    """Trace the calls of a walk, in this thread and in those that begin meanwhile."""
    entries = walks[walk] = Entries(FIRST_HOPS[walk])
    threading.setprofile(entries)
    sys.setprofile(entries)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture
def walks(
    host_for: Callable[[ScriptedServer], Host], user: User, client: Client
) -> dict[str, Entries]:
    """One form with one question: asked, shown, answered, sent."""
    host = host_for(ScriptedServer(one_round))
    found: dict[str, Entries] = {}
    with traced(found, "a schema arrives"):
        pending = host.pending()
    client.force_login(user)
    with traced(found, "GET"):
        page = client.get(pending.urls[0])
    body = {"fingerprint": page.context["form"].asked_fingerprint, "a-0": "1"}
    with traced(found, "POST"):
        client.post(pending.urls[0], body)
    with traced(found, "resume"):
        assert said(host.resume(pending)) == "{'plan': 'team'}"
    return found


def test_no_room_is_entered_more_than_twice_and_the_page_says_how_often(
    walks: dict[str, Entries],
) -> None:
    entered = {
        walk: {room: entries.into(room) for room in sorted(ROOMS)}
        for walk, entries in walks.items()
    }
    assert not {
        (walk, room): names
        for walk, rooms in entered.items()
        for room, names in rooms.items()
        if len(names) > 2
    }
    counted = {
        walk: {room: len(names) for room, names in rooms.items()}
        for walk, rooms in entered.items()
    }
    assert counted == TABLE, entered


@pytest.mark.parametrize("name", sorted(LOOK_UPS))
def test_a_look_up_is_one_line(name: str) -> None:
    (function,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(thing(name)))).body
    assert isinstance(function, ast.FunctionDef)
    _docstring, body = function.body
    assert isinstance(body, ast.Return)
    assert body.lineno == body.end_lineno
