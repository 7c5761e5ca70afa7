"""Which connections are kept, for whom, and until when."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from mcp import MCPError

from elicitation import calls
from elicitation.calls import background
from elicitation.calls.replies import NotSentError
from elicitation.core import ElicitationPending
from elicitation.mcp import connections
from elicitation.models import Elicitation, ServerPolicy
from tests import processes
from tests.integration.scripted import said

from .conftest import Serve, answer, in_a_loop, kept, until
from .running import bearer, over_http

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


async def say(user: User | None, server: str = "shop") -> str:
    return said(await calls.call(server, "say", scope="chat", user=user))


async def ask(user: User, note: str) -> str:
    """Call the tool of an older server, with the person at hand."""
    result, _ = await asyncio.gather(
        calls.call("shop", "ask", scope=user.pk, user=user), answer(user, note)
    )
    return said(result)


# --- Sharing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["http", "stdio"])
@in_a_loop
async def test_without_credentials_all_people_share_one(
    way: str, serve: Serve, user: User, other_user: User
) -> None:
    shop = serve("shop", way)
    await asyncio.gather(say(user), say(other_user), say(user))
    await say(other_user)
    assert len(shop.connections) == len(kept()) == 1


@in_a_loop
async def test_with_credentials_each_person_has_their_own(
    serve: Serve, user: User, other_user: User
) -> None:
    shop = serve("shop", "http", auth=bearer)
    await asyncio.gather(*(say(person) for person in (user, other_user, None) * 2))
    assert sorted(shop.connections) == ["ada", "grace", "nobody"]
    assert {token for token, _ in shop.said} == {"ada", "grace", "nobody"}


@in_a_loop
async def test_two_servers_have_two(serve: Serve, user: User) -> None:
    shop, other = serve("shop", "stdio"), serve("other", "stdio")
    await say(user)
    await say(user, "other")
    assert (len(shop.said), len(other.said), len(kept())) == (1, 1, 2)


@pytest.mark.parametrize("way", ["http", "stdio"])
@in_a_loop
async def test_an_older_server_asks_the_person_of_its_call(
    way: str, serve: Serve, user: User, other_user: User
) -> None:
    """It does not say of which call it asks: a connection has one call at a time."""
    shop = serve("shop", way, "legacy")
    assert await ask(user, "first") == "first"
    # It is not used for the other person, though nobody uses it now.
    assert await ask(other_user, "second") == "second"
    assert [each.person for each in kept()] == [user.pk, other_user.pk]
    notes = await asyncio.gather(ask(user, "of ada"), ask(other_user, "of grace"))
    assert notes == ["of ada", "of grace"]
    assert len(shop.connections) == 2


@in_a_loop
async def test_an_older_server_that_asks_after_its_call_asks_nobody(
    serve: Serve, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    shop = serve("shop", "stdio", "legacy")
    await calls.call("shop", "late", scope="chat", user=user)
    shop.log.with_suffix(".go").touch()
    await until(lambda: shop.lines("late"))
    assert [line["said"] for line in shop.lines("late")] == ["decline"]
    assert not await Elicitation.objects.aexists()
    assert "while no call of it is under way" in caplog.text


@in_a_loop
async def test_calls_of_one_person_at_once_have_a_connection_each(
    serve: Serve, user: User
) -> None:
    shop = serve("shop", "http", "legacy")
    waiting = [
        asyncio.ensure_future(calls.call("shop", "ask", scope=number, user=user))
        for number in range(3)
    ]
    for _ in waiting:
        await answer(user, "blue")
    assert [said(each) for each in await asyncio.gather(*waiting)] == ["blue"] * 3
    assert len(shop.connections) == 3


@in_a_loop
async def test_what_is_declared_follows_the_policy(serve: Serve, user: User) -> None:
    shop = serve("shop", "http")
    await say(user)
    row = await ServerPolicy.objects.acreate(server="shop", policy="url")
    await say(user)
    row.policy = "none"
    await row.asave()
    await say(user)
    await row.adelete()
    await say(user)
    assert shop.declared == [{"form": {}, "url": {}}, {"url": {}}, None]


# --- Broken connections ----------------------------------------------------------------------


@in_a_loop
async def test_a_program_that_has_ended_is_started_again(serve: Serve, user: User) -> None:
    shop = serve("shop", "stdio")
    await say(user)
    (first,) = kept()
    with pytest.raises(Exception, match="Connection closed"):
        await calls.call("shop", "end", scope="chat", user=user)
    await until(lambda: first.has_ended)
    assert await say(user) == "said"
    assert len({line["pid"] for line in shop.lines("tools/call")}) == 2
    await until(lambda: first not in kept())


@in_a_loop
async def test_a_program_that_ends_unnoticed_costs_no_call(
    serve: Serve, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call finds out before it has sent anything, and is made again."""
    shop = serve("shop", "stdio")
    with pytest.raises(ElicitationPending) as caught:
        await calls.call("shop", "ask", scope="chat", user=user)
    await answer(user, "blue")
    (first,) = kept()
    with pytest.raises(Exception, match="Connection closed"):
        await calls.call("shop", "end", scope="other", user=user)
    await until(lambda: first.has_ended)
    # As if it had ended between the look and the call.
    looks = iter([False])
    monkeypatch.setattr(
        connections.Connection,
        "has_ended",
        property(lambda self: next(looks, self.host is not None and self.host.has_ended)),
    )
    assert said(await calls.resume(caught.value.parked_call_id)) == "blue"
    assert shop.said == [("", "blue")]


@in_a_loop
async def test_an_older_server_that_was_restarted(
    tmp_path: Path, user: User, settings: SettingsWrapper
) -> None:
    port = processes.free_port()
    with over_http(tmp_path, "shop", "legacy", port) as running:
        settings.ELICITATION_SERVERS = {"shop": running.options | {"policy": "url_and_form"}}
        await say(user)
    with pytest.raises(NotSentError):
        await say(user)
    with over_http(tmp_path, "shop", "legacy", port) as running:
        await asyncio.gather(say(user), say(user))
        assert len(kept()) == 2
    with over_http(tmp_path, "shop", "legacy", port) as running:
        # It has forgotten both sessions: the same call is made over a new one.
        assert await say(user) == "said"
    assert len(running.said) == 4


@in_a_loop
async def test_a_call_that_is_cancelled_leaves_no_connection_of_an_older_server(
    serve: Serve, user: User
) -> None:
    shop = serve("shop", "http", "legacy")
    task = asyncio.ensure_future(calls.call("shop", "ask", scope="chat", user=user))
    while not await Elicitation.objects.pending().aexists():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: kept() == [])
    # What the server refuses has ended, and the connection stays.
    for _ in range(2):
        with pytest.raises(Exception, match="no"):
            await calls.call("shop", "fail", scope="chat", user=user)
    assert len(shop.connections) == 2


@in_a_loop
async def test_a_call_that_is_cancelled_while_it_connects(
    serve: Serve, user: User, settings: SettingsWrapper
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(user: User | None) -> dict[str, str]:
        begun.set()
        await go.wait()
        return bearer(user)

    serve("shop", "http", auth=slow)
    first = asyncio.ensure_future(say(user))
    await begun.wait()
    second = asyncio.ensure_future(say(user))
    (connection,) = kept()
    await asyncio.sleep(0.1)
    assert kept() == [connection]
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    go.set()
    # The second had waited for the connection of the first, and makes its own.
    assert await second == "said"


@in_a_loop
async def test_a_server_that_says_nothing(
    tmp_path: Path, user: User, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 3.0)
    begun = tmp_path / "begun"
    code = "import sys; open(sys.argv[1], 'a').write('x'); sys.stdin.read()"
    settings.ELICITATION_SERVERS = {
        "shop": {"command": sys.executable, "args": ["-c", code, str(begun)]}
    }
    results = await asyncio.gather(say(user), say(user), return_exceptions=True)
    assert [type(each) for each in results] == [NotSentError, NotSentError]
    await until(lambda: kept() == [])
    # Both have waited for the same.
    assert begun.read_text() == "x"


def test_a_server_that_is_an_older_one_for_a_while(
    tmp_path: Path, user: User, settings: SettingsWrapper
) -> None:
    """An answer is kept: an older server would ignore it."""
    port = processes.free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    settings.ELICITATION_SERVERS = {"shop": {"url": url, "policy": "url_and_form"}}
    with over_http(tmp_path, "shop", "modern", port), pytest.raises(ElicitationPending) as caught:
        calls.call_sync("shop", "ask", scope="chat", user=user)
    async_to_sync(answer)(user, "blue")
    # Another process.
    background.stop()

    async def go_on() -> str:
        return said(await calls.resume(caught.value.parked_call_id))

    async def work() -> None:
        with over_http(tmp_path, "shop", "legacy", port):
            for _ in range(2):
                with pytest.raises(NotSentError) as told:
                    await go_on()
                assert told.value.reason == "wrong_revision"
            assert await ask(user, "green") == "green"
            assert [each.is_legacy for each in kept() if not each.is_retired] == [True]
        with over_http(tmp_path, "shop", "modern", port):
            # The connection that is kept is of no use for it.
            assert await go_on() == "blue"

    async_to_sync(work)()


@in_a_loop
async def test_a_server_that_became_an_older_one(
    tmp_path: Path, user: User, settings: SettingsWrapper
) -> None:
    """The first call finds out, and the next one connects again."""
    port = processes.free_port()
    with over_http(tmp_path, "shop", "modern", port) as running:
        settings.ELICITATION_SERVERS = {"shop": running.options}
        await say(user)
    with over_http(tmp_path, "shop", "legacy", port):
        with pytest.raises((MCPError, NotSentError)):
            await say(user)
        assert await say(user) == "said"


@in_a_loop
async def test_a_connection_over_http_is_replaced_after_a_while(
    serve: Serve, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LIFETIME", -1.0)
    shop, program = serve("shop", "http"), serve("program", "stdio")
    for server in ("shop", "program"):
        await say(user, server)
        await say(user, server)
    assert (len(shop.connections), len(program.connections)) == (2, 1)


# --- Idle connections, and the end ------------------------------------------------------------


@in_a_loop
async def test_a_connection_that_nobody_uses_is_closed(
    serve: Serve, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE", 0.0)
    shop = serve("shop", "stdio", "legacy")
    # While it waits for a person it is in use.
    assert await ask(user, "blue") == "blue"
    await until(lambda: kept() == [])
    (pid,) = {line["pid"] for line in shop.lines("tools/call")}
    await until(lambda: not is_alive(pid))
    assert await ask(user, "green") == "green"


@in_a_loop
async def test_as_many_are_kept_as_there_may_be(
    serve: Serve, user: User, other_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_IDLE", 1)
    serve("shop", "http", auth=bearer)
    await say(user)
    await say(other_user)
    await until(lambda: len(kept()) == 1)
    assert kept()[0].person == other_user.pk


@pytest.mark.parametrize("way", ["http", "stdio"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_all_are_closed_at_the_end_of_the_loop(
    way: str, era: str, serve: Serve, user: User
) -> None:
    shop = serve("shop", way, era)
    assert async_to_sync(say)(user) == "said"
    assert connections._connections == {}
    if way == "stdio":
        (pid,) = {line["pid"] for line in shop.lines("tools/call")}
        assert not is_alive(pid)


def test_a_loop_that_ends_before_it_connects_leaves_nothing(
    user: User, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ELICITATION_SERVERS = {"shop": {"command": sys.executable}}
    create_task = asyncio.BaseEventLoop.create_task

    def cancelled_at_once(loop: Any, work: Any, **options: Any) -> Any:
        task = create_task(loop, work, **options)
        if "_live" in repr(work):
            task.cancel()
        return task

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_task", cancelled_at_once)
    with pytest.raises(NotSentError):
        async_to_sync(say)(user)
    assert connections._connections == {}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
