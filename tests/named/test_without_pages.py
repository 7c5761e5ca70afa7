"""Calls are made, answered and resumed on a site that mounts the API alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib import admin
from django.urls import include, path
from rest_framework.test import APIClient

from elicitation import calls
from elicitation.core import ElicitationPending
from elicitation.models import Elicitation
from tests.integration.scripted import said

from .conftest import Serve

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client
    from pytest_django.fixtures import SettingsWrapper

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls(__name__)]

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("elicitation.api.urls")),
]

FRONT_END = "https://app.example.com/ask/{id}"


@pytest.mark.parametrize("page_url", [FRONT_END, ""])
def test_case_F7_a_call_is_parked_answered_and_resumed(
    page_url: str, serve: Serve, user: User, settings: SettingsWrapper
) -> None:
    serve("shop", "http")
    settings.ELICITATION_PAGE_URL = page_url
    with pytest.raises(ElicitationPending) as caught:
        calls.call_sync("shop", "ask", scope="chat", user=user)
    api = APIClient()
    api.force_authenticate(user)
    [asked] = api.get("/api/elicitations/").json()["results"]
    assert asked["page_url"] == page_url.replace("{id}", asked["id"])
    assert caught.value.urls == ((asked["page_url"],) if page_url else ())
    address = f"/api/elicitations/{asked['id']}/answer/"
    sent = api.post(address, {"content": {"note": "blue"}}, format="json")
    assert sent.status_code == 200, sent.content
    assert said(calls.resume_sync(caught.value.parked_call_id)) == "blue"


@pytest.mark.parametrize("page_url", [FRONT_END, ""])
def test_case_F7_the_admin_leads_to_the_page_of_the_site(
    page_url: str, serve: Serve, user: User, settings: SettingsWrapper, admin_client: Client
) -> None:
    serve("shop", "http")
    settings.ELICITATION_PAGE_URL = page_url
    with pytest.raises(ElicitationPending):
        calls.call_sync("shop", "ask", scope="chat", user=user)
    key = str(Elicitation.objects.get().pk)
    shown = admin_client.get(f"/admin/elicitation/elicitation/{key}/change/").content.decode()
    assert ("View on site" in shown) is bool(page_url)
    assert f'href="{page_url.replace("{id}", key)}"' in shown or not page_url
