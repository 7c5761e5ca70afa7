"""Calls by the names of servers, of both eras and over both transports."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured
from mcp import MCPError

from elicitation import calls
from elicitation.calls.replies import NotSentError
from elicitation.core import ElicitationPending, ElicitationRefusal
from elicitation.models import (
    Elicitation,
    InvalidNameError,
    ParkedCall,
    ServerPolicy,
    StoredFormAnswer,
)
from tests.integration.scripted import said

from .conftest import Serve, answer, in_a_loop

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

WAYS = pytest.mark.parametrize("way", ["http", "stdio"])


async def asked(server: str, user: User, **options: Any) -> ElicitationPending:
    with pytest.raises(ElicitationPending) as caught:
        await calls.call(server, "ask", {}, scope="chat", user=user, **options)
    return caught.value


@WAYS
@in_a_loop
async def test_a_call_is_parked_and_goes_on(way: str, serve: Serve, user: User) -> None:
    shop = serve("shop", way)
    pending = await asked("shop", user, scope_label="Holidays")
    question = await Elicitation.objects.aget()
    assert (question.server, question.scope, question.scope_label) == ("shop", "chat", "Holidays")
    with pytest.raises(ElicitationPending):
        await calls.resume(str(pending.parked_call_id))
    await answer(user, "blue")
    assert said(await calls.resume(pending.parked_call_id)) == "blue"
    assert shop.said == [("", "blue")]
    assert await calls.aacknowledge(await calls.aoutcome(str(pending.parked_call_id)))
    with pytest.raises(ParkedCall.DoesNotExist):
        await calls.resume(pending.parked_call_id)


@in_a_loop
async def test_an_outcome_is_handed_out_though_the_server_is_gone(
    serve: Serve, user: User, settings: SettingsWrapper
) -> None:
    shop = serve("shop", "http")
    pending = await asked("shop", user)
    await answer(user, "blue")
    result = await calls.resume(pending.parked_call_id)
    settings.ELICITATION_SERVERS = {}
    assert await calls.resume(pending.parked_call_id) == result
    assert shop.said == [("", "blue")]


@WAYS
@in_a_loop
async def test_an_older_server_is_waited_for(way: str, serve: Serve, user: User) -> None:
    serve("shop", way, "legacy")
    result, _ = await asyncio.gather(
        calls.call("shop", "ask", scope="chat", user=user, call="c1", scope_label="Holidays"),
        answer(user, "blue"),
    )
    assert said(result) == "blue"
    question = await Elicitation.objects.aget()
    assert (question.call, question.scope_label, question.in_call) == ("c1", "Holidays", True)


@WAYS
@pytest.mark.parametrize("era", ["modern", "legacy"])
@in_a_loop
async def test_nobody_is_asked_where_there_is_no_user(way: str, era: str, serve: Serve) -> None:
    shop = serve("shop", way, era)
    tool = "say" if era == "legacy" else "ask"
    result = await calls.call("shop", tool, scope="chat", user=None)
    assert said(result) == ("said" if era == "legacy" else "decline")
    assert shop.declared == [None]
    assert not await Elicitation.objects.aexists()


@in_a_loop
async def test_the_same_call_again_goes_on(serve: Serve, user: User) -> None:
    serve("shop", "http")
    await asked("shop", user)
    await answer(user, "blue")
    result = await calls.call("shop", "ask", {}, scope="chat", user=user)
    assert said(result) == "blue"


@pytest.mark.parametrize("key", [7, uuid.UUID(int=7), "7"])
@in_a_loop
async def test_ids_are_text_numbers_or_uuids(key: Any, serve: Serve, user: User) -> None:
    serve("shop", "http")
    with pytest.raises(ElicitationPending):
        await calls.call("shop", "ask", scope=key, user=user, call=key)
    question = await Elicitation.objects.aget()
    assert (question.scope, question.call) == (str(key), str(key))


@pytest.mark.parametrize(
    "changes",
    [{"scope": True}, {"scope": ""}, {"call": None}, {"user": AnonymousUser()}],
    ids=["a scope of another type", "no scope", "no call", "somebody who is not signed in"],
)
@in_a_loop
async def test_what_no_row_can_hold_is_refused_before_anything_is_called(
    changes: dict[str, Any], serve: Serve, user: User
) -> None:
    shop = serve("shop", "http")
    with pytest.raises(InvalidNameError):
        await calls.call("shop", "ask", **{"scope": "chat", "user": user} | changes)
    assert shop.connections == []


@in_a_loop
async def test_the_label_of_the_settings_is_shown(serve: Serve, user: User) -> None:
    serve("shop", "http", label="The shop")
    pending = await asked("shop", user)
    question = await Elicitation.objects.select_related("policy").aget(
        pk=pending.elicitation_ids[0]
    )
    assert question.server_policy.display_name == "The shop"


@in_a_loop
async def test_a_server_that_is_not_set(
    serve: Serve, user: User, settings: SettingsWrapper
) -> None:
    serve("shop", "http")
    pending = await asked("shop", user)
    settings.ELICITATION_SERVERS = {}
    with pytest.raises(ImproperlyConfigured, match="has no server 'shop'"):
        await calls.resume(pending.parked_call_id)
    with pytest.raises(ImproperlyConfigured, match="has no server 'shop'"):
        await calls.call("shop", "ask", scope="chat", user=user)


@in_a_loop
async def test_a_server_that_is_not_there(
    serve: Serve, user: User, settings: SettingsWrapper
) -> None:
    shop = serve("shop", "http")
    pending = await asked("shop", user)
    await answer(user, "blue")
    there = settings.ELICITATION_SERVERS
    for options in ({"url": "http://127.0.0.1:9/mcp"}, {"command": "/nowhere/at-all"}):
        settings.ELICITATION_SERVERS = {"shop": options | {"policy": "url_and_form"}}
        with pytest.raises(NotSentError) as caught:
            await calls.resume(pending.parked_call_id)
        assert caught.value.reason == "connect"
        assert caught.value.parked_call_id == pending.parked_call_id
        with pytest.raises(NotSentError):
            await calls.call("shop", "say", scope="chat", user=user)
    assert await StoredFormAnswer.objects.acount() == 1
    settings.ELICITATION_SERVERS = there
    assert said(await calls.resume(pending.parked_call_id)) == "blue"
    assert shop.said == [("", "blue")]


@in_a_loop
async def test_an_error_of_the_server_comes_as_it_is(serve: Serve, user: User) -> None:
    serve("shop", "http")
    with pytest.raises(MCPError, match="no"):
        await calls.call("shop", "fail", scope="chat", user=user)
    with pytest.raises(MCPError, match="no"):
        await calls.call("shop", "fail", scope="chat", user=None)


@in_a_loop
async def test_a_server_that_is_switched_off_gets_no_answer(serve: Serve, user: User) -> None:
    shop = serve("shop", "http")
    pending = await asked("shop", user)
    await answer(user, "blue")
    await ServerPolicy.objects.acreate(server="shop", policy="none")
    with pytest.raises(ElicitationRefusal) as caught:
        await calls.resume(pending.parked_call_id)
    assert caught.value.code == "not_allowed"
    assert shop.said == [("", "decline")]
