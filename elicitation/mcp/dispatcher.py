"""A session's dispatcher that keeps two rules of MCP 2026-07-28 where the SDK 2.3 does not.

It also keeps each reply as the server sent it: the SDK may refuse to read one, and the tool has
run all the same.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mcp import ClientSession
from mcp.shared.dispatcher import CallOptions

logger = logging.getLogger("elicitation")


@dataclass(slots=True)
class Exchange:
    """What is known of one request and its reply.

    ``reply`` is the result as the server sent it. The rest is known only over a connection whose
    transport notes it (``transport``): the HTTP status, the seconds of ``Retry-After``, the code
    of a JSON-RPC error that the server itself sent, and whether the request left this host.
    """

    reply: Mapping[str, Any] | None = None
    status: int | None = None
    retry_after: float | None = None
    server_error: int | None = None
    never_left: bool = False


#: The exchange that the requests of this context belong to.
_exchange: ContextVar[Exchange | None] = ContextVar("elicitation_exchange", default=None)


@contextmanager
def noted() -> Iterator[Exchange]:
    """Note what becomes of the next request that is sent in this context."""
    exchange = Exchange()
    token = _exchange.set(exchange)
    try:
        yield exchange
    finally:
        _exchange.reset(token)


def current_exchange() -> Exchange | None:
    """Return the exchange that a transport notes its findings in."""
    return _exchange.get()


class Dispatcher:
    """Wraps the dispatcher of a session.

    A retry MUST have another JSON-RPC id than the request it retries (basic/patterns/mrtr). That
    was sent over another connection, and in each the SDK counts from 1.

    A result that does not say its ``resultType`` MUST be read as a complete one (basic). The SDK
    refuses it: the tool has run, and its result would be lost.
    """

    #: Whether the log says already that an SDK has no dispatcher to wrap; once in a process.
    complained = False

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    @classmethod
    def install(cls, session: ClientSession) -> None:
        """Let the requests that follow in this session keep these rules."""
        # It is private to the SDK: a later one may have none, and then calls by its own rules.
        dispatcher = getattr(session, "_dispatcher", None)
        if dispatcher is None:
            if not Dispatcher.complained:
                Dispatcher.complained = True
                logger.warning(
                    "This release of the MCP SDK has no dispatcher to wrap: its own rules hold "
                    "for the ids of requests and for results without a resultType"
                )
        elif not isinstance(dispatcher, cls):
            session._dispatcher = cls(dispatcher)

    @property
    def has_ended(self) -> bool:
        """Whether the connection is over: nothing can be sent any more."""
        # Private, too; without it an ended connection is noticed when a request fails.
        return bool(getattr(self._dispatcher, "_closed", False))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        own: CallOptions = {"request_id": str(uuid.uuid4())}
        if (exchange := _exchange.get()) is not None and self.has_ended:
            exchange.never_left = True
        reply: dict[str, Any] = await self._dispatcher.send_raw_request(
            method, params, own | (opts or {})
        )
        reply = {"resultType": "complete"} | reply
        if exchange is not None and exchange.reply is None:
            exchange.reply = reply
        return reply
