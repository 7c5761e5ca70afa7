"""What the API shows, and what it records."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from elicitation import inbox
from elicitation.api.serializers import CONTENT as CONTENT_OF_KINDS
from elicitation.core import KINDS, FormAnswer
from elicitation.models import Elicitation, StoredFormAnswer
from tests.asking import allow, ask, schema

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from rest_framework.test import APIClient

pytestmark = pytest.mark.django_db

LIST = reverse("elicitation_api:list")
#: Every kind of property, not in the order of names.
EVERY_KIND = schema(
    "seats",
    "plan",
    seats={
        "type": "integer",
        "title": "Seats",
        "description": "One each",
        "minimum": 1,
        "maximum": 9007199254740993,
        "default": 3,
    },
    plan={
        "type": "string",
        "oneOf": [{"const": "s", "title": "Solo"}, {"const": "t", "title": "Team"}],
        "default": "t",
    },
    extras={"type": "array", "maxItems": 2, "items": {"type": "string", "enum": ["a", "b", "c"]}},
    mail={"type": "string", "format": "email", "minLength": 3, "maxLength": 100},
    ratio={
        "type": "number",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1.5,
        "multipleOf": 0.5,
    },
    sure={"type": "boolean", "default": True},
    size={"enum": [1, 2.5]},
)
CONTENT = {"seats": 2, "plan": "s", "extras": ["b"], "sure": False, "size": 2.5}
ANSWERS = {
    "seats": {"other_text": "2"},
    "plan": {"selected": ["Solo"]},
    "extras": {"selected": ["b"]},
    "mail": {"skipped": True},
    "ratio": {"skipped": True},
    "sure": {"selected": ["No"]},
    "size": {"selected": ["2.5"], "other_text": None},
}
NAME = schema("name", name={"type": "string"})


def address(elicitation: Elicitation | uuid.UUID | str, action: str = "detail") -> str:
    key = elicitation.pk if isinstance(elicitation, Elicitation) else elicitation
    return reverse(f"elicitation_api:{action}", args=[key])


def post(client: Any, elicitation: Any, body: Any, action: str = "answer") -> Any:
    return client.post(address(elicitation, action), body, format="json")


def past_deadline(elicitation: Elicitation) -> None:
    Elicitation.objects.filter(pk=elicitation.pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )


# --- What is shown ---------------------------------------------------------------------------


def test_a_question_is_shown_as_it_is_asked(api: APIClient, user: User) -> None:
    allow(label="Demo shop")
    elicitation = ask(user, EVERY_KIND, "Which?", scope_label="Chat")
    response = api.get(address(elicitation))
    assert response.status_code == 200
    shown = response.json()
    questions = shown.pop("questions")
    assert shown == {
        "id": str(elicitation.pk),
        "kind": "form",
        "state": "pending",
        "server": {"name": "shop", "label": "Demo shop"},
        "tool": "buy",
        "scope": "chat-1",
        "scope_label": "Chat",
        "message": "Which?",
        "asked_at": shown["asked_at"],
        "deadline": shown["deadline"],
        "closed_at": None,
        "page_url": elicitation.get_absolute_url(),
        "fingerprint": elicitation.fingerprint,
        "url": None,
        "scope_url": "",
        "result_url": "",
    }
    assert [question["id"] for question in questions] == [
        "seats", "plan", "extras", "mail", "ratio", "sure", "size",
    ]  # fmt: skip
    by_name = {question.pop("id"): question for question in questions}
    assert by_name["seats"] == {
        "kind": "text",
        "type": "integer",
        "header": "shop",
        "question": "Seats: One each (a whole number from 1 to 9007199254740993)",
        "label": "Seats",
        "description": "One each",
        "required": True,
        "multi_select": False,
        "allow_other": True,
        "bounds": {"minimum": 1, "maximum": 9007199254740993},
        "options": [],
        "default": None,
    }
    assert by_name["plan"]["options"] == [
        {"label": "Solo", "description": "s", "value": "s"},
        {"label": "Team", "description": "t", "value": "t"},
    ]
    assert by_name["plan"]["kind"] == "choice"
    assert not by_name["plan"]["allow_other"]
    assert by_name["extras"]["bounds"] == {"max_items": 2}
    assert by_name["extras"]["multi_select"]
    assert not by_name["extras"]["required"]
    assert by_name["mail"]["bounds"] == {"format": "email", "min_length": 3, "max_length": 100}
    assert by_name["ratio"]["bounds"] == {
        "exclusive_minimum": 0,
        "exclusive_maximum": 1.5,
        "multiple_of": 0.5,
    }
    assert by_name["sure"]["options"] == [
        {"label": "Yes", "description": "", "value": True},
        {"label": "No", "description": "", "value": False},
    ]
    assert [(name, question["type"]) for name, question in by_name.items()] == [
        ("seats", "integer"),
        ("plan", "string"),
        ("extras", "array"),
        ("mail", "string"),
        ("ratio", "number"),
        ("sure", "boolean"),
        ("size", "number"),
    ]


def test_what_a_server_suggests_is_shown_only_where_the_policy_says_so(
    api: APIClient, user: User
) -> None:
    policy = allow()
    elicitation = ask(user, EVERY_KIND)

    def defaults() -> dict[str, Any]:
        questions = api.get(address(elicitation)).json()["questions"]
        return {q["id"]: q["default"] for q in questions if q["default"] is not None}

    assert defaults() == {}
    policy.prefill = True
    policy.save()
    assert defaults() == {
        "seats": {"selected": [], "other_text": "3"},
        "plan": {"selected": ["Team"], "other_text": None},
        "sure": {"selected": ["Yes"], "other_text": None},
    }


def test_every_response_is_kept_by_nobody(api: APIClient, user: User) -> None:
    elicitation = ask(user, NAME)
    for response in (
        api.get(LIST),
        api.get(address(elicitation)),
        post(api, elicitation, {}),
        api.get(address("no-id")),
        api.delete(LIST),
        Client().get(LIST),
    ):
        assert response["Cache-Control"] == "no-store, private"
        assert response["Content-Type"] == "application/json"
        assert response["X-Content-Type-Options"] == "nosniff"


def test_looking_at_a_question_is_noted_once(api: APIClient, user: User) -> None:
    elicitation = ask(user, NAME)
    api.get(LIST)
    elicitation.refresh_from_db()
    assert elicitation.first_shown_at is None
    api.get(address(elicitation))
    elicitation.refresh_from_db()
    assert elicitation.first_shown_at is not None


def test_nobody_else_learns_that_a_question_exists(
    api: APIClient, user: User, other_user: User
) -> None:
    theirs = ask(other_user, NAME)
    bodies = set()
    for key in (theirs.pk, uuid.uuid4(), "no-id", "a/b", "a\nb", "é", "00000000", "x" * 500):
        for response in (
            api.get(address(key)),
            post(api, key, {"content": {"name": "Ada"}}),
            post(api, key, {"nonsense": 1}),
            post(api, key, {}, "decline"),
        ):
            assert response.status_code == 404, key
            bodies.add(response.content)
    assert bodies == {b'{"code":"not_found","detail":"Not found.","errors":{}}'}
    assert api.get(LIST).json()["results"] == []
    assert not StoredFormAnswer.objects.exists()


# --- Lists -----------------------------------------------------------------------------------


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [each["id"] for each in response.json()["results"]]


def test_lists_have_the_oldest_deadline_first_in_pages(
    api: APIClient, user: User, settings: Any
) -> None:
    settings.ELICITATION_PAGE_SIZE = 3
    now = timezone.now()
    # Some deadlines are the same.
    asked = [
        ask(user, NAME, f"{n}?", expires_at=now + timedelta(hours=1 + n // 2)) for n in range(8)
    ]
    found, url = [], LIST
    while url:
        response = api.get(url)
        found.append(ids(response))
        url = response.json()["next"]
    assert [len(page) for page in found] == [3, 3, 2]
    deadlines = {str(each.pk): each.expires_at for each in asked}
    in_order = [key for page in found for key in page]
    # Of the same deadline, databases sort ids each in their own way.
    assert [deadlines[key] for key in in_order] == sorted(deadlines.values())
    assert sorted(in_order) == sorted(deadlines)
    assert ids(api.get(response.json()["previous"])) == found[1]


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "é",
        "cD1mb28=",  # p=foo
        "cD0yMDI2LTAxLTAx",  # p=2026-01-01, a day
        "cD0yMDI2LTAxLTAxIDAwOjAwOjAw",  # without a zone
        "cD0wMDAxLTAxLTAxIDAwOjAwOjAwJTJCMTQ6MDA=",  # before the first year
        "cD0yMDI2LTEzLTAxIDAwOjAwOjAwJTJCMDA6MDA=",  # a 13th month
        "bz0tMQ==",  # o=-1
        "cj14",  # r=x
        "cD0lMDA=",  # NUL
    ],
)
def test_a_cursor_that_is_none_of_ours_is_no_page(api: APIClient, cursor: str) -> None:
    response = api.get(LIST, {"cursor": cursor})
    assert (response.status_code, response.json()["code"]) == (404, "invalid_cursor")


def test_lists_are_filtered_by_state_as_it_is_now(api: APIClient, user: User) -> None:
    by_state = {
        state: ask(user, NAME, state)
        for state in ("pending", "answered", "declined", "expired", "withdrawn")
    }
    inbox.answer(by_state["answered"].pk, {"name": FormAnswer(other_text="x")}, by=user)
    inbox.decline(by_state["declined"].pk, by=user)
    inbox.withdraw(by_state["withdrawn"].pk)
    # No row says yet that it has expired.
    past_deadline(by_state["expired"])
    for state, elicitation in by_state.items():
        response = api.get(LIST, {"state": state})
        assert ids(response) == [str(elicitation.pk)]
        assert response.json()["results"][0]["state"] == state
    past_deadline(by_state["answered"])
    inbox.expire_due()
    assert ids(api.get(LIST, {"state": "expired"})) == [str(by_state["expired"].pk)]
    assert len(ids(api.get(LIST))) == 5


@pytest.mark.parametrize("name", ["scope", "server"])
def test_scopes_and_servers_are_told_apart_exactly(api: APIClient, user: User, name: str) -> None:
    # What a database's collation may call equal: case, accents, blanks, normal forms, width.
    values = ["Run", "run", "rün", "ru\u0308n", "run ", "ｒｕｎ", "straße", "strasse", "a%", "a_"]
    asked = {value: str(ask(user, NAME, **{name: value}).pk) for value in values}
    for value, key in asked.items():
        assert ids(api.get(LIST, {name: value})) == [key], value
    assert ids(api.get(LIST, {name: "RUN"})) == []


@pytest.mark.parametrize(
    "query",
    [
        "state=",
        "state=Pending",
        "state=pending&state=pending",
        "scope=",
        "scope=+",
        "scope=%00",
        "server=a%00b",
        "server=%0A",
        "server=" + "x" * 201,
        "scope=a&scope=b",
    ],
)
def test_a_filter_that_nothing_can_have_is_refused(api: APIClient, query: str) -> None:
    response = api.get(f"{LIST}?{query}")
    assert response.status_code == 400
    body = response.json()
    assert body["code"] == "invalid_request"
    assert list(body["errors"]) == [query.split("=")[0]]


def test_lists_take_a_constant_number_of_queries(
    api: APIClient, user: User, settings: Any
) -> None:
    settings.ELICITATION_PAGE_SIZE = 100
    ask(user, EVERY_KIND)
    with CaptureQueriesContext(
        connection,
    ) as one:
        assert len(ids(api.get(LIST))) == 1
    for number in range(99):
        ask(user, EVERY_KIND, server=f"server {number % 7}")
    with CaptureQueriesContext(connection) as hundred:
        assert len(ids(api.get(LIST))) == 100
    # The token's person, the questions, the policies of their servers.
    assert len(one) == len(hundred) == 3


# --- Answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{"answers": ANSWERS}, {"content": CONTENT}])
def test_both_forms_of_an_answer_record_the_same(
    api: APIClient, user: User, body: dict[str, Any]
) -> None:
    elicitation = ask(user, EVERY_KIND)
    response = post(api, elicitation, {**body, "fingerprint": elicitation.fingerprint})
    assert response.status_code == 200, response.content
    shown = response.json()
    assert (shown["state"], shown["id"]) == ("answered", str(elicitation.pk))
    assert shown["closed_at"] is not None
    row = StoredFormAnswer.objects.get()
    assert elicitation.schema.content_from_answers(row.answers) == CONTENT
    elicitation.refresh_from_db()
    assert (elicitation.closed_via, elicitation.closed_by) == ("api", user)


def test_the_same_answer_again_succeeds_in_either_form(api: APIClient, user: User) -> None:
    elicitation = ask(user, EVERY_KIND)
    for body in ({"answers": ANSWERS}, {"content": CONTENT}, {"answers": ANSWERS}):
        response = post(api, elicitation, body)
        assert (response.status_code, response.json()["state"]) == (200, "answered")
    response = post(api, elicitation, {"content": {**CONTENT, "seats": 3}})
    assert (response.status_code, response.json()["code"]) == (409, "answered")
    response = post(api, elicitation, {}, "decline")
    assert (response.status_code, response.json()["code"]) == (409, "answered")
    assert StoredFormAnswer.objects.count() == 1


def test_declining_can_be_repeated(api: APIClient, user: User) -> None:
    elicitation = ask(user, NAME)
    # Without a body, and with an empty one.
    for response in (
        api.post(address(elicitation, "decline")),
        post(api, elicitation, {}, "decline"),
        Client().generic(
            "POST",
            address(elicitation, "decline"),
            headers={"Authorization": api._credentials["HTTP_AUTHORIZATION"]},
        ),
    ):
        assert (response.status_code, response.json()["state"]) == (200, "declined")
    response = post(api, elicitation, {"content": {"name": "Ada"}})
    assert (response.status_code, response.json()["code"]) == (409, "declined")
    assert StoredFormAnswer.objects.get().action == "decline"


def test_an_answer_sent_to_the_wrong_address_is_not_lost(api: APIClient, user: User) -> None:
    elicitation = ask(user, NAME)
    response = post(api, elicitation, {"content": {"name": "Ada"}}, "decline")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    elicitation.refresh_from_db()
    assert elicitation.state == "pending"


@pytest.mark.parametrize("action", ["answer", "decline"])
@pytest.mark.parametrize("body", [{"content": {"name": "Ada"}}, {"content": {"name": 5}}])
def test_what_is_over_is_gone(
    api: APIClient, user: User, action: str, body: dict[str, Any]
) -> None:
    """Whatever is sent: a question that is over has nothing to say about what was typed."""
    sent = body if action == "answer" else {}
    expired, withdrawn, replaced = (ask(user, NAME, message) for message in "abc")
    past_deadline(expired)
    inbox.withdraw(withdrawn.pk)
    inbox.withdraw(replaced.pk, reason=inbox.REPLACED)
    for elicitation, code in (
        (expired, "expired"),
        (withdrawn, "withdrawn"),
        (replaced, "replaced"),
    ):
        response = post(api, elicitation, sent, action)
        assert (response.status_code, response.json()["code"]) == (410, code)
    assert api.get(address(expired)).json()["state"] == "expired"
    assert not StoredFormAnswer.objects.filter(action="accept").exists()


def test_an_answer_to_something_else_is_not_stored(api: APIClient, user: User) -> None:
    elicitation = ask(user, NAME)
    for fingerprint in ("0" * 64, "", "x", "\x00"):
        response = post(api, elicitation, {"content": {"name": "Ada"}, "fingerprint": fingerprint})
        assert (response.status_code, response.json()["code"]) == (409, "replaced")
    assert not StoredFormAnswer.objects.exists()


def test_a_confirmation_takes_an_empty_answer(api: APIClient, user: User) -> None:
    for body in ({"content": {}}, {"answers": {}}):
        elicitation = ask(user, schema(), "Go on?")
        assert api.get(address(elicitation)).json()["questions"] == []
        assert post(api, elicitation, body).json()["state"] == "answered"


def test_types_are_strict_and_everything_wrong_is_said_at_once(api: APIClient, user: User) -> None:
    elicitation = ask(user, EVERY_KIND)
    content = {
        "seats": "2",
        "plan": "Solo",
        "extras": "a",
        "mail": "x",
        "ratio": True,
        "sure": 0,
        "size": 2,
        "never asked": 1,
    }
    response = post(api, elicitation, {"content": content})
    assert response.status_code == 400
    body = response.json()
    assert body["code"] == "invalid_answers"
    assert {name: error["code"] for name, error in body["errors"].items()} == {
        "seats": "not_a_number",
        "plan": "not_offered",
        "extras": "not_a_list",
        "mail": "too_short",
        "ratio": "not_a_number",
        "sure": "yes_or_no",
        "size": "not_offered",
        "never asked": "unknown_property",
    }
    assert body["errors"]["mail"] == {
        "code": "too_short",
        "message": "Write a longer answer: at least 3 characters.",
        "params": {"min_length": 3},
    }
    assert not StoredFormAnswer.objects.exists()


def test_answers_of_the_wrong_shape_are_refused_under_the_name_sent(
    api: APIClient, user: User
) -> None:
    elicitation = ask(user, EVERY_KIND)
    answers: dict[str, Any] = {
        "seats": 2,
        "plan": {"selected": "Solo"},
        "extras": {"selected": [1]},
        "mail": {"other_text": 5},
        "ratio": {"skipped": 1},
        "sure": {"selected": ["Yes"], "value": True},
        "never asked": {"skipped": True},
    }
    response = post(api, elicitation, {"answers": answers})
    body = response.json()
    assert (response.status_code, body["code"]) == (400, "invalid_answers")
    codes = {name: error["code"] for name, error in body["errors"].items()}
    assert codes.pop("never asked") == "unknown_property"
    assert codes.pop("size") == "missing"
    assert set(codes) == {"seats", "plan", "extras", "mail", "ratio", "sure"}
    assert set(codes.values()) == {"bad_answer"}
    # A name that was not asked for is refused although all the others fit.
    response = post(api, elicitation, {"answers": {**ANSWERS, "x": {"skipped": True}}})
    assert list(response.json()["errors"]) == ["x"]
    elicitation.refresh_from_db()
    assert elicitation.state == "pending"


def test_a_credential_is_refused_and_never_repeated(
    api: APIClient, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    elicitation = ask(user, NAME)
    token = "ghp_" + "aB3d" * 9
    for body in (
        {"content": {"name": token}},
        {"answers": {"name": {"other_text": token}}},
        # Shapes that are wrong as well.
        {"content": {"name": [token]}},
        {"answers": {"name": {"selected": [token], "other": token}}},
        {"content": token},
        {"answers": {"name": {"other_text": "x"}}, "fingerprint": [token]},
    ):
        response = post(api, elicitation, body)
        assert response.status_code == 400
        assert token not in response.content.decode() + caplog.text
    assert response.json()["errors"]["fingerprint"]["code"] == "not_text"


def test_the_person_reads_errors_in_their_language(api: APIClient, user: User) -> None:
    elicitation = ask(user, NAME)
    response = api.post(
        address(elicitation, "answer"),
        {"content": {}},
        format="json",
        headers={"Accept-Language": "de"},
    )
    error = response.json()["errors"]["name"]
    assert error["code"] == "required"
    assert error["message"] != "An answer is needed."


def test_every_kind_of_the_core_says_what_it_is_in_content() -> None:
    assert {kind.kind_name for kind in KINDS} == CONTENT_OF_KINDS.keys()
