"""Agreeing to an address in Chromium, by keyboard and without JavaScript."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from elicitation.models import StoredFormAnswer
from tests.asking import ask_to_open

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User
    from playwright.sync_api import Browser, Page
    from pytest_django.live_server_helper import LiveServer

    from .conftest import OpenContext

pytestmark = [pytest.mark.django_db(transaction=True)]

ADDRESS = "https://login.example.com/start?token=t0p"


def press(tab: Page, name: str) -> None:
    """Reach a button or link with the Tab key, and press Enter."""
    for _ in range(15):
        tab.keyboard.press("Tab")
        if name in (tab.locator(":focus").text_content() or ""):
            tab.keyboard.press("Enter")
            return
    pytest.fail(f"{name} cannot be reached with the keyboard")


@pytest.mark.parametrize("scripts", [True, False])
def test_an_address_is_opened_by_the_person_alone(
    browser: Browser,
    live_server: LiveServer,
    user: User,
    sign_in: Callable[[User], dict[str, str]],
    scripts: bool,
) -> None:
    # A window of its own: the watched ones may not leave the site at all.
    context = browser.new_context(base_url=live_server.url, java_script_enabled=scripts)
    context.set_default_timeout(10_000)
    context.add_cookies([{**sign_in(user), "url": live_server.url}])  # type: ignore[typeddict-item]
    elsewhere: list[tuple[str, str | None]] = []

    def there(route: object, request: object) -> None:
        elsewhere.append((request.url, request.headers.get("referer")))  # type: ignore[attr-defined]
        route.fulfill(body="You are there.")  # type: ignore[attr-defined]

    context.route(lambda url: not url.startswith(live_server.url), there)
    question = ask_to_open(user, ADDRESS, parked=True)
    tab = context.new_page()
    tab.goto(question.get_absolute_url())
    expect(tab.locator(".elicitation-url")).to_have_text(ADDRESS)
    press(tab, "Agree")
    expect(tab.get_by_text("come back and press Continue")).to_be_visible()
    assert StoredFormAnswer.objects.get().action == "accept"
    assert elsewhere == []
    with context.expect_page() as opened:
        press(tab, "in a new tab")
    expect(opened.value.get_by_text("You are there.")).to_be_visible()
    assert elsewhere[0] == (ADDRESS, None)
    if scripts:
        assert opened.value.evaluate("[document.referrer, window.opener]") == ["", None]
    opened.value.close()
    press(tab, "Continue")
    expect(tab.get_by_text("You said that you have finished.")).to_be_visible()
    context.close()


def test_an_address_can_be_declined_after_all(open_context: OpenContext, user: User) -> None:
    question = ask_to_open(user, parked=True)
    tab = open_context().new_page()
    tab.goto(question.get_absolute_url())
    tab.get_by_role("button", name="Agree").click()
    tab.get_by_role("button", name="Decline").click()
    expect(tab.get_by_role("heading", name="You declined")).to_be_visible()
    question.refresh_from_db()
    assert (question.state, question.reason, question.url) == ("declined", "taken_back", "")
