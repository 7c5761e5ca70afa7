"""Read what came back from a server: a result, a round, or an error and what that proves.

The table itself is ``calls.replies.REPLIES`` (specification, section 6). Without proof that a
request was refused before anything read it, it may have been acted on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from django.views.decorators.debug import sensitive_variables
from mcp import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    URL_ELICITATION_REQUIRED,
    InputRequiredResult,
    Result,
)
from pydantic import ValidationError

from ..calls import requests as asked
from ..calls.replies import REPLIES
from ..calls.rounds import Event
from ..calls.values import TOOL, Round
from ..core import SchemaRefusal
from .dispatcher import Exchange
from .methods import KINDS

#: Error codes of MCP 2026-07-28 (basic, streamable-http) that the SDK's client never makes itself.
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
INVALID_PARAMS = -32602

#: The reason with which the servers of several SDKs refuse a state they cannot read (any more).
INVALID_STATE = "invalid_request_state"

#: What servers say without that reason: SDKs and servers written by hand (docs/wire.md).
_STATE: Final = r"request[ _-]?state\b"
_REFUSED: Final = (
    r"(?:invalid|expired|unknown|tampered|forged|bad|corrupt|malformed|unrecogni[sz]ed|unreadable"
    r"|mismatch|verif(?:y|ied|ication)|signature|integrity|not valid|not issued|not one"
    r"|does not (?:match|belong)|belongs to|issued (?:for|to|by) an?(?:other)?\b|too old)"
)
_STATE_REFUSED: Final = re.compile(
    rf"\b{_REFUSED}\b.{{0,40}}?{_STATE}|{_STATE}.{{0,40}}?\b{_REFUSED}\b",
    re.IGNORECASE | re.DOTALL,
)
#: A state that can be used once was read, by whoever used it: the tool may have run.
_STATE_USED: Final = re.compile(r"\b(?:used|re-?used|consumed|spent|replay\w*|redeemed)\b", re.I)
#: Under which codes these texts are looked at. Servers raise others from inside of handlers, for
#: any reason. Apache Juneau has an expired state as -32022.
_STATE_CODES: Final = frozenset({INVALID_PARAMS, UNSUPPORTED_VERSION})

#: The exceptions of the HTTP client that say that nothing was written to the server.
NEVER_SENT: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"}
)


@sensitive_variables()
def read_reply(reply: Mapping[str, Any], method: str = TOOL) -> tuple[str, Any]:
    """Read the reply to a request of this method as it came over the wire.

    Returns:
        A code of ``REPLIES``, and the result, the ``InputRequiredResult``, or the reply itself.

    Raises:
        SchemaRefusal: It is no reply that MCP has.
    """
    kind = reply.get("resultType", "complete")
    if kind == "input_required":
        try:
            round = InputRequiredResult.model_validate(reply, by_name=False)
        except ValidationError:
            # Its text quotes what the server sent.
            raise SchemaRefusal("the server's reply is not one that MCP has") from None
        return ("input_required" if round.input_requests else "state_only"), round
    if kind == "task" and method == TOOL:
        # Of other requests it is an invalid reply (SEP-2663, Capability Negotiation).
        return "task", reply
    if kind != "complete":
        raise SchemaRefusal("the server's reply has a type that MCP does not have")
    return "result", _result(KINDS[method].result, reply)


def _result(model: type[Result], reply: Mapping[str, Any]) -> Result:
    """Return a result as it arrived, though it has what this SDK does not know."""
    try:
        return model.model_validate(reply, by_name=False)
    except ValidationError:
        names = {field.alias or name: name for name, field in model.model_fields.items() if name}
        values = {names.get(key, key): value for key, value in reply.items()}
        return model.model_construct(**{"meta": None, **values})


def round_of(result: InputRequiredResult, number: int, received_at: datetime) -> Round:
    """Return what a server asks for before it goes on."""
    return Round(
        number=number,
        requests={
            key: request.model_dump(by_alias=True, mode="json", exclude_none=True)
            for key, request in (result.input_requests or {}).items()
        },
        request_state=result.request_state,
        received_at=received_at,
    )


@sensitive_variables()
def round_of_error(error: MCPError, number: int, received_at: datetime) -> Round | None:
    """Return the round that a server of MCP 2025-11-25 asks for by an error, if it is that one.

    Client/elicitation, "URL Elicitation Required Error": URLs that have to be opened before the
    same request can succeed.

    Raises:
        SchemaRefusal: It does not say which.
    """
    if error.code != URL_ELICITATION_REQUIRED:
        return None
    data = error.data if isinstance(error.data, Mapping) else {}
    elicitations = data.get("elicitations")
    if not (
        isinstance(elicitations, list)
        and elicitations
        and all(isinstance(one, Mapping) and one.get("mode") == "url" for one in elicitations)
    ):
        raise SchemaRefusal("the server wants URLs to be opened and does not say which") from None
    return Round(
        number=number,
        requests={
            str(index): {"method": asked.ELICITATION, "params": params}
            for index, params in enumerate(elicitations)
        },
        request_state=None,
        received_at=received_at,
        plain=True,
    )


def judge(error: BaseException, exchange: Exchange) -> tuple[Event, str]:
    """Say what an error proves.

    Returns:
        The event of the engine, and a code: one of ``REPLIES``, or what the error was.
    """
    code = _proof(error, exchange)
    if code is not None:
        return REPLIES[code].event, code
    if isinstance(error, MCPError):
        return Event.UNKNOWN, f"error {error.code}"
    if isinstance(error, SchemaRefusal):
        return Event.UNKNOWN, "no valid reply"
    return Event.UNKNOWN, "broken off"


def _proof(error: BaseException, exchange: Exchange) -> str | None:
    """Return the code of ``REPLIES`` that this error proves, if it proves any."""
    if exchange.never_left or any(type(one).__name__ in NEVER_SENT for one in causes(error)):
        return "connect"
    if isinstance(error, MCPError):
        if refuses_state(error):
            return "invalid_request_state"
        if error.code == HEADER_MISMATCH:
            return "header_mismatch"
        if error.code == UNSUPPORTED_VERSION:
            return "unsupported_version"
    # A gateway, or a server's own JSON-RPC layer: with these a request goes to no handler.
    status = f"http_{exchange.status}"
    if status in REPLIES:
        return status
    if isinstance(error, MCPError):
        # The SDK's client makes this one itself for a bare HTTP 404, which proves the same.
        if error.code == METHOD_NOT_FOUND:
            return "method_not_found"
        # This one it makes itself for a reply that it cannot read, after the tool has run.
        if exchange.server_error == PARSE_ERROR == error.code:
            return "parse_error"
    return None


def refuses_state(error: MCPError) -> bool:
    """Whether the server refused a state that it could not read (any more).

    It is taken at its word only where the error is about the state alone. A text that calls a
    state used, or replayed, does not count: somebody has read it.
    """
    data = error.data
    if isinstance(data, Mapping) and data.get("reason") == INVALID_STATE:
        return True
    if error.code not in _STATE_CODES:
        return False
    texts = [text[:300] for text in (error.message, data) if isinstance(text, str)]
    return any(_STATE_REFUSED.search(text) for text in texts) and not any(
        _STATE_USED.search(text) for text in texts
    )


def is_refusal(error: BaseException | None) -> bool:
    """Whether the server itself replied, and not what it should; else the call broke off."""
    if isinstance(error, MCPError):
        return error.code not in (CONNECTION_CLOSED, REQUEST_TIMEOUT)
    return isinstance(error, SchemaRefusal)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what it came from, and what is in its groups."""
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            queue.extend(one.exceptions)
        # Not `__context__`: an error that a host was handling just then proves nothing here.
        queue.append(one.__cause__)


__all__ = [
    "NEVER_SENT",
    "causes",
    "is_refusal",
    "judge",
    "read_reply",
    "refuses_state",
    "round_of",
    "round_of_error",
]
