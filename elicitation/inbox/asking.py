"""Put elicitations in front of people, and take back what a call no longer asks."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from ..conf import settings
from ..core import AnyElicitation, URLElicitation
from ..models import DatabaseNow, Elicitation, StoredFormAnswer, row_key
from ..signals import elicitation_asked
from ..transactions import in_transaction, write_alias
from .rows import announce, withdraw_unasked

State = Elicitation.State


@dataclass(frozen=True, slots=True, kw_only=True)
class ElicitationRequest:
    """An elicitation of one round, read and validated, before it is put to a person.

    ``requested_schema`` is the server's own JSON text, in its order; ``number`` counts
    identical elicitations of the round from 0.
    """

    elicitation: AnyElicitation
    requested_schema: str
    allow_confirmation: bool
    number: int
    wide_limits: bool = False
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", self.elicitation.fingerprint())


@sensitive_variables()
def ask(request: ElicitationRequest, **arguments: Any) -> Elicitation:
    """Put one elicitation in front of a person; arguments as for ``ask_all``."""
    (elicitation,) = ask_all([request], **arguments)
    return elicitation


@sensitive_variables()
def ask_all(
    requests: Sequence[ElicitationRequest],
    *,
    parked_call_id: uuid.UUID,
    scope: str,
    scope_label: str,
    call: str,
    round: int,
    respondent_id: Any,
    method: str = "tools/call",
    expires_at: datetime | None = None,
    in_call: bool = False,
    id: uuid.UUID | None = None,
) -> list[Elicitation]:
    """Put elicitations in front of a person; inside the transaction that parks their call.

    Args:
        requests: What is asked.
        parked_call_id: The call that asks.
        scope: Its scope.
        scope_label: What people see as the name of the scope.
        call: The host's id of the call.
        round: The call's round, from 1.
        respondent_id: The key of the person who is asked.
        method: What is called: a tool, a prompt or a resource.
        expires_at: Until when; by default as long as ``ELICITATION_QUESTION_TTL`` says.
        in_call: Whether the server waits, so that the answer cannot outlive its request.
        id: The elicitation's own id, where the caller has to know it before.
    """
    now = timezone.now()
    rows = []
    for request in requests:
        asked = request.elicitation
        url = asked.url if isinstance(asked, URLElicitation) else None
        row = Elicitation(
            id=id or uuid.uuid4(),
            parked_call_id=parked_call_id,
            scope=scope,
            scope_key=row_key(scope),
            scope_label=scope_label,
            call=call,
            server=asked.server_name,
            policy_id=row_key(asked.server_name),
            tool=asked.tool_name,
            method=method,
            key=asked.key,
            round=round,
            number=request.number,
            message=asked.message,
            requested_schema=request.requested_schema,
            url=url.text if url else "",
            url_host=url.host if url else "",
            url_id=asked.url_id if isinstance(asked, URLElicitation) else "",
            allow_confirmation=request.allow_confirmation,
            wide_limits=request.wide_limits,
            fingerprint=request.fingerprint,
            respondent_id=respondent_id,
            asked_at=now,
            expires_at=expires_at or now + settings.QUESTION_TTL,
            in_call=in_call,
            alive_until=DatabaseNow() + settings.ALIVE if in_call else None,
        )
        # Parsed already: the exception that stops the call shows the questions.
        row.__dict__["schema"] = asked.schema
        rows.append(row)
    if len(rows) == 1:
        rows[0].save(using=write_alias(), force_insert=True)
    elif rows:
        Elicitation.objects.using(write_alias()).bulk_create(rows)
    for row in rows:
        if in_call:
            # Until it is read again this is an expression, and no moment.
            row.alive_until = None
        announce(elicitation_asked, row)
    return rows


def ask_in_call(request: ElicitationRequest, *, id: uuid.UUID, **arguments: Any) -> Elicitation:
    """Ask a person while the server waits for the answer; inside a transaction.

    Arguments are as for ``ask``. Each request gets the answer to its own elicitation: two
    that ask the same at the same moment, in two processes, must not have one key.
    """
    numbered = dataclasses.replace(request, number=id.int >> _NOT_OF_THE_NUMBER)
    return ask(numbered, id=id, in_call=True, **arguments)


#: How many bits of a random UUID do not fit into a row's number.
_NOT_OF_THE_NUMBER = 128 - 63


def keep_alive(elicitation_ids: Collection[uuid.UUID]) -> None:
    """Give a sign of life for those that this process waits for in the middle of calls."""
    rows = Elicitation.objects.using(write_alias()).filter(pk__in=elicitation_ids)
    alive = rows.filter(alive_until__isnull=False)
    in_transaction(lambda: alive.update(alive_until=DatabaseNow() + settings.ALIVE))


def recorded(parked_call_id: uuid.UUID, fingerprint: str) -> int | None:
    """Return the number of an answer to this fingerprint that no request waits for any more.

    An answer whose own request is still open belongs to that one. Declines that were recorded
    because an elicitation has expired or was withdrawn are skipped.
    """
    alias = write_alias()
    answers = StoredFormAnswer.objects.using(alias).of_call(parked_call_id)
    found = answers.filter(fingerprint=fingerprint).order_by("-recorded_at")
    numbers = list(found.values_list("number", "elicitation_id"))
    if not numbers:
        return None
    rows = Elicitation.objects.using(alias).of_call(parked_call_id)
    not_these = set(
        rows.filter(
            Q(alive_until__gt=DatabaseNow()) | Q(state__in=(State.EXPIRED, State.WITHDRAWN))
        ).values_list("pk", flat=True)
    )
    return next((number for number, key in numbers if key not in not_these), None)


def consented(
    parked_call_id: uuid.UUID, request: ElicitationRequest, *, respondent_id: Any
) -> bool:
    """Whether this person has agreed to open this URL for this call, and may still do so."""
    rows = Elicitation.objects.using(write_alias()).of_call(parked_call_id)
    same = rows.filter(
        respondent=respondent_id,
        state=State.ANSWERED,
        fingerprint=request.fingerprint,
        closed_at__gt=timezone.now() - settings.ANSWER_TTL,
    )
    return isinstance(request.elicitation, URLElicitation) and same.exists()


def withdraw_all(elicitations: Iterable[Elicitation], *, reason: str) -> bool:
    """Withdraw what a call no longer asks; inside the transaction that parks or closes it.

    Args:
        elicitations: Pending ones of the call.
        reason: ``REPLACED`` or ``FINISHED``.

    Returns:
        Whether somebody was quicker, and closed one of them first.
    """
    was_quicker = False
    for elicitation in sorted(elicitations, key=lambda each: each.pk):
        if not withdraw_unasked(elicitation, reason=reason):
            was_quicker = True
    return was_quicker
