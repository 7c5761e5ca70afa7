"""How a call ended: what its row keeps of that, and what its host is told."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Protocol, Self

from django.db import transaction
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from ..conf import settings
from ..core import ElicitationRefusal
from ..models import ParkedCall
from ..signals import call_finished
from ..transactions import write_alias
from .refusals import WHERE
from .replies import (
    CallEndedError,
    RoundLostError,
    TooManyRoundsError,
    URLDeclinedError,
)

logger = logging.getLogger("elicitation")

Code = ParkedCall.Outcome

#: Reasons of ``given_up``: nobody went on with a call, or its pass through the rounds broke off.
NEVER_RESUMED, BROKEN_OFF = "never_resumed", "broken_off"
#: The reason of ``lost`` where the database was restored (``calls.restoring``).
RESTORED = "restored"
#: The reason of ``cancelled`` where the server was at work, and may run the tool all the same.
SERVER_AT_WORK = "server_at_work"
#: Why there is no result of a call that has finished.
TOO_LARGE = "too_large"


class AnyCall(Protocol):
    """What names a call: a ``Call``, or its row."""

    @property
    def parked_call_id(self) -> uuid.UUID: ...
    @property
    def respondent_id(self) -> Any: ...
    @property
    def scope(self) -> str: ...
    @property
    def call(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def tool(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a call ended, before it is written down.

    ``code`` is one of ``ParkedCall.Outcome``, ``reason`` another code that says why, and
    ``result`` what the server sent, as JSON.
    """

    code: str
    reason: str = ""
    # No part of a repr, which may end in a log: results can be private.
    result: Mapping[str, Any] | None = field(default=None, repr=False)

    @sensitive_variables()
    def changes(self) -> dict[str, Any]:
        """Return what changes in the row of the call."""
        text = "" if self.result is None else json.dumps(self.result, separators=(",", ":"))
        now = timezone.now()
        return {
            "ended_at": now,
            "outcome": self.code,
            "outcome_reason": self.reason[:64],
            "result": text if len(text) <= settings.MAX_RESULT_BYTES else "",
            "result_bytes": len(text),
            "outcome_expires_at": now + settings.RESULT_TTL,
            "look_at": now + settings.RESUME_AFTER,
            "looked": 0,
            # Nothing goes on from here, so nothing of the call is needed any more.
            "arguments": "null",
            "options": "{}",
            "requests": "{}",
            "request_state": "null",
            "task": "",
            "unsent_reason": "",
            "working_since": None,
            "lease": None,
            "leased_until": None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a call ended, as its row keeps it until the host acknowledges it.

    ``code`` is one of ``ParkedCall.Outcome``, ``reason`` another code that says why. ``scope``
    and ``call`` are the host's own ids. ``result`` is what the server sent, a JSON object as it
    arrived; ``None`` where there is none, or where its ``result_bytes`` are more than
    ``ELICITATION_MAX_RESULT_BYTES``. The times are aware datetimes.
    """

    parked_call_id: uuid.UUID
    code: str
    reason: str
    # No part of a repr, which may end in a log: results can be private.
    result: Mapping[str, Any] | None = field(repr=False)
    result_bytes: int
    scope: str
    call: str
    server: str
    tool: str
    #: What ``tool`` is the name of: ``tools/call``, ``prompts/get`` or ``resources/read``.
    method: str
    ended_at: datetime
    expires_at: datetime

    @classmethod
    def of(cls, row: ParkedCall) -> Self:
        """Return the outcome in the row of a call that has ended."""
        assert row.ended_at is not None
        assert row.outcome_expires_at is not None
        return cls(
            parked_call_id=row.pk,
            code=row.outcome,
            reason=row.outcome_reason,
            result=json.loads(row.result) if row.result else None,
            result_bytes=row.result_bytes,
            scope=row.scope,
            call=row.call,
            server=row.server,
            tool=row.tool,
            method=row.method,
            ended_at=row.ended_at,
            expires_at=row.outcome_expires_at,
        )

    @property
    def is_too_large(self) -> bool:
        """Whether there was a result, and it was not kept because of its size."""
        return self.result is None and self.result_bytes > 0

    @sensitive_variables()
    def as_tool_result(self) -> str:
        """Return what the agent's model gets to read: the result's text, or why there is none.

        A result without text is returned as JSON.
        """
        if (error := self.error()) is not None:
            return str(error)
        assert self.result is not None
        texts = [
            block["text"]
            for block in _blocks(self.result)
            if isinstance(block, dict) and isinstance(block.get("text"), str)
        ]
        return "\n\n".join(texts) or json.dumps(self.result)

    def error(self) -> Exception | None:
        """Return what ``call_tool`` and ``resume`` raise for it; ``None`` where there is a result.

        It is of the kind that was raised when the call ended.
        """
        if self.code == Code.FINISHED and self.result is not None:
            return None
        if self.code == Code.LOST:
            return RoundLostError(self.server, self.tool, self.reason)
        if self.code in (Code.REFUSED, Code.SWITCHED_OFF):
            refusal = ElicitationRefusal(
                f"What the server '{self.server}' asked before it runs '{self.tool}' was put to "
                f"nobody ({self.reason}). {WHERE}",
                code=self.reason,
                reason=self.reason,
            )
            refusal.result = self.result
            return refusal
        if self.code == Code.GIVEN_UP and (kind := _GIVEN_UP.get(self.reason)):
            return kind(self.server, self.tool)
        reason = TOO_LARGE if self.is_too_large else self.reason
        return CallEndedError(self.server, self.tool, self.code, reason)


def _blocks(result: Mapping[str, Any]) -> Iterable[Any]:
    """Return the blocks of content of a tool's, a prompt's or a resource's result."""
    if isinstance(messages := result.get("messages"), list):
        return [each.get("content") for each in messages if isinstance(each, dict)]
    return result.get("content") or result.get("contents") or ()


_GIVEN_UP: Mapping[str, type[TooManyRoundsError | URLDeclinedError]] = {
    "too_many_rounds": TooManyRoundsError,
    "url_declined": URLDeclinedError,
}


class AlreadyEnded(Exception):  # no error: the caller hands the outcome out
    """The call has ended, and its outcome waits to be acknowledged."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


def announce(call: AnyCall, code: str, *, told: int = 0) -> None:
    """Send ``call_finished`` once the transaction has committed.

    Args:
        call: The call.
        code: How it ended.
        told: How often its host was told before.
    """
    fields = {
        "parked_call_id": str(call.parked_call_id),
        "server": call.server,
        "tool": call.tool,
        "outcome": str(code),
    }
    send = partial(
        call_finished.send_robust,
        sender=ParkedCall,
        parked_call_id=call.parked_call_id,
        scope=call.scope,
        call=call.call,
        server=call.server,
        tool=call.tool,
        code=str(code),
    )

    def announce() -> None:
        if told:
            logger.warning(
                "Nobody acknowledged how a call ended; its host is told again",
                extra=fields | {"resent": told},
            )
        else:
            logger.info("A call has ended", extra=fields)
        send()

    transaction.on_commit(announce, using=write_alias(), robust=True)
