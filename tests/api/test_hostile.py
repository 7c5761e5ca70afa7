"""Hostile text, in every place that a server or a client can write to: it stays text, exactly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse

from elicitation.core.untrusted import one_line
from elicitation.models import ServerPolicy, StoredFormAnswer
from tests.asking import allow, ask, schema
from tests.hostile import EVERYWHERE, HOSTILE, MIXED, accepted, ask_with, is_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User
    from rest_framework.test import APIClient

    from elicitation.models import Elicitation

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("without_throttle")]

LIST = reverse("elicitation_api:list")
BUY = schema(plan={"type": "string", "enum": ["free", "pro"]})

#: Where the text of each place is found again, in what is shown and in its questions by name.
FOUND: dict[str, Callable[[Any, Any], str]] = {
    "message": lambda shown, _questions: shown["message"][len("before ") : -len(" password")],
    "server": lambda shown, _questions: shown["server"]["name"][len(f"{MIXED} ") :],
    "tool": lambda shown, _questions: shown["tool"],
    "scope label": lambda shown, _questions: shown["scope_label"],
    "title": lambda _shown, questions: questions["title"]["label"][len("before ") :],
    "description": lambda _shown, questions: questions["description"]["description"][7:],
    "label": lambda _shown, questions: questions["label"]["options"][0]["label"],
    "value": lambda _shown, questions: questions["value"]["options"][0]["value"],
    "select": lambda _shown, questions: questions["select"]["options"][0]["value"],
    "checkbox": lambda _shown, questions: questions["checkbox"]["options"][0]["value"],
    "format": lambda _shown, questions: questions["format"]["bounds"]["format"],
    "name of a property": lambda shown, _questions: shown["questions"][-1]["id"],
}
#: What is cut, and where.
CUT = {"scope label": 64, "title": 200 - len("before ")}


def read(api: APIClient, elicitation: Elicitation) -> Any:
    """Return what the API shows of a question, which its list shows too."""
    response = api.get(reverse("elicitation_api:detail", args=[elicitation.pk]))
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    shown = response.json()
    [listed] = api.get(LIST).json()["results"]
    assert listed == {name: shown[name] for name in listed}
    elicitation.delete()
    return shown


def test_hostile_text_comes_out_as_it_went_in(api: APIClient, user: User) -> None:
    """From all places at once that accept it, which are many (``tests/test_hostile.py``)."""
    assert {*FOUND, "server label"} == EVERYWHERE
    for text in HOSTILE:
        places = accepted(text) - {"server label"}
        shown = read(api, ask_with(dict.fromkeys(places, text), user))
        questions = {each["id"]: each for each in shown["questions"]}
        for place in places:
            found = FOUND[place](shown, questions)
            assert found == text[: CUT.get(place)], f"{place}: {text!r}"


def test_a_hostile_scope_and_suggestion_come_out_as_they_went_in(
    api: APIClient, user: User
) -> None:
    allow(prefill=True)
    suggested = 0
    for text in filter(is_name, HOSTILE):
        requested = schema(x={"type": "string", "default": f"-{text}-"})
        shown = read(api, ask(user, requested, scope=text))
        assert shown["scope"] == text
        # A suggestion that is no possible answer is ignored.
        if (default := shown["questions"][0]["default"]) is not None:
            assert default["other_text"] == f"-{text}-"
            suggested += 1
    assert suggested > 50


def test_a_server_s_label_is_one_visible_line(api: APIClient, user: User) -> None:
    elicitation = ask(user, BUY)
    url = reverse("elicitation_api:detail", args=[elicitation.pk])
    for text in HOSTILE:
        if "\x00" in text or "\ud800" in text:
            # No database takes them.
            continue
        ServerPolicy.objects.all().delete()
        allow(label=text[:64])
        label = api.get(url).json()["server"]["label"]
        assert label == one_line(text[:64] or "shop")
        assert "\n" not in label
        assert "\u202e" not in label


#: Where a client writes.
BODIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "content": lambda text: {"content": {"x": text}},
    "answers": lambda text: {"answers": {"x": {"other_text": text}}},
    "selected": lambda text: {"answers": {"x": {"selected": [text]}}},
    "name in content": lambda text: {"content": {text: 1}},
    "name in answers": lambda text: {"answers": {text: {"skipped": True}}},
    "name in an answer": lambda text: {"answers": {"x": {text: True}}},
    "name in the body": lambda text: {text: {}},
    "fingerprint": lambda text: {"content": {"x": "a"}, "fingerprint": text},
}


@pytest.mark.parametrize("place", BODIES)
@pytest.mark.parametrize("kind", ["string", "integer"])
def test_hostile_requests_are_answered(place: str, kind: str, api: APIClient, user: User) -> None:
    requested = schema("x", x={"type": kind})
    elicitation = ask(user, requested)
    for text in HOSTILE:
        response = api.post(
            reverse("elicitation_api:answer", args=[elicitation.pk]),
            # As escapes, so that half a character can be sent.
            json.dumps(BODIES[place](text)),
            content_type="application/json",
        )
        assert response.status_code in (200, 400, 409), repr(text)
        body = response.json()
        if response.status_code == 200:
            assert place in ("content", "answers")
            assert kind == "string"
            stored = StoredFormAnswer.objects.get(elicitation_id=elicitation.pk)
            assert stored.answers["x"].other_text == text
            elicitation = ask(user, requested)
        elif place.startswith("name in") and body["code"] != "not_json":
            assert set(body["errors"]) <= {text, "x", "answers", "content"}
        elif len(text) > 12:
            # What was typed is repeated nowhere.
            assert text not in json.dumps(body, ensure_ascii=False)


@pytest.mark.parametrize("name", ["state", "scope", "server", "cursor", "nonsense"])
def test_hostile_queries_are_answered(name: str, api: APIClient, user: User) -> None:
    ask(user, BUY)
    for text in HOSTILE:
        if "\ud800" in text:
            # It cannot be written in an address.
            continue
        response = api.get(LIST, {name: text})
        assert response.status_code in (200, 400, 404), repr(text)
        if name in ("scope", "server") and response.status_code == 200:
            assert response.json()["results"] == []
