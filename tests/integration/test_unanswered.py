"""What a server is told where no person said no: ``decline``, or MCP's own word ``cancel``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mcp
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from mcp.types import CallToolRequestParams

from elicitation import calls, inbox
from elicitation.calls.in_call import answer_in_call
from elicitation.calls.replies import TooManyRoundsError
from elicitation.calls.requests import PolicyRefusal
from elicitation.mcp.client import client_options
from elicitation.models import Elicitation, ServerPolicy
from tests.integration.conftest import Host
from tests.integration.scripted import PLAN, ScriptedServer, accepted, ask, form, said, text
from tests.integration.test_in_call import FORM, answer_plan, names, server, together, when_asked

HostFor = Callable[[ScriptedServer], Host]
Act = Callable[[Elicitation, User], object]

#: What becomes of an elicitation, and whether a person said no by it.
ENDS: dict[str, tuple[Act, bool]] = {
    "declined": (lambda asked, user: inbox.decline(asked.pk, by=user), True),
    "withdrawn": (lambda asked, user: inbox.withdraw(asked.pk), False),
    "expired": (lambda asked, user: inbox.expire_now(asked.pk), False),
}


@pytest.fixture(params=["decline", "cancel"])
def word(request: pytest.FixtureRequest, settings: Any) -> str:
    settings.ELICITATION_UNANSWERED = request.param
    chosen: str = request.param
    return chosen


def one_round(params: CallToolRequestParams) -> Any:
    if params.input_responses is None:
        return ask(k=form("Which plan?", PLAN))
    return text(accepted(params, "k"))


@pytest.mark.parametrize("end", ENDS)
def test_a_parked_call_sends_it_where_no_person_said_no(
    host_for: HostFor, user: User, word: str, end: str
) -> None:
    act, said_no = ENDS[end]
    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending()
    act(Elicitation.objects.get(), user)
    assert said(host.resume(pending)) == "None"
    assert server.answers == [("decline" if said_no else word, None)]


def test_so_does_a_call_that_is_unattended(host_for: HostFor, word: str) -> None:
    host = host_for(server := ScriptedServer(one_round))
    assert said(host.call(respondent=None)) == "None"
    assert server.answers == [(word, None)]


def test_and_one_whose_server_may_not_ask_or_asks_too_often(
    host_for: HostFor, settings: Any, word: str
) -> None:
    settings.ELICITATION_MAX_ROUNDS = 1
    number = itertools.count()

    def tool(params: CallToolRequestParams) -> Any:
        return ask(str(next(number)), k=form("Which plan?", PLAN))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    host.answer(pending, plan="team")
    with pytest.raises(TooManyRoundsError):
        host.resume(pending)
    assert [action for action, _ in server.answers] == ["accept", word]
    assert pending.parked_call_id is not None
    assert calls.acknowledge(pending.parked_call_id)
    ServerPolicy.objects.update(policy="url")
    with pytest.raises(PolicyRefusal):
        host.call()
    assert [action for action, _ in server.answers] == ["accept", word, word]


@pytest.mark.parametrize("end", ENDS)
def test_in_the_middle_of_a_call_it_is_the_same(
    policy: ServerPolicy, user: User, word: str, end: str
) -> None:
    act, said_no = ENDS[end]
    told = async_to_sync(together)(
        answer_in_call(FORM, **names(user)), when_asked(lambda asked: act(asked, user))
    )
    assert told == {"action": "decline" if said_no else word}


def test_there_nobody_and_a_refusal_are_no_persons_decision_either(
    policy: ServerPolicy, user: User, settings: Any, word: str
) -> None:
    nobody = {"action": word}
    answer = async_to_sync(answer_in_call)
    assert answer(FORM, **names(user), timeout=0.05) == nobody
    assert answer(FORM, **names(None)) == nobody
    assert answer({"mode": "video", "message": "?"}, **names(user)) == nobody
    settings.ELICITATION_MAX_ROUNDS = 1
    assert answer(FORM, **names(user, call="c1"), timeout=0.05) == nobody
    assert answer(FORM, **names(user, call="c1")) == nobody
    assert Elicitation.objects.filter(call="c1").count() == 1

    def switch_off(question: Elicitation) -> None:
        answer_plan(user)(question)
        ServerPolicy.objects.update(policy="none")

    switched_off = async_to_sync(together)(
        answer_in_call(FORM, **names(user)), when_asked(switch_off)
    )
    assert switched_off == nobody


def test_nor_is_it_where_nobody_was_named_to_be_asked(policy: ServerPolicy, word: str) -> None:
    async def call() -> Any:
        options = await sync_to_async(client_options)("shop")
        async with mcp.Client(server, mode="legacy", **options) as client:
            return await client.call_tool("buy", {})

    assert said(async_to_sync(call)()) == word
