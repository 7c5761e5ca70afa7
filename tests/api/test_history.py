"""Searching, what is closed, and how far a call is."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from elicitation.models import ParkedCall
from tests import asking

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper
    from rest_framework.test import APIClient

LIST, HISTORY = "/api/elicitation/elicitations/", "/api/elicitation/history/"
QUESTION = asking.schema("plan", plan={"type": "string"})


def ids(api: APIClient, url: str, **query: str) -> list[str]:
    response = api.get(url, query)
    assert response.status_code == 200, response.json()
    return [found["id"] for found in response.json()["results"]]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SEATS", {"message": "How many seats?"}),
        ("bUy", {"tool": "rebuys"}),
        ("quarter", {"scope_label": "The Quarterly report"}),
        ("warehouse", {"server": "the-warehouse"}),
        ("Corner", {"server": "labelled"}),
        ("50%_", {"message": "Take 50%_ off?"}),
    ],
)
def test_a_search_finds_what_people_see(
    api: APIClient, user: User, other_user: User, text: str, place: dict[str, str]
) -> None:
    asking.allow("labelled", label="The corner shop")
    plain = {"message": "50 percent", "tool": "order", "server": "store"}
    found = asking.ask(user, QUESTION, **plain | place)  # type: ignore[arg-type]
    asking.ask(user, QUESTION, **plain)  # type: ignore[arg-type]
    asking.ask(other_user, QUESTION, **plain | place)  # type: ignore[arg-type]
    assert ids(api, LIST, search=text) == [str(found.pk)]
    assert ids(api, LIST, search=text, state="declined") == []
    assert ids(api, HISTORY, search=text) == []


@pytest.mark.parametrize("text", ["", "a\x00b", "x" * 201])
def test_a_search_that_finds_nothing_ever_is_refused(api: APIClient, text: str) -> None:
    response = api.get(LIST, {"search": text})
    assert (response.status_code, set(response.json()["errors"])) == (400, {"search"})
    assert text not in response.json()["errors"]["search"]["message"] or not text


def test_history_has_the_latest_first_in_pages_of_constant_queries(
    api: APIClient, user: User, other_user: User, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_PAGE_SIZE = 3
    now = timezone.now()
    closed = [
        str(
            asking.ask(user, QUESTION, state="declined", closed_at=now - timedelta(hours=hours)).pk
        )
        for hours in (5, 1, 4, 2, 3)
    ]
    asking.ask(user, QUESTION)
    asking.ask(other_user, QUESTION, state="declined", closed_at=now)
    order = [closed[index] for index in (1, 3, 4, 2, 0)]
    with CaptureQueriesContext(connection) as captured:
        first = api.get(HISTORY).json()
    assert [found["id"] for found in first["results"]] == order[:3]
    # The token, what is closed, and the policies.
    assert len(captured) == 3
    second = api.get(first["next"]).json()
    assert [found["id"] for found in second["results"]] == order[3:]
    assert second["next"] is None


def test_progress_says_how_far_the_call_is_and_never_what_it_returned(
    api: APIClient, user: User
) -> None:
    asked = asking.ask_to_open(user, parked=True)
    url = f"{LIST}{asked.pk}/progress/"
    with CaptureQueriesContext(connection) as captured:
        assert api.get(url).json()["call"] == "waiting"
    # The token, the elicitation, its call, and whether anything is open.
    assert len(captured) == 4
    type(asked).objects.update(state="declined", closed_at=timezone.now())
    assert api.get(url).json()["call"] == "going_on"
    ParkedCall.objects.update(ended_at=timezone.now(), outcome="finished", result='"s3cret"')
    ended = api.get(url)
    assert (ended.json()["call"], ended.json()["outcome"]) == ("ended", "finished")
    assert "s3cret" not in ended.content.decode()
    # Acknowledged.
    ParkedCall.objects.all().delete()
    type(asked).objects.update(delivered_at=timezone.now(), delivery="delivered")
    last = api.get(url).json()
    assert (last["call"], last["outcome"], last["delivery"]) == ("ended", None, "delivered")


def test_nobody_else_learns_how_far_a_call_is(api: APIClient, other_user: User) -> None:
    asked = asking.ask(other_user, QUESTION)
    assert api.get(f"{LIST}{asked.pk}/progress/").status_code == 404
