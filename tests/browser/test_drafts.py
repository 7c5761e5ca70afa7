"""Nothing that was typed is lost (line 22): in Chromium, field by field."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone
from playwright.sync_api import Error, expect

from elicitation import inbox
from elicitation.models import Elicitation, StoredFormAnswer
from tests.asking import ask, schema
from tests.core.test_credentials import FOUND

from .test_browser import CONTENT, EVERY_KIND, check_and_send, fill_in, go, sent, submit

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from playwright.sync_api import BrowserContext, CDPSession, Page
    from pytest_django.live_server_helper import LiveServer

    from .conftest import OpenContext

pytestmark = [pytest.mark.django_db(transaction=True)]

#: What the inputs hold after ``fill_in``, by their names.
FILLED = {
    "a-0": ["1"],
    "a-1": ["3"],
    "a-2": ["0", "2"],
    "a-3": ["1"],
    "a-4": ["two\nlines"],
    "a-5": ["ada@example.com"],
    "a-6": ["https://example.com/"],
    "a-7": ["3"],
    "a-8": ["1.5"],
    "a-9": ["2026-12-31"],
    "a-10_0": ["2026-07-01T12:00"],
    "a-10_1": ["Europe/Berlin"],
    "a-11": [],
}

#: What stands in the fields of a form, as a person would see it.
FIELDS = """() => {
  const found = {};
  for (const each of document.querySelectorAll(".elicitation-form [name^=a-]")) {
    found[each.name] ??= [];
    const isChosen = ["radio", "checkbox"].includes(each.type);
    if (isChosen ? each.checked : each.value) found[each.name].push(each.value);
  }
  return found;
}"""

#: What a page offers for copying, by title.
TYPED = {
    "Plan": "Pro",
    "Country": "Country 3",
    "extras": "a\nc",
    "Insure it?": "No",
    "Note": "two\nlines",
    "mail": "ada@example.com",
    "site": "https://example.com/",
    "Seats": "3",
    "weight": "1.5",
    "day": "2026-12-31",
}

NOTICE = "What you typed here before is filled in again"


def fields(tab: Page) -> Any:
    return tab.evaluate(FIELDS)


def kept(tab: Page) -> str:
    """Return everything that the browser keeps for the site."""
    return str(tab.evaluate("JSON.stringify({...sessionStorage, ...localStorage})"))


def check_restored(tab: Page) -> None:
    expect(tab.get_by_text(NOTICE)).to_be_visible()
    assert fields(tab) == FILLED


def check_offered(tab: Page) -> None:
    offer = tab.locator("dl", has_text="Insure it?")
    expect(offer).to_be_visible()
    titles = offer.locator("dt").all_inner_texts()
    found = dict(zip(titles, offer.locator("dd").all_inner_texts(), strict=True))
    moment = found.pop("When?")
    assert moment.startswith("2026-07-01T12:00")
    assert moment.endswith("Berlin")
    assert found == TYPED


@pytest.fixture
def typed(tab: Page, user: User) -> Elicitation:
    """A request, into whose form everything was typed, but not sent."""
    elicitation = ask(user, EVERY_KIND)
    go(tab, elicitation)
    fill_in(tab)
    assert fields(tab) == FILLED
    return elicitation


def sign_in_by_hand(tab: Page, name: str = "ada") -> None:
    tab.get_by_label("User name").fill(name)
    tab.get_by_label("Password").fill("pw")
    tab.get_by_role("button", name="Sign in").click()


def end_session(context: BrowserContext) -> None:
    context.clear_cookies(name="sessionid")


def test_line_22_it_survives_an_expired_session_and_the_sign_in(
    tab: Page, typed: Elicitation
) -> None:
    end_session(tab.context)
    submit(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Not sent")
    tab.get_by_role("link", name="Sign in and open the request again").click()
    sign_in_by_hand(tab)
    tab.wait_for_url(f"**{typed.get_absolute_url()}")
    check_restored(tab)
    check_and_send(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Your answer was stored")
    assert sent(typed) == CONTENT
    # Sent, it is no longer kept.
    assert kept(tab) == "{}"


def test_line_22_case_E8_it_survives_to_leave_and_return_and_to_go_back(
    tab: Page, typed: Elicitation
) -> None:
    tab.get_by_role("link", name="Leave it for now").click()
    tab.wait_for_url("**/elicitation/")
    go(tab, typed)
    check_restored(tab)
    tab.goto("/elicitation/")
    tab.go_back()
    assert fields(tab) == FILLED
    # The notice says what was filled in, and when it was typed.
    tab.reload()
    notice = tab.locator("[data-elicitation-kept]")
    assert [each.inner_text() for each in notice.locator("li").all()] == [
        "Plan", "Country", "extras", "Insure it?", "Note", "mail", "site", "Seats", "weight",
        "day", "When?",
    ]  # fmt: skip
    at = notice.locator("time").get_attribute("datetime")
    assert at is not None
    assert at[:10] == timezone.now().date().isoformat()


def test_line_22_it_survives_a_crash_of_the_tab(
    open_context: OpenContext, user: User, live_server: LiveServer
) -> None:
    context = open_context()
    tab = context.new_page()
    elicitation = ask(user, EVERY_KIND)
    go(tab, elicitation)
    fill_in(tab)
    browser = context.browser
    assert browser is not None
    session: CDPSession = browser.new_browser_cdp_session()
    address = f"{live_server.url}{elicitation.get_absolute_url()}"
    (target,) = [
        each["targetId"]
        for each in session.send("Target.getTargets")["targetInfos"]
        if each["url"] == address
    ]
    with tab.expect_event("crash"), suppress(Error):
        tab.goto("chrome://crash")
    # Playwright gives a crashed page up. The browser does not: it is asked itself.
    attached = session.send("Target.attachToTarget", {"targetId": target})["sessionId"]
    replies: dict[int, Any] = {}
    session.on(
        "Target.receivedMessageFromTarget",
        lambda event: replies.update({(reply := json.loads(event["message"])).get("id"): reply}),
    )

    def ask_tab(number: int, method: str, **params: Any) -> Any:
        message = json.dumps({"id": number, "method": method, "params": params})
        session.send("Target.sendMessageToTarget", {"sessionId": attached, "message": message})
        other = context.pages[-1]
        for _try in range(100):
            if number in replies:
                return replies[number]
            other.wait_for_timeout(50)
        raise AssertionError(f"no reply to {method}")

    context.new_page()
    ask_tab(1, "Page.reload")
    ready = f"document.readyState === 'complete' && ({FIELDS})()"
    for number in range(2, 100):
        reply = ask_tab(number, "Runtime.evaluate", expression=ready, returnByValue=True)
        value = reply.get("result", {}).get("result", {}).get("value")
        if value:
            break
        context.pages[-1].wait_for_timeout(100)
    assert value == FILLED


@pytest.mark.parametrize("state", ["expired", "withdrawn"])
@pytest.mark.parametrize("scripts", [True, False])
def test_line_22_a_request_that_closed_shows_what_was_typed(
    scripts: bool, state: str, open_context: OpenContext, user: User
) -> None:
    tab = open_context(java_script_enabled=scripts).new_page()
    elicitation = ask(user, EVERY_KIND)
    go(tab, elicitation)
    fill_in(tab)
    if state == "expired":
        Elicitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    else:
        inbox.withdraw(elicitation.pk)
    submit(tab)
    tab.wait_for_selector(f".elicitation-outcome-{state}")
    check_offered(tab)
    assert not StoredFormAnswer.objects.filter(action="accept").exists()


def test_line_22_a_request_that_closed_meanwhile_offers_what_the_browser_kept(
    tab: Page, typed: Elicitation
) -> None:
    inbox.withdraw(typed.pk)
    for _again in range(2):
        tab.reload()
        expect(tab.get_by_text("What you typed here was not sent")).to_be_visible()
        check_offered(tab)
    tab.get_by_role("button", name="Discard it").click()
    assert kept(tab) == "{}"
    assert not tab.locator("[data-elicitation-kept]:visible").count()


@pytest.mark.parametrize("scripts", [True, False])
def test_line_22_a_stale_token_shows_what_was_typed(
    scripts: bool, open_context: OpenContext, user: User
) -> None:
    context = open_context(java_script_enabled=scripts)
    tab = context.new_page()
    elicitation = ask(user, EVERY_KIND)
    go(tab, elicitation)
    fill_in(tab)
    context.clear_cookies(name="csrftoken")
    submit(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Not sent")
    check_offered(tab)
    if scripts:
        tab.get_by_role("link", name="Open the request again").click()
        check_restored(tab)


def test_line_22_without_javascript_an_expired_session_shows_what_was_typed(
    open_context: OpenContext, user: User
) -> None:
    context = open_context(java_script_enabled=False)
    tab = context.new_page()
    elicitation = ask(user, EVERY_KIND)
    go(tab, elicitation)
    fill_in(tab)
    end_session(context)
    submit(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Not sent")
    # Nobody is signed in: there are no titles and no labels of the request.
    lines = [each.inner_text() for each in tab.locator("dl dd").all()]
    assert lines == [
        "1", "3", "0\n2", "1", "two\nlines", "ada@example.com", "https://example.com/", "3", "1.5",
        "2026-12-31", "2026-07-01T12:00\nEurope/Berlin",
    ]  # fmt: skip
    assert tab.locator("dl dt").first.inner_text() == "Question 1"
    assert "Country" not in tab.locator("main").inner_text()


def test_line_22_it_can_be_discarded(tab: Page, typed: Elicitation) -> None:
    tab.reload()
    tab.get_by_role("button", name="Discard it").click()
    assert kept(tab) == "{}"
    assert not any(values for name, values in fields(tab).items() if name != "a-10_1")
    expect(tab.get_by_text(NOTICE)).to_be_hidden()
    tab.reload()
    assert not any(values for name, values in fields(tab).items() if name != "a-10_1")


def test_line_22_a_decline_deletes_it(tab: Page, typed: Elicitation) -> None:
    assert "two" in kept(tab)
    tab.get_by_role("button", name="Decline").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("You declined")
    assert kept(tab) == "{}"


def test_line_22_a_page_of_another_person_deletes_it(
    tab: Page, typed: Elicitation, other_user: User, sign_in: Any, live_server: LiveServer
) -> None:
    tab.context.add_cookies([{**sign_in(other_user), "url": live_server.url}])
    tab.goto("/elicitation/")
    assert kept(tab) == "{}"


def test_line_22_a_sign_out_deletes_it(tab: Page, typed: Elicitation) -> None:
    tab.get_by_role("link", name="Sign out").click()
    tab.get_by_role("button", name="Sign out").click()
    tab.wait_for_url("**/accounts/login/")
    assert kept(tab) == "{}"


def test_line_22_the_summary_of_errors_restores_nothing_else(
    tab: Page, typed: Elicitation
) -> None:
    tab.get_by_label("Seats").fill("99")
    submit(tab)
    expect(tab.locator(".elicitation-summary")).to_be_visible()
    assert fields(tab) == FILLED | {"a-7": ["99"]}
    expect(tab.get_by_text(NOTICE)).to_be_hidden()
    tab.get_by_label("Seats").fill("4")
    tab.goto("/elicitation/")
    go(tab, typed)
    assert fields(tab) == FILLED | {"a-7": ["4"]}


def test_line_22_what_looks_like_a_credential_is_not_kept(tab: Page, user: User) -> None:
    text = {"type": "string"}
    go(tab, ask(user, schema("a", "b", a=text, b=text)))
    a, b = tab.locator("[name=a-0]"), tab.locator("[name=a-1]")
    b.fill("ordinary")
    for credential in FOUND:
        for shown in (credential, f"It is {credential}.", "\u200b".join(credential)):
            a.fill(shown)
            assert kept(tab).count("ordinary") == 2
            assert credential[:12] not in kept(tab).replace("\u200b", ""), credential
    a.fill("a plain é text")
    assert "a plain é text" in kept(tab)
    a.fill(next(iter(FOUND)))
    tab.reload()
    assert fields(tab) == {"a-0": [], "a-1": ["ordinary"]}


def test_line_22_no_text_is_kept_where_the_request_speaks_of_a_secret(
    tab: Page, user: User
) -> None:
    plan = {"type": "string", "enum": ["free", "pro"]}
    go(tab, ask(user, schema("a", a={"type": "string"}, b=plan), "Your password?"))
    tab.locator("[name=a-0]").fill("hunter2")
    tab.get_by_role("radio", name="pro").check()
    assert "hunter2" not in kept(tab)
    tab.reload()
    assert fields(tab) == {"a-0": [], "a-1": ["1"]}


def test_line_26_what_is_changed_goes_back_to_its_question(tab: Page, typed: Elicitation) -> None:
    submit(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Check before it goes")
    tab.locator("li", has_text="Seats").get_by_role("button", name="Change").click()
    expect(tab.get_by_label("Seats")).to_be_in_viewport()
    assert fields(tab) == FILLED
    tab.get_by_label("Seats").fill("4")
    submit(tab)
    # Left here, nothing is lost either.
    tab.goto("/elicitation/")
    go(tab, typed)
    assert fields(tab) == FILLED | {"a-7": ["4"]}
    check_and_send(tab)
    assert sent(typed) == CONTENT | {"seats": 4}
