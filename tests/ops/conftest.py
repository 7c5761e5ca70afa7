from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from elicitation import inbox
from elicitation.calls import parking
from elicitation.calls.lease import Lease
from elicitation.calls.values import Call, Round
from elicitation.core import FormAnswer
from elicitation.models import Elicitation, ServerPolicy
from elicitation.signals import elicitation_closed
from elicitation.transactions import in_transaction

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
#: What no log line, signal, e-mail or export may hold.
ANSWER = "the-answer-itself"


def request(message: str = "Who?") -> dict[str, Any]:
    params = {"mode": "form", "message": message, "requestedSchema": NAME}
    return {"method": "elicitation/create", "params": params}


def park(
    user: User, *messages: str, call: str = "call-1", resumed: bool = False, round: int = 1
) -> list[Elicitation]:
    """Park a call that asks these questions, as the SDK integration does."""
    made = Call(
        scope="chat-1", server="shop", tool="buy", arguments={}, respondent_id=user.pk, call=call
    )
    asked = Round(
        number=round,
        requests={f"k{n}": request(message) for n, message in enumerate(messages or ["Who?"])},
        request_state="state",
    )
    ServerPolicy.objects.get_or_create(server="shop", defaults={"policy": "url_and_form"})
    lease = claimed(made.parked_call_id) if resumed else None
    return list(parking.park(made, asked, lease=lease).waiting)


def claimed(parked_call_id: UUID) -> Lease:
    """Claim a call, as the process does that resumes it."""
    lease = Lease(parked_call_id=parked_call_id)
    assert in_transaction(lease.claim)
    return lease


def answer(elicitation: Elicitation, user: User, name: str = ANSWER) -> Elicitation:
    return inbox.answer(elicitation.pk, {"name": FormAnswer(other_text=name)}, by=user)


def age(elicitation: Elicitation, **seconds: float) -> None:
    """Move times of a question's row into the past by so many seconds."""
    now = timezone.now()
    changes = {name: now - timedelta(seconds=value) for name, value in seconds.items()}
    Elicitation.objects.filter(pk=elicitation.pk).update(**changes)


@pytest.fixture
def sent() -> Iterator[list[dict[str, Any]]]:
    """What ``elicitation_closed`` carried, as it was sent."""
    received: list[dict[str, Any]] = []

    def receive(**kwargs: Any) -> None:
        received.append(kwargs)

    elicitation_closed.connect(receive)
    yield received
    elicitation_closed.disconnect(receive)


@pytest.fixture
def lost(user: User) -> Callable[..., Elicitation]:
    """Return a function that makes a question that was answered, and its host not told."""

    def make(call: str = "call-1") -> Elicitation:
        (asked,) = park(user, call=call)
        closed = answer(asked, user)
        age(closed, resume_at=1)
        return closed

    return make
