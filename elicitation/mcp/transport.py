"""Connections over streamable HTTP that say what became of each request.

The SDK's own connection shows a host neither the status of a refusal nor its ``Retry-After``, and
one request that finds no server ends the session with every other call on it. Over a connection
that is made here both are known, so that an answer is given up only where the server can have
read it (specification, section 6).
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Final

import httpx2
import mcp
from django.views.decorators.debug import sensitive_variables
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED

from .dispatcher import Exchange, current_exchange
from .host import MODERN
from .replies import NEVER_SENT

__all__ = ["connect", "http_client"]

logger = logging.getLogger("elicitation")

#: Seconds to connect, to write and to wait for the pool; and to wait for the next bytes of a
#: server, which may hold a response open. They are the SDK's own.
TIMEOUT, READ_TIMEOUT = 30.0, 300.0

#: Seconds after which a connection that nobody uses is not used again. Servers close theirs after
#: some seconds, often five, and a request that meets the closing is lost, though nothing read it.
#: SDK and HTTP client leave it to chance: their own limit is five seconds, too.
IDLE: Final = 1.0

#: The requests that agree on a revision. If one fails, the error goes to the SDK as it is: from a
#: reply made here the SDK would conclude that the server speaks an older revision.
_NEGOTIATION: Final = frozenset({"server/discover", "initialize"})

#: Where a request says which exchange it belongs to.
_EXTENSION: Final = "elicitation.exchange"


@asynccontextmanager
async def connect(
    url: str, *, mode: str = MODERN, http: httpx2.AsyncClient | None = None, **options: Any
) -> AsyncIterator[mcp.Client]:
    """Connect to a server over streamable HTTP, for ``call_tool`` and ``resume``.

    Args:
        url: The URL of the server's endpoint.
        mode: As for ``mcp.Client``. The default is the revision that has rounds, and asks the
            server nothing first: with ``auto`` a server that is out of order for a moment is
            taken for one of an older revision, and parked calls cannot go on there.
        http: What ``http_client`` returned, which the caller closes; by default one of its own.
        options: Those of ``mcp.Client``, such as ``aclient_options`` returns.

    Raises:
        Exception: As ``mcp.Client``, in an exception group.
    """
    async with AsyncExitStack() as stack:
        if http is None:
            http = await stack.enter_async_context(http_client())
        streams = streamable_http_client(url, http_client=http)
        yield await stack.enter_async_context(mcp.Client(streams, mode=mode, **options))


def http_client(**options: Any) -> httpx2.AsyncClient:
    """Return an HTTP client for ``streamable_http_client`` of the SDK, or for ``connect``.

    A call over it is told apart from every other: one that finds no server is *not sent*, and
    the other calls of its session go on.

    Args:
        options: Those of ``httpx2.AsyncClient``, such as ``headers``, ``auth`` and ``timeout``.
    """
    options.setdefault("timeout", httpx2.Timeout(TIMEOUT, read=READ_TIMEOUT))
    limits = httpx2.Limits(max_connections=100, keepalive_expiry=IDLE)
    options.setdefault("limits", limits)
    if not options.keys() & {"cert", "trust_env", "verify"}:
        options["verify"] = _authorities()
    return _Client(**options)


@cache
def _authorities() -> ssl.SSLContext:
    """The certificates of the authorities, which take longer to read than most calls take."""
    return httpx2.create_ssl_context()


class _Client(httpx2.AsyncClient):
    """Notes what becomes of each MCP message, and answers itself for what fails."""

    def __init__(self, **options: Any) -> None:
        hooks = {name: list(each) for name, each in (options.pop("event_hooks", {})).items()}
        hooks["request"] = [*hooks.get("request", ()), _leaves]
        hooks["response"] = [_arrives, *hooks.get("response", ())]
        super().__init__(event_hooks=hooks, **options)

    # An error goes up to the SDK, which logs it; the request has what people answered.
    @sensitive_variables()
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        message = _message(request)
        if message is None or message.get("method") in _NEGOTIATION:
            return await super().send(request, **options)
        exchange = Exchange()
        if "id" in message and "method" in message:
            exchange = current_exchange() or exchange
        exchange.never_left = True
        request.extensions[_EXTENSION] = exchange
        try:
            response = await super().send(request, **options)
            if _is_json(response):
                # A body that is cut off fails here, and not in the SDK.
                await response.aread()
        except Exception as error:
            return _failed(request, message, error)
        return _noted(exchange, response)


async def _leaves(request: httpx2.Request) -> None:
    """Note that a request is handed to the network: a login may have failed before that."""
    exchange = request.extensions.get(_EXTENSION)
    if exchange is not None:
        exchange.never_left, exchange.status = False, None


async def _arrives(response: httpx2.Response) -> None:
    """Note the head of a response; after a login the request is sent again."""
    exchange = response.request.extensions.get(_EXTENSION)
    if exchange is not None:
        exchange.status = response.status_code
        exchange.retry_after = _seconds(response.headers.get("retry-after"))


def _noted(exchange: Exchange, response: httpx2.Response) -> httpx2.Response:
    """Note what a server wrote under an error status, and let a result be a result."""
    body = _read(response.content) if _is_json(response) else {}
    error = body.get("error")
    if isinstance(error, Mapping) and isinstance(error.get("code"), int):
        exchange.server_error = error["code"]
    if response.status_code >= 400 and "result" in body:
        # The SDK reads no result under such a status.
        return _answer(response.request, 200, body)
    return response


def _failed(
    request: httpx2.Request, message: Mapping[str, Any], error: Exception
) -> httpx2.Response:
    """Answer in the place of a server that did not: an exception here would end the session."""
    name = type(error).__name__
    exchange = request.extensions[_EXTENSION]
    # With a status, it is a login after a refusal that found nobody.
    if exchange.status is None and name in NEVER_SENT:
        exchange.never_left = True
    # The error's own text may quote a URL with a secret in it.
    logger.warning("A request to an MCP server failed", extra={"error": name})
    if "id" not in message or "method" not in message:
        # Nobody waits for a response to this one.
        return httpx2.Response(503, request=request)
    text = f"The connection failed: {name}"
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    return _answer(request, 200, reply | {"error": {"code": CONNECTION_CLOSED, "message": text}})


def _answer(request: httpx2.Request, status: int, body: Mapping[str, Any]) -> httpx2.Response:
    return httpx2.Response(status, json=dict(body), request=request)


def _message(request: httpx2.Request) -> Mapping[str, Any] | None:
    """Return the JSON-RPC message that a request carries, if it does."""
    if request.method != "POST" or not _is_json(request):
        return None
    message = _read(request.content)
    return message if message.get("jsonrpc") == "2.0" else None


def _is_json(message: httpx2.Request | httpx2.Response) -> bool:
    kind: str = message.headers.get("content-type", "")
    return kind.lower().startswith("application/json")


def _read(body: bytes) -> Mapping[str, Any]:
    try:
        message = json.loads(body)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _seconds(retry_after: str | None) -> float | None:
    """Read a ``Retry-After`` (RFC 9110, 10.2.3): seconds, or a date; ``None`` for neither."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:18])
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    now = datetime.now(UTC)
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds())
