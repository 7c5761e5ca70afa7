"""What changes while a person looks: whom it is told, what it says, and when it ends."""

from __future__ import annotations

import asyncio
import http.client
import uuid
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.authtoken.models import Token

from elicitation import inbox
from elicitation.inbox import access, listening, live
from elicitation.models import Elicitation
from elicitation.transactions import in_transaction
from tests import asking, processes
from tests.statements import counted
from tests.streams import API, PAGES, Stream, signed_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper

QUESTION = asking.schema("plan", plan={"type": "string", "title": "Which plan?"})
PEOPLE, EACH = 50, 100


@pytest.fixture
def stream(transactional_db: None, user: User, site_address: str) -> Iterator[Stream]:
    with Stream(site_address, signed_in(user)) as stream:
        stream.waiting()
        yield stream


# --- Under ASGI: a stream --------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", [PAGES, API])
def test_it_says_what_waits_and_then_what_changes_in_other_processes(
    user: User, site_address: str, path: str
) -> None:
    waits = asking.ask(user, QUESTION)
    asking.ask(user, QUESTION, state="withdrawn", call="other")
    with Stream(site_address, signed_in(user), path) as stream:
        assert stream.response.status == 200
        assert stream.response.headers["Content-Type"] == "text/event-stream"
        assert stream.response.headers["Cache-Control"] == "no-store, private"
        assert stream.response.headers["X-Accel-Buffering"] == "no"
        assert stream.waiting() == [str(waits.pk)]
        asked = asking.ask(user, QUESTION, "Say the s3cret word", scope_label="Private matters")
        stream.wait_for_state(asked.pk, "pending")
        inbox.decline(asked.pk, by=user)
        stream.wait_for_state(asked.pk, "declined")
        inbox.withdraw(waits.pk)
        stream.wait_for_state(waits.pk, "withdrawn")
    for text in ("s3cret", "Private", "Which plan", asking.SERVER, "buy", "chat-1"):
        assert text not in stream.text
    for _name, data in stream.events[1:]:
        assert set(data) == {"id", "state"}


@pytest.mark.django_db(transaction=True)
def test_nobody_learns_of_what_others_are_asked(site_address: str) -> None:
    people = [User.objects.create_user(f"person-{number}") for number in range(PEOPLE)]
    request = asking.request(QUESTION)
    theirs: dict[int, set[str]] = {}
    with ExitStack() as stack:
        streams = {
            person.pk: stack.enter_context(Stream(site_address, signed_in(person)))
            for person in people
        }
        for stream in streams.values():
            assert stream.waiting() == []
        for person in people:
            ask = partial(
                inbox.ask_all,
                [request] * EACH,
                parked_call_id=uuid.uuid4(),
                scope="chat-1",
                scope_label="",
                call="call-1",
                round=1,
                respondent_id=person.pk,
            )
            theirs[person.pk] = {str(asked.pk) for asked in in_transaction(ask)}
        for key, stream in streams.items():
            processes.wait_until(
                lambda stream=stream, key=key: set(stream.states()) >= theirs[key], "all of them"
            )
        # What is told next is told after anything that was told to the wrong person.
        last = {person.pk: asking.ask(person, QUESTION, call="last").pk for person in people}
        for key, stream in streams.items():
            stream.wait_for_state(last[key], "pending")
            theirs[key].add(str(last[key]))
    assert {key: set(stream.states()) for key, stream in streams.items()} == theirs


def test_signing_out_in_another_tab_ends_it(stream: Stream) -> None:
    token = "x" * 32
    cookies = f"{stream.headers['Cookie']}; csrftoken={token}"
    headers = {"Host": "localhost", "Cookie": cookies, "X-CSRFToken": token}
    tab = http.client.HTTPConnection(urlsplit(stream.site).netloc, timeout=processes.WAIT_SECONDS)
    tab.request("POST", "/accounts/logout/", headers=headers)
    assert tab.getresponse().status == 302
    tab.close()
    stream.wait_for_end()


@pytest.mark.parametrize("ended", ["session", "user", "password"])
def test_it_carries_nothing_after_its_session_has_ended(
    stream: Stream, user: User, ended: str
) -> None:
    if ended == "session":
        Session.objects.all().delete()
    elif ended == "user":
        User.objects.update(is_active=False)
    else:
        user.set_password("another")
        user.save()
    asking.ask(user, QUESTION)
    stream.wait_for_end()
    assert stream.states() == {}


@pytest.mark.django_db(transaction=True)
def test_a_program_is_signed_in_by_its_token_and_no_longer(user: User, site_address: str) -> None:
    token = Token.objects.create(user=user)
    headers = {"Authorization": f"Token {token}", "Host": "localhost"}
    with Stream(site_address, headers, API) as stream:
        stream.waiting()
        asked = asking.ask(user, QUESTION)
        stream.wait_for_state(asked.pk, "pending")
        Token.objects.all().delete()
        inbox.decline(asked.pk, by=user)
        stream.wait_for_end()
    assert stream.states() == {str(asked.pk): "pending"}


if connection.vendor == "postgresql":

    @pytest.mark.django_db(transaction=True)
    def test_on_postgresql_nothing_is_looked_up_while_nothing_happens(
        user: User, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.ELICITATION_POLL_INTERVAL = timedelta(milliseconds=20)
        # Longer ago than the look that goes with the beginning goes back.
        asked = asking.ask(user, QUESTION, asked_at=timezone.now() - timedelta(hours=1))
        looks = counted(monkeypatch, live._Streams, "_look")
        reads = counted(monkeypatch, live, "_news")

        async def follow() -> live.News:
            following = live.follow(user, lambda: user)
            assert await anext(following) == live.Waiting([asked.pk])
            [streams] = live._open.values()
            async with asyncio.timeout(processes.WAIT_SECONDS):
                while not streams.listener.hears:
                    await asyncio.sleep(0.01)
            before = len(looks), len(reads)
            await asyncio.sleep(0.5)
            assert (len(looks), len(reads)) == before
            # Said by the database alone, as another process says it.
            await sync_to_async(listening.tell)(asked.pk, live.CHANNEL)
            return await anext(following)

        assert async_to_sync(follow)() == live.Changed(asked.pk, "pending")


# --- Who is told -----------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("rule", ["RespondentAccess", "GroupAccess", "PermissionAccess"])
def test_those_are_told_who_may_see(settings: SettingsWrapper, rule: str) -> None:
    settings.ELICITATION_ACCESS = f"elicitation.inbox.access.{rule}"
    people = [User.objects.create_user(f"person-{number}") for number in range(120)]
    group = Group.objects.create(name="support")
    group.user_set.add(*people[:3], people[100])
    people[5].user_permissions.add(Permission.objects.get(codename="answer_any"))
    keys = [asking.ask(person, QUESTION).pk for person in (people[0], people[110])]
    rows = Elicitation.objects.filter(pk__in=keys)
    expected = {
        (person.pk, key, "pending")
        for person in User.objects.all()
        for key in access.visible(rows, person).values_list("pk", flat=True)
    }
    found = access.audience(rows, people)
    assert len(found) == len(expected)
    assert set(found) == expected
    assert len(expected) == {"RespondentAccess": 2, "GroupAccess": 5, "PermissionAccess": 4}[rule]


@pytest.mark.django_db
def test_it_costs_two_queries_however_many_look(user: User, other_user: User) -> None:
    asked = asking.ask(user, QUESTION)
    rows = Elicitation.objects.filter(pk=asked.pk)
    others = [User.objects.create_user(f"person-{number}") for number in range(200)]
    for people in ([user, other_user], [user, other_user, *others]):
        with CaptureQueriesContext(connection) as captured:
            assert access.audience(rows, people) == [(user.pk, asked.pk, "pending")]
        assert len(captured) == 2


# --- Elsewhere: a document -------------------------------------------------------------------


@pytest.mark.parametrize("path", [PAGES, API])
def test_without_asgi_it_is_a_document_that_is_sent_once(
    ada: Client, user: User, other_user: User, path: str
) -> None:
    first = asking.ask(user, QUESTION)
    asking.ask(other_user, QUESTION)
    # What EventSource sends: it stops, and complains of nothing.
    assert ada.get(path, headers={"accept": "text/event-stream"}).status_code == 204
    response = ada.get(path, headers={"accept": "application/json"})
    assert response.headers["Content-Type"] == "application/json"
    assert response.json() == {"waiting": [str(first.pk)]}
    tag = response.headers["ETag"]
    same = ada.get(path, headers={"if-none-match": tag})
    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["Cache-Control"] == "no-store, private"
    second = asking.ask(user, QUESTION)
    changed = ada.get(path, headers={"if-none-match": tag})
    assert changed.json() == {"waiting": [str(first.pk), str(second.pk)]}


@pytest.mark.parametrize("path", [PAGES, API])
def test_the_document_is_one_query_however_much_waits(ada: Client, user: User, path: str) -> None:
    asking.ask(user, QUESTION)
    ada.get(path)
    for _ in range(3):
        asking.ask(user, QUESTION)
        with CaptureQueriesContext(connection) as captured:
            assert ada.get(path).status_code == 200
        # The session, the person, and what waits.
        assert len(captured) == 3


@pytest.mark.parametrize("path", [PAGES, API])
def test_an_open_page_does_not_keep_its_person_signed_in(
    ada: Client, settings: SettingsWrapper, path: str
) -> None:
    settings.SESSION_SAVE_EVERY_REQUEST = True
    assert "sessionid" not in ada.get(path).cookies


def test_it_is_for_people_who_are_signed_in(client: Client) -> None:
    response = client.get(PAGES)
    assert (response.status_code, response.json()) == (401, {"waiting": None})
    assert client.get(API).status_code in (401, 403)
    assert client.post(PAGES).status_code == 405


def test_a_person_with_much_of_others_gets_the_most_urgent(
    ada: Client, user: User, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_MAX_OPEN_PER_PERSON = 3
    keys = [str(asking.ask(user, QUESTION).pk) for _ in range(5)]
    assert ada.get(PAGES).json()["waiting"] == keys[:3]
