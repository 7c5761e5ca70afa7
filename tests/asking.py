"""Puts questions in front of people, for tests: through the inbox, as a parked call does."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from elicitation import inbox
from elicitation.core import (
    NO_PROPERTIES_JSON,
    FormElicitation,
    URLElicitation,
    parse_elicitation_url,
    parse_requested_schema,
)
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, row_key

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SERVER = "shop"


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    """Return a requested schema; ``required`` are names."""
    return {"type": "object", "properties": properties, "required": list(required)}


def form_elicitation(requested: Any, message: str = "", server: str = SERVER) -> FormElicitation:
    """Return a validated question that is not stored."""
    return FormElicitation(
        server_name=server,
        tool_name="buy",
        key="k",
        message=message,
        schema=parse_requested_schema(requested, allow_confirmation=True),
    )


def request(
    requested: Any, message: str = "Please answer.", *, server: str = SERVER, tool: str = "buy"
) -> inbox.ElicitationRequest:
    """Return what a server asks, before it is put to anybody."""
    text = json.dumps(requested)
    parsed = parse_requested_schema(text, allow_confirmation=True)
    return inbox.ElicitationRequest(
        elicitation=FormElicitation(
            server_name=server, tool_name=tool, key="k", message=message, schema=parsed
        ),
        requested_schema=text,
        allow_confirmation=True,
        number=0,
    )


def ask(
    user: User,
    requested: Any,
    message: str = "Please answer.",
    *,
    server: str = SERVER,
    tool: str = "buy",
    scope: str = "chat-1",
    scope_label: str = "",
    call: str = "call-1",
    round: int = 1,
    parked_call_id: uuid.UUID | None = None,
    **changes: Any,
) -> Elicitation:
    """Put a question in front of a person; ``changes`` are made to its row afterwards."""
    elicitation = inbox.ask(
        request(requested, message, server=server, tool=tool),
        parked_call_id=parked_call_id or uuid.uuid4(),
        scope=scope,
        scope_label=scope_label,
        call=call,
        round=round,
        respondent_id=user.pk,
    )
    if changes:
        Elicitation.objects.filter(pk=elicitation.pk).update(**changes)
        elicitation.refresh_from_db()
    return elicitation


def ask_to_open(
    user: User,
    address: str = "https://login.example.com/start?token=t0p",
    message: str = "Sign in.",
    *,
    server: str = SERVER,
    scope: str = "chat-1",
    call: str = "call-1",
    round: int = 1,
    parked: bool = False,
    **changes: Any,
) -> Elicitation:
    """Ask a person to open an address; ``parked`` makes the row of the call that waits, too."""
    call_row = uuid.uuid4()
    elicitation = inbox.ask(
        inbox.ElicitationRequest(
            elicitation=URLElicitation(
                server_name=server,
                tool_name="buy",
                key="k",
                message=message,
                url=parse_elicitation_url(address, allow_loopback_http=True),
            ),
            requested_schema=NO_PROPERTIES_JSON,
            allow_confirmation=True,
            number=0,
        ),
        parked_call_id=call_row,
        scope=scope,
        scope_label="",
        call=call,
        round=round,
        respondent_id=user.pk,
    )
    if parked:
        park(user, call_row, server=server, scope=scope, call=call, round=round)
    if changes:
        Elicitation.objects.filter(pk=elicitation.pk).update(**changes)
        elicitation.refresh_from_db()
    return elicitation


def park(
    user: User,
    parked_call_id: uuid.UUID,
    *,
    server: str = SERVER,
    scope: str = "chat-1",
    call: str = "call-1",
    round: int = 1,
) -> ParkedCall:
    """Make the row of a call that waits for a person."""
    return ParkedCall.objects.create(
        id=parked_call_id,
        scope=scope,
        scope_key=row_key(scope),
        call=call,
        server=server,
        tool="buy",
        respondent=user,
        arguments="{}",
        round=round,
        requests="{}",
        request_state="null",
        received_at=timezone.now(),
    )


def allow(server: str = SERVER, **decisions: Any) -> ServerPolicy:
    """Let a server show forms."""
    return ServerPolicy.objects.create(
        server=server, policy=ServerPolicy.Policy.URL_AND_FORM, **decisions
    )
