"""Fields that fit (line 29), as far as a script helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.asking import ask, schema

from .test_browser import go, sent, submit, violations

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from playwright.sync_api import Page

    from .conftest import OpenContext

pytestmark = [pytest.mark.django_db(transaction=True)]

TEXT = {"type": "string"}


@pytest.mark.parametrize("scripts", [True, False])
def test_line_29_enter_in_one_line_sends(
    scripts: bool, open_context: OpenContext, user: User
) -> None:
    tab = open_context(java_script_enabled=scripts).new_page()
    elicitation = ask(user, schema("note", note=TEXT))
    go(tab, elicitation)
    tab.get_by_label("note").fill("one line")
    tab.get_by_label("note").press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text("Your answer was stored")
    assert sent(elicitation) == {"note": "one line"}


def test_line_29_one_line_can_be_enlarged_and_stays_so(tab: Page, user: User) -> None:
    elicitation = ask(user, schema("note", note=TEXT))
    go(tab, elicitation)
    tab.get_by_label("note").fill("first")
    tab.get_by_role("button", name="Several lines").click()
    area = tab.get_by_label("note")
    expect(area).to_be_focused()
    area.press("End")
    area.press("Enter")
    area.press_sequentially("second")
    assert not violations(tab)
    # The browser kept both lines.
    tab.reload()
    expect(tab.get_by_label("note")).to_have_value("first\nsecond")
    submit(tab)
    assert sent(elicitation) == {"note": "first\nsecond"}


def test_line_29_characters_are_counted_near_a_bound(tab: Page, user: User) -> None:
    go(tab, ask(user, schema(note={**TEXT, "minLength": 3, "maxLength": 20})))
    count = tab.locator("[data-elicitation-length]")
    note = tab.get_by_label("note")
    for typed, said in (
        ("", None),
        ("ab", "Characters: 2 / 20"),
        ("abc", None),
        ("\U0001f600" * 17, "Characters: 17 / 20"),
        ("x" * 25, "Characters: 25 / 20"),
    ):
        note.fill(typed)
        if said is None:
            expect(count).to_be_hidden()
        else:
            expect(count).to_have_text(said)


def test_line_29_how_many_options_are_chosen(tab: Page, user: User) -> None:
    options = {"type": "array", "items": {"type": "string", "enum": list("abcde")}}
    go(tab, ask(user, schema(x=options, y={**options, "maxItems": 2})))
    said = tab.locator("[data-elicitation-chosen]")
    for name in ("a", "b"):
        tab.get_by_role("checkbox", name=name, exact=True).first.check()
    expect(said.first).to_have_text("2 of 5 chosen")
    expect(said.last).to_be_hidden()
    tab.get_by_role("checkbox", name="e", exact=True).last.check()
    expect(said.last).to_have_text("1 of 2 chosen")


def test_line_29_a_list_of_more_than_fifteen_can_be_searched(tab: Page, user: User) -> None:
    names = [f"Country {number}" for number in range(14)] + ["Österreich", "Oman"]
    one = {"type": "string", "enum": names}
    requested = schema("one", "short", one=one, some={"type": "array", "items": one},
                       short={"type": "string", "enum": names[1:]})  # fmt: skip
    elicitation = ask(user, requested)
    go(tab, elicitation)
    boxes = tab.get_by_label("Search the list")
    expect(boxes).to_have_count(2)
    boxes.first.fill("osterr")
    options = tab.locator("[name=a-0] option")
    assert options.all_inner_texts() == ["Choose one …"]
    boxes.first.fill("ÖSTERR")
    assert options.all_inner_texts() == ["Choose one …", "Österreich"]
    # Enter leads on to the list, and sends nothing.
    boxes.first.press("Enter")
    expect(tab.locator("[name=a-0]")).to_be_focused()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    assert not violations(tab)
    boxes.first.fill("")
    assert options.count() == 17
    boxes.last.fill("oman")
    tab.get_by_role("checkbox", name="Oman").check()
    boxes.last.fill("country 3")
    # What is chosen stays in sight.
    shown = tab.locator(".elicitation-option:visible").all_inner_texts()
    assert [text.strip() for text in shown] == ["Country 3", "Oman"]
    tab.locator("[name=a-2]").select_option("Oman")
    submit(tab)
    assert sent(elicitation) == {"one": "Österreich", "some": ["Oman"], "short": "Oman"}
