"""A call, and a round of it, as values."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from django.utils import timezone

from ..conf import settings
from ..models import (
    MAX_LABEL_CHARS,
    MAX_NAME_CHARS,
    InvalidNameError,
    ParkedCall,
    check_name,
    encode_json,
    parked_call_id,
)
from ..store import DatabaseFormAnswerStore
from .tasks import Task

#: The methods of the requests that can ask (MCP 2026-07-28, basic/patterns/mrtr).
TOOL, PROMPT, RESOURCE = "tools/call", "prompts/get", "resources/read"
#: The number of the round in which nothing came back from the server yet: a worker is to make
#: the call.
STARTED = 0


def named(
    method: str, name: str, arguments: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, Any] | None]:
    """Return what is called as a row holds it: a name, and arguments.

    The URI of a resource stands in the arguments, whole. Its name is the URI as well; of one that
    is too long for a name, the beginning and a digest of all of it.

    Args:
        method: ``TOOL``, ``PROMPT`` or ``RESOURCE``.
        name: The name of the tool or prompt, or the resource's URI.
        arguments: Those of the tool or prompt.

    Raises:
        InvalidNameError: There is no such method, arguments that it does not take, or a URI that
            is no string.
    """
    if method == RESOURCE:
        if arguments:
            raise InvalidNameError("The arguments", "must be left out: a resource takes none")
        return _short(name), {"uri": name}
    if method == PROMPT:
        values = (arguments or {}).values()
        if not all(isinstance(value, str) for value in values):
            raise InvalidNameError("The arguments of a prompt", "must be strings")
    elif method != TOOL:
        raise InvalidNameError("The method", f"must be {TOOL}, {PROMPT} or {RESOURCE}")
    return name, arguments


def _short(uri: Any) -> str:
    """Return a URI as a name that a row can hold, and that no other URI has."""
    if not isinstance(uri, str) or len(uri) <= MAX_NAME_CHARS:
        return check_name("The URI", uri)
    for start in range(0, len(uri), MAX_NAME_CHARS):
        check_name("The URI", uri[start : start + MAX_NAME_CHARS], blank=True)
    digest = hashlib.sha256(uri.encode()).hexdigest()
    return f"{uri[: MAX_NAME_CHARS - len(digest) - 1]}…{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call as the host makes it, or made it before it was parked.

    ``method`` is ``TOOL``, ``PROMPT`` or ``RESOURCE``. ``tool`` is the name of the tool or prompt,
    or what ``named`` makes of a resource's URI, and ``arguments`` a JSON object. ``respondent_id``
    is the key of the person who is asked. ``call`` is the host's own id of the call; without one,
    the arguments tell calls of one tool apart. ``options`` hold what a retry has to repeat of the
    first request: its ``meta``, and its ``read_timeout`` in seconds.

    Raises:
        InvalidNameError: A name that no row can hold, or a respondent who has no row.
        TooLargeError: The arguments are no JSON, or too much of it.
    """

    scope: str
    server: str
    tool: str
    arguments: Mapping[str, Any] | None
    respondent_id: Any
    call: str = ""
    scope_label: str = ""
    method: str = TOOL
    options: Mapping[str, Any] = field(default_factory=dict)
    arguments_json: str = field(init=False)
    #: The key of the call's row.
    parked_call_id: uuid.UUID = field(init=False)

    def __post_init__(self) -> None:
        for name in ("scope", "server", "tool"):
            check_name(f"The {name}", getattr(self, name))
        check_name("The call", self.call, blank=True)
        check_name("The scope label", self.scope_label, blank=True)
        if len(self.scope_label) > MAX_LABEL_CHARS:
            raise InvalidNameError(
                "The scope label", f"is longer than {MAX_LABEL_CHARS} characters"
            )
        if self.respondent_id is None:
            raise InvalidNameError(
                "The respondent",
                "must be a user who is in the database, not an anonymous or unsaved one; pass "
                "None where nobody can be asked",
            )
        text = encode_json("arguments", self.arguments, settings.MAX_CALL_BYTES)
        object.__setattr__(self, "arguments_json", text)
        if not self.call:
            canonical = json.dumps(self.arguments, sort_keys=True)
            digest = hashlib.sha256(canonical.encode()).hexdigest()
            object.__setattr__(self, "call", f"arguments:{digest}")
        key = parked_call_id(
            scope=self.scope,
            call=self.call,
            server=self.server,
            tool=self.tool,
            method=self.method,
        )
        object.__setattr__(self, "parked_call_id", key)

    @classmethod
    def of(cls, parked: ParkedCall) -> Self:
        """Return the call of a parked row, with the arguments it was made with."""
        return cls(
            scope=parked.scope,
            server=parked.server,
            tool=parked.tool,
            arguments=json.loads(parked.arguments),
            respondent_id=parked.respondent_id,
            call=parked.call,
            scope_label=parked.scope_label,
            method=parked.method,
            options=json.loads(parked.options),
        )

    @property
    def answers(self) -> DatabaseFormAnswerStore:
        """The answers recorded for this call."""
        return DatabaseFormAnswerStore(
            scope=self.scope,
            call=self.call,
            respondent_id=self.respondent_id,
            parked_call_id=self.parked_call_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a server asks for before it goes on with a call (MCP 2026-07-28, MRTR).

    ``requests`` holds the requests by the server's keys, ``request_state`` what it wants back
    byte for byte, ``None`` where it sent none. Rounds are counted from 1; 0 is that of a call
    which a worker is to make. ``plain`` is a round
    that came as an error (MCP 2025-11-25, ``URLElicitationRequiredError``): its retry is the same
    call, and nothing more.
    """

    number: int
    # No part of a repr, which may end in a log: URLs carry secrets.
    requests: Mapping[str, Mapping[str, Any]] = field(repr=False)
    request_state: str | None = field(repr=False)
    received_at: datetime = field(default_factory=timezone.now)
    plain: bool = False
    #: The task that the server goes on with the call as.
    task: Task | None = None

    @classmethod
    def of(cls, parked: ParkedCall) -> Self:
        """Return the round in which a call was parked."""
        return cls(
            number=parked.round,
            requests=json.loads(parked.requests),
            request_state=json.loads(parked.request_state),
            received_at=parked.received_at,
            plain=parked.plain,
            task=Task.from_json(parked.task),
        )
