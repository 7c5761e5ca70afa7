"""What changes arrives in an open page, from a real ASGI server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User

from elicitation import inbox
from tests.asking import ask, schema
from tests.browser.conftest import Watch
from tests.person import site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.django_db(transaction=True)
QUESTION = schema("plan", plan={"type": "string"})
#: Keeps what the page is told.
LISTEN = """
    window.told = [];
    document.addEventListener("elicitation:changed", ({ detail }) => window.told.push(detail));
"""


def test_the_count_follows_at_once_and_the_page_is_told(
    browser: Browser, user: User, sign_in: Callable[[User], dict[str, str]]
) -> None:
    from playwright.sync_api import expect

    with site("tests.browser.live_site:application") as address:
        watch = Watch(address)
        context = browser.new_context(base_url=address)
        context.add_cookies([{**sign_in(user), "url": address}])
        context.on("page", watch.follow)
        context.add_init_script(LISTEN)
        tab = context.new_page()
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        ask(user, QUESTION)
        tab.goto("/chat/")
        shown = tab.locator("[data-elicitation-count]")
        expect(shown).to_have_text("1")
        second = ask(user, QUESTION, "<img src=x onerror=alert(1)>")
        expect(shown).to_have_text("2", timeout=30_000)
        inbox.decline(second.pk, by=user)
        expect(shown).to_have_text("1", timeout=30_000)
        told = tab.evaluate("window.told")
        heard = {(one["id"], one["state"]) for one in told}
        # What was asked before the stream had begun stands in its first list.
        heard.discard((str(second.pk), "pending"))
        assert heard == {(str(second.pk), "declined")}
        # Nothing was asked again and again.
        assert not any(url.endswith("/count/") for url in asked)
        context.close()
    assert not watch.complaints
