"""The worker: one event loop that goes on with calls, makes calls, and looks after the rest.

It learns of calls that can go on by ``NOTIFY`` on PostgreSQL, and elsewhere by one query a second.
What is missed, is told by the outbox, which runs here too. Several workers share the work: each
call's lease says which of them has it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any

from django.db import Error as DatabaseProblem
from django.utils import timezone

from .. import backoff
from ..conf import settings
from ..inbox.listening import Listener, between_requests
from ..models import Elicitation, ParkedCall
from ..signals import elicitation_asked
from ..transactions import write_alias
from . import outbox
from .in_call import waiting_calls
from .jobs import go_on
from .queues.worker import CHANNEL, receivers

logger = logging.getLogger("elicitation")

#: How long at most until the outbox is looked into, in seconds. Other processes may have put
#: something there that is due before what was known.
LONGEST_TICK = 60.0
#: How often the tables are cleaned, in seconds, and how many rows one transaction changes.
CLEAN_EVERY, BATCH = 300.0, 100
#: Pauses after the database failed, in seconds: the first, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0


class Worker:
    """Goes on with calls until it is stopped.

    Args:
        concurrency: How many calls are gone on with at a time. One that waits in its middle for a
            person is not counted.
        patience: For how many seconds calls may come to their end after ``stop``.
    """

    def __init__(self, concurrency: int = 100, patience: float = 20.0) -> None:
        self.concurrency = concurrency
        self.patience = patience
        #: What can be gone on with, in the order in which it was told.
        self.waiting: dict[uuid.UUID, None] = {}
        self.running: dict[uuid.UUID, asyncio.Task[None]] = {}
        #: What was found in the database and taken up, as long as it is found there.
        self.found: set[tuple[uuid.UUID, Hashable]] = set()
        self.is_stopped = False
        #: Whether the log already says that the database is away.
        self.complained = False
        self.listener = Listener(self._told, self._look, CHANNEL)
        self._wake, self._look_now = asyncio.Event(), asyncio.Event()

    def stop(self) -> None:
        """Begin nothing any more, and end; called in the loop."""
        self.is_stopped = True
        self._wake.set()

    async def run(self, *, once: bool = False) -> None:
        """Work until stopped.

        Args:
            once: Stop once nothing is left that can be done now.
        """
        self.loop = asyncio.get_running_loop()
        receivers.add(self._told_in_a_thread)
        # A call that begins to wait for a person makes room for another one.
        elicitation_asked.connect(self._asked)
        others = []
        try:
            if once:
                await self._guarded(self._tend)
                await self._guarded(self._look)
            else:
                others = [
                    self.loop.create_task(work)
                    for work in (self.listener.run(), self._looking(), self._tending())
                ]
            await self._work(once)
        finally:
            elicitation_asked.disconnect(self._asked)
            receivers.discard(self._told_in_a_thread)
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._end()

    async def _work(self, once: bool) -> None:
        while not self.is_stopped:
            self._wake.clear()
            self._begin()
            if once and not self.running and not self.waiting:
                return
            await self._wake.wait()

    def _begin(self) -> None:
        """Begin with as many calls as there is room for."""
        if not self.waiting:
            return
        busy = len(self.running.keys() - waiting_calls())
        for key in [key for key in self.waiting if key not in self.running]:
            if busy >= self.concurrency:
                return
            del self.waiting[key]
            busy += 1
            task = self.loop.create_task(self._go_on(key))
            self.running[key] = task
            task.add_done_callback(partial(self._done, key))

    async def _go_on(self, key: uuid.UUID) -> None:
        try:
            await go_on(key)
        except DatabaseProblem as error:
            self._complain(error)
            # It was not begun: who looks again, once the database is there, finds it.
            self.found = {found for found in self.found if found[0] != key}
        except Exception as error:
            logger.error(
                "A worker could not go on with a call; the outbox tells of it again",
                extra={"parked_call_id": str(key), "error": type(error).__name__},
            )

    def _done(self, key: uuid.UUID, task: asyncio.Task[None]) -> None:
        del self.running[key]
        # The call may be looked after earlier than all that was known.
        self._look_now.set()
        self._wake.set()

    async def _end(self) -> None:
        """Let calls come to their end; what takes too long is cancelled: given back, or lost."""
        tasks = set(self.running.values())
        if tasks:
            logger.info("The worker ends; calls come to their end", extra={"calls": len(tasks)})
            _, late = await asyncio.wait(tasks, timeout=self.patience)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # --- Learning of calls -------------------------------------------------------------------

    def _told(self, key: uuid.UUID) -> None:
        self.waiting[key] = None
        self._wake.set()

    def _told_in_a_thread(self, key: uuid.UUID) -> None:
        self.loop.call_soon_threadsafe(self._told, key)

    def _asked(self, **kwargs: Any) -> None:
        self.loop.call_soon_threadsafe(self._wake.set)

    async def _looking(self) -> None:
        """Look for calls once a second, as long as nobody says when there are any."""
        failed = 0
        while True:
            if not self.listener.hears:
                failed = 0 if await self._guarded(self._look) else failed + 1
            pause = settings.POLL_INTERVAL.total_seconds()
            await asyncio.sleep(_longer(pause, failed))

    async def _look(self) -> None:
        """Take up what can go on and was not taken up yet."""
        found = await between_requests(_untold)
        for key, version in found:
            if (key, version) not in self.found:
                self._told(key)
        self.found = set(found)

    # --- Looking after the rest --------------------------------------------------------------

    async def _tending(self) -> None:
        """Run the outbox when something is due there, and clean up."""
        cleaned = failed = 0.0
        while True:
            pause = LONGEST_TICK
            self._look_now.clear()
            is_time = self.loop.time() >= cleaned + CLEAN_EVERY or not cleaned
            if await self._guarded(partial(self._tend, is_time)):
                failed = 0
                cleaned = self.loop.time() if is_time else cleaned
                with suppress(DatabaseProblem):
                    pause = await self._until_due()
            else:
                failed += 1
                pause = _longer(FIRST_PAUSE, int(failed))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._look_now.wait()
                    # A call that has just ended is told of by itself.
                    await asyncio.sleep(FIRST_PAUSE)

    async def _until_due(self) -> float:
        moment = await between_requests(outbox.next_moment)
        if moment is None:
            return LONGEST_TICK
        left = (moment - timezone.now()).total_seconds()
        return min(max(left, 1.0), LONGEST_TICK)

    async def _tend(self, cleans: bool = True) -> None:
        await self._batches(lambda: sum(outbox.resend_due(limit=BATCH)))
        chores = outbox.chores(BATCH)
        if not cleans:
            # People's time is up when it is up.
            chores = {"expired elicitations": chores["expired elicitations"]}
        for batch in chores.values():
            await self._batches(batch)

    async def _batches(self, batch: Callable[[], int]) -> None:
        """Run batches until one finds nothing more, with pauses as long as each took."""
        while True:
            begin = self.loop.time()
            if not await between_requests(batch):
                return
            await asyncio.sleep(self.loop.time() - begin)

    async def _guarded(self, work: Callable[[], Any]) -> bool:
        """Do the work; a database that is away is logged once. Whether it was done."""
        try:
            await work()
        except Exception as error:
            self._complain(error)
            return False
        if self.complained:
            self.complained = False
            logger.info("The worker can use the database again")
        return True

    def _complain(self, error: Exception) -> None:
        if not self.complained:
            self.complained = True
            logger.warning(
                "The worker could not use the database; trying again",
                extra={"error": type(error).__name__},
            )


def _longer(pause: float, failed: int) -> float:
    """Return a pause, which is longer the more often the database has failed."""
    return max(pause, backoff.pause(failed, FIRST_PAUSE, LONGEST_PAUSE)) if failed else pause


def _untold() -> list[tuple[uuid.UUID, Hashable]]:
    """Return calls of named servers that can go on, each with what tells one time from another."""
    calls = ParkedCall.objects.using(write_alias()).untold()
    named = calls.filter(server__in=list(settings.SERVERS)).order_by("received_at")
    found = dict(named.values_list("pk", "round")[:1000])
    if not found:
        return []
    versions: dict[uuid.UUID, list[Hashable]] = {key: [round] for key, round in found.items()}
    asked = Elicitation.objects.using(write_alias()).undelivered()
    closed = asked.filter(parked_call_id__in=list(found)).order_by("pk")
    for row in closed.values_list("parked_call_id", "pk", "closed_at", "continued_at"):
        versions[row[0]].append(row)
    return [(key, tuple(version)) for key, version in versions.items()]
