"""The admin in Chromium, under a policy that allows this site's own files and nothing inline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from elicitation.calls import refusals
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from tests.ops.conftest import answer, park

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route
    from pytest_django.fixtures import SettingsWrapper
    from pytest_django.live_server_helper import LiveServer

pytestmark = [pytest.mark.django_db(transaction=True)]


#: How wide the tables of a page are, and what there is room for.
WIDTHS = "[...document.querySelectorAll('.results')].map(e => [e.scrollWidth, e.clientWidth])"


LISTS = ("parkedcall", "refusal", "serverpolicy", "storedformanswer")


def with_policy(route: Route) -> None:
    response = route.fetch(max_redirects=0)
    headers = {**response.headers, "content-security-policy": "default-src 'self'"}
    route.fulfill(response=response, headers=headers)


def test_every_page_is_clean_under_a_strict_policy(
    tab: Page, user: User, live_server: LiveServer
) -> None:
    user.is_staff = user.is_superuser = True
    user.save()
    policy = ServerPolicy.objects.create(server="shop", policy="url_and_form")
    waits, answered = park(user, "Who?", "Where?")
    answer(answered, user)
    # A policy is that of a page; what a page loads needs none.
    tab.route(re.compile(f"^{live_server.url}/admin/"), with_policy)
    rows: list[Any] = [policy, waits, ParkedCall.objects.get(), StoredFormAnswer.objects.get()]
    for row in rows:
        name = f"admin:elicitation_{row._meta.model_name}"
        for address in (
            reverse(f"{name}_changelist"),
            reverse(f"{name}_change", args=[row.pk]),
            reverse(f"{name}_history", args=[row.pk]),
        ):
            response = tab.goto(address)
            assert response is not None
            assert response.status == 200
            assert response.headers["content-security-policy"] == "default-src 'self'"
    tab.goto(reverse("admin:elicitation_elicitation_changelist"))
    tab.locator(f"input[name=_selected_action][value='{waits.pk}']").check()
    tab.locator("select[name=action]").select_option("withdraw_selected")
    tab.get_by_role("button", name="Go").click()
    tab.get_by_text("1 request was closed.").wait_for()
    tab.wait_for_load_state()
    tab.unroute_all(behavior="wait")
    assert Elicitation.objects.get(pk=waits.pk).state == "withdrawn"


@pytest.mark.parametrize("language", ["en", "de", "ar"])
def test_nothing_of_the_lists_is_cut_off(
    language: str, tab: Page, user: User, live_server: LiveServer, settings: SettingsWrapper
) -> None:
    settings.LANGUAGE_CODE = language
    user.is_staff = user.is_superuser = True
    user.save()
    ServerPolicy.objects.create(
        server="shop", policy="url_and_form", label="The corner shop in the old town"
    )
    park(user, "Which of our plans would you like to have, and for how long? " * 5)
    answered = park(user, "Where?", call="another")[0]
    answer(answered, user)
    row = Elicitation.objects.latest("asked_at")
    names = {"changelist": (), "change": (row.pk,)}
    where = [reverse(f"admin:elicitation_elicitation_{name}", args=names[name]) for name in names]
    refusals.count("shop", "out_of_profile", "a regular expression", tool="draft_the_letter")
    where += [reverse(f"admin:elicitation_{name}_changelist") for name in LISTS]
    where.append(reverse("admin:elicitation_serverpolicy_servers"))
    where.append(reverse("admin:elicitation_serverpolicy_servers", query={"server": "shop"}))
    for width in (1280, 390):
        tab.set_viewport_size({"width": width, "height": 900})
        for address in where:
            tab.goto(address)
            wide = tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (address, width)
            # On a phone a long list is scrolled by itself, as all lists of the admin are.
            for inner, outer in tab.evaluate(WIDTHS):
                assert inner <= outer or width < 500, (address, width)
