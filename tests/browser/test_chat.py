"""The demo's chat page in Chromium: a client that has nothing but the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.core.cache import cache
from playwright.sync_api import expect

from elicitation import inbox
from elicitation.core import ElicitationError
from elicitation.models import StoredFormAnswer
from tests.asking import allow, ask, ask_to_open, schema
from tests.hostile import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import User
    from playwright.sync_api import Page

    from .conftest import OpenContext

pytestmark = [pytest.mark.django_db(transaction=True)]

ASKED = schema(
    "plan",
    "seats",
    "sure",
    plan={"oneOf": [{"const": "s", "title": "Solo"}, {"const": "t", "title": "Team"}]},
    seats={"type": "integer", "title": "Seats", "minimum": 1, "maximum": 5, "default": 2},
    extras={"type": "array", "title": "Extras", "items": {"type": "string", "enum": ["a", "b"]}},
    sure={"type": "boolean", "title": "Sure?"},
    note={"type": "string", "title": "Note"},
)


@pytest.fixture(autouse=True)
def _no_throttling_from_before() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def test_a_question_is_answered_inside_the_conversation(tab: Page, user: User) -> None:
    allow(label="Demo shop", prefill=True)
    elicitation = ask(user, ASKED, "Which plan?")
    tab.goto("/chat/")
    form = tab.locator("li").filter(has_text="Which plan?")
    expect(form).to_contain_text("An external server asks: Demo shop")
    expect(form.get_by_label("Seats")).to_have_value("2")
    form.get_by_label("Solo").check()
    form.get_by_label("b", exact=True).check()
    form.get_by_label("Yes").check()
    form.get_by_label("Seats").fill("3")
    form.get_by_role("button", name="Send the answer").click()
    expect(tab.get_by_text("You answered.")).to_be_visible()
    elicitation.refresh_from_db()
    assert (elicitation.state, elicitation.closed_via) == ("answered", "api")
    answers = StoredFormAnswer.objects.get().answers
    assert elicitation.schema.content_from_answers(answers) == {
        "plan": "s",
        "seats": 3,
        "extras": ["b"],
        "sure": True,
    }


def test_what_does_not_fit_is_said_at_its_field(tab: Page, user: User) -> None:
    ask(user, ASKED)
    tab.goto("/chat/")
    form = tab.locator("li").filter(has_text="Please answer.")
    form.get_by_label("Solo").check()
    form.get_by_label("Yes").check()
    form.get_by_label("Seats").fill("9")
    form.get_by_role("button", name="Send the answer").click()
    expect(form.get_by_text("Write a smaller number: at most 5.")).to_be_visible()
    expect(form.get_by_label("Seats")).to_be_focused()
    assert not StoredFormAnswer.objects.exists()


def test_declining_and_what_was_closed_elsewhere(tab: Page, user: User) -> None:
    first, second = ask(user, ASKED, "First?"), ask(user, schema(), "Second?")
    tab.goto("/chat/")
    form = tab.locator("li").filter(has_text="First?")
    form.get_by_role("button", name="Decline").click()
    expect(tab.get_by_text("You declined.")).to_be_visible()
    first.refresh_from_db()
    assert (first.state, first.closed_via) == ("declined", "api")
    question = tab.locator("li").filter(has_text="Second?")
    expect(question.locator("form")).to_have_count(1)
    inbox.withdraw(second.pk)
    expect(tab.get_by_text("The request was withdrawn.")).to_be_visible()
    expect(question.locator("form")).to_have_count(0)


def test_an_address_is_looked_at_on_its_own_page(tab: Page, user: User) -> None:
    allow()
    question = ask_to_open(user, "https://login.example.com/start?token=t0p", "Sign in.")
    tab.goto("/chat/")
    bubble = tab.locator("li").filter(has_text="Sign in.")
    expect(bubble).to_contain_text("login.example.com")
    assert "t0p" not in tab.content()
    link = bubble.get_by_role("link", name="Look at the link")
    assert link.get_attribute("href") == question.get_absolute_url()
    bubble.get_by_role("button", name="Decline").click()
    expect(tab.get_by_text("You declined.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_the_chat_is_accessible(
    width: int, scheme: str, open_context: OpenContext, user: User
) -> None:
    ask(user, ASKED, "Which plan?")
    ask(user, schema(), "Go on?")
    ask_to_open(user)
    size = {"width": width, "height": 900}
    tab = open_context(viewport=size, color_scheme=scheme).new_page()
    tab.goto("/chat/")
    expect(tab.get_by_role("button", name="Accept")).to_be_visible()
    found = Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_text_stays_text(tab: Page, user: User) -> None:
    """No element comes of it, and nothing runs: a console error would fail the test."""
    for text in ("harmless", *HOSTILE):
        try:
            asked: dict[str, Any] = {
                "x": {"type": "string", "title": f"-{text}"[:200], "description": f"-{text}"},
                "y": {"oneOf": [{"const": "a", "title": text}, {"const": "b"}]},
            }
            ask(user, schema(**asked), f"message {text}")
        except (ElicitationError, ValueError):
            # Refused; the second is Python's for half a character in a message.
            continue
        if inbox.waiting(user).count() == 12:
            break
    tab.goto("/chat/")
    expect(tab.locator("li form form, li script, li img, li iframe, li a")).to_have_count(0)
    forms = tab.locator("li.bubble")
    expect(forms).to_have_count(12)
    skeletons = forms.evaluate_all(
        "forms => forms.map(form => [...form.querySelectorAll('*')].map(e => e.tagName).join())"
    )
    assert len(set(skeletons)) == 1
    expect(forms.nth(1)).to_contain_text("<script>alert(1)</script>")
