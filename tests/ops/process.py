"""One process of a host, that can be made to die at a named point as if its machine did.

``python -m tests.ops.process POINT ACTION ARGUMENT…``: POINT names where it kills itself; the app
knows nothing of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from io import StringIO
from typing import Any
from uuid import UUID

from tests.processes import use_test_database

if __name__ == "__main__":
    use_test_database()

import mcp
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.management import call_command

from elicitation import inbox
from elicitation.calls import parking
from elicitation.core import ElicitationError, ElicitationPending, FormAnswer
from elicitation.mcp.client import aclient_options, call_tool, resume
from elicitation.models import ParkedCall
from elicitation.signals import elicitation_closed


def die(*args: object, **kwargs: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def after(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        function(*args, **kwargs)
        die()

    return wrapper


def die_at(point: str) -> None:
    """Put the process's end where it was asked for."""
    if point == "after the ask's commit":
        parking.park = after(parking.park)
    elif point == "before the signal":
        # It is sent after the commit.
        elicitation_closed.send_robust = die  # type: ignore[method-assign]
    elif point == "before the retry":
        # The answers are taken with the claim.
        parking.resume = after(parking.resume)
    elif point == "before the close":
        parking.close = die
    else:
        raise ValueError(point)


async def go_on(address: str, work: Callable[[Any], Any]) -> dict[str, Any]:
    options = await aclient_options("shop")
    async with mcp.Client(address, mode="2026-07-28", **options) as client:
        try:
            result = await work(client.session)
        except ElicitationPending as pending:
            return {"pending": [str(key) for key in pending.elicitation_ids]}
        except ElicitationError as error:
            return {"error": error.code}
        except ParkedCall.DoesNotExist:
            return {"error": "finished"}
    return {"result": result.content[0].text}


def call(address: str, user_id: str, tool: str = "one") -> dict[str, Any]:
    """Call the tool, for the first time or again."""
    respondent = User.objects.get(pk=user_id)
    return async_to_sync(go_on)(
        address,
        lambda session: call_tool(
            session,
            server="shop",
            tool=tool,
            arguments={},
            scope="conversation",
            respondent=respondent,
        ),
    )


def answer(elicitation_id: str, user_id: str, name: str) -> str:
    """Answer, as the process of the site does that received the form."""
    by = User.objects.get(pk=user_id)
    return inbox.answer(UUID(elicitation_id), {"name": FormAnswer(other_text=name)}, by=by).state


def outbox(address: str) -> dict[str, Any]:
    """Run ``elicitation_resume`` once, with a host that goes on with its calls."""
    outcomes = []

    def take_up(parked_call_id: UUID, **kwargs: Any) -> None:
        run = async_to_sync(go_on)
        outcomes.append(
            run(address, lambda session: resume(session, parked_call_id, server="shop"))
        )

    elicitation_closed.connect(take_up)
    out = StringIO()
    try:
        call_command("elicitation_resume", stdout=out)
    finally:
        elicitation_closed.disconnect(take_up)
    return {"line": out.getvalue(), "outcomes": outcomes}


if __name__ == "__main__":
    die_at(sys.argv[1])
    actions: dict[str, Callable[..., Any]] = {"call": call, "answer": answer, "outbox": outbox}
    actions[sys.argv[2]](*sys.argv[3:])
