"""Requests that are no requests: each is refused with a code, and none is an error of ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIRequestFactory, force_authenticate

from elicitation.api import views
from elicitation.models import Elicitation, StoredFormAnswer
from tests.asking import ask, schema

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from rest_framework.test import APIClient

pytestmark = pytest.mark.django_db

LIST = reverse("elicitation_api:list")


@pytest.fixture
def question(user: User) -> Elicitation:
    return ask(user, schema("name", name={"type": "string"}, age={"type": "integer"}))


def send(api: APIClient, question: Elicitation, body: bytes, **extra: Any) -> Any:
    return api.generic(
        "POST",
        reverse("elicitation_api:answer", args=[question.pk]),
        body,
        **{"content_type": "application/json", **extra},
    )


NOT_JSON = [
    b"",
    b" ",
    b"{",
    b"not json",
    b"\xff\xfe{}",
    b"\xef\xbb\xbf{}",
    '{"content": {"name": "é"}}'.encode("latin-1"),
    '{"content": {}}'.encode("utf-16"),
    b'{"content": {"name": "a\x00b"}}',
    b'{"content": {"age": NaN}}',
    b'{"content": {"age": -Infinity}}',
    b'{"content": {"\\ud800": 1}}',
    b'{"content": {"name": "a", "name": "b"}}',
    b'{"content": {}, "content": {}}',
    b"[" * 100_000,
    b'{"content":' * 90_000,
    b'{"content": {"name": "Ada"}} {}',
    b"{'content': {}}",
]


@pytest.mark.parametrize("body", NOT_JSON, ids=[repr(body[:30]) for body in NOT_JSON])
def test_what_is_not_json_is_refused(api: APIClient, question: Elicitation, body: bytes) -> None:
    response = send(api, question, body)
    assert response.status_code == 400, response.content
    # No body at all is an empty request.
    assert response.json()["code"] == ("not_json" if body else "invalid_request")
    assert not StoredFormAnswer.objects.exists()


VALUES = [
    ("name", r'"a\u0000b"', "bad_text"),
    ("name", r'"\ud800"', "bad_text"),
    ("name", "1" * 5000, "not_text"),
    ("name", "[" * 400 + "]" * 400, "not_text"),
    ("name", "null", "not_text"),
    ("age", "9" * 300_000, "out_of_range"),
    ("age", "-" + "9" * 5000, "out_of_range"),
    ("age", "9" * 400, "out_of_range"),
    ("age", "1e999", "out_of_range"),
    ("age", "-1e999", "out_of_range"),
    ("age", "1e30", "out_of_range"),
    ("age", "9223372036854775808", "out_of_range"),
    ("age", "0.5", "not_whole"),
    ("age", '"5"', "not_a_number"),
    ("age", "true", "not_a_number"),
]


@pytest.mark.parametrize(
    ("name", "value", "code"), VALUES, ids=[f"{v[0]} {v[1][:12]!r}" for v in VALUES]
)
def test_a_value_that_no_answer_can_have_is_refused_under_its_name(
    api: APIClient, question: Elicitation, name: str, value: str, code: str
) -> None:
    body = {"content": {"name": "Ada", name: "VALUE"}}
    response = send(api, question, json.dumps(body).replace('"VALUE"', value).encode())
    assert response.status_code == 400
    assert response.json()["errors"][name]["code"] == code


SHAPES: list[tuple[Any, list[str]]] = [
    ([], []),
    ("x", []),
    (None, []),
    (5, []),
    (True, []),
    ({}, ["answers", "content"]),
    ({"answers": {}, "content": {}}, ["answers", "content"]),
    ({"answers": []}, ["answers"]),
    ({"content": None}, ["content"]),
    ({"content": {}, "fingerprint": None}, ["fingerprint"]),
    ({"content": {}, "fingerprint": 5}, ["fingerprint"]),
    ({"content": {}, "extra": 1}, ["extra"]),
    ({"content": {str(number): 1 for number in range(17)}}, ["content"]),
    ({str(number): 1 for number in range(20_000)}, [str(number) for number in range(16)]),
]


@pytest.mark.parametrize(("body", "names"), SHAPES, ids=[repr(s[0])[:40] for s in SHAPES])
def test_a_body_of_another_shape_is_refused(
    api: APIClient, question: Elicitation, body: Any, names: list[str]
) -> None:
    response = send(api, question, json.dumps(body).encode())
    assert response.status_code == 400
    found = response.json()
    assert found["code"] == "invalid_request"
    assert list(found["errors"]) == names
    assert all(set(error) == {"code", "message"} for error in found["errors"].values())


def test_only_json_is_read_and_written(api: APIClient, question: Elicitation) -> None:
    for content_type in ("application/x-www-form-urlencoded", "text/plain", "nonsense", "a/b/c"):
        response = send(api, question, b"content=x", content_type=content_type)
        assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")
        url = reverse("elicitation_api:decline", args=[question.pk])
        response = api.generic("POST", url, b"{}", content_type=content_type)
        assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")
    response = api.get(LIST, headers={"Accept": "text/html"})
    assert (response.status_code, response.json()["code"]) == (406, "not_acceptable")
    body = b'{"content": {"name": "Ada"}}'
    response = send(api, question, body, content_type="application/json; charset=utf-16")
    assert response.status_code == 200


def test_other_methods_are_refused(api: APIClient, question: Elicitation) -> None:
    for name, methods in (
        ("list", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"]),
        ("detail", ["POST", "PUT", "DELETE", "PATCH"]),
        ("answer", ["GET", "PUT", "HEAD"]),
        ("decline", ["GET", "DELETE"]),
    ):
        args = [question.pk] if name != "list" else []
        for method in methods:
            response = api.generic(method, reverse(f"elicitation_api:{name}", args=args))
            assert response.status_code == 405
            assert method not in response["Allow"].split(", ")
            if method != "HEAD":
                assert response.json()["code"] == "method_not_allowed"


# --- Size ------------------------------------------------------------------------------------


def test_a_body_over_the_cap_is_refused_before_it_is_parsed(
    api: APIClient, question: Elicitation, settings: Any
) -> None:
    settings.ELICITATION_API_MAX_BYTES = 100
    body = b'{"content": {"name": "Ada"}}'
    response = send(api, question, body.ljust(101))
    assert (response.status_code, response.json()["code"]) == (413, "too_large")
    # It is not JSON either, and nobody looked.
    assert send(api, question, b"{" * 101).status_code == 413
    assert send(api, question, body.ljust(100)).status_code == 200


def test_what_a_request_says_of_its_length_is_not_believed(
    user: User, question: Elicitation, settings: Any
) -> None:
    settings.ELICITATION_API_MAX_BYTES = 100
    body = b'{"content": {"name": "Ada"}}'.ljust(5000)
    view = views.AnswerView.as_view()
    for length in ("20", "100"):
        request = APIRequestFactory().generic("POST", "/", body, "application/json")
        request.META["CONTENT_LENGTH"] = length
        force_authenticate(request, user)
        assert view(request, elicitation_id=str(question.pk)).status_code == 413
    for length in ("nonsense", "-5", ""):
        request = APIRequestFactory().generic("POST", "/", body, "application/json")
        request.META["CONTENT_LENGTH"] = length
        force_authenticate(request, user)
        assert view(request, elicitation_id=str(question.pk)).status_code in (400, 413)


def test_answers_too_long_to_be_kept_are_too_large(
    api: APIClient, user: User, settings: Any
) -> None:
    settings.ELICITATION_MAX_CALL_BYTES = 1000
    question = ask(user, schema(name={"type": "string"}))
    response = send(api, question, json.dumps({"content": {"name": "x" * 2000}}).encode())
    assert (response.status_code, response.json()["code"]) == (413, "too_large")
    question.refresh_from_db()
    assert question.state == "pending"


def test_django_s_own_cap_has_the_same_answer(
    api: APIClient, question: Elicitation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise RequestDataTooBig

    monkeypatch.setattr(views, "read_answers", refuse)
    response = send(api, question, b'{"content": {}}')
    assert (response.status_code, response.json()["code"]) == (413, "too_large")


# --- Who asks --------------------------------------------------------------------------------


def test_nobody_is_told_to_sign_in(question: Elicitation) -> None:
    for response in (
        Client().get(LIST),
        Client().get(reverse("elicitation_api:detail", args=[question.pk])),
        send(Client(), question, b'{"content": {"name": "Ada"}}'),
    ):
        assert (response.status_code, response.json()["code"]) == (401, "not_authenticated")
        assert response["WWW-Authenticate"] == "Token"
    response = Client().get(LIST, headers={"Authorization": "Token nonsense"})
    assert (response.status_code, response.json()["code"]) == (401, "authentication_failed")


def test_a_page_of_the_site_needs_a_csrf_token(user: User, question: Elicitation) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)
    assert browser.get(LIST).status_code == 200
    body = b'{"content": {"name": "Ada"}}'
    response = send(browser, question, body)
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
    browser.cookies["csrftoken"] = "a" * 32
    response = send(browser, question, body, headers={"X-CSRFToken": "a" * 32})
    assert response.status_code == 200
    # The session's authentication reads the body for a token in a form; it is no error there.
    assert send(browser, question, b"{").json()["code"] == "not_json"


def test_nobody_in_particular_sees_nothing(question: Elicitation) -> None:
    """Even where a project lets everybody in: an account that was deleted leaves no respondent."""
    Elicitation.objects.update(respondent=None)
    view = views.ElicitationListView.as_view(permission_classes=())
    request = APIRequestFactory().get("/")
    force_authenticate(request, AnonymousUser())  # type: ignore[arg-type]
    assert view(request).data["results"] == []


# --- How often -------------------------------------------------------------------------------


def test_too_many_requests_are_told_when_to_come_back(
    api: APIClient, client_of: Any, other_user: User, settings: Any
) -> None:
    settings.REST_FRAMEWORK = {
        **settings.REST_FRAMEWORK,
        "DEFAULT_THROTTLE_RATES": {"elicitation": "2/min"},
    }
    assert [api.get(LIST).status_code for _ in range(3)] == [200, 200, 429]
    response = api.get(reverse("elicitation_api:detail", args=["no-id"]))
    assert (response.status_code, response.json()["code"]) == (429, "throttled")
    assert 1 <= int(response["Retry-After"]) <= 60
    # Nobody else is kept waiting.
    assert client_of(other_user).get(LIST).status_code == 200


def test_the_default_rate_lets_a_client_look_every_second(api: APIClient, settings: Any) -> None:
    from elicitation.api.throttling import ElicitationThrottle

    assert ElicitationThrottle().parse_rate(ElicitationThrottle().get_rate()) == (240, 60)
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"elicitation": None}}
    assert ElicitationThrottle().get_rate() is None


def test_a_throttle_that_knows_no_time_names_one(user: User) -> None:
    class Throttled(views.ElicitationThrottle):
        def allow_request(self, request: Any, view: Any) -> bool:
            return False

        def wait(self) -> float | None:
            return None

    request = APIRequestFactory().get("/")
    force_authenticate(request, user)
    response = views.ElicitationListView.as_view(throttle_classes=(Throttled,))(request)
    assert (response.status_code, response["Retry-After"]) == (429, "1")


# --- The project's own -----------------------------------------------------------------------


def test_a_project_s_handler_and_defaults_change_nothing(api: APIClient, settings: Any) -> None:
    settings.REST_FRAMEWORK = {
        **settings.REST_FRAMEWORK,
        "EXCEPTION_HANDLER": "tests.api.test_requests.no_handler",
        "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.NamespaceVersioning",
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"],
    }
    assert api.get(reverse("elicitation_api:detail", args=["x"])).json()["code"] == "not_found"
    assert Client().get(LIST).status_code == 401


def no_handler(exc: Exception, context: Any) -> None:
    raise AssertionError


def test_django_s_own_refusal_has_a_code(
    api: APIClient, question: Elicitation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise PermissionDenied

    monkeypatch.setattr(views, "read_answers", refuse)
    response = send(api, question, b'{"content": {}}')
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")


@pytest.mark.parametrize("name", ["list", "detail", "answer", "decline"])
def test_no_transaction_is_put_round_a_request(name: str) -> None:
    from django.urls import resolve

    args = ["x"] if name != "list" else []
    view = resolve(reverse(f"elicitation_api:{name}", args=args)).func
    assert "default" in view._non_atomic_requests  # type: ignore[attr-defined]


def test_an_error_of_ours_is_not_hidden(
    api: APIClient, question: Elicitation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise LookupError("ours")

    monkeypatch.setattr(views, "read_answers", fail)
    with pytest.raises(LookupError):
        send(api, question, b'{"content": {}}')
