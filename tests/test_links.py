"""Where people are led: to the page of an elicitation, and back to where they came from."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import include, path
from django.utils import timezone
from rest_framework.test import APIClient

from elicitation import inbox
from elicitation.calls import parking
from elicitation.inbox import notify
from elicitation.models import Elicitation
from tests.asking import ask, schema
from tests.reading_html import Page, page

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db

#: A site that mounts the API and no pages.
urlpatterns = [path("api/elicitation/", include("elicitation.api.urls"))]

PLAN = schema("plan", plan={"type": "string", "enum": ["free", "pro"]})
FRONT_END = "https://app.example.com/ask/{id}?from=mail"


def conversation(scope: str) -> str | None:
    return {"chat-1": "/chats/1/", "elsewhere": "https://app.example.com/chats/2"}.get(scope)


def result(parked_call_id: uuid.UUID) -> str:
    return f"/results/{parked_call_id}/"


def script(about: object) -> str:
    return "javascript:alert(1)"


def other_host(about: object) -> str:
    return "//evil.example/"


def other_host_with_a_tab(about: object) -> str:
    return "/\t/evil.example/"


def other_host_with_a_backslash(about: object) -> str:
    return "/\\evil.example/"


def fails(about: object) -> str:
    raise ValueError("the database of conversations is away")


@pytest.fixture
def api(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


@pytest.fixture
def asked(user: User) -> Elicitation:
    return ask(user, PLAN)


@pytest.fixture
def answered(user: User, asked: Elicitation) -> Elicitation:
    return inbox.answer(asked, asked.schema.answers_from_content({"plan": "free"}), by=user)


def test_the_apps_own_page(asked: Elicitation) -> None:
    assert asked.page_url == f"/elicitation/{asked.pk}/"


@pytest.mark.parametrize("urls", ["tests.urls", __name__])
def test_a_page_of_the_site(
    urls: str, asked: Elicitation, api: APIClient, settings: SettingsWrapper
) -> None:
    settings.ROOT_URLCONF = urls
    settings.ELICITATION_PAGE_URL = FRONT_END
    expected = f"https://app.example.com/ask/{asked.pk}?from=mail"
    assert parking.pending([asked]).urls == (expected,)
    assert api.get("/api/elicitation/elicitations/").json()["results"][0]["page_url"] == expected
    shown = api.get(f"/api/elicitation/elicitations/{asked.pk}/").json()
    assert shown["page_url"] == expected
    settings.ELICITATION_EMAIL = True
    assert notify.send_email(asked.pk)
    assert expected in mail.outbox[0].body


def test_a_path_of_the_site_stands_in_e_mails_with_its_host(
    asked: Elicitation, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_PAGE_URL = "/ask/{id}"
    assert asked.page_url == f"/ask/{asked.pk}"
    with pytest.raises(ImproperlyConfigured, match="ELICITATION_BASE_URL"):
        notify.send_email(asked.pk)
    settings.ELICITATION_BASE_URL = "https://example.com"
    assert notify.send_email(asked.pk)
    assert f"https://example.com/ask/{asked.pk}" in mail.outbox[0].body


@pytest.mark.urls(__name__)
def test_case_F7_with_the_api_alone_a_call_can_be_parked(
    asked: Elicitation, api: APIClient
) -> None:
    assert parking.pending([asked]).urls == ()
    assert parking.pending([asked]).elicitation_ids == (asked.pk,)
    address = f"/api/elicitation/elicitations/{asked.pk}/"
    assert api.get(address).json()["page_url"] == ""
    sent = api.post(f"{address}answer/", {"content": {"plan": "free"}}, format="json")
    assert sent.status_code == 200
    with pytest.raises(ImproperlyConfigured, match="ELICITATION_PAGE_URL"):
        notify.send_email(ask(asked.respondent, PLAN).pk)


# --- Back again ------------------------------------------------------------------------------


@pytest.fixture
def hooks(settings: SettingsWrapper) -> None:
    settings.ELICITATION_SCOPE_URL = f"{__name__}.conversation"
    settings.ELICITATION_RESULT_URL = f"{__name__}.result"


def links(shown: Page) -> dict[str, str]:
    return {each.text: each.attrs["href"] for each in shown.all("a") if "href" in each.attrs}


@pytest.mark.usefixtures("hooks")
def test_line_27_the_end_of_an_elicitation_leads_back_to_the_conversation(
    ada: Client, answered: Elicitation
) -> None:
    found = links(page(ada.get(answered.get_absolute_url())))
    assert found["Back to the conversation"] == "/chats/1/"
    assert "See the result" not in found
    Elicitation.objects.update(delivered_at=timezone.now(), delivery="delivered")
    found = links(page(ada.get(answered.get_absolute_url())))
    assert found["See the result"] == f"/results/{answered.parked_call_id}/"


@pytest.mark.usefixtures("hooks")
def test_a_conversation_that_has_no_page(user: User, ada: Client) -> None:
    asked = ask(user, PLAN, scope="no page")
    inbox.decline(asked, by=user)
    assert "Back to the conversation" not in links(page(ada.get(asked.get_absolute_url())))


@pytest.mark.usefixtures("hooks")
def test_the_api_says_where_to_go(api: APIClient, answered: Elicitation) -> None:
    address = f"/api/elicitation/elicitations/{answered.pk}/"
    shown = api.get(address).json()
    assert (shown["scope_url"], shown["result_url"]) == ("/chats/1/", "")
    Elicitation.objects.update(delivered_at=timezone.now(), scope="elsewhere")
    shown = api.get(address).json()
    assert shown["scope_url"] == "https://app.example.com/chats/2"
    assert shown["result_url"] == f"/results/{answered.parked_call_id}/"


@pytest.mark.parametrize(
    "hook",
    [
        "script",
        "other_host",
        "other_host_with_a_tab",
        "other_host_with_a_backslash",
        "fails",
        "of_no_such_name",
    ],
)
def test_a_hook_that_fails_costs_nobody_the_page(
    hook: str, ada: Client, answered: Elicitation, settings: SettingsWrapper, caplog: Any
) -> None:
    settings.ELICITATION_SCOPE_URL = f"{__name__}.{hook}"
    shown = ada.get(answered.get_absolute_url())
    assert shown.status_code == 200
    assert "Back to the conversation" not in links(page(shown))
    (record,) = caplog.records
    assert record.setting == "ELICITATION_SCOPE_URL"
