"""What changes while a person looks: ids and states, for the people who may see them.

A process with open streams learns of changes as one with waiting calls does (``listening``): by
``NOTIFY`` on PostgreSQL, elsewhere by one query each ``ELICITATION_POLL_INTERVAL`` for all its
streams. ``access`` then says who may see what changed. Nothing is read while nothing happens.

A stream ends with its session. Before a stream carries anything its person is read again, a
sign-out ends it, and after ``LASTS`` the browser has to come again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.utils import timezone

from ..conf import settings
from ..models import Elicitation, row_key
from ..transactions import write_alias
from . import access
from .listening import Listener, between_requests, tell
from .reading import waiting_ids

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.sessions.backends.base import SessionBase
    from django.http import HttpRequest

logger = logging.getLogger("elicitation")

#: The channel of the ids of what changed, and of the digests of sessions that have ended.
CHANNEL = "elicitation_changed"
#: How long one stream lasts at most, in seconds. A browser comes again by itself.
LASTS = 300.0
#: After how many seconds of silence a stream says that it is there: proxies end silent ones.
BEAT = 25.0
#: How long changes are collected before they are read, in seconds: a burst is read at once.
COLLECT = 0.05
#: How many changes are read at once.
AT_ONCE = 200
#: How far each look goes back where nothing is heard. A row is written before it can be seen.
OVERLAP = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Waiting:
    """All that waits for the person now, the oldest deadline first; first in each stream."""

    ids: list[uuid.UUID]


@dataclass(frozen=True, slots=True)
class Changed:
    """An elicitation that this person may see was asked, or is closed."""

    id: uuid.UUID
    state: str


@dataclass(frozen=True, slots=True)
class Beat:
    """Nothing has happened for a while."""


News = Waiting | Changed | Beat


@dataclass(eq=False, slots=True)
class _Stream:
    """One open stream.

    Args:
        user: Whose it is.
        read_again: Returns the person as they are signed in now, or ``None``.
        session: What stands for the session that it ends with, or ``None``.
    """

    user: AbstractBaseUser
    read_again: Callable[[], AbstractBaseUser | None]
    session: uuid.UUID | None
    is_new: bool = True
    has_ended: bool = False
    waiting: Waiting | None = None
    #: By id, so that a slow reader gets the last state of each and needs little memory.
    states: dict[uuid.UUID, str] = field(default_factory=dict)
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        self.has_ended = True
        self.woken.set()

    def take(self) -> list[News]:
        """Return what there is to say, and forget it."""
        news: list[News] = [self.waiting] if self.waiting else []
        news += [Changed(key, state) for key, state in self.states.items()]
        self.waiting, self.states = None, {}
        return news


async def follow(
    user: AbstractBaseUser,
    read_again: Callable[[], AbstractBaseUser | None],
    session: SessionBase | None = None,
) -> AsyncIterator[News]:
    """Yield what waits for a person, and then what changes, until the stream ends.

    Args:
        user: The person who is signed in.
        read_again: Reads the person again, in a thread; ``None`` if they are signed in no longer.
        session: The session that the stream ends with, if there is one.
    """
    key = getattr(session, "session_key", None)
    stream = _Stream(user, read_again, _session_id(key) if key else None)
    streams = _streams_of_this_loop()
    streams.join(stream)
    # Not all at once again, after a server with many of them was started.
    ends = time.monotonic() + LASTS * random.uniform(0.8, 1)  # noqa: S311 - no secret
    try:
        while not stream.has_ended and (left := ends - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(min(BEAT, left)):
                    await stream.woken.wait()
            except TimeoutError:
                yield Beat()
                continue
            stream.woken.clear()
            if not stream.has_ended:
                for news in stream.take():
                    yield news
    finally:
        streams.open.discard(stream)


class _Streams:
    """The open streams of one event loop, and the one task that finds news for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.open: set[_Stream] = set()
        self.changed: set[uuid.UUID] = set()
        self.woken = asyncio.Event()
        #: What a look has found already, where nothing is heard.
        self.seen: set[tuple[uuid.UUID, str]] = set()
        self.looked_at: datetime | None = None
        self.listener = Listener(self.note, self._look, CHANNEL)

    def join(self, stream: _Stream) -> None:
        self.open.add(stream)
        self.woken.set()

    def note(self, key: uuid.UUID) -> None:
        """Take note of something that changed, in this loop."""
        signed_out = [stream for stream in self.open if stream.session == key]
        for stream in signed_out:
            stream.end()
        if not signed_out:
            self.changed.add(key)
            self.woken.set()

    async def run(self) -> None:
        """Find news until no stream is open any more."""
        listening = self.loop.create_task(self.listener.run())
        try:
            while self.open:
                with suppress(TimeoutError):
                    async with asyncio.timeout(settings.POLL_INTERVAL.total_seconds()):
                        await self.woken.wait()
                        await asyncio.sleep(COLLECT)
                self.woken.clear()
                try:
                    if not self.listener.hears and self._is_to_look():
                        await self._look()
                    await self._read()
                # A rule of the site's own can raise anything.
                except Exception as error:
                    logger.warning(
                        "Streams of what changes were ended: it could not be read",
                        extra={"error": type(error).__name__},
                    )
                    for stream in self.open:
                        stream.end()
        finally:
            # A stream that is opened from now on starts another one.
            _open.pop(self.loop, None)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    def _is_to_look(self) -> bool:
        # What this process changed itself has woken it, and needs no look.
        last = self.looked_at
        return last is None or timezone.now() - last >= settings.POLL_INTERVAL

    async def _look(self) -> None:
        """Find what changed lately, in one query."""
        since = (self.looked_at or timezone.now()) - OVERLAP
        self.looked_at = timezone.now()
        rows = Elicitation.objects.using(write_alias()).order_by()
        lately = rows.filter(Q(asked_at__gt=since) | Q(closed_at__gt=since))
        found = set(await between_requests(lambda: list(lately.values_list("pk", "state"))))
        self.changed |= {key for key, _state in found - self.seen}
        self.seen = found

    async def _read(self) -> None:
        """Say what changed to those who may see it, and to new streams what waits."""
        ids = set(islice(self.changed, AT_ONCE))
        self.changed -= ids
        if self.changed:
            self.woken.set()
        streams = list(self.open)
        if not ids and not any(stream.is_new for stream in streams):
            return
        told = await between_requests(partial(_news, ids, streams))
        for stream, news in told.items():
            stream.is_new = False
            if news is None:
                stream.end()
            elif isinstance(news, Waiting):
                stream.waiting = news
            else:
                stream.states |= news
            stream.woken.set()


def _news(
    ids: set[uuid.UUID], streams: list[_Stream]
) -> dict[_Stream, Waiting | dict[uuid.UUID, str] | None]:
    """Return what each of these streams is to say; ``None`` where it has to end."""
    states: dict[Any, dict[uuid.UUID, str]] = {}
    if ids:
        rows = Elicitation.objects.using(write_alias()).filter(pk__in=ids)
        people = {stream.user.pk: stream.user for stream in streams if not stream.is_new}
        for person, key, state in access.audience(rows, people.values()):
            states.setdefault(person, {})[key] = state
    news: dict[_Stream, Waiting | dict[uuid.UUID, str] | None] = {}
    for stream in streams:
        if not stream.is_new and stream.user.pk not in states:
            continue
        person = stream.read_again()
        if person is None or person.pk != stream.user.pk:
            news[stream] = None
        elif stream.is_new:
            news[stream] = Waiting(waiting_ids(person))
        else:
            news[stream] = states[stream.user.pk]
    return news


#: By event loop. A server has one; tests and ``async_to_sync`` make others.
_open: dict[asyncio.AbstractEventLoop, _Streams] = {}
#: A loop holds none of its tasks itself.
_running: set[asyncio.Task[None]] = set()


def _streams_of_this_loop() -> _Streams:
    loop = asyncio.get_running_loop()
    if loop not in _open:
        _open[loop] = _Streams(loop)
        # In a context of its own: it outlives the request that happened to start it.
        task = loop.create_task(_open[loop].run(), context=Context())
        _running.add(task)
        task.add_done_callback(_running.discard)
    return _open[loop]


def _session_id(key: str) -> uuid.UUID:
    """Return what stands for a session in the database's notifications, which anybody can read."""
    return row_key("session", key)


def _tell(key: uuid.UUID) -> None:
    for streams in list(_open.values()):
        # The loop may end at this moment.
        with suppress(RuntimeError):
            streams.loop.call_soon_threadsafe(streams.note, key)
    tell(key, CHANNEL)


def on_change(elicitation_id: uuid.UUID, **kwargs: object) -> None:
    """Tell all processes that an elicitation was asked, or is closed; after the commit."""
    _tell(elicitation_id)


def on_sign_out(request: HttpRequest | None = None, **kwargs: object) -> None:
    """Tell all processes that a session has ended."""
    key = getattr(getattr(request, "session", None), "session_key", None)
    if key:
        _tell(_session_id(key))
