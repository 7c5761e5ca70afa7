"""What must hold in every project, however it is set up: the whole way, once through each face."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from elicitation import inbox
from elicitation.core import ElicitationPending
from elicitation.mcp.client import call_tool
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from tests.awkward.urls import ASKED, QUESTION, store
from tests.integration.scripted import ScriptedServer, accepted, ask, form, said, text

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

# From where the rows are in any case; a router may read others.
QUESTIONS = Elicitation.objects.using("default")


def two_rounds(params: Any) -> Any:
    if first := accepted(params, "first"):
        return ask(first["plan"], second=form("And then?", QUESTION))
    if second := accepted(params, "second"):
        return text(f"{params.request_state}, {second['plan']}")
    return ask("none", first=form("Which plan?", QUESTION))


def call(server: ScriptedServer, user: User) -> Any:
    async def run() -> Any:
        async with server.connect() as session:
            try:
                return await call_tool(
                    session, server="shop", tool="tool", scope="s", respondent=user
                )
            except ElicitationPending as pending:
                return pending

    return async_to_sync(run)()


@pytest.fixture
def site(user: User) -> Client:
    client = Client(raise_request_exception=True)
    client.force_login(user)
    ServerPolicy.objects.using("default").create(server="shop", policy="url_and_form")
    return client


def answer_on_page(site: Client, address: str, value: str) -> Any:
    page = site.get(address)
    assert page.status_code == 200
    found = re.search(r'name="fingerprint" value="(\w+)"', page.content.decode())
    assert found is not None
    return site.post(address, {"fingerprint": found[1], "a-0": value})


@pytest.fixture
def replicated(settings: Any) -> bool:
    """Whether a router reads policies from a replica that has none."""
    return bool(settings.DATABASE_ROUTERS)


def test_a_call_of_two_rounds_is_answered_on_the_page_and_by_the_api(
    site: Client, user: User
) -> None:
    server = ScriptedServer(two_rounds)
    first = call(server, user)
    assert isinstance(first, ElicitationPending), first
    assert answer_on_page(site, first.urls[0], "team").status_code == 302
    second = call(server, user)
    assert isinstance(second, ElicitationPending)
    address = f"/api/elicitation/elicitations/{second.elicitation_ids[0]}/answer/"
    body = {"content": {"plan": "solo"}}
    response = site.post(address, body, content_type="application/json")
    assert response.status_code == 200, response.content
    assert said(call(server, user)) == "team, solo"
    assert not StoredFormAnswer.objects.using("default").exists()
    assert not ParkedCall.objects.using("default").parked().exists()
    assert set(QUESTIONS.values_list("state", "delivery")) == {("answered", "delivered")}


def test_an_answer_is_recorded_taken_once_and_then_gone() -> None:
    answers = ASKED.schema.answers_from_content({"plan": "team"})
    store().record_form_answer(ASKED, "accept", answers)
    taken = store().take_form_answer(ASKED)
    assert taken is not None
    assert taken.answers == answers
    assert store().take_form_answer(ASKED) is None


def test_deadlines_are_kept(site: Client, user: User) -> None:
    before = timezone.now()
    pending = call(ScriptedServer(two_rounds), user)
    question = QUESTIONS.get()
    assert pending.deadline == question.expires_at
    assert timedelta(hours=23) < question.expires_at - before < timedelta(hours=25)
    assert question.is_open()
    QUESTIONS.update(expires_at=timezone.now() + timedelta(seconds=5))
    assert inbox.get(user, question.pk).is_open()
    assert inbox.expire_due() == 0
    QUESTIONS.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert not inbox.get(user, question.pk).is_open()
    late = site.post(question.get_absolute_url(), {"a-0": "late"})
    assert late.status_code == 409
    inbox.expire(question.pk)
    assert QUESTIONS.get().state == "expired"
    assert StoredFormAnswer.objects.using("default").get().action == "decline"


def test_the_inbox_shows_what_waits_and_what_was(
    site: Client, user: User, replicated: bool
) -> None:
    pending = call(ScriptedServer(two_rounds), user)
    page = site.get("/elicitation/").content.decode()
    # A list may be behind the times; a question's own page is not.
    assert (pending.urls[0] in page) is not replicated
    inbox.decline(pending.elicitation_ids[0], by=user)
    assert site.get("/elicitation/").status_code == 200


def test_no_check_of_the_app_fails() -> None:
    from django.core.management import call_command

    call_command("check", fail_level="ERROR")
