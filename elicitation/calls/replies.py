"""What came back from a server, and what it means for the call and its answers.

Specification, section 6. ``REPLIES`` is that table: every row with the event that it is for the
engine (``rounds``), why, and where that is written or was seen.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from ..conf import settings
from ..core import ElicitationError, ElicitationPending
from .rounds import Event


class Reply(NamedTuple):
    """One row of the table."""

    event: Event
    #: Why: what can have happened at the server.
    why: str
    #: Where that is said, or was seen.
    source: str


#: The one code here with which nobody can know whether the server read what was sent.
CONSENT: Final = "consent_broken_off"

_STREAMABLE = "MCP 2026-07-28, basic/transports/streamable-http"
_PYTHON = "seen: Python SDK 2.3"
_HTTP = "RFC 9110"

#: What a reply or an error means, by a code of this package.
REPLIES: Final[Mapping[str, Reply]] = MappingProxyType(
    {
        "result": Reply(Event.RESULT, "the request was completed", "MCP 2026-07-28, basic"),
        "input_required": Reply(
            Event.ASKS, "the server asks before it goes on", "MCP 2026-07-28, mrtr"
        ),
        "state_only": Reply(
            Event.WORKS, "the server is at work and wants its state back", "MCP 2026-07-28, mrtr"
        ),
        "task": Reply(Event.TASK, "the call goes on as a task", "SEP-2663"),
        "task_not_read": Reply(
            Event.NOT_SENT, "a task could not be read; to read it changes nothing", "SEP-2663"
        ),
        "invalid_request_state": Reply(
            Event.UNREAD,
            "the server could not read its state, and says so instead of acting on the answer",
            "seen: SDKs of six languages (docs/wire.md)",
        ),
        "header_mismatch": Reply(
            Event.NOT_SENT,
            "the server refused the headers before it read the request",
            f"{_STREAMABLE}, Server Validation",
        ),
        "connect": Reply(
            Event.NOT_SENT, "no connection was made: nothing was written", "seen: httpx2 2.16"
        ),
        "wrong_revision": Reply(
            Event.NOT_SENT,
            "the session did not agree on 2026-07-28: its server would ignore the answers",
            _PYTHON,
        ),
        "parse_error": Reply(
            Event.NOT_SENT, "the server says that it read no JSON", "JSON-RPC 2.0, section 5.1"
        ),
        "method_not_found": Reply(
            Event.NOT_SENT,
            "the server has no such method, or HTTP 404 as a session of the SDK says it",
            "MCP 2026-07-28, basic; " + _PYTHON,
        ),
        "unsupported_version": Reply(
            Event.NOT_SENT, "the server does not speak this revision", "MCP 2026-07-28, basic"
        ),
        **{
            f"http_{status}": Reply(
                Event.NOT_SENT, f"HTTP {status} is answered before a request is handled", source
            )
            for status, source in {
                401: f"{_HTTP} 15.5.2",
                403: f"{_STREAMABLE}, Security",
                404: f"{_HTTP} 15.5.5",
                405: f"{_HTTP} 15.5.6",
                406: f"{_HTTP} 15.5.7",
                413: f"{_HTTP} 15.5.14",
                415: f"{_HTTP} 15.5.16",
                421: f"{_HTTP} 15.5.20",
                429: "RFC 6585, section 4",
                503: f"{_HTTP} 15.6.4",
            }.items()
        },
        CONSENT: Reply(
            Event.NOT_SENT,
            "the connection broke with nothing on its way but consents to open URLs, which can be "
            "sent again",
            "docs/url-mode.md",
        ),
        "unknown": Reply(Event.UNKNOWN, "the server may have acted on the request", _PYTHON),
    }
)


#: Why a round is lost where it is not for a reply that proves nothing: the server refused its
#: state unread again, was at work for longer than ``ELICITATION_WORKING_TTL``, or went on to what
#: the database could not store.
UNREAD_AGAIN, WORKING_TOO_LONG = "invalid_request_state", "working_too_long"
NOT_STORED: Final = "not_stored"

_CHECK: Final = "Check what the tool has done before calling it again; "
_NEW_CALL: Final = "a new call starts from the beginning and may ask the person again."

#: What the text of ``RoundLostError`` says for each of these reasons, and for all others.
_LOST: Final[Mapping[str, str]] = MappingProxyType(
    {
        UNREAD_AGAIN: "The server '{server}' refused twice to go on with '{tool}', because it "
        "could not read its own request state ({reason}): it says that it read none of the "
        "answers on their way. They are gone, and are not sent a third time. What the tool did "
        "before that stays done; " + _NEW_CALL,
        WORKING_TOO_LONG: "The server '{server}' has been at work on '{tool}' for longer than "
        "ELICITATION_WORKING_TTL ({reason}), and is not asked for the result any more. The tool "
        "may have run, or may run still. " + _CHECK + _NEW_CALL,
        NOT_STORED: "The server '{server}' went on with '{tool}' and then asked what could not be "
        "stored, because the database failed ({reason}): the call cannot go on. The tool has run "
        "as far as that. " + _CHECK + _NEW_CALL,
    }
)
_NOBODY_KNOWS: Final = (
    "Nobody can know whether the server '{server}' acted on what it was sent for '{tool}' "
    "({reason}): the tool may have run. Nothing is sent again, and the answers on their way are "
    "gone. " + _CHECK + _NEW_CALL
)


class RoundLostError(ElicitationError):
    """The call is over without a result, and its tool may have run, or have run in part.

    Mostly nobody can know whether the server acted on what it was sent; nothing is sent again.
    ``reason`` says what came back, and the text is the one for that reason.
    """

    def __init__(self, server: str, tool: str, reason: str) -> None:
        self.reason = reason
        text = _LOST.get(reason, _NOBODY_KNOWS)
        super().__init__(text.format(server=server, tool=tool, reason=reason), code="round_lost")


class NotSentError(ElicitationError):
    """The request did not reach the server, or it was refused before anything read it.

    The tool did nothing because of it, with one exception: the connection broke while consents to
    open URLs were on their way, and ``may_have_run`` is true. The call stays parked and its
    answers stay usable until their time is up; ``elicitation_closed`` or ``call_due`` is sent
    when it can be tried again. ``reason`` is a code of ``REPLIES``, ``retry_at`` an aware
    datetime.
    """

    def __init__(
        self,
        server: str,
        tool: str,
        reason: str,
        *,
        parked_call_id: uuid.UUID | None = None,
        retry_at: datetime | None = None,
    ) -> None:
        self.reason = reason
        self.may_have_run = reason == CONSENT
        self.parked_call_id = parked_call_id
        self.retry_at = retry_at
        what = (
            f"The connection to the server '{server}' broke while it was sent a consent for "
            f"'{tool}' ({reason}). The tool may have run. The consent is kept, and is sent again."
            if self.may_have_run
            else f"The call of '{tool}' did not reach the server '{server}', or was refused "
            f"before anything read it ({reason}). Nothing was done because of it, and what "
            "people answered is kept."
        )
        when = "" if retry_at is None else f" Try again after {retry_at:%Y-%m-%d %H:%M:%S %Z}."
        super().__init__(what + when, code="not_sent")


class ServerWorkingPending(ElicitationPending):
    """The server is at work on the call and asks nothing.

    ``look_at`` is when the call is looked after next, an aware datetime. It may
    go on with the call as a task (MCP's Tasks extension).
    """

    def __init__(
        self,
        server: str,
        tool: str,
        *,
        parked_call_id: uuid.UUID | None = None,
        look_at: datetime | None = None,
    ) -> None:
        super().__init__(
            server_name=server,
            tool_name=tool,
            message="",
            questions=[],
            fingerprint="",
            parked_call_id=parked_call_id,
        )
        self.code = "working"
        self.look_at = look_at

    def as_tool_result(self) -> str:
        """A text for the agent's model. It repeats nothing that the server wrote."""
        return (
            "The call goes on at the MCP server, which is still at work. Nobody has to answer "
            "anything. Do not make the call again: the result is fetched when it is there."
        )


class URLDeclinedError(ElicitationError):
    """The server runs the tool only once a person has opened a URL, and nobody agreed to.

    If it said so by an error (``URLElicitationRequiredError``), there is no way to tell it.
    """

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(
            f"The server '{server}' does not run '{tool}' before a person has opened a URL, "
            "and nobody agreed to open it.",
            code="url_declined",
        )


class TooManyRoundsError(ElicitationError):
    """The server goes on asking after its last elicitations were declined."""

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(
            f"The server '{server}' goes on asking in the call of '{tool}', which was given "
            f"up. ELICITATION_MAX_ROUNDS is {settings.MAX_ROUNDS}.",
            code="too_many_rounds",
        )


class CallEndedError(ElicitationError):
    """The call has ended, and there is no result to return.

    ``outcome`` is a code of ``ParkedCall.Outcome``, and ``reason`` another that says why: of
    ``finished`` it is ``too_large``, as the result has more bytes than
    ``ELICITATION_MAX_RESULT_BYTES``.
    """

    def __init__(self, server: str, tool: str, outcome: str, reason: str) -> None:
        self.outcome = outcome
        self.reason = reason
        why = f"{outcome}: {reason}" if reason else outcome
        super().__init__(
            f"The call of '{tool}' at the server '{server}' has ended, and there is no result to "
            f"return ({why}). Acknowledge its outcome before you make the same call again.",
            code="call_ended",
        )
