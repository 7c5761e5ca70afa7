"""What of a request is seen without scrolling (line 24)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.asking import allow, ask

from .test_browser import BUY, go

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from playwright.sync_api import Page

    from .conftest import OpenContext

pytestmark = [pytest.mark.django_db(transaction=True)]

#: A message of an ordinary length, and the names of an ordinary tool and conversation.
MESSAGE = "Which plan should I book for your team, and for how many seats?"


@pytest.fixture
def phone(open_context: OpenContext) -> Page:
    return open_context(
        viewport={"width": 390, "height": 844}, device_scale_factor=2, has_touch=True
    ).new_page()


def top(tab: Page, selector: str) -> float:
    return float(tab.locator(selector).first.evaluate("each => each.getBoundingClientRect().top"))


def test_line_24_the_first_field_is_seen_on_a_phone(phone: Page, user: User) -> None:
    allow(label="Demo shop")
    for number, limit in enumerate((600, 420)):
        go(phone, ask(user, BUY, MESSAGE, tool="book_plan", scope_label="Budget"))
        about = phone.locator("details.elicitation-about")
        assert about.evaluate("each => each.open") is (number == 0)
        assert top(phone, ".elicitation-field") < limit
        expect(phone.get_by_text(MESSAGE)).to_be_in_viewport(ratio=1)
        expect(phone.locator(".elicitation-field").first).to_be_in_viewport()
        summary = about.locator("summary")
        said = " ".join(summary.inner_text().split())
        assert said == "External server · goes to Demo shop · no passwords"
        assert summary.evaluate("each => each.getBoundingClientRect().height") < 30


def test_line_24_at_twice_the_size_the_message_is_seen(
    open_context: OpenContext, user: User
) -> None:
    # 200 % halves the width and the height of what a window shows.
    tab = open_context(viewport={"width": 195, "height": 422}).new_page()
    go(tab, ask(user, BUY, "First?"))
    go(tab, ask(user, BUY, MESSAGE))
    expect(tab.get_by_text(MESSAGE)).to_be_in_viewport()


def test_line_24_the_rest_opens_with_the_keyboard(phone: Page, user: User) -> None:
    ask(user, BUY)
    go(phone, ask(user, BUY))
    go(phone, ask(user, BUY))
    rest = phone.get_by_text("An external server asks this. This site does not.")
    expect(rest).to_be_hidden()
    phone.locator("summary").focus()
    phone.keyboard.press("Enter")
    expect(rest).to_be_visible()


@pytest.mark.parametrize(
    ("message", "server"), [("Your password?", "shop"), ("Which plan?", "P\u0430ypal")]
)
def test_line_24_it_stands_open_where_a_warning_applies(
    message: str, server: str, phone: Page, user: User
) -> None:
    go(phone, ask(user, BUY, "First?", server=server))
    go(phone, ask(user, BUY, message, server=server))
    expect(phone.locator("div.elicitation-notice-warning").first).to_be_visible()
    expect(phone.get_by_text("This site does not.")).to_be_visible()


def test_line_28_the_time_left_in_the_browsers_zone(open_context: OpenContext, user: User) -> None:
    context = open_context()
    context.clock.install()
    tab = context.new_page()
    now = datetime.fromtimestamp(tab.evaluate("Date.now()") / 1000, tz=UTC)
    go(tab, ask(user, BUY, expires_at=now + timedelta(hours=23, minutes=30)))
    deadline = tab.locator("[data-elicitation-deadline]")
    expect(deadline).to_contain_text("(in 23 hours)")
    # The browser is in New York, the site in Kathmandu.
    expect(deadline).to_contain_text(re.compile(r"E[SD]T \(in"))
    soon = tab.get_by_text("Less than ten minutes are left to answer.")
    expect(soon).to_be_hidden()
    tab.clock.run_for(timedelta(hours=23, minutes=20, seconds=40) // timedelta(milliseconds=1))
    expect(deadline).to_contain_text("(in 9 minutes)")
    expect(soon).to_be_visible()
    # Quiet: what has the focus keeps it.
    assert tab.evaluate("document.activeElement === document.body")
