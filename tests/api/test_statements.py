"""How many statements the API takes to close an elicitation, with real commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client
from django.urls import reverse

from elicitation.core import FormElicitation, FormSchema
from elicitation.core import schema as core_schema
from elicitation.models import Elicitation
from tests.asking import ask, ask_to_open, schema
from tests.statements import closed, counted, statements

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BUY = schema("plan", plan={"type": "string", "enum": ["free", "pro"]}, seats={"type": "integer"})


def post(client: Client, face: str, asked: Elicitation, **body: object) -> object:
    url = reverse(f"elicitation_api:{face}", args=[asked.pk])
    return client.post(url, body, content_type="application/json")


def test_an_answer(ada: Client, user: User) -> None:
    asked = ask(user, BUY)
    assert statements(lambda: post(ada, "answer", asked, content={"plan": "pro"})) == closed()


def test_a_decline(ada: Client, user: User) -> None:
    asked = ask(user, BUY)
    assert statements(lambda: post(ada, "decline", asked)) == closed()


def test_a_consent(ada: Client, user: User) -> None:
    asked = ask_to_open(user)
    assert statements(lambda: post(ada, "consent", asked)) == closed()


def test_the_answer_is_checked_once_and_its_schema_parsed_once(
    ada: Client, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(user, BUY)
    checked = counted(monkeypatch, FormSchema, "check_answers")
    parsed = counted(monkeypatch, core_schema, "_required")
    computed = counted(monkeypatch, FormElicitation, "fingerprint")
    post(ada, "answer", asked, content={"plan": "pro"}, fingerprint=asked.fingerprint)
    assert (len(checked), len(parsed), len(computed)) == (1, 1, 0)
