"""URL mode through whole calls, with the official SDK on both ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import mcp
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.utils import timezone
from mcp import MCPError, UrlElicitationRequiredError
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    CallToolRequestParams,
    ElicitCompleteNotification,
    ElicitCompleteNotificationParams,
    ElicitRequestURLParams,
    ElicitResult,
)

from elicitation import inbox
from elicitation.calls import parking
from elicitation.calls.in_call import answer_in_call
from elicitation.core import ElicitationPending, ElicitationRefusal, SchemaRefusal, URLRefusal
from elicitation.mcp import client as mcp_sdk
from elicitation.mcp import drive
from elicitation.mcp.client import (
    RoundLostError,
    URLDeclinedError,
    client_options,
    elicitation_callback,
)
from elicitation.models import (
    Elicitation,
    ParkedCall,
    ServerPolicy,
    StoredFormAnswer,
    URLPolicyRefusal,
)
from elicitation.signals import elicitation_closed
from tests.integration.conftest import Host
from tests.integration.scripted import PLAN, ScriptedServer, accepted, ask, form, said, text, url

HostFor = Callable[[ScriptedServer], Host]
Delivery = Elicitation.Delivery

SECRET = "k3y-9f8e7d6c5b4a"
ADDRESS = f"https://login.example.com/start?session={SECRET}#{SECRET}"


def was_told(params: CallToolRequestParams, key: str = "k") -> bool:
    result = (params.input_responses or {}).get(key)
    return isinstance(result, ElicitResult) and result.action == "accept"


def opens(address: str = ADDRESS, message: str = "Sign in.") -> Any:
    """A tool that wants a person to open an address, and believes that they did."""

    def tool(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            return text("done" if was_told(params) else "declined")
        return ask(k=url(message, address))

    return tool


class Site:
    """A tool that asks for its address until the person has finished there."""

    def __init__(self, address: str = ADDRESS) -> None:
        self.address = address
        self.finished = False

    def __call__(self, params: CallToolRequestParams) -> Any:
        if self.finished:
            return text("connected")
        if params.input_responses and not was_told(params):
            return text("declined")
        return ask("state", k=url("Sign in.", self.address))


def consent(pending: ElicitationPending, user: User) -> Elicitation:
    (key,) = pending.elicitation_ids
    return inbox.consent(key, by=user)


def nothing_is_left() -> None:
    assert not ParkedCall.objects.parked().exists()
    assert not StoredFormAnswer.objects.exists()
    assert not Elicitation.objects.pending().exists()


def test_consent_is_sent_as_accept_without_content(host_for: HostFor, user: User) -> None:
    host = host_for(server := ScriptedServer(opens()))
    pending = host.pending()
    assert pending.opens_url
    assert pending.questions == []
    assert SECRET not in pending.as_tool_result()
    assert "page of its own" in pending.as_tool_result()
    question = Elicitation.objects.get()
    assert (question.url, question.url_host) == (ADDRESS, "login.example.com")
    consent(pending, user)
    assert said(host.resume(pending)) == "done"
    (result,) = server.calls[1].input_responses.values()  # type: ignore[union-attr]
    assert isinstance(result, ElicitResult)
    assert result.model_fields_set == {"action"}
    question.refresh_from_db()
    assert (question.state, question.delivery) == ("answered", Delivery.DELIVERED)
    nothing_is_left()


@pytest.mark.parametrize("how", ["declined", "expired", "withdrawn"])
def test_without_consent_the_server_is_told_decline(
    host_for: HostFor, user: User, how: str
) -> None:
    host = host_for(server := ScriptedServer(opens()))
    pending = host.pending()
    (key,) = pending.elicitation_ids
    if how == "declined":
        inbox.decline(key, by=user)
    elif how == "expired":
        Elicitation.objects.update(expires_at=timezone.now())
    else:
        inbox.withdraw(key)
    assert said(host.resume(pending)) == "declined"
    assert server.answers == [("decline", None)]
    question = Elicitation.objects.get()
    assert (question.state, question.url, question.url_host) == (how, "", "login.example.com")


def test_an_answer_is_no_consent_and_consent_no_answer(host_for: HostFor, user: User) -> None:
    host = host_for(ScriptedServer(opens()))
    address = host.pending()
    with pytest.raises(inbox.WrongModeError):
        inbox.answer(address.elicitation_ids[0], {}, by=user)
    host = host_for(ScriptedServer(lambda params: ask(k=form("Which plan?", PLAN))))
    plan = host.pending(scope="other")
    with pytest.raises(inbox.WrongModeError):
        inbox.consent(plan.elicitation_ids[0], by=user)
    with pytest.raises(inbox.WrongModeError):
        inbox.go_on(plan.elicitation_ids[0], by=user)
    assert not StoredFormAnswer.objects.exists()


# --- A server that asks for the same address again -------------------------------------------


def test_a_server_that_asks_again_is_told_again_and_then_the_call_waits(
    host_for: HostFor, user: User
) -> None:
    host = host_for(server := ScriptedServer(site := Site()))
    pending = host.pending()
    consent(pending, user)
    again = host.pending(host.resume, pending)
    assert again.elicitation_ids == pending.elicitation_ids
    assert again.parked_call_id == pending.parked_call_id
    assert len(server.answers) == 1 + drive.MAX_WAITS
    assert set(map(str, server.answers)) == {"('accept', None)"}
    # Nobody was asked anything more, and nobody is.
    assert Elicitation.objects.count() == 1
    parked = ParkedCall.objects.get()
    assert (parked.round, parked.asked, parked.lease) == (1, 1, None)
    site.finished = True
    assert inbox.waits_for_completion(Elicitation.objects.get())
    inbox.go_on(pending.elicitation_ids[0], by=user)
    assert said(host.resume(pending)) == "connected"
    assert Elicitation.objects.get().delivery == Delivery.DELIVERED
    nothing_is_left()


def test_the_audit_says_that_a_consent_was_told_though_the_server_asks_again(
    host_for: HostFor, user: User
) -> None:
    host = host_for(ScriptedServer(Site()))
    pending = host.pending()
    consent(pending, user)
    host.pending(host.resume, pending)
    question = Elicitation.objects.get()
    # Not delivered yet, for the outbox: it looks after the call.
    assert (question.delivery, question.delivered_at) == (Delivery.DELIVERED, None)
    assert Elicitation.objects.strandable(timezone.now() + timedelta(minutes=2)).exists()
    # Nobody came back: the consent expires, and the person is asked again.
    StoredFormAnswer.objects.update(expires_at=timezone.now())
    host.pending(host.resume, pending)
    question.refresh_from_db()
    assert (question.delivery, bool(question.delivered_at)) == (Delivery.DELIVERED, True)


def test_telling_again_counts_as_no_round(host_for: HostFor, user: User, settings: Any) -> None:
    settings.ELICITATION_MAX_ROUNDS = 1
    host = host_for(server := ScriptedServer(site := Site()))
    pending = host.pending()
    consent(pending, user)
    for _ in range(3):
        host.pending(host.resume, pending)
    site.finished = True
    assert said(host.resume(pending)) == "connected"
    assert len(server.answers) == 3 * (1 + drive.MAX_WAITS) + 1


def test_continue_wakes_the_host_by_the_signal(host_for: HostFor, user: User) -> None:
    host = host_for(ScriptedServer(Site()))
    pending = host.pending()
    consent(pending, user)
    host.pending(host.resume, pending)
    heard: list[Any] = []

    def hear(**kwargs: Any) -> None:
        heard.append(kwargs["parked_call_id"])

    elicitation_closed.connect(hear)
    try:
        inbox.go_on(pending.elicitation_ids[0], by=user)
    finally:
        elicitation_closed.disconnect(hear)
    assert heard == [pending.parked_call_id]
    # Should this process have died before the signal, the outbox has it.
    later = timezone.now() + timedelta(minutes=2)
    assert Elicitation.objects.strandable(later).exists()


def test_only_who_agreed_says_that_they_have_finished(
    host_for: HostFor, user: User, other_user: User, settings: Any
) -> None:
    settings.ELICITATION_ACCESS = "elicitation.inbox.access.PermissionAccess"
    other_user.is_superuser = True
    other_user.save()
    host = host_for(ScriptedServer(Site()))
    pending = host.pending()
    consent(pending, user)
    inbox.go_on(pending.elicitation_ids[0], by=other_user)
    assert Elicitation.objects.get().continued_at is None
    with pytest.raises(inbox.ElicitationClosedError):
        inbox.decline(pending.elicitation_ids[0], by=other_user)
    with pytest.raises(inbox.ElicitationClosedError):
        inbox.consent(pending.elicitation_ids[0], by=other_user)
    inbox.go_on(pending.elicitation_ids[0], by=user)
    assert Elicitation.objects.get().continued_at is not None


def test_who_finishes_while_the_server_is_told_again_need_not_wait(
    host_for: HostFor, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "MAX_WAITS", 0)
    replies = iter(range(10))
    site = Site()

    async def tool(params: CallToolRequestParams) -> Any:
        if next(replies) == 1:
            # Just as the call would be parked: too late for this reply.
            reply = site(params)
            await inbox.ago_on(pending.elicitation_ids[0], by=user)
            site.finished = True
            return reply
        return site(params)

    host = host_for(ScriptedServer(tool))
    pending = host.pending()
    consent(pending, user)
    assert said(host.resume(pending)) == "connected"


def test_consent_can_be_taken_back_as_long_as_the_server_asks(
    host_for: HostFor, user: User
) -> None:
    host = host_for(server := ScriptedServer(Site()))
    pending = host.pending()
    consent(pending, user)
    host.pending(host.resume, pending)
    closed = inbox.decline(pending.elicitation_ids[0], by=user)
    assert (closed.state, closed.reason, closed.url) == ("declined", "taken_back", "")
    assert said(host.resume(pending)) == "declined"
    assert server.answers[-1] == ("decline", None)
    nothing_is_left()


def test_consent_cannot_be_taken_back_once_the_call_has_ended(
    host_for: HostFor, user: User
) -> None:
    host = host_for(ScriptedServer(opens()))
    pending = host.pending()
    consent(pending, user)
    host.resume(pending)
    with pytest.raises(inbox.ElicitationClosedError):
        inbox.decline(pending.elicitation_ids[0], by=user)
    inbox.go_on(pending.elicitation_ids[0], by=user)
    question = Elicitation.objects.get()
    assert (question.state, question.delivery) == ("answered", Delivery.DELIVERED)


def test_consent_that_has_expired_is_asked_for_again(host_for: HostFor, user: User) -> None:
    host = host_for(ScriptedServer(site := Site()))
    pending = host.pending()
    consent(pending, user)
    host.pending(host.resume, pending)
    StoredFormAnswer.objects.update(expires_at=timezone.now())
    again = host.pending(host.resume, pending)
    assert again.elicitation_ids != pending.elicitation_ids
    site.finished = True
    consent(again, user)
    assert said(host.resume(again)) == "connected"


def test_consent_that_expires_while_the_server_is_told_is_asked_for_again(
    host_for: HostFor, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tool(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            # Half an hour has passed.
            monkeypatch.setattr(StoredFormAnswer, "is_expired", lambda *args: True)
        return ask(k=url("Sign in.", ADDRESS))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    consent(pending, user)
    again = host.pending(host.resume, pending)
    assert again.elicitation_ids != pending.elicitation_ids
    assert server.answers == [("accept", None)]


@pytest.mark.parametrize(
    ("message", "address"), [("Sign in.", ADDRESS + "2"), ("Pay here.", ADDRESS)]
)
def test_another_address_or_message_asks_again(
    host_for: HostFor, user: User, message: str, address: str
) -> None:
    def tool(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            return ask(k=url(message, address))
        return ask(k=url("Sign in.", ADDRESS))

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    consent(pending, user)
    again = host.pending(host.resume, pending)
    assert again.elicitation_ids != pending.elicitation_ids
    assert server.answers == [("accept", None)]


def test_a_form_beside_the_address_waits_for_the_person(host_for: HostFor, user: User) -> None:
    def tool(params: CallToolRequestParams) -> Any:
        if plan := accepted(params, "p"):
            return text(f"{plan['plan']} {was_told(params)}")
        if params.input_responses:
            return ask(k=url("Sign in.", ADDRESS), p=form("Which plan?", PLAN))
        return ask(k=url("Sign in.", ADDRESS))

    host = host_for(ScriptedServer(tool))
    pending = host.pending()
    consent(pending, user)
    plan = host.pending(host.resume, pending)
    assert len(plan.elicitation_ids) == 1
    host.answer(plan, plan="team")
    assert said(host.resume(plan)) == "team True"
    nothing_is_left()


def test_a_server_that_was_restarted_meanwhile_is_told_once_more(
    host_for: HostFor, user: User
) -> None:
    host = host_for(server := ScriptedServer(site := Site(), sealed=True))
    pending = host.pending()
    consent(pending, user)
    host.pending(host.resume, pending)
    server.restart()
    site.finished = True
    assert said(host.resume(pending)) == "connected"
    nothing_is_left()


# --- Breaking off ----------------------------------------------------------------------------


@pytest.mark.parametrize("told", [1, 3])
def test_a_call_that_breaks_off_while_the_server_is_told_keeps_the_consent(
    host_for: HostFor, user: User, told: int
) -> None:
    site = Site()

    async def tool(params: CallToolRequestParams) -> Any:
        if len(server.answers) == told and not site.finished:
            await asyncio.sleep(30)
        return site(params)

    host = host_for(server := ScriptedServer(tool))
    pending = host.pending()
    consent(pending, user)

    async def give_up() -> None:
        async with server.connect() as session:
            with anyio.move_on_after(2):
                await mcp_sdk.resume(session, pending.parked_call_id, server="shop")

    async_to_sync(give_up)()
    assert len(server.answers) == told
    assert StoredFormAnswer.objects.count() == 1
    assert Elicitation.objects.get().delivered_at is None
    site.finished = True
    assert said(host.resume(pending)) == "connected"
    nothing_is_left()


def test_a_call_that_is_cancelled_in_a_pause_keeps_the_consent(
    host_for: HostFor, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "FIRST_WAIT", 30)
    monkeypatch.setattr(drive, "LONGEST_WAIT", 30)
    host = host_for(server := ScriptedServer(site := Site()))
    pending = host.pending()
    consent(pending, user)

    async def give_up() -> None:
        async with server.connect() as session:
            with anyio.move_on_after(2):
                await mcp_sdk.resume(session, pending.parked_call_id, server="shop")

    async_to_sync(give_up)()
    assert StoredFormAnswer.objects.count() == 1
    site.finished = True
    assert said(host.resume(pending)) == "connected"


def test_a_call_that_breaks_off_while_it_is_parked_again_keeps_the_consent(
    host_for: HostFor, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = host_for(ScriptedServer(site := Site()))
    pending = host.pending()
    consent(pending, user)

    def cancelled(*args: Any, **kwargs: Any) -> None:
        raise asyncio.CancelledError

    async def give_up() -> None:
        async with host.server.connect() as session:
            with pytest.raises(asyncio.CancelledError):
                await mcp_sdk.resume(session, pending.parked_call_id, server="shop")

    with monkeypatch.context() as patch:
        patch.setattr(parking, "park", cancelled)
        async_to_sync(give_up)()
    assert StoredFormAnswer.objects.count() == 1
    assert Elicitation.objects.get().delivered_at is None
    site.finished = True
    assert said(host.resume(pending)) == "connected"


def test_a_policy_taken_back_just_before_a_consent_is_repeated_refuses_the_round(
    host_for: HostFor, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = host_for(server := ScriptedServer(Site()))
    pending = host.pending()
    consent(pending, user)
    park = parking.park

    def switch_off_and_park(*args: Any, **kwargs: Any) -> Any:
        ServerPolicy.objects.update(policy="none")
        return park(*args, **kwargs)

    monkeypatch.setattr(parking, "park", switch_off_and_park)
    with pytest.raises(ElicitationRefusal):
        host.resume(pending)
    assert server.answers == [("accept", None), ("decline", None)]
    assert Elicitation.objects.get().delivery == Delivery.DELIVERED
    nothing_is_left()


def test_a_server_that_refuses_the_retry_has_lost_the_round(host_for: HostFor, user: User) -> None:
    def tool(params: CallToolRequestParams) -> Any:
        if params.input_responses:
            raise MCPError(-32000 - 3, "no")
        return ask(k=url("Sign in.", ADDRESS))

    host = host_for(ScriptedServer(tool))
    pending = host.pending()
    consent(pending, user)
    with pytest.raises(RoundLostError):
        host.resume(pending)
    nothing_is_left()


# --- What an operator allows -----------------------------------------------------------------


@pytest.mark.parametrize("chosen", ["url", "url_and_form", None])
def test_addresses_are_shown_by_default(
    host_for: HostFor, policy: ServerPolicy, chosen: str | None
) -> None:
    if chosen is None:
        policy.delete()
    else:
        ServerPolicy.objects.update(policy=chosen)
    assert host_for(ScriptedServer(opens())).pending().opens_url


def test_an_address_that_the_policy_does_not_list_is_refused(host_for: HostFor) -> None:
    ServerPolicy.objects.update(allowed_domains="example.org\n*.example.net")
    host = host_for(server := ScriptedServer(opens()))
    with pytest.raises(URLPolicyRefusal) as refused:
        host.call()
    assert refused.value.code == "not_allowed"
    assert "does not list" in str(refused.value)
    assert "login" not in str(refused.value)
    assert server.answers == [("decline", None)]
    assert not Elicitation.objects.exists()


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "http://localhost:8000/", f"https://{SECRET}@example.com/", ""],
)
def test_an_address_that_cannot_be_shown_is_refused(host_for: HostFor, address: str) -> None:
    host = host_for(server := ScriptedServer(opens(address)))
    with pytest.raises(URLRefusal) as refused:
        host.call()
    assert server.answers == [("decline", None)]
    assert SECRET not in str(refused.value)
    assert not Elicitation.objects.exists()


def test_plain_http_to_this_machine_is_an_operators_decision(
    host_for: HostFor, user: User
) -> None:
    ServerPolicy.objects.update(allow_loopback_http=True)
    host = host_for(ScriptedServer(opens("http://localhost:8000/")))
    pending = host.pending()
    consent(pending, user)
    assert said(host.resume(pending)) == "done"


def test_a_policy_taken_back_meanwhile_ends_the_consent(host_for: HostFor, user: User) -> None:
    host = host_for(server := ScriptedServer(opens()))
    pending = host.pending()
    for change, undo in (
        ({"allowed_domains": "example.org"}, {"allowed_domains": ""}),
        ({"policy": "none"}, {"policy": "url"}),
    ):
        ServerPolicy.objects.update(**change)
        with pytest.raises(URLPolicyRefusal):
            consent(pending, user)
        ServerPolicy.objects.update(**undo)
    consent(pending, user)
    ServerPolicy.objects.update(allowed_domains="example.org")
    with pytest.raises(URLPolicyRefusal):
        host.resume(pending)
    assert server.answers == [("decline", None)]
    assert Elicitation.objects.get().delivery == "switched_off"
    nothing_is_left()


# --- Whose consent it is ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "other", ["scope", "call", "arguments", "tool", "server", "respondent", "address"]
)
def test_one_consent_serves_one_call(
    host_for: HostFor, user: User, other_user: User, other: str
) -> None:
    ServerPolicy.objects.create(server="shop2", policy="url")
    host = host_for(server := ScriptedServer(opens(), sealed=True))
    consent(host.pending(), user)
    changes: dict[str, Any] = {
        "scope": {"scope": "Conversation-1"},
        "call": {"call": "c"},
        "arguments": {"arguments": {"a": 2}},
        "tool": {"tool": "Tool"},
        "server": {"server": "shop2"},
        "respondent": {"respondent": other_user},
        "address": {},
    }[other]
    if other == "respondent":
        with pytest.raises(parking.AnotherRespondentError):
            host.call(**changes)
    elif other == "address":
        # The call is made afresh, and its server asks for another URL.
        server.restart()
        server.tool = opens(ADDRESS.upper().replace("HTTPS", "https"))
        host.pending()
    else:
        host.pending(**changes)
    assert server.answers == []


def test_two_tabs_agree_once(host_for: HostFor, user: User) -> None:
    host = host_for(server := ScriptedServer(opens()))
    pending = host.pending()
    first, second = consent(pending, user), consent(pending, user)
    assert first.closed_at == second.closed_at
    assert StoredFormAnswer.objects.count() == 1
    host.resume(pending)
    assert server.answers == [("accept", None)]


# --- Servers of MCP 2025-11-25 ---------------------------------------------------------------


class Required:
    """A tool that fails until a person has opened an address, as MCP 2025-11-25 has it."""

    def __init__(self, **data: Any) -> None:
        self.finished = False
        self.data = data

    def __call__(self, params: CallToolRequestParams) -> Any:
        assert params.input_responses is None
        assert params.request_state is None
        if self.finished:
            return text("connected")
        if self.data:
            raise MCPError(-32042, SECRET, self.data)
        raise UrlElicitationRequiredError(
            [ElicitRequestURLParams(message="Sign in.", url=ADDRESS, elicitation_id="e-1")]
        )


def test_the_error_that_asks_for_an_address_parks_the_call(host_for: HostFor, user: User) -> None:
    host = host_for(server := ScriptedServer(required := Required()))
    pending = host.pending()
    assert Elicitation.objects.get().url_id == "e-1"
    consent(pending, user)
    again = host.pending(host.resume, pending)
    assert again.elicitation_ids == pending.elicitation_ids
    assert len(server.calls) == 2 + drive.MAX_WAITS
    required.finished = True
    assert said(host.resume(pending)) == "connected"
    assert Elicitation.objects.get().delivery == Delivery.DELIVERED
    nothing_is_left()


def test_whoever_declines_an_address_ends_such_a_call(host_for: HostFor, user: User) -> None:
    host = host_for(server := ScriptedServer(Required()))
    pending = host.pending()
    inbox.decline(pending.elicitation_ids[0], by=user)
    with pytest.raises(URLDeclinedError):
        host.resume(pending)
    assert len(server.calls) == 1
    assert Elicitation.objects.get().delivery == Delivery.DROPPED
    nothing_is_left()


def test_such_an_error_is_told_to_an_agent_that_nobody_sits_at(host_for: HostFor) -> None:
    host = host_for(server := ScriptedServer(Required()))
    with pytest.raises(URLDeclinedError):
        host.call(respondent=None)
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "data",
    [
        {"elicitations": []},
        {"elicitations": "x"},
        {"elicitations": [7]},
        {"elicitations": [{"mode": "form", "message": "?", "requestedSchema": PLAN}]},
        {"other": 1},
    ],
)
def test_such_an_error_that_says_nothing_is_refused(host_for: HostFor, data: Any) -> None:
    host = host_for(ScriptedServer(Required(**data)))
    with pytest.raises(SchemaRefusal) as refused:
        host.call()
    assert SECRET not in str(refused.value)


def test_such_an_error_with_an_address_that_is_not_allowed_is_refused(host_for: HostFor) -> None:
    ServerPolicy.objects.update(allowed_domains="example.org")
    host = host_for(server := ScriptedServer(Required()))
    with pytest.raises(URLPolicyRefusal):
        host.call()
    assert len(server.calls) == 1


def test_the_servers_word_that_a_person_has_finished_wakes_the_call(
    host_for: HostFor, user: User
) -> None:
    host = host_for(ScriptedServer(Required()))
    pending = host.pending()
    assert inbox.complete("shop", "e-1") == 0
    consent(pending, user)
    host.pending(host.resume, pending)
    assert inbox.complete("shop", "E-1") == 0
    assert inbox.complete("shop", "") == 0
    assert inbox.complete("Shop", "e-1") == 0
    others: list[Any] = []

    async def hear(message: Any) -> None:
        others.append(message)

    async def notify() -> None:
        options = await sync_to_async(client_options)("shop", message_handler=hear)
        params = ElicitCompleteNotificationParams(elicitation_id="e-1")
        await options["message_handler"](ElicitCompleteNotification(params=params))
        await options["message_handler"](ValueError())

    async_to_sync(notify)()
    assert Elicitation.objects.get().continued_at is not None
    assert len(others) == 2
    # It says so once, however often it says so.
    assert inbox.complete("shop", "e-1") == 0


legacy = MCPServer("legacy", log_level="WARNING")


@legacy.tool()
async def connect(ctx: Context) -> str:
    result = await ctx.elicit_url("Sign in.", ADDRESS, "e-2")
    await ctx.session.send_elicit_complete("e-2")
    return result.action


FINISHED: list[str] = []


@legacy.tool()
async def guarded(ctx: Context) -> str:
    if not FINISHED:
        raise UrlElicitationRequiredError(
            [ElicitRequestURLParams(message="Sign in.", url=ADDRESS, elicitation_id="e-4")]
        )
    return FINISHED.pop()


def test_a_server_of_that_revision_parks_its_call_too(policy: ServerPolicy, user: User) -> None:
    options = client_options("shop")

    async def call() -> Any:
        async with mcp.Client(legacy, mode="legacy", **options) as client:
            try:
                return await mcp_sdk.call_tool(
                    client.session, server="shop", tool="guarded", scope="chat", respondent=user
                )
            except ElicitationPending as pending:
                return pending

    pending = async_to_sync(call)()
    consent(pending, user)
    assert async_to_sync(call)().elicitation_ids == pending.elicitation_ids
    FINISHED.append("connected")
    inbox.complete("shop", "e-4")
    assert said(async_to_sync(call)()) == "connected"
    nothing_is_left()


@pytest.mark.parametrize("agrees", [True, False])
def test_in_the_middle_of_a_call_the_consent_is_the_answer(
    policy: ServerPolicy, user: User, agrees: bool
) -> None:
    callback = elicitation_callback("shop", "connect", "chat", user)
    options = client_options("shop", callback=callback)

    async def person() -> None:
        while (question := await Elicitation.objects.pending().afirst()) is None:
            await asyncio.sleep(0.01)
        await (inbox.aconsent if agrees else inbox.adecline)(question.pk, by=user)

    async def call() -> Any:
        async with mcp.Client(legacy, mode="legacy", **options) as client:
            result, _ = await asyncio.gather(client.call_tool("connect", {}), person())
            return result

    assert said(async_to_sync(call)()) == ("accept" if agrees else "decline")
    question = Elicitation.objects.get()
    assert (question.in_call, question.delivery, question.url_id) == (True, "delivered", "e-2")
    assert bool(question.url) is agrees


def test_in_the_middle_of_a_call_the_same_address_is_consented_to_once(
    policy: ServerPolicy, user: User, other_user: User, settings: Any
) -> None:
    settings.ELICITATION_POLL_INTERVAL = timedelta(seconds=0.01)
    params = {"mode": "url", "message": "Sign in.", "url": ADDRESS, "elicitationId": "e-3"}
    names: dict[str, Any] = {"server": "shop", "tool": "connect", "scope": "chat", "call": "c1"}

    async def person() -> None:
        while (question := await Elicitation.objects.pending().afirst()) is None:
            await asyncio.sleep(0.01)
        await inbox.aconsent(question.pk, by=user)

    async def both() -> Any:
        told, _ = await asyncio.gather(answer_in_call(params, respondent=user, **names), person())
        return told

    assert async_to_sync(both)() == {"action": "accept"}
    assert async_to_sync(answer_in_call)(params, respondent=user, **names) == {"action": "accept"}
    assert Elicitation.objects.count() == 1
    # Not for another address, call or person: nobody agrees here within the time.
    for changes in ({"url": ADDRESS + "2"}, {"call": "c2"}, {"respondent": other_user}):
        asked = params | {key: value for key, value in changes.items() if key == "url"}
        other = {"respondent": user} | names | {k: v for k, v in changes.items() if k != "url"}
        told = async_to_sync(answer_in_call)(asked, **other, timeout=0.05)
        assert told == {"action": "decline"}
    Elicitation.objects.update(closed_at=timezone.now() - timedelta(minutes=31))
    told = async_to_sync(answer_in_call)(params, respondent=user, **names, timeout=0.05)
    assert told == {"action": "decline"}


# --- What is never told ----------------------------------------------------------------------


def test_no_log_record_has_the_address(
    host_for: HostFor, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    # Django writes down every statement where it is told to (docs/security.md).
    caplog.set_level(logging.INFO, logger="django.db.backends")
    host = host_for(ScriptedServer(site := Site()))
    pending = host.pending()
    consent(pending, user)
    host.pending(host.resume, pending)
    inbox.go_on(pending.elicitation_ids[0], by=user)
    site.finished = True
    host.resume(pending)
    assert [record for record in caplog.records if record.name.startswith("elicitation")]
    for record in caplog.records:
        assert SECRET not in str(vars(record)), record.name
    question = Elicitation.objects.get()
    for shown in (str(question), repr(question), str(pending), repr(pending), str(vars(pending))):
        assert SECRET not in shown
