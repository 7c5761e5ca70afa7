"""``auth``: each person's calls carry their own credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory
from django.views.debug import ExceptionReporter

from elicitation import calls
from elicitation.calls.replies import NotSentError
from elicitation.core import ElicitationPending
from elicitation.models import StoredFormAnswer
from tests.integration.scripted import said

from .conftest import Serve, answer, in_a_loop, kept
from .running import bearer

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


async def async_bearer(user: User | None) -> dict[str, str]:
    return bearer(user)


class Bearer:
    async def __call__(self, user: User | None) -> dict[str, str]:
        return bearer(user)


class Login(httpx2.Auth):
    def __init__(self, user: User) -> None:
        self.user = user

    def auth_flow(self, request: httpx2.Request) -> Iterator[httpx2.Request]:  # type: ignore[override]
        request.headers.update(bearer(self.user))
        yield request


async def say(user: User | None) -> str:
    return said(await calls.call("shop", "say", scope="chat", user=user))


async def parked(user: User) -> Any:
    with pytest.raises(ElicitationPending) as caught:
        await calls.call("shop", "ask", scope=user.pk, user=user)
    await answer(user, f"of {user.username}")
    return caught.value.parked_call_id


@in_a_loop
async def test_a_call_goes_on_with_the_token_of_its_respondent(
    serve: Serve, user: User, other_user: User
) -> None:
    shop = serve("shop", "http", auth=bearer)
    shop.allow("ada", "grace", "nobody")
    keys = [await parked(person) for person in (user, other_user)]
    for key in keys:
        await calls.resume(key)
    await say(None)
    assert shop.said == [("ada", "of ada"), ("grace", "of grace"), ("nobody", "said")]
    assert sorted(shop.connections) == ["ada", "grace", "nobody"]
    assert shop.lines("401") == []


@pytest.mark.parametrize("auth", [f"{__name__}.async_bearer", Bearer(), Login])
@in_a_loop
async def test_what_it_can_be(auth: Any, serve: Serve, user: User) -> None:
    shop = serve("shop", "http", auth=auth)
    await say(user)
    assert shop.said == [("ada", "said")]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "builtins.NoneType"),
        ("Bearer s3cret", "builtins.str"),
        ({"Authorization": b"s3cret"}, "builtins.dict"),
    ],
)
@in_a_loop
async def test_what_it_must_not_return(value: Any, kind: str, serve: Serve, user: User) -> None:
    shop = serve("shop", "http", auth=lambda user: value)
    with pytest.raises(ImproperlyConfigured, match=rf"SERVERS\['shop'\]\['auth'\].*{kind}") as it:
        await say(user)
    report = ExceptionReporter(RequestFactory().get("/"), *it._excinfo)
    frames = report.get_traceback_frames()
    ours = [frame for frame in frames if "elicitation/" in frame["filename"]]
    assert ours
    assert "s3cret" not in str(it.value) + str([frame["vars"] for frame in ours])
    assert (shop.connections, kept()) == ([], [])


@in_a_loop
async def test_its_own_errors_come_as_they_are(serve: Serve, user: User) -> None:
    def fail(user: User | None) -> dict[str, str]:
        raise LookupError("no token")

    serve("shop", "http", auth=fail)
    results = await asyncio.gather(say(user), say(user), return_exceptions=True)
    assert [type(each) for each in results] == [LookupError, LookupError]


@in_a_loop
async def test_headers_of_the_settings_are_sent_too(serve: Serve, user: User) -> None:
    shop = serve("shop", "http", headers={"Authorization": "Bearer site", "X-Site": "1"})
    await say(user)
    assert shop.said == [("site", "said")]


class Tokens:
    """Gives out the newest token."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.asked = 0

    def __call__(self, user: User | None) -> dict[str, str]:
        self.asked += 1
        token = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        return {"Authorization": f"Bearer {token}"}


@in_a_loop
async def test_a_token_that_has_expired_is_asked_for_again(serve: Serve, user: User) -> None:
    tokens = Tokens("old", "new")
    shop = serve("shop", "http", auth=tokens)
    shop.allow("old")
    key = await parked(user)
    assert tokens.asked == 1
    shop.allow("new")
    assert said(await calls.resume(key)) == "of ada"
    await say(user)
    assert shop.said == [("new", "of ada"), ("new", "said")]
    assert tokens.asked == 2
    assert len(shop.lines("401")) == 1


@in_a_loop
async def test_calls_at_once_ask_once_for_a_new_token(serve: Serve, user: User) -> None:
    tokens = Tokens("old", "new", "newer")
    shop = serve("shop", "http", auth=tokens)
    shop.allow("old")
    await say(user)
    shop.allow("new")
    await asyncio.gather(*(say(user) for _ in range(3)))
    assert shop.said == [("old", "said"), *[("new", "said")] * 3]
    assert tokens.asked == 2


@in_a_loop
async def test_a_token_that_was_taken_away_is_not_sent_again(serve: Serve, user: User) -> None:
    tokens = [{}, bearer(user)]
    shop = serve("shop", "http", auth=lambda user: tokens.pop())
    await say(user)
    shop.allow("another")
    with pytest.raises(NotSentError):
        await say(user)
    assert [line["token"] for line in shop.lines("401")] == ["Bearer ada", ""]


@in_a_loop
async def test_a_token_that_is_refused_loses_no_answer(serve: Serve, user: User) -> None:
    shop = serve("shop", "http", auth=bearer)
    key = await parked(user)
    shop.allow("another")
    with pytest.raises(NotSentError) as caught:
        await calls.resume(key)
    assert (caught.value.reason, caught.value.parked_call_id) == ("http_401", key)
    assert await StoredFormAnswer.objects.acount() == 1
    # It is the same token: nothing is sent twice.
    assert len(shop.lines("401")) == 1
    shop.allow("ada")
    assert said(await calls.resume(key)) == "of ada"


@in_a_loop
async def test_a_token_that_is_refused_before_the_first_call(serve: Serve, user: User) -> None:
    tokens = Tokens("old", "new")
    shop = serve("shop", "http", auth=tokens)
    shop.allow("new")
    with pytest.raises(NotSentError) as caught:
        await say(user)
    assert caught.value.reason == "http_401"
    # It had just been asked for.
    assert tokens.asked == 1
    assert await say(user) == "said"


@in_a_loop
async def test_an_auth_that_fails_at_the_second_time(serve: Serve, user: User) -> None:
    answers: list[Callable[[], dict[str, str]]] = [lambda: bearer(user)]

    def auth(user: User | None) -> dict[str, str]:
        return answers.pop()()

    shop = serve("shop", "http", auth=auth)
    key = await parked(user)
    shop.allow("another")
    with pytest.raises(NotSentError) as caught:
        await calls.resume(key)
    assert caught.value.reason == "http_401"
    assert await StoredFormAnswer.objects.acount() == 1


@in_a_loop
async def test_another_auth_is_another_connection(
    serve: Serve, user: User, settings: SettingsWrapper
) -> None:
    shop = serve("shop", "http", auth=bearer)
    await say(user)
    options = settings.ELICITATION_SERVERS["shop"] | {"auth": async_bearer}
    settings.ELICITATION_SERVERS = {"shop": options}
    await say(user)
    assert shop.connections == ["ada", "ada"]
