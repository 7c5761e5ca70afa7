"""What goes over the wire, read from the bytes that a real server received."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import mcp
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import Client

from elicitation import inbox
from elicitation.calls.requests import PolicyRefusal
from elicitation.core import ElicitationPending, SchemaRefusal
from elicitation.mcp.client import (
    aclient_options,
    call_tool,
    elicitation_callback,
    resume,
)
from elicitation.models import Elicitation, ServerPolicy
from tests import processes
from tests.asking import schema
from tests.integration.scripted import said
from tests.integration.test_in_call import when_asked

#: Does what a person does with a question.
Act = Callable[[Elicitation], object]

PLAN = schema("plan", plan={"type": "string", "enum": ["solo", "team"]})


class Wire:
    """A host and the bytes that it sends to a server of one era."""

    def __init__(self, url: str, log: Path, user: User, *, waits: bool) -> None:
        self.url = url
        self.log = log
        self.user = user
        #: Whether the server asks in the middle of the call, and waits.
        self.waits = waits
        self.begin = log.stat().st_size

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of all requests of this test, byte for byte."""
        return self.log.read_bytes()[self.begin :].splitlines()

    @property
    def answers(self) -> list[dict[str, Any]]:
        """Every answer to a question, read so that what is no integer shows as a string."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        found = []
        for body in self.bodies:
            sent = json.loads(body, parse_float=str, parse_constant=refuse)
            found += sent.get("params", {}).get("inputResponses", {}).values()
            found += [sent[part] for part in ("result", "error") if part in sent]
        return found

    def ask(
        self,
        act: Act,
        requested: dict[str, Any] = PLAN,
        *,
        swap: tuple[str, str] | None = None,
        respondent: User | None = None,
        timeout: float = 300,
        attended: bool = True,
    ) -> str:
        """Call the tool, let a person act on its question, and return what the tool says."""
        user = respondent or (self.user if attended else None)
        arguments = {"schema": requested, "waits": self.waits}
        if swap:
            arguments["swap"] = swap
        run = self._in_call if self.waits else self._parked
        result = async_to_sync(run)(act, arguments, user, timeout)
        if isinstance(result, Exception):
            raise result
        return said(result)

    async def _in_call(
        self, act: Act, arguments: dict[str, Any], user: User | None, timeout: float
    ) -> Any:
        callback = elicitation_callback("shop", "ask", "chat", user, timeout)
        options = await aclient_options("shop", user is not None, callback=callback)
        async with mcp.Client(self.url, mode="legacy", **options) as client:
            acting = asyncio.ensure_future(when_asked(act))
            try:
                return await client.call_tool("ask", arguments)
            except mcp.MCPError as error:
                return error
            finally:
                acting.cancel()
                with suppress(asyncio.CancelledError):
                    await acting

    async def _parked(
        self, act: Act, arguments: dict[str, Any], user: User | None, timeout: float
    ) -> Any:
        options = await aclient_options("shop", user is not None)
        async with mcp.Client(self.url, mode="2026-07-28", **options) as client:
            try:
                return await call_tool(
                    client.session,
                    server="shop",
                    tool="ask",
                    arguments=arguments,
                    scope="chat",
                    respondent=user,
                )
            except ElicitationPending as pending:
                await when_asked(act)
                return await resume(client.session, pending.parked_call_id, server="shop")
            except Exception as error:
                # Caught in here: the SDK's connection wraps what passes through it in a group.
                return error


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    log = tmp_path_factory.mktemp("wire") / "bodies"
    log.touch()
    port = processes.free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.wire_server", str(port), str(log)],
        cwd=processes.BASE_DIR,
        env=os.environ,
        stdin=subprocess.DEVNULL,
    )
    try:
        processes.wait_until(lambda: processes.answers(port), "the server")
        yield f"http://127.0.0.1:{port}/mcp", log
    finally:
        process.kill()
        process.wait(30)


@pytest.fixture(params=[False, True], ids=["parked", "in the call"])
def wire(
    request: pytest.FixtureRequest, server: tuple[str, Path], policy: ServerPolicy, user: User
) -> Wire:
    return Wire(*server, user, waits=request.param)


def typed(user: User, **fields: str) -> Act:
    """Let a person send the page's form; ``a0="3"`` types 3 into the first field."""

    def act(question: Elicitation) -> None:
        client = Client()
        client.force_login(user)
        sent = {name.replace("a", "a-", 1): text for name, text in fields.items()}
        # As from the page that shows what is sent, where there is one.
        sent |= {"fingerprint": question.fingerprint, "checked": "1"}
        response = client.post(question.get_absolute_url(), sent)
        assert response.status_code == 302, response.content.decode()

    return act


def declined(user: User) -> Act:
    return lambda question: inbox.decline(question.pk, by=user)


def nothing(question: Elicitation) -> None:
    pass


def nobody(question: Elicitation) -> None:
    pytest.fail("somebody was asked")


def test_an_accept_has_content_and_nothing_that_was_not_asked(wire: Wire) -> None:
    act = typed(wire.user, a0="1", a1="more", admin="true", plan="solo")
    assert wire.ask(act) == "accept"
    assert wire.answers == [{"action": "accept", "content": {"plan": "team"}}]


def test_an_optional_property_that_was_left_blank_is_not_sent(wire: Wire) -> None:
    requested = schema("plan", **PLAN["properties"], note={"type": "string"})
    assert wire.ask(typed(wire.user, a0="0", a1=""), requested) == "accept"
    assert wire.answers == [{"action": "accept", "content": {"plan": "solo"}}]


def test_a_confirmation_has_content_that_is_empty(wire: Wire, policy: ServerPolicy) -> None:
    policy.allow_confirmation = True
    policy.save()
    assert wire.ask(typed(wire.user), schema()) == "accept"
    assert wire.answers == [{"action": "accept", "content": {}}]


def test_a_decline_has_no_content(wire: Wire) -> None:
    assert wire.ask(declined(wire.user)) == "decline"
    assert wire.answers == [{"action": "decline"}]


def test_nor_has_what_nobody_answered_in_time(wire: Wire) -> None:
    act: Act = nothing if wire.waits else lambda question: inbox.expire_now(question.pk)
    assert wire.ask(act, timeout=0.2) == "decline"
    assert wire.answers == [{"action": "decline"}]


def test_nor_has_what_was_withdrawn(wire: Wire) -> None:
    assert wire.ask(lambda question: inbox.withdraw(question.pk)) == "decline"
    assert wire.answers == [{"action": "decline"}]


@pytest.mark.parametrize(
    ("kind", "text", "sent"),
    [
        ("integer", "3", b"3"),
        ("integer", "1e3", b"1000"),
        ("integer", "9007199254740993", b"9007199254740993"),
        ("integer", "-0", b"0"),
        ("number", "3", b"3"),
        ("number", "1e3", b"1000"),
        ("number", "2.5", b"2.5"),
        ("number", "1e300", b"1e+300"),
    ],
)
def test_numbers_are_sent_as_they_are(wire: Wire, kind: str, text: str, sent: bytes) -> None:
    assert wire.ask(typed(wire.user, a0=text), schema("n", n={"type": kind})) == "accept"
    (body,) = [body for body in wire.bodies if b'"content"' in body]
    (number,) = [part.split(b"}")[0] for part in body.split(b'"n":')[1:] if part[:1] != b"{"]
    assert number == sent


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-inf", "1e999"])
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_what_is_no_number_in_json_is_never_sent(wire: Wire, kind: str, text: str) -> None:
    def refused_and_declined(question: Elicitation) -> None:
        with pytest.raises(AssertionError, match="error"):
            typed(wire.user, a0=text)(question)
        inbox.decline(question.pk, by=wire.user)

    assert wire.ask(refused_and_declined, schema("n", n={"type": kind})) == "decline"
    assert wire.answers == [{"action": "decline"}]


def test_a_choice_sends_its_value_in_the_type_of_the_schema(wire: Wire) -> None:
    requested = schema(
        "size",
        "sure",
        "tags",
        size={"type": "integer", "enum": [1, 2]},
        sure={"type": "boolean"},
        tags={"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    )
    assert wire.ask(typed(wire.user, a0="1", a1="1", a2="1"), requested) == "accept"
    assert wire.answers[0]["content"] == {"size": 2, "sure": False, "tags": ["b"]}


def capabilities(wire: Wire) -> list[dict[str, Any]]:
    """What the host declared, each time it did."""
    found = []
    for body in wire.bodies:
        params = json.loads(body).get("params") or {}
        if "capabilities" in params:
            found.append(params["capabilities"])
        meta = params.get("_meta") or {}
        found += [value for name, value in meta.items() if name.endswith("/clientCapabilities")]
    assert found
    return found


def test_the_capability_is_declared_where_somebody_can_be_asked(wire: Wire) -> None:
    wire.ask(declined(wire.user))
    modes = {"form": {}, "url": {}}
    assert all(declared["elicitation"] == modes for declared in capabilities(wire))


def test_url_mode_alone_is_declared_where_the_policy_allows_no_forms(
    wire: Wire, policy: ServerPolicy
) -> None:
    policy.policy = ServerPolicy.Policy.URL
    policy.save()
    # A form that is asked all the same is refused.
    with suppress(mcp.MCPError, PolicyRefusal):
        wire.ask(nobody)
    assert all(declared["elicitation"] == {"url": {}} for declared in capabilities(wire))
    (body, *_) = [body for body in wire.bodies if b'"elicitation"' in body]
    assert b'"elicitation":{"url":{}}' in body
    assert not Elicitation.objects.exists()


def test_it_is_not_where_nobody_can_be(wire: Wire) -> None:
    with suppress(mcp.MCPError):
        wire.ask(nobody, attended=False)
    assert not any("elicitation" in declared for declared in capabilities(wire))
    assert not Elicitation.objects.exists()


def test_nor_where_the_policy_is_none(wire: Wire, policy: ServerPolicy) -> None:
    policy.policy = ServerPolicy.Policy.NONE
    policy.save()
    # What the server asks all the same is refused.
    with suppress(mcp.MCPError, PolicyRefusal):
        wire.ask(nobody)
    assert not any("elicitation" in declared for declared in capabilities(wire))
    assert not Elicitation.objects.exists()


def test_a_missing_mode_means_form(wire: Wire) -> None:
    assert wire.ask(typed(wire.user, a0="1"), swap=('"mode":"form",', "")) == "accept"
    assert wire.answers == [{"action": "accept", "content": {"plan": "team"}}]


@pytest.mark.parametrize(
    "swap",
    [('"mode":"form"', '"mode":"video"'), ('"requestedSchema"', '"otherSchema"')],
    ids=["mode", "schema"],
)
def test_what_mcp_does_not_have_is_refused(wire: Wire, swap: tuple[str, str]) -> None:
    if wire.waits:
        # The SDK's client says so by itself, and the server's SDK passes it on.
        with pytest.raises(mcp.MCPError):
            wire.ask(nobody, swap=swap)
        (answer,) = wire.answers
        assert answer["code"] == mcp.types.INVALID_PARAMS
    else:
        with pytest.raises(SchemaRefusal, match="not one that MCP has"):
            wire.ask(nobody, swap=swap)
        assert wire.answers == []
    assert not Elicitation.objects.exists()
    # Nothing is broken by it.
    assert wire.ask(declined(wire.user)) == "decline"
