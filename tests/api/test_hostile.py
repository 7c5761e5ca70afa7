"""Hostile text, in every place that a server or a client can write to: it stays text, exactly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse

from elicitation.core import ElicitationError
from elicitation.core.untrusted import one_line
from elicitation.models import ServerPolicy, StoredFormAnswer, check_name
from tests.asking import allow, ask, schema
from tests.hostile import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User
    from rest_framework.test import APIClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("without_throttle")]

LIST = reverse("elicitation_api:list")
BUY = schema(plan={"type": "string", "enum": ["free", "pro"]})

#: Where a server, or the operator, writes: how to ask, and where the text is found again.
PLACES: dict[str, tuple[Callable[[User, str], Any], Callable[[Any], Any]]] = {
    "message": (lambda user, text: ask(user, BUY, text), lambda shown: shown["message"]),
    "title": (
        lambda user, text: ask(user, schema(x={"type": "string", "title": f"-{text}"})),
        lambda shown: shown["questions"][0]["label"][1:],
    ),
    "description": (
        lambda user, text: ask(user, schema(x={"type": "integer", "description": f"-{text}"})),
        lambda shown: shown["questions"][0]["description"][1:],
    ),
    "label": (
        lambda user, text: ask(
            user, schema(x={"oneOf": [{"const": "a", "title": text}, {"const": "b"}]})
        ),
        lambda shown: shown["questions"][0]["options"][0]["label"],
    ),
    "value": (
        lambda user, text: ask(
            user, schema(x={"oneOf": [{"const": text, "title": "A"}, {"const": "b"}]})
        ),
        lambda shown: shown["questions"][0]["options"][0]["value"],
    ),
    "item": (
        lambda user, text: ask(
            user, schema(x={"type": "array", "items": {"type": "string", "enum": [text, "bb"]}})
        ),
        lambda shown: shown["questions"][0]["options"][0]["value"],
    ),
    "default": (
        lambda user, text: ask(user, schema(x={"type": "string", "default": f"-{text}-"})),
        lambda shown: (shown["questions"][0]["default"] or {"other_text": "--"})["other_text"][
            1:-1
        ],
    ),
    "name": (
        lambda user, text: ask(user, {"type": "object", "properties": {text: {"type": "string"}}}),
        lambda shown: shown["questions"][0]["id"],
    ),
    "format": (
        lambda user, text: ask(user, schema(x={"type": "string", "format": text})),
        lambda shown: shown["questions"][0]["bounds"]["format"],
    ),
    "server": (
        lambda user, text: ask(user, BUY, server=check_name("The server", text)),
        lambda shown: shown["server"]["name"],
    ),
    "tool": (
        lambda user, text: ask(user, BUY, tool=check_name("The tool", text)),
        lambda shown: shown["tool"],
    ),
    "scope": (
        lambda user, text: ask(user, BUY, scope=check_name("The scope", text)),
        lambda shown: shown["scope"],
    ),
    "scope label": (
        lambda user, text: ask(user, BUY, scope_label=check_name("The label", text)[:64]),
        lambda shown: shown["scope_label"],
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_hostile_text_comes_out_as_it_went_in(place: str, api: APIClient, user: User) -> None:
    put, found = PLACES[place]
    allow(prefill=True)
    shown_here = 0
    for text in HOSTILE:
        try:
            elicitation = put(user, text)
        except ElicitationError:
            continue
        response = api.get(reverse("elicitation_api:detail", args=[elicitation.pk]))
        assert response.status_code == 200
        assert response["Content-Type"] == "application/json"
        shown = response.json()
        if place == "default" and shown["questions"][0]["default"] is None:
            # A suggestion that is no possible answer is ignored.
            elicitation.delete()
            continue
        # Labels of conversations are cut.
        assert found(shown) == (text[:64] if place == "scope label" else text), repr(text)
        [listed] = api.get(LIST).json()["results"]
        assert listed == {name: shown[name] for name in listed}
        elicitation.delete()
        shown_here += 1
    # Names of properties are letters, digits and three signs.
    assert shown_here > (2 if place == "name" else 50)


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

    for text in HOSTILE:
        elicitation = ask(user, schema("x", x={"type": kind}))
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
