"""Hear at once, on PostgreSQL, of questions that are closed in other processes.

Whoever closes a question whose server waits tells so with ``NOTIFY`` in the closing transaction:
PostgreSQL passes it on when that commits, and only then. A process in which calls wait hears it
on one connection for all of them (``LISTEN``), and asks the database nothing meanwhile.

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

from ..store import write_alias

logger = logging.getLogger("elicitation")

T = TypeVar("T")

#: Of the whole database; ids of questions tell one site from another that shares it.
CHANNEL = "elicitation_closed"
#: How long a connection has to be opened and to hear its first word, in seconds.
PATIENCE = 10.0
#: How long until listening is tried again after it failed, in seconds.
RETRY = 60.0

#: A connection that is silent for hours must notice that its other end is gone; the system looks
#: after half a minute, and no query is needed for that.
KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


def tell(elicitation_id: uuid.UUID) -> None:
    """Tell all who listen that a question is closed, once the transaction commits.

    Does nothing but on PostgreSQL.
    """
    connection = connections[write_alias()]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(elicitation_id)])


def stop_if_cancelled() -> None:
    """Raise ``CancelledError`` where this task was cancelled and was not told.

    A cancellation that comes while ``sync_to_async`` waits for its thread gets lost in it.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def in_no_request(work: Callable[[], T]) -> T:
    """Use the database for work that belongs to no request.

    Django looks after connections at the beginning and the end of requests only: without this
    one would stay open for good, and stay broken after the database was restarted.
    """
    close_old_connections()
    try:
        return work()
    finally:
        close_old_connections()


async def between_requests(work: Callable[[], T]) -> T:
    """Use the database from a task that belongs to no request."""
    result = await sync_to_async(in_no_request)(work)
    stop_if_cancelled()
    return result


class Listener:
    """Hears which questions are closed, as long as ``run`` runs in an event loop.

    Args:
        closed: Called with the id of each question that is closed in any process.
        look: Looks up what was closed before this began to hear.
    """

    #: Whether the log says already why nothing is heard; it says so once in a process.
    complained: ClassVar[bool] = False

    def __init__(
        self, closed: Callable[[uuid.UUID], None], look: Callable[[], Awaitable[None]]
    ) -> None:
        self.closed = closed
        self.look = look
        #: Whether nothing that is closed can be missed now.
        self.hears = False

    async def run(self) -> None:
        """Listen until cancelled; return where the database has nothing to listen to."""
        while True:
            try:
                params = _connection_params()
                if params is None:
                    return
                await self._listen(params)
            except TimeoutError:
                self._complain("nothing was heard in time; is there a pooler in between?")
            # Whatever it is, the questions are looked up instead, so no call suffers.
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
                await connection.execute(f"LISTEN {CHANNEL}")
                await self.look()
                await between_requests(partial(tell, word))
                async for notice in connection.notifies():
                    if notice.payload == str(word):
                        patience.reschedule(None)
                        self.hears = True
                        Listener.complained = False
                        logger.debug("PostgreSQL is listened to; no question is looked up")
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
                "PostgreSQL cannot be listened to; closed questions are looked up instead",
                extra={"reason": reason},
            )


def _connection_params() -> dict[str, Any] | None:
    """Return what a connection to the written database needs; ``None`` where none can listen."""
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
