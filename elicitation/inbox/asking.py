"""Put elicitations in front of people, and take back what a call no longer asks."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db.models import Max, Q
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from ..conf import settings
from ..core import AnyElicitation, URLElicitation
from ..models import Elicitation, StoredFormAnswer, row_key
from ..signals import elicitation_asked, elicitation_closed
from ..store import in_transaction, write_alias
from .rows import announce, win

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser


State = Elicitation.State
Via = Elicitation.Via


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A validated question set of one round, before it is asked.

    ``requested_schema`` is the server's own JSON text, in its order; ``number`` counts
    identical question sets of the round from 0.
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
def ask(question: Question, **arguments: Any) -> Elicitation:
    """Put one elicitation in front of a person; arguments as for ``ask_all``."""
    (elicitation,) = ask_all([question], **arguments)
    return elicitation


@sensitive_variables()
def ask_all(
    questions: Sequence[Question],
    *,
    parked_call_id: uuid.UUID,
    scope: str,
    scope_label: str,
    call: str,
    round: int,
    respondent_id: Any,
    expires_at: datetime | None = None,
    in_call: bool = False,
    id: uuid.UUID | None = None,
) -> list[Elicitation]:
    """Put elicitations in front of a person; inside the transaction that parks their call.

    Args:
        questions: What is asked.
        parked_call_id: The call that asks.
        scope: Its scope.
        scope_label: What people see as the name of the scope.
        call: The host's id of the call.
        round: The call's round, from 1.
        respondent_id: The key of the person who is asked.
        expires_at: Until when; by default as long as ``ELICITATION_QUESTION_TTL`` says.
        in_call: Whether the server waits, so that the answer cannot outlive its request.
        id: The elicitation's own id, where the caller has to know it before.
    """
    now = timezone.now()
    rows = []
    for question in questions:
        asked = question.elicitation
        url = asked.url if isinstance(asked, URLElicitation) else None
        row = Elicitation(
            id=id or uuid.uuid4(),
            parked_call_id=parked_call_id,
            scope=scope,
            scope_key=row_key(scope),
            scope_label=scope_label,
            call=call,
            server=asked.server_name,
            policy_id=policy_key(asked.server_name),
            tool=asked.tool_name,
            key=asked.key,
            round=round,
            number=question.number,
            message=asked.message,
            requested_schema=question.requested_schema,
            url=url.text if url else "",
            url_host=url.host if url else "",
            url_id=asked.url_id if isinstance(asked, URLElicitation) else "",
            allow_confirmation=question.allow_confirmation,
            wide_limits=question.wide_limits,
            fingerprint=question.fingerprint,
            respondent_id=respondent_id,
            asked_at=now,
            expires_at=expires_at or now + settings.QUESTION_TTL,
            in_call=in_call,
        )
        # Parsed already: the exception that stops the call shows the questions.
        row.__dict__["schema"] = asked.schema
        rows.append(row)
    if len(rows) == 1:
        rows[0].save(using=write_alias(), force_insert=True)
    elif rows:
        Elicitation.objects.using(write_alias()).bulk_create(rows)
    for row in rows:
        announce(elicitation_asked, row)
    return rows


def policy_key(server: str) -> uuid.UUID:
    """Return the key of the operator's policy for the server of this configured name."""
    return row_key(server)


def ask_in_call(question: Question, **arguments: Any) -> Elicitation:
    """Put a question in front of a person while its server waits; arguments as for ``ask``.

    It gets a number of its own among identical ones of the call: each request waits for the
    answer to its own question.
    """

    def ask_it() -> Elicitation:
        rows = Elicitation.objects.using(write_alias()).of_call(arguments["parked_call_id"])
        same = rows.filter(fingerprint=question.elicitation.fingerprint())
        last = same.aggregate(last=Max("number"))["last"]
        numbered = dataclasses.replace(question, number=0 if last is None else last + 1)
        return ask(numbered, in_call=True, **arguments)

    return in_transaction(ask_it)


def recorded(parked_call_id: uuid.UUID, elicitation: AnyElicitation) -> int | None:
    """Return the number of an answer to this question that nobody waits for any more.

    An answer whose own request is still open belongs to that one.
    """
    answers = StoredFormAnswer.objects.using(write_alias()).of_call(parked_call_id)
    found = answers.filter(fingerprint=elicitation.fingerprint()).order_by("-recorded_at")
    rows = Elicitation.objects.using(write_alias()).of_call(parked_call_id)
    # Nor is it an answer that nobody gave one in time to a request that is gone.
    not_these = set(
        rows.filter(
            Q(in_call=True, expires_at__gt=timezone.now())
            | Q(state__in=(State.EXPIRED, State.WITHDRAWN))
        ).values_list("pk", flat=True)
    )
    numbers = found.values_list("number", "elicitation_id")
    return next((number for number, key in numbers if key not in not_these), None)


def consented(
    parked_call_id: uuid.UUID, elicitation: AnyElicitation, *, by: AbstractBaseUser
) -> bool:
    """Whether this person has agreed to open this address for this call, and may still do so."""
    rows = Elicitation.objects.using(write_alias()).of_call(parked_call_id)
    same = rows.for_respondent(by).filter(
        state=State.ANSWERED,
        fingerprint=elicitation.fingerprint(),
        closed_at__gt=timezone.now() - settings.ANSWER_TTL,
    )
    return isinstance(elicitation, URLElicitation) and same.exists()


def withdraw_all(elicitations: Iterable[Elicitation], *, reason: str) -> bool:
    """Withdraw what a call no longer asks; inside the transaction that parks or closes it.

    Args:
        elicitations: Pending ones of the call.
        reason: ``REPLACED`` or ``FINISHED``.

    Returns:
        Whether somebody was quicker, and closed one of them first.
    """
    now = timezone.now()
    was_quicker = False
    for elicitation in sorted(elicitations, key=lambda each: each.pk):
        if win(
            elicitation,
            state=State.WITHDRAWN,
            reason=reason,
            url="",
            closed_at=now,
            closed_via=Via.HOST,
            # There is nothing the server could be told of it.
            delivered_at=now,
            delivery=Elicitation.Delivery.DROPPED,
        ):
            announce(elicitation_closed, elicitation)
        else:
            was_quicker = True
    return was_quicker


aask_in_call = sync_to_async(ask_in_call)
aconsented = sync_to_async(consented)
arecorded = sync_to_async(recorded)
