"""The pages in Chromium: what only a browser can tell."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.utils import timezone
from playwright.sync_api import expect

from elicitation import inbox
from elicitation.models import Elicitation, StoredFormAnswer
from tests.asking import allow, ask, ask_to_open, schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import User
    from playwright.sync_api import Page
    from pytest_django.fixtures import SettingsWrapper
    from pytest_django.live_server_helper import LiveServer

    from .conftest import OpenContext

pytestmark = [pytest.mark.django_db(transaction=True)]

State = Elicitation.State

PLAN = {"type": "string", "title": "Plan", "enum": ["free", "pro"], "enumNames": ["Free", "Pro"]}
SEATS = {"type": "integer", "title": "Seats", "minimum": 1, "maximum": 5}
BUY = schema("plan", "seats", plan=PLAN, seats=SEATS)

EVERY_KIND = schema(
    "speed", "when",
    speed={**PLAN, "description": "How fast?\nChoose well."},
    country={"type": "string", "title": "Country", "enum": [f"Country {n}" for n in range(9)]},
    extras={"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "maxItems": 2},
    insured={"type": "boolean", "title": "Insure it?"},
    note={"type": "string", "title": "Note", "maxLength": 1000},
    mail={"type": "string", "format": "email"},
    site={"type": "string", "format": "uri"},
    seats=SEATS,
    weight={"type": "number", "minimum": 0.5},
    day={"type": "string", "format": "date"},
    when={"type": "string", "format": "date-time", "title": "When?"},
    odd={"type": "string", "format": "uuid", "minLength": 3},
)  # fmt: skip

# Persian with the joiners it needs, emoji, a long word, line breaks.
LONG = "می‌خواهم 👩‍👩‍👧‍👦 " + "Donaudampfschifffahrtsgesellschaft" * 4 + "\n\nline " * 20
LONG_LABEL = "W" * 120 + " ünïcödé " + "wörd " * 10


def long_and_odd() -> dict[str, Any]:
    options = [f"{number} {LONG_LABEL}"[:200] for number in range(32)]
    kinds: list[dict[str, Any]] = [
        {"type": "string", "enum": options},
        {"type": "string", "enum": options[:7]},
        {"type": "array", "items": {"type": "string", "enum": options}},
        {"type": "string", "title": LONG_LABEL[:200], "description": LONG[:2000]},
    ]
    # As many as there may be with texts of this length.
    return schema(**{f"property_{'x' * 50}_{n}": kinds[n % 4] for n in range(8)})


def go(tab: Page, elicitation: Elicitation) -> None:
    tab.goto(elicitation.get_absolute_url())


def submit(tab: Page) -> None:
    tab.get_by_role("button", name="Send answer").click()


def check_and_send(tab: Page) -> None:
    """Send a form of more than five questions, and what the next page shows of it."""
    submit(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Check before it goes")
    submit(tab)


def every_page(tab: Page, user: User) -> Iterator[str]:
    """Show one page after the other; yield what each is."""
    tab.goto("/elicitation/")
    yield "empty inbox"
    waiting = [
        ask(user, EVERY_KIND, "Hello.\nhttps://example.com", scope_label="Quarterly budget"),
        ask(user, BUY, "Your password?", server="Pаypal"),
        ask(user, schema(), "Delete it?"),
    ]
    done = [
        ask(user, BUY, state=state, closed_at=timezone.now())
        for state in (State.ANSWERED, State.DECLINED, State.EXPIRED, State.WITHDRAWN)
    ]
    addresses = [
        ask_to_open(user, "https://bücher.example.com:8443/" + "path/" * 60, LONG[:2000]),
        ask_to_open(user, call="2", parked=True),
        ask_to_open(user, "https://аррӏе.com/", call="3"),
    ]
    tab.goto("/elicitation/")
    yield "inbox"
    tab.goto("/elicitation/history/?search=plan")
    yield "history"
    for number in range(2):
        ask(user, BUY, f"Not now {number}", call=f"n{number}")
    tab.goto("/elicitation/?search=Not+now")
    for box in tab.locator(".elicitation-select").all():
        box.check()
    tab.locator("form[method=post] button").click()
    tab.wait_for_url("**/decline/")
    yield "declined"
    for elicitation in addresses:
        if elicitation is not addresses[0]:
            inbox.consent(elicitation.pk, by=user)
        go(tab, elicitation)
        yield f"{elicitation.state} address {elicitation.call}"
    inbox.go_on(addresses[1].pk, by=user)
    go(tab, addresses[1])
    yield "finished"
    for elicitation in [*waiting, *done]:
        go(tab, elicitation)
        yield f"{elicitation.state} {elicitation.message}"
    go(tab, waiting[0])
    tab.locator(".elicitation-button-primary").click()
    tab.wait_for_selector(".elicitation-summary")
    yield "errors"
    tab.locator("[name=a-0]").first.check()
    tab.locator("[name=a-10_0]").fill("2026-07-01T12:00")
    tab.locator("[name=a-10_1]").select_option("UTC")
    tab.locator(".elicitation-button-primary").click()
    tab.wait_for_selector(".elicitation-check")
    yield "check"
    go(tab, waiting[2])
    tab.locator(".elicitation-button-primary").click()
    tab.wait_for_selector("[name=checked]")
    yield "check of a confirmation"
    go(tab, waiting[1])
    inbox.decline(waiting[1].pk, by=user)
    tab.locator("[name=a-0]").first.check()
    tab.locator("[name=a-1]").fill("1")
    tab.locator(".elicitation-button-primary").click()
    tab.wait_for_selector(".elicitation-outcome-declined")
    yield "conflict"
    tab.goto("/elicitation/nonsense/")
    yield "not found"
    tab.goto("/elicitation/sign-out/")
    yield "sign out"
    go(tab, waiting[0])
    cookies = tab.context.cookies()
    tab.context.clear_cookies(name="sessionid")
    tab.locator(".elicitation-button-primary").click()
    tab.wait_for_selector(".elicitation-outcome-unsent")
    yield "unsent"
    tab.context.add_cookies(cookies)  # type: ignore[arg-type]


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
#: The rules among them whose verdict depends on colours or on where things stand.
LOOKS = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"]

AXE = Axe()


def violations(tab: Page, rules: list[str] = RULES) -> list[str]:
    if tab.evaluate("typeof axe === 'undefined'"):
        tab.evaluate(AXE.axe_script)
    options = {"resultTypes": ["violations"], "runOnly": rules}
    found = tab.evaluate("options => axe.run(options)", options)["violations"]
    return [
        f"{each['id']}: {node['html'][:200]}\n{node['failureSummary']}"
        for each in found
        for node in each["nodes"]
    ]


#: Everything a finger can press, save links inside running text.
TARGETS = "button, input:not([type=hidden]), select, textarea, .elicitation-later, a:only-child"


#: Which elements of a page are visible, as one text.
SHOWN = "[...document.all].map(each => Number(each.checkVisibility())).join('')"


@pytest.mark.parametrize("language", ["en-US", "de-DE", "ar-EG"])
def test_line_13_every_page_is_accessible(
    language: str, open_context: OpenContext, user: User
) -> None:
    """No axe violations, no sideways scroll and no small target, in light and dark, wide and
    narrow."""
    # Colours that are still changing would be measured half-way.
    tab = open_context(locale=language, reduced_motion="reduce").new_page()
    # Colours do not depend on the language.
    schemes = ("light", "dark") if language == "en-US" else ("light",)
    seen = 0
    for name in every_page(tab, user):
        assert tab.locator("html").get_attribute("lang") == language[:2]
        shown = set()
        for width in (1280, 320):
            tab.set_viewport_size({"width": width, "height": 800})
            for scheme in schemes:
                tab.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                # The same elements are shown each time, so most rules hold each time or never.
                rules = LOOKS if shown else RULES
                assert not violations(tab, rules), f"{name}, {width}, {scheme}"
                shown.add(tab.evaluate(SHOWN))
            sideways = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert sideways <= 0, f"{name}: {sideways} px too wide at {width}"
        assert len(shown) == 1, f"{name}: the width or the colours hide something"
        small = tab.locator(TARGETS).evaluate_all(
            "all => all.filter(each => { const box = each.getBoundingClientRect();"
            " return box.width && (box.height < 24 || box.width < 24) })"
            ".map(each => each.outerHTML)"
        )
        assert not [each for each in small if "elicitation-skip" not in each], name
        seen += 1
    assert seen == 22


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_line_13_forced_colours_and_reduced_motion(
    scheme: Any, open_context: OpenContext, user: User
) -> None:
    tab = open_context(
        color_scheme=scheme, forced_colors="active", reduced_motion="reduce"
    ).new_page()
    go(tab, ask(user, EVERY_KIND))
    tab.get_by_label("Pro", exact=False).first.check()
    option = tab.locator(".elicitation-option:has(:checked)")
    assert option.evaluate("each => getComputedStyle(each).borderTopWidth") == "2px"
    button = tab.locator(".elicitation-button").first
    assert button.evaluate("each => getComputedStyle(each).transitionDuration") == "0s"
    assert not violations(tab)


def test_line_13_right_to_left_keeps_the_servers_text_in_its_own_direction(
    open_context: OpenContext, user: User
) -> None:
    tab = open_context(locale="ar-EG").new_page()
    go(tab, ask(user, BUY, "Left to right, (in parentheses)."))
    assert tab.evaluate("getComputedStyle(document.body).direction") == "rtl"
    message = tab.locator(".elicitation-quote .elicitation-said")
    assert message.evaluate("each => getComputedStyle(each).direction") == "ltr"
    assert message.evaluate("each => getComputedStyle(each).unicodeBidi") in (
        "isolate",
        "plaintext",
    )


def test_line_04_marks_piled_on_a_letter_stay_in_their_block(tab: Page, user: User) -> None:
    go(tab, ask(user, BUY, "e" + "\u0301" * 80))
    message = tab.locator(".elicitation-quote .elicitation-said")
    assert message.evaluate("each => getComputedStyle(each).overflow") == "hidden"
    height = message.evaluate("each => each.getBoundingClientRect().height")
    assert height < 60


@pytest.mark.parametrize("width", [320, 1280])
def test_long_and_odd_questions_fit(width: int, open_context: OpenContext, user: User) -> None:
    tab = open_context(viewport={"width": width, "height": 800}).new_page()
    go(tab, ask(user, long_and_odd(), LONG[:2000], server="Pаypal " + "x" * 100))
    assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    tab.goto("/elicitation/")
    assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


# --- Answering -------------------------------------------------------------------------------


def fill_in(tab: Page) -> None:
    """Answer every kind of property with the mouse."""
    tab.get_by_role("radio", name="Pro").check()
    tab.get_by_label("Country").select_option(label="Country 3")
    tab.get_by_role("checkbox", name="a", exact=True).check()
    tab.get_by_role("checkbox", name="c", exact=True).check()
    tab.get_by_role("group", name="Insure it?").get_by_role("radio", name="No", exact=True).check()
    tab.get_by_label("Note").fill("two\nlines")
    tab.get_by_label("mail").fill("ada@example.com")
    tab.get_by_label("site").fill("https://example.com/")
    tab.get_by_label("Seats").fill("3")
    tab.get_by_label("weight").fill("1.5")
    tab.get_by_label("day").fill("2026-12-31")
    tab.get_by_label("Date and time").fill("2026-07-01T12:00")
    tab.get_by_label("Time zone").select_option("Europe/Berlin")


CONTENT = {
    "speed": "pro",
    "country": "Country 3",
    "extras": ["a", "c"],
    "insured": False,
    "note": "two\nlines",
    "mail": "ada@example.com",
    "site": "https://example.com/",
    "seats": 3,
    "weight": 1.5,
    "day": "2026-12-31",
    "when": "2026-07-01T12:00:00+02:00",
}


def sent(elicitation: Elicitation) -> dict[str, Any]:
    stored = StoredFormAnswer.objects.get(elicitation_id=elicitation.pk)
    return elicitation.schema.content_from_answers(stored.answers)


@pytest.mark.parametrize("scripts", [True, False])
def test_line_14_every_kind_is_answered_with_and_without_javascript(
    scripts: bool, open_context: OpenContext, user: User
) -> None:
    tab = open_context(java_script_enabled=scripts).new_page()
    elicitation = ask(user, EVERY_KIND)
    tab.goto("/elicitation/")
    tab.get_by_role("link", name="shop asks you").click()
    # The browser's zone, never the site's; without JavaScript none is chosen.
    expect(tab.get_by_label("Time zone")).to_have_value("America/New_York" if scripts else "")
    fill_in(tab)
    check_and_send(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Your answer was stored")
    assert sent(elicitation) == CONTENT


@pytest.mark.parametrize("scripts", [True, False])
def test_line_14_the_whole_flow_with_the_keyboard_alone(
    scripts: bool, open_context: OpenContext, user: User
) -> None:
    tab = open_context(java_script_enabled=scripts).new_page()
    requested = schema(
        "plan", "seats", plan=PLAN, seats=SEATS,
        tags={"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
    )  # fmt: skip
    elicitation = ask(user, requested)
    tab.goto("/elicitation/")

    def press(*keys: str) -> None:
        for key in keys:
            tab.keyboard.press(key)

    def on(text: str) -> None:
        """Press Tab until something with this text or name has the focus."""
        for _step in range(30):
            press("Tab")
            focused = tab.locator(":focus")
            # Without scripts in the page only its attributes can be read.
            label = focused.text_content() or focused.get_attribute("name") or ""
            if text in label:
                return
        raise AssertionError(f"Tab does not reach {text}")

    on("shop asks you")
    press("Enter")
    tab.wait_for_url(f"**{elicitation.get_absolute_url()}")
    # Enter in a field sends the answer, and never declines.
    on("a-1")
    tab.keyboard.type("99")
    press("Enter")
    summary = tab.locator(".elicitation-summary")
    expect(summary).to_be_focused()
    expect(tab).to_have_title(re.compile("^Error:"))
    # The links of the summary lead to the fields.
    press("Tab", "Enter", "Space")
    expect(tab.get_by_role("radio", name="Free")).to_be_checked()
    press("ArrowDown")
    expect(tab.get_by_role("radio", name="Pro")).to_be_checked()
    press("Tab")
    expect(tab.get_by_label("Seats")).to_be_focused()
    expect(tab.get_by_label("Seats")).to_have_value("99")
    press("ControlOrMeta+a")
    tab.keyboard.type("4")
    press("Tab", "Tab", "Space")
    expect(tab.get_by_role("checkbox", name="y")).to_be_checked()
    press("Tab", "Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text("Your answer was stored")
    assert sent(elicitation) == {"plan": "pro", "seats": 4, "tags": ["y"]}


def test_line_11_enter_in_any_field_never_declines(tab: Page, user: User) -> None:
    elicitation = ask(user, EVERY_KIND)
    go(tab, elicitation)
    for name in ("a-5", "a-7", "a-8", "a-9"):
        tab.locator(f"[name={name}]").press("Enter")
        tab.wait_for_selector(".elicitation-summary")
    elicitation.refresh_from_db()
    assert elicitation.state == State.PENDING


def test_line_11_decline_and_leave(tab: Page, user: User) -> None:
    elicitation = ask(user, BUY)
    go(tab, elicitation)
    tab.get_by_role("link", name="Leave it for now").click()
    tab.wait_for_url("**/elicitation/")
    go(tab, elicitation)
    tab.get_by_role("button", name="Decline").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("You declined")
    assert not tab.locator("form, button").count()


def test_line_08_the_server_sees_what_was_typed(tab: Page, user: User) -> None:
    requested = schema("mail", "seats", mail={"type": "string", "format": "email"}, seats=SEATS)
    go(tab, ask(user, requested))
    tab.get_by_label("mail").fill("not an address")
    tab.get_by_label("Seats").fill("many")
    submit(tab)
    expect(tab.locator(".elicitation-summary")).to_be_focused()
    expect(tab.get_by_label("mail")).to_have_value("not an address")
    expect(tab.get_by_label("Seats")).to_have_value("many")


def test_line_06_a_reload_keeps_nothing_and_a_query_fills_nothing(tab: Page, user: User) -> None:
    elicitation = ask(user, schema("name", name={"type": "string", "default": "Ada"}))
    tab.goto(elicitation.get_absolute_url() + "?a-0=Query&name=Query")
    expect(tab.get_by_label("name")).to_have_value("")


def test_line_20_a_frame_of_another_page_shows_nothing(
    tab: Page, user: User, live_server: LiveServer
) -> None:
    response = tab.goto(ask(user, BUY).get_absolute_url())
    assert response is not None
    assert response.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    assert not tab.locator("[style], style, script:not([src])").count()


# --- The next question -----------------------------------------------------------------------


@pytest.mark.parametrize("scripts", [True, False])
def test_the_next_question_comes_by_itself(
    scripts: bool, open_context: OpenContext, user: User
) -> None:
    tab = open_context(java_script_enabled=scripts).new_page()
    first = ask(user, BUY)
    go(tab, first)
    tab.get_by_role("radio", name="Pro").check()
    tab.get_by_label("Seats").fill("3")
    submit(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Your answer was stored")
    second = ask(
        user,
        schema("ok", ok={"type": "boolean", "title": "Buy 3 seats of Pro?"}),
        round=2,
        parked_call_id=first.parked_call_id,
    )
    tab.wait_for_url(f"**{second.get_absolute_url()}")
    expect(tab.get_by_text("This is the next request of the same tool call.")).to_be_visible()
    tab.get_by_role("radio", name="Yes").check()
    submit(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Your answer was stored")
    Elicitation.objects.filter(pk=second.pk).update(
        delivered_at=timezone.now(), delivery="delivered"
    )
    expect(tab.get_by_text("shop received the answer.")).to_be_visible()
    # The heading and the steps follow by themselves.
    expect(tab.get_by_role("heading", level=1)).to_have_text("Sent: the server has the answer")
    expect(tab.get_by_text("The tool has finished")).to_be_visible()


# --- The count -------------------------------------------------------------------------------


def test_the_count_follows_and_stops(
    open_context: OpenContext, user: User, settings: SettingsWrapper
) -> None:
    settings.ROOT_URLCONF = "tests.browser.site"
    settings.SESSION_SAVE_EVERY_REQUEST = True
    context = open_context()
    context.clock.install()
    tab = context.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url.rsplit("/", 2)[-2]))
    # This server sends no events, and the script asks at once.
    with tab.expect_response("**/elicitation/count/"):
        tab.goto("/chat/")
    shown = tab.locator("[data-elicitation-count]")
    expect(shown).to_have_text("0")
    ask(user, BUY)
    asked.clear()
    tab.clock.run_for(31_000)
    expect(shown).to_have_text("1")
    assert asked == ["count"]
    # Hidden, it pauses.
    tab.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    asked.clear()
    tab.clock.run_for(120_000)
    assert asked == []
    ask(user, BUY)
    tab.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    expect(shown).to_have_text("2")
    # Signed out, it stops.
    context.clear_cookies()
    tab.clock.run_for(31_000)
    tab.wait_for_timeout(200)
    asked.clear()
    tab.clock.run_for(120_000)
    assert asked == []


def test_the_form_inside_a_chat_page_comes_back_to_it(
    tab: Page, user: User, settings: SettingsWrapper
) -> None:
    settings.ROOT_URLCONF = "tests.browser.site"
    allow(label="Acme Shop")
    first, second = ask(user, BUY), ask(user, BUY)
    tab.goto("/chat/?tab=1")
    expect(tab.get_by_role("heading", name="Acme Shop asks you")).to_have_count(2)
    assert not violations(tab)
    form = tab.locator(f"form[action='{first.get_absolute_url()}']")
    form.get_by_role("radio", name="Free").check()
    form.get_by_label("Seats").fill("9")
    form.get_by_role("button", name="Send answer").click()
    expect(tab.locator(".elicitation-summary")).to_be_focused()
    tab.get_by_label("Seats").fill("2")
    submit(tab)
    tab.wait_for_url("**/chat/?tab=1")
    assert sent(first) == {"plan": "free", "seats": 2}
    expect(tab.get_by_role("heading", name="Acme Shop asks you")).to_have_count(1)
    tab.get_by_role("button", name="Decline").click()
    tab.wait_for_url("**/chat/?tab=1")
    second.refresh_from_db()
    assert second.state == State.DECLINED


def test_line_16_two_tabs(open_context: OpenContext, user: User) -> None:
    elicitation = ask(user, BUY)
    context = open_context()
    tabs = [context.new_page() for _number in range(2)]
    for number, tab in enumerate(tabs):
        go(tab, elicitation)
        tab.get_by_role("radio", name="Pro").check()
        tab.get_by_label("Seats").fill(str(number + 1))
    for tab in tabs:
        submit(tab)
    expect(tabs[0].get_by_role("heading", level=1)).to_have_text("Your answer was stored")
    expect(tabs[1].get_by_text("was already answered")).to_be_visible()
    assert sent(elicitation) == {"plan": "pro", "seats": 1}


def test_line_15_a_deadline_that_passes_while_the_form_is_open(tab: Page, user: User) -> None:
    elicitation = ask(user, BUY)
    go(tab, elicitation)
    Elicitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    tab.get_by_role("radio", name="Pro").check()
    tab.get_by_label("Seats").fill("1")
    submit(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("The time to answer is over")
    assert not StoredFormAnswer.objects.filter(action="accept").exists()
