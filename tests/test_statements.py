"""How many statements a page takes to close an elicitation, with real commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from elicitation.core import FormElicitation, FormSchema
from elicitation.core import schema as core_schema
from elicitation.models import Elicitation, StoredFormAnswer
from tests.asking import ask, ask_to_open, schema
from tests.statements import closed, counted, statements, told

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BUY = schema("plan", plan={"type": "string", "enum": ["free", "pro"]}, seats={"type": "integer"})


def form(elicitation: Elicitation, **typed: str) -> dict[str, str]:
    return {"fingerprint": elicitation.fingerprint, "a-0": "1", "a-1": "3", **typed}


def test_an_answer(ada: Client, user: User) -> None:
    asked = ask(user, BUY)
    assert statements(lambda: ada.post(asked.get_absolute_url(), form(asked))) == closed()
    assert StoredFormAnswer.objects.get().answers["plan"].selected == ("pro",)


def test_a_decline(ada: Client, user: User) -> None:
    url = reverse("elicitation:decline", args=[ask(user, BUY).pk])
    assert statements(lambda: ada.post(url)) == closed()


def test_a_consent(ada: Client, user: User) -> None:
    asked = ask_to_open(user)
    url = reverse("elicitation:consent", args=[asked.pk])
    assert statements(lambda: ada.post(url, form(asked))) == closed()


def test_going_on(ada: Client, user: User) -> None:
    asked = ask_to_open(user, parked=True)
    ada.post(reverse("elicitation:consent", args=[asked.pk]), form(asked))
    url = reverse("elicitation:continue", args=[asked.pk])
    assert statements(lambda: ada.post(url)) == ["SELECT", "BEGIN", "UPDATE", "COMMIT", *told()]


def test_what_does_not_fit_is_written_nowhere(ada: Client, user: User) -> None:
    asked = ask(user, BUY)
    with CaptureQueriesContext(connection) as captured:
        response = ada.post(asked.get_absolute_url(), form(asked, **{"a-1": "three"}))
    assert response.status_code == 422
    assert {query["sql"].split()[0] for query in captured.captured_queries} == {"SELECT"}


def test_the_answer_is_checked_once_and_its_schema_parsed_once(
    ada: Client, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(user, BUY)
    checked = counted(monkeypatch, FormSchema, "check_answers")
    parsed = counted(monkeypatch, core_schema, "_required")
    computed = counted(monkeypatch, FormElicitation, "fingerprint")
    # Where it leads is another request.
    assert ada.post(asked.get_absolute_url(), form(asked)).status_code == 302
    assert (len(checked), len(parsed), len(computed)) == (1, 1, 1)
