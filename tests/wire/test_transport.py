"""Connections of the app's own: what they note, and what they do not touch."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import mcp
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from mcp.types import CallToolResult

from elicitation import inbox
from elicitation.calls.replies import NotSentError, RoundLostError
from elicitation.core import ElicitationPending
from elicitation.mcp import transport
from elicitation.mcp.client import aclient_options, resume
from elicitation.mcp.transport import connect, http_client
from elicitation.models import ParkedCall, ServerPolicy
from tests.wire.conftest import Host, check_kept, check_over, check_silent, stored
from tests.wire.server import Reply, Request, Server, error, held, http, raw, result, wait_for


class Login(httpx2.Auth):
    """Asks another server for a token, before the request or after a 401."""

    def __init__(self, url: str, *, first: bool) -> None:
        self.url, self.first = url, first

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self.first:
            yield httpx2.Request("POST", self.url)
        response = yield request
        if response.status_code == 401:
            yield httpx2.Request("POST", self.url)
            yield request


def test_certificates_are_read_once_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes longer than most calls. A client with a choice of its own reads for itself."""
    given: list[Any] = []
    monkeypatch.setattr(transport, "_Client", lambda **options: given.append(options))
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    choices: tuple[dict[str, Any], ...] = ({"verify": own}, {"trust_env": False})
    for options in ({}, {"headers": {}}, *choices):
        http_client(**options)
    first, second, *others = (options.get("verify") for options in given)
    assert isinstance(first, ssl.SSLContext)
    assert second is first
    assert others == [own, None]


def go_on(host: Host, pending: ElicitationPending, **options: Any) -> Any:
    key = pending.parked_call_id
    assert key is not None

    async def run() -> Any:
        async with (
            http_client(**options) as http,
            connect(host.server.url, http=http, **await aclient_options("shop")) as client,
        ):
            try:
                return await resume(client.session, key, server="shop")
            except Exception as raised:
                return raised

    return async_to_sync(run)()


@pytest.mark.parametrize(
    ("first", "retry", "reason"),
    [(True, result(), "connect"), (False, http(401, kind=""), "http_401")],
    ids=["before the request", "after a 401"],
)
def test_a_login_that_finds_nobody_loses_no_answer(
    first: bool, retry: Reply, reason: str, host: Host
) -> None:
    pending = host.answered()
    (answer,) = stored()
    host.server.retry = retry
    got = go_on(host, pending, auth=Login("http://127.0.0.1:9/token", first=first))
    assert isinstance(got, NotSentError)
    assert got.reason == reason
    assert len(host.server.retries) == (0 if first else 1)
    check_kept(pending, reason=reason, until=answer.expires_at)


def test_after_a_login_the_second_try_counts(host: Host) -> None:
    def refuse_once(request: Request) -> object:
        host.server.retry = http(500, kind="")
        return http(401, kind="")(request)

    pending = host.answered()
    host.server.retry = refuse_once
    got = go_on(host, pending, auth=Login(host.server.url.replace("mcp", "token"), first=False))
    assert isinstance(got, RoundLostError)
    assert len(host.server.retries) == 2


def test_a_proxy_that_is_not_there(host: Host) -> None:
    pending = host.answered()
    got = go_on(host, pending, proxy="http://127.0.0.1:9")
    assert isinstance(got, NotSentError)
    assert got.reason == "connect"
    assert isinstance(go_on(host, pending), CallToolResult)


def test_no_such_host_and_no_tls(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    url = host.server.url
    pending = host.answered()
    for broken in ("http://no-such-host.invalid/mcp", url.replace("http", "https"), "ftp://x/"):
        host.server = _at(broken)
        got = host.resume(pending)
        assert isinstance(got, NotSentError), (broken, got)
        assert got.reason == "connect"
        check_silent(got, caplog)
        host.server = _at(url)
    assert len(stored()) == 1


def test_a_connect_time_out(host: Host) -> None:
    pending = host.answered()
    url = host.server.url
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        # Nobody accepts; once the queue is full, the kernel lets further callers wait.
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        host.server = _at(f"http://127.0.0.1:{port}/mcp")
        got = go_on(host, pending, timeout=httpx2.Timeout(5, connect=0.3))
        for one in waiting:
            one.close()
    assert isinstance(got, NotSentError)
    assert got.reason == "connect"
    host.server = _at(url)
    assert isinstance(host.resume(pending), CallToolResult)


def test_no_connection_left_in_the_pool(host: Host) -> None:
    server = host.server
    pending = host.answered()
    key = pending.parked_call_id
    assert key is not None
    go = threading.Event()

    async def run() -> tuple[Any, Any]:
        options = await aclient_options("shop")
        async with (
            http_client(
                limits=httpx2.Limits(max_connections=1), timeout=httpx2.Timeout(5, pool=0.3)
            ) as http,
            connect(server.url, http=http, **options) as client,
        ):
            server.first = held(go, result())
            other = asyncio.ensure_future(host.acall(client, call="other"))
            await asyncio.to_thread(wait_for, lambda: len(server.calls) == 2)
            try:
                await resume(client.session, key, server="shop")
            except NotSentError as refused:
                go.set()
                return refused, await other
            raise AssertionError

    refused, other = async_to_sync(run)()
    assert refused.reason == "connect"
    assert isinstance(other, CallToolResult)
    assert server.retries == []


def _at(address: str) -> Any:
    class At(Server):
        url = address

    return At()


@pytest.mark.parametrize("reply", [raw(), error(-32603), http(503)], ids=["broken", "no", "503"])
def test_a_session_that_cannot_begin_says_so(reply: Reply, host: Host) -> None:
    """An outage is not taken for a server of another revision."""
    host.server.discover = raw()
    host.mode = "auto"
    host.server.first = reply
    assert isinstance(host.call(), BaseExceptionGroup)
    assert host.server.calls == []


def test_its_log_says_nothing_of_the_address(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    pending = host.answered()
    host.server.stop()
    host.resume(pending)
    (line,) = [one for one in caplog.records if "request to an MCP server" in one.getMessage()]
    assert vars(line)["error"] == "ConnectError"
    assert str(host.server.port) not in line.getMessage()


@pytest.mark.parametrize("idle", [0.0, 30.0])
def test_a_connection_that_was_idle_for_long_is_not_used_again(
    idle: float, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may be closing it just then: what is sent over it would be lost unread."""
    monkeypatch.setattr(transport, "IDLE", idle)
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}

    async def twice() -> None:
        async with http_client() as client:
            for _ in range(2):
                assert (await client.post(server.url, json=ask)).status_code == 200
                await asyncio.sleep(0.01)

    asyncio.run(twice())
    connections = {call.connection for call in server.calls}
    assert len(connections) == (1 if idle else 2)


def test_many_calls_are_told_apart(host: Host) -> None:
    """Concurrent retries on one client: each is judged by its own exchange."""
    server = host.server
    calls = [host.asked(call=f"call-{number}") for number in range(4)]
    for pending in calls:
        host.answer(pending)
    replies = [http(503, kind=""), result(), http(500, kind=""), http(429, kind="")]
    names = ["http_503", None, "error -32603", "http_429"]
    by_key = dict(zip([str(one.parked_call_id) for one in calls], replies, strict=True))
    arrived, go = [], threading.Event()

    def reply(request: Request) -> object:
        arrived.append(request)
        chosen = by_key[request.params["_meta"]["key"]]
        return held(go, chosen)(request)

    server.retry = reply

    async def one(client: mcp.Client, key: Any) -> Any:
        try:
            return await resume(_Tagged(client.session, str(key)), key, server="shop")
        except (NotSentError, RoundLostError) as raised:
            return raised.reason

    async def run(client: mcp.Client) -> Any:
        tasks = [asyncio.ensure_future(one(client, each.parked_call_id)) for each in calls]
        await asyncio.to_thread(wait_for, lambda: len(arrived) == 4)
        go.set()
        return await asyncio.gather(*tasks)

    got = host.run(run)
    assert [None if isinstance(each, CallToolResult) else each for each in got] == names


class _Tagged:
    """A session whose requests name their call, so that the server knows which is which."""

    def __init__(self, session: Any, key: str) -> None:
        self._session, self._key = session, key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_request(self, request: Any, model: Any, **options: Any) -> Any:
        request.params.meta = {"key": self._key}
        return await self._session.send_request(request, model, **options)


# --- Links, of both eras ---------------------------------------------------------------------

LINK = {
    "mode": "url",
    "message": "Sign in.",
    "url": "https://login.example/",
    "elicitationId": "e-1",
}


@pytest.fixture
def linked(host: Host, policy: ServerPolicy, user: User) -> tuple[Host, ElicitationPending]:
    """A call of a server of 2025-11-25, which wants a link to be opened; the person agrees."""
    host.mode = "legacy"
    host.server.first = error(-32042, "Sign in", {"elicitations": [LINK]})
    pending = host.asked()
    inbox.consent(pending.elicitation_ids[0], by=user)
    return host, pending


@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_a_legacy_retry_that_is_refused(
    status: int, linked: tuple[Host, ElicitationPending]
) -> None:
    host, pending = linked
    (consent,) = stored()
    host.server.first = http(status, kind="")
    got = host.resume(pending)
    assert isinstance(got, NotSentError)
    assert got.reason == f"http_{status}"
    check_kept(pending, reason=f"http_{status}", until=consent.expires_at)
    host.server.first = result()
    assert isinstance(host.resume(pending), CallToolResult)
    assert host.server.ran == 1


def test_a_legacy_retry_that_says_no(linked: tuple[Host, ElicitationPending]) -> None:
    host, pending = linked
    host.server.first = http(500, kind="")
    assert isinstance(host.resume(pending), RoundLostError)
    check_over(pending, said="round_lost")


def test_a_legacy_retry_that_breaks_off_can_be_told_twice(
    linked: tuple[Host, ElicitationPending],
) -> None:
    host, pending = linked
    (consent,) = stored()
    host.server.first = raw()
    got = host.resume(pending)
    assert isinstance(got, NotSentError)
    assert got.reason == "consent_broken_off"
    check_kept(pending, reason="consent_broken_off", until=consent.expires_at)
    host.server.first = result()
    assert isinstance(host.resume(pending), CallToolResult)


def test_a_first_call_of_a_legacy_session_that_is_refused(host: Host) -> None:
    host.mode = "legacy"
    host.server.first = http(503, kind="")
    got = host.call()
    assert isinstance(got, NotSentError)
    assert got.reason == "http_503"


@pytest.mark.parametrize("reply", [raw(), http(500), error(-32000)], ids=["broken", "500", "no"])
def test_a_first_call_that_fails_is_the_host_s_to_judge(reply: Reply, host: Host) -> None:
    """No answer was on its way: the error goes up as it came."""
    host.server.first = reply
    assert isinstance(host.call(), mcp.MCPError)
    assert not ParkedCall.objects.parked().exists()
    assert len(host.server.calls) == 1
