"""On PostgreSQL, learn at once of elicitations that other processes close.

A process that closes an elicitation whose server waits sends ``NOTIFY`` in the same transaction.
PostgreSQL delivers the notification when the transaction commits. A process with waiting calls
listens on one connection for all of them (``LISTEN``) and does not poll the database.

A pooler can swallow all that is said without an error. The connection is therefore believed only
once it has heard a word that this process has sent by Django's own connection, which is the way
that closings take, too.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections

from ..transactions import write_alias

logger = logging.getLogger("elicitation")

T = TypeVar("T")

#: One channel for the whole database; ids keep sites apart that share a database.
CHANNEL = "elicitation_closed"
#: How long opening a connection and its test notification may take, in seconds.
PATIENCE = 10.0
#: How long until listening is tried again after it failed, in seconds.
RETRY = 60.0

#: A connection that is silent for hours must notice that its other end is gone; the system looks
#: after half a minute, and no query is needed for that.
KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


def tell(key: uuid.UUID, channel: str = CHANNEL) -> None:
    """Notify all listening processes of a closed elicitation when the transaction commits.

    Does nothing but on PostgreSQL. On another channel it is of something else.
    """
    connection = connections[write_alias()]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [channel, str(key)])


def stop_if_cancelled() -> None:
    """Raise ``CancelledError`` if this task was cancelled and the exception was lost.

    A cancellation that comes while ``sync_to_async`` waits for its thread gets lost in it.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def in_no_request(work: Callable[[], T], *, is_last: bool = False) -> T:
    """Use the database for work that belongs to no request.

    Django looks after connections at the beginning and the end of requests only: without this
    one would stay open for good, and stay broken after the database was restarted.

    Args:
        work: What is done.
        is_last: Whether the event loop ends. Its thread may be gone by then, so that this runs in
            another one, of which nobody closes the connection.
    """
    close_old_connections()
    try:
        return work()
    finally:
        connection = connections[write_alias()]
        if is_last and not connection.in_atomic_block:
            connection.close()
        close_old_connections()


async def between_requests(work: Callable[[], T]) -> T:
    """Use the database from a task that belongs to no request."""
    result = await sync_to_async(in_no_request)(work)
    stop_if_cancelled()
    return result


class Listener:
    """Learns which elicitations are closed, as long as ``run`` runs in an event loop.

    Args:
        closed: Called with the id of each elicitation that any process closes.
        look: Looks up what was closed before listening began.
        channel: What is listened to; on another channel it is the ids of something else.
    """

    #: Whether the log already says why listening fails; each process logs it once.
    complained: ClassVar[bool] = False

    def __init__(
        self,
        closed: Callable[[uuid.UUID], None],
        look: Callable[[], Awaitable[None]],
        channel: str = CHANNEL,
    ) -> None:
        self.closed = closed
        self.look = look
        self.channel = channel
        #: Whether nothing that is closed can be missed now.
        self.hears = False

    async def run(self) -> None:
        """Listen until cancelled; return at once if the database has no ``LISTEN``."""
        while True:
            try:
                params = _connection_params()
                if params is None:
                    return
                await self._listen(params)
            except TimeoutError:
                self._complain("no notification arrived in time; is there a pooler in between?")
            # The process polls instead, so no call fails.
            except Exception as error:
                self._complain(type(error).__name__)
            finally:
                self.hears = False
            await asyncio.sleep(RETRY)

    async def _listen(self, params: dict[str, Any]) -> None:
        from psycopg import AsyncConnection

        word = uuid.uuid4()
        async with asyncio.timeout(PATIENCE) as patience:
            connection = await AsyncConnection.connect(**params, autocommit=True)
            try:
                await connection.execute(f"LISTEN {self.channel}")
                await self.look()
                await between_requests(partial(tell, word, self.channel))
                async for notice in connection.notifies():
                    if notice.payload == str(word):
                        patience.reschedule(None)
                        self.hears = True
                        Listener.complained = False
                        logger.debug("The process listens to PostgreSQL and does not poll")
                        continue
                    # Whoever uses the database can say anything there.
                    with suppress(ValueError):
                        self.closed(uuid.UUID(notice.payload))
            finally:
                await connection.close()

    def _complain(self, reason: str) -> None:
        if not Listener.complained:
            Listener.complained = True
            logger.warning(
                "The process cannot listen to PostgreSQL; it polls instead",
                extra={"reason": reason},
            )


def _connection_params() -> dict[str, Any] | None:
    """Return the parameters of a connection that can listen; ``None`` if none can."""
    connection: Any = connections[write_alias()]
    if connection.vendor != "postgresql":
        return None
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    if not is_psycopg3:
        return None
    params: dict[str, Any] = KEEPALIVES | connection.get_connection_params()
    # Django's cursors are not asynchronous.
    params.pop("cursor_factory", None)
    return params
