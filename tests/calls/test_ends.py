"""In whatever way a call ends: its outcome is stored, its host told, and handed out again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.utils import timezone
from mcp import MCPError
from mcp.types import CallToolRequestParams

from elicitation import calls, inbox
from elicitation.calls import outbox, parking
from elicitation.calls.ended import Ended
from elicitation.core import ElicitationPending, ElicitationRefusal
from elicitation.mcp import drive
from elicitation.mcp.client import (
    AnotherRespondentError,
    CallEndedError,
    RoundLostError,
    TooManyRoundsError,
    URLDeclinedError,
    WrongServerError,
)
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from elicitation.signals import call_finished, elicitation_closed
from tests.integration.conftest import Host
from tests.integration.scripted import PLAN, ScriptedServer, ask, form, said, text
from tests.integration.test_rounds import one_round

HostFor = Callable[[ScriptedServer], Host]
Finished = list[dict[str, Any]]

Way = Callable[[ElicitationPending, Host], None]


class Tool:
    """A tool that asks for a plan, and then does what a test wants."""

    def __init__(self, then: Callable[[CallToolRequestParams], Any], **first: Any) -> None:
        self.then = then
        self.first = first or {"k": form("Which plan?", PLAN)}

    def __call__(self, params: CallToolRequestParams) -> Any:
        return self.then(params) if params.input_responses else ask(**self.first)


def fails(params: CallToolRequestParams) -> Any:
    raise MCPError(-32000, "no")


def asks_for_a_key(params: CallToolRequestParams) -> Any:
    if "again" in (params.input_responses or {}):
        return text("ran without it")
    key = {"type": "object", "properties": {"api_key": {"type": "string"}}}
    return ask(again=form("Key?", key))


def asks_without_end(params: CallToolRequestParams) -> Any:
    return ask(str(next(_numbers)), k=form("Which plan?", PLAN))


_numbers = itertools.count()

#: What the tool does once it was answered; the code and the reason; what the host gets.
REPLIES: dict[str, tuple[Callable[[CallToolRequestParams], Any], str, str, type[Exception] | None]]
REPLIES = {
    "a result": (lambda params: text("done"), "finished", "", None),
    "an error of the tool": (lambda params: text("no", is_error=True), "finished", "", None),
    "an error of the server": (fails, "lost", "error -32000", RoundLostError),
    "no valid reply": (lambda params: {"content": 7}, "lost", "", RoundLostError),
    "what nobody is asked": (asks_for_a_key, "refused", "credential", ElicitationRefusal),
    "without end": (asks_without_end, "given_up", "too_many_rounds", TooManyRoundsError),
}


def goes_on(host: Host, pending: ElicitationPending) -> Any:
    """Resume a call; return its result, or the error that it ended with."""
    try:
        return host.resume(pending)
    except Exception as error:
        return error


def is_handed_out_again(host: Host, pending: ElicitationPending, got: Any) -> None:
    """Whether the same call made again, and a resume, give what the host got, and run nothing."""
    before = len(host.server.calls)
    for again in (host.call, lambda: host.resume(pending)):
        if isinstance(got, Exception):
            # Of a refusal its code is kept, and not the property that it was about.
            refused = isinstance(got, ElicitationRefusal)
            with pytest.raises(ElicitationRefusal if refused else type(got)) as caught:
                again()
            assert getattr(caught.value, "code", "") == getattr(got, "code", "")
            assert getattr(caught.value, "result", None) == getattr(got, "result", None)
        else:
            assert again() == got
    assert len(host.server.calls) == before


def is_acknowledged_once(host: Host, pending: ElicitationPending) -> None:
    assert pending.parked_call_id is not None
    assert calls.acknowledge(pending.parked_call_id)
    assert not calls.acknowledge(pending.parked_call_id)
    with pytest.raises(ParkedCall.DoesNotExist):
        calls.outcome(pending.parked_call_id)
    with pytest.raises(ParkedCall.DoesNotExist):
        host.resume(pending)
    # From now on it is a new call.
    assert host.pending().parked_call_id == pending.parked_call_id


@pytest.mark.parametrize("how", REPLIES)
def test_by_what_the_server_replied(
    host_for: HostFor, finished: Finished, settings: Any, how: str
) -> None:
    then, code, reason, error = REPLIES[how]
    settings.ELICITATION_MAX_ROUNDS = 2
    host = host_for(ScriptedServer(Tool(then)))
    pending = host.pending()
    host.answer(pending, plan="team")
    got = goes_on(host, pending)
    if isinstance(got, ElicitationPending):
        host.answer(got, plan="solo")
        got = goes_on(host, pending)
    assert isinstance(got, error) if error else not isinstance(got, Exception)
    assert pending.parked_call_id is not None
    outcome = calls.outcome(pending.parked_call_id)
    assert (outcome.code, outcome.server, outcome.tool) == (code, "shop", "tool")
    assert outcome.reason == reason or not reason
    assert (outcome.scope, outcome.call[:10]) == ("conversation-1", "arguments:")
    assert outcome.expires_at - outcome.ended_at == timedelta(days=7)
    assert finished == [
        {
            "sender": ParkedCall,
            "parked_call_id": pending.parked_call_id,
            "scope": outcome.scope,
            "call": outcome.call,
            "server": "shop",
            "tool": "tool",
            "code": code,
        }
    ]
    is_handed_out_again(host, pending, got)
    is_acknowledged_once(host, pending)


def test_a_result_is_kept_as_it_arrived(host_for: HostFor) -> None:
    result = {
        "content": [{"type": "text", "text": "\U0001f600 é", "annotations": {"priority": 0.5}}],
        "structuredContent": {"b": 1e16, "a": [None, True]},
        "isError": False,
        "_meta": {"x.example/y": {"z": 1}},
    }
    host = host_for(ScriptedServer(Tool(lambda params: {"resultType": "complete", **result})))
    pending = host.pending()
    host.answer(pending, plan="team")
    host.resume(pending)
    assert pending.parked_call_id is not None
    kept = calls.outcome(pending.parked_call_id)
    assert kept.result is not None
    # The SDK's server adds its own name.
    del kept.result["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert kept.result == {"resultType": "complete", **result}
    assert list(kept.result["structuredContent"]) == ["b", "a"]
    assert kept.result_bytes > 100
    assert "priority" not in repr(kept)


def test_because_the_server_was_switched_off(host_for: HostFor, finished: Finished) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")
    ServerPolicy.objects.update(policy="none")
    got = goes_on(host, pending)
    assert isinstance(got, ElicitationRefusal)
    assert pending.parked_call_id is not None
    outcome = calls.outcome(pending.parked_call_id)
    assert (outcome.code, outcome.reason) == ("switched_off", "not_allowed")
    # The server got ``decline``, and its tool ran all the same.
    assert outcome.result is not None
    assert [sent["code"] for sent in finished] == ["switched_off"]
    is_handed_out_again(host, pending, got)


def test_because_nobody_agreed_to_open_a_link(
    host_for: HostFor, user: User, finished: Finished
) -> None:
    def tool(params: CallToolRequestParams) -> Any:
        listed = {
            "mode": "url",
            "message": "Sign in.",
            "url": "https://example.com/",
            "elicitationId": "1",
        }
        raise MCPError(-32042, "", {"elicitations": [listed]})

    host = host_for(ScriptedServer(tool))
    pending = host.pending()
    inbox.decline(pending.elicitation_ids[0], by=user)
    got = goes_on(host, pending)
    assert isinstance(got, URLDeclinedError)
    assert [sent["code"] for sent in finished] == ["given_up"]
    is_handed_out_again(host, pending, got)
    is_acknowledged_once(host, pending)


def test_because_the_server_was_at_work_for_too_long(
    host_for: HostFor, finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def now(seconds: float) -> None:
        return None

    monkeypatch.setattr(drive.asyncio, "sleep", now)
    host = host_for(ScriptedServer(lambda params: ask("again")))
    working = host.pending()
    ParkedCall.objects.update(working_since=timezone.now() - timedelta(hours=25))
    got = goes_on(host, working)
    assert isinstance(got, RoundLostError)
    assert [sent["code"] for sent in finished] == ["lost"]
    is_handed_out_again(host, working, got)


@pytest.mark.parametrize("was_answered", [True, False])
def test_because_nobody_went_on_with_it(
    host_for: HostFor, finished: Finished, was_answered: bool
) -> None:
    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending()
    if was_answered:
        host.answer(pending, plan="team")
    else:
        past = timezone.now() - timedelta(days=1)
        Elicitation.objects.update(expires_at=past)
        inbox.expire_due()
    outbox.close_abandoned(timezone.now())
    code = "given_up" if was_answered else "expired"
    assert [sent["code"] for sent in finished] == [code]
    assert pending.parked_call_id is not None
    outcome = calls.outcome(pending.parked_call_id)
    assert (outcome.code, outcome.reason) == (code, "never_resumed")
    with pytest.raises(CallEndedError) as caught:
        host.call()
    assert (caught.value.outcome, caught.value.reason) == (code, "never_resumed")
    assert len(server.calls) == 1
    assert not StoredFormAnswer.objects.exists()


def test_because_the_request_broke_off(host_for: HostFor, finished: Finished) -> None:
    arrived = asyncio.Event()

    async def hang(params: CallToolRequestParams) -> Any:
        arrived.set()
        await asyncio.sleep(60)

    def tool(params: CallToolRequestParams) -> Any:
        return hang(params) if params.input_responses else ask(k=form("Which plan?", PLAN))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    host.answer(pending, plan="team")

    async def run() -> None:
        from elicitation.mcp.client import resume

        async with server.connect() as session:
            going = asyncio.ensure_future(resume(session, pending.parked_call_id, server="shop"))
            await asyncio.wait_for(arrived.wait(), 30)
            going.cancel()
            await asyncio.wait([going])

    async_to_sync(run)()
    assert [sent["code"] for sent in finished] == ["lost"]
    assert pending.parked_call_id is not None
    assert calls.outcome(pending.parked_call_id).reason == "broken_off"


def test_a_call_that_was_never_parked_has_no_outcome(
    host_for: HostFor, finished: Finished
) -> None:
    host = host_for(server := ScriptedServer(lambda params: text("done")))
    assert said(host.call()) == said(host.call()) == "done"
    assert len(server.calls) == 2
    assert finished == []
    assert not ParkedCall.objects.exists()


def test_it_is_stored_before_anything_is_told(host_for: HostFor, user: User) -> None:
    stored: list[str] = []

    def look(parked_call_id: Any, **kwargs: Any) -> None:
        stored.append(calls.outcome(parked_call_id).code)

    def two(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            return text("done")
        return ask(k=form("Which plan?", PLAN), m=form("And now?", PLAN))

    host = host_for(ScriptedServer(two))
    pending = host.pending()
    call_finished.connect(look)
    elicitation_closed.connect(look)
    try:
        # What still waits is withdrawn with it, and that is told as well.
        calls.cancel(str(pending.parked_call_id))
    finally:
        call_finished.disconnect(look)
        elicitation_closed.disconnect(look)
    assert stored == ["cancelled"] * 3


def test_nothing_is_kept_that_is_not_needed_any_more(host_for: HostFor) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending(meta={"x.example/secret": "s3cret"}, arguments={"b": "s3cret"})
    host.answer(pending, plan="team")
    host.resume(pending)
    assert "s3cret" not in str(ParkedCall.objects.values())
    row = ParkedCall.objects.get()
    assert (row.arguments, row.requests, row.request_state) == ("null", "{}", "null")


def test_the_outcome_is_for_the_call_of_one_person_at_one_server(
    host_for: HostFor, other_user: User, policy: ServerPolicy
) -> None:
    from elicitation.mcp.client import resume

    host = host_for(server := ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")
    host.resume(pending)
    with pytest.raises(AnotherRespondentError):
        host.call(respondent=other_user)
    with pytest.raises(WrongServerError):
        host._connected(lambda session: resume(session, pending.parked_call_id, server="bank"))
    assert len(server.calls) == 2


def test_a_process_that_lost_the_call_stores_nothing(host_for: HostFor) -> None:
    """Another process has ended it, or has it now: what that one says stays."""
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    row = ParkedCall.objects.get()
    lease = parking.Lease(parked_call_id=row.pk)
    parking.close(row, Ended(code="lost"), lease=lease)
    with pytest.raises(calls.CallNotEndedError):
        calls.outcome(str(pending.parked_call_id))
    parking.close(row, Ended(code="finished", result={"content": []}))
    parking.close(row, Ended(code="lost"))
    assert calls.outcome(row.pk).code == "finished"
