"""URL mode in the API: the address in its parts, consent, and going on."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse
from django.utils import timezone

from elicitation import inbox
from elicitation.models import Elicitation, StoredFormAnswer
from tests.asking import allow, ask, ask_to_open, schema

from .test_elicitations import LIST, address, post

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from rest_framework.test import APIClient

    from .conftest import MakeClient

pytestmark = pytest.mark.django_db

SECRET = "t0p5ecr3t"
ADDRESS = f"https://LOGIN.Bücher.de:8443/start?token={SECRET}#top"


def consent(api: APIClient, question: Elicitation, body: Any = None) -> Any:
    return post(api, question, {} if body is None else body, "consent")


def test_an_address_is_shown_in_its_parts(api: APIClient, user: User) -> None:
    question = ask_to_open(user, ADDRESS)
    shown = api.get(address(question)).json()
    assert shown["kind"] == "url"
    assert shown["questions"] == []
    assert shown["url"] == {
        "text": ADDRESS,
        "scheme": "https",
        "host": "login.xn--bcher-kva.de",
        "unicode_host": "login.bücher.de",
        "subdomain": "login.",
        "registrable_domain": "bücher.de",
        "port": 8443,
        "rest": f"/start?token={SECRET}#top",
        "warnings": ["port", "idn"],
        "href": None,
    }
    question.refresh_from_db()
    assert question.first_shown_at is not None


def test_a_form_has_a_kind_and_no_address(api: APIClient, user: User) -> None:
    shown = api.get(address(ask(user, schema(x={"type": "string"})))).json()
    assert (shown["kind"], shown["url"]) == ("form", None)


def test_a_list_has_no_address(api: APIClient, user: User) -> None:
    inbox.consent(ask_to_open(user, ADDRESS, parked=True).pk, by=user)
    ask_to_open(user, ADDRESS, call="2")
    ask(user, schema(x={"type": "string"}))
    response = api.get(LIST)
    assert [each["kind"] for each in response.json()["results"]] == ["url", "url", "form"]
    assert SECRET not in response.content.decode()
    assert "bcher" not in response.content.decode()


def test_what_to_open_comes_after_the_consent(api: APIClient, user: User) -> None:
    question = ask_to_open(user, ADDRESS)
    body = {"fingerprint": question.fingerprint}
    for _ in range(2):
        response = consent(api, question, body)
        assert response.status_code == 200
        shown = response.json()
        assert shown["state"] == "answered"
        href = f"https://login.xn--bcher-kva.de:8443/start?token={SECRET}#top"
        assert shown["url"]["href"] == href
    question.refresh_from_db()
    assert question.closed_via == "api"
    assert StoredFormAnswer.objects.get().action == "accept"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"fingerprint": "x"}, 409, "replaced"),
        ({"fingerprint": 7}, 400, "invalid_request"),
        ({"content": {}}, 400, "invalid_request"),
        ([], 400, "invalid_request"),
    ],
)
def test_what_is_no_consent_records_none(
    api: APIClient, user: User, body: Any, status: int, code: str
) -> None:
    question = ask_to_open(user, ADDRESS)
    response = consent(api, question, body)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert not StoredFormAnswer.objects.exists()


@pytest.mark.parametrize("body", [{"answers": {}}, {"content": {}}])
def test_an_answer_is_no_consent(api: APIClient, user: User, body: Any) -> None:
    response = post(api, ask_to_open(user, ADDRESS), body)
    assert (response.status_code, response.json()["code"]) == (409, "wrong_mode")
    form = ask(user, schema())
    for action in ("consent", "continue"):
        assert post(api, form, {}, action).json()["code"] == "wrong_mode"
    assert not StoredFormAnswer.objects.exists()


def test_continue_and_decline_afterwards(api: APIClient, user: User) -> None:
    question = ask_to_open(user, ADDRESS, parked=True)
    # Before anybody agreed there is nothing to go on with.
    assert post(api, question, {}, "continue").json()["state"] == "pending"
    consent(api, question)
    assert post(api, question, {}, "continue").json()["state"] == "answered"
    question.refresh_from_db()
    assert question.continued_at is not None
    assert post(api, question, {"x": 1}, "continue").status_code == 400
    response = post(api, question, {}, "decline")
    assert (response.json()["state"], response.json()["url"]) == ("declined", None)
    assert consent(api, question).json()["code"] == "declined"


@pytest.mark.parametrize("action", ["consent", "continue"])
def test_somebody_elses_question_is_not_found(
    client_of: MakeClient, user: User, other_user: User, action: str
) -> None:
    question = ask_to_open(user, ADDRESS, parked=True)
    response = post(client_of(other_user), question, {}, action)
    assert response.status_code == 404
    assert not StoredFormAnswer.objects.exists()


def test_an_address_is_for_whoever_agreed_and_not_for_ever(
    client_of: MakeClient, api: APIClient, user: User, other_user: User, settings: Any
) -> None:
    settings.ELICITATION_ACCESS = "elicitation.inbox.access.PermissionAccess"
    other_user.is_superuser = True
    other_user.save()
    question = ask_to_open(user, ADDRESS, parked=True)
    consent(api, question)
    assert api.get(address(question)).json()["url"]["href"]
    assert client_of(other_user).get(address(question)).json()["url"] is None
    assert consent(client_of(other_user), question).status_code == 409
    Elicitation.objects.update(closed_at=timezone.now() - timedelta(minutes=31))
    assert api.get(address(question)).json()["url"] is None


def test_a_policy_that_was_changed_takes_the_address_away(api: APIClient, user: User) -> None:
    question = ask_to_open(user, ADDRESS)
    allow(allowed_domains="example.org")
    response = consent(api, question)
    assert (response.status_code, response.json()["code"]) == (403, "not_allowed")
    assert api.get(address(question)).json()["url"] is None
    question.refresh_from_db()
    assert question.is_open()


def test_a_question_past_its_deadline_is_gone(api: APIClient, user: User) -> None:
    question = ask_to_open(user, ADDRESS, expires_at=timezone.now())
    assert api.get(address(question)).json()["url"] is None
    assert consent(api, question).status_code == 410
    assert reverse("elicitation_api:consent", args=[question.pk]).endswith("/consent/")
