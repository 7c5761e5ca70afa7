"""The moment that goes out is the one that was meant (line 23), told by the browser's `Date`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.asking import allow, ask, schema

from .test_browser import go, sent, submit

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from .conftest import OpenContext

pytestmark = [pytest.mark.django_db(transaction=True)]

MOMENT = {"type": "string", "format": "date-time"}

#: Fourteen moments by zone. Kolkata has names of old and new, Lord Howe clocks of half an hour.
TYPED = {
    "America/New_York": ["2026-07-01T12:00", "2026-01-15T23:45", "2026-11-01T01:30"],
    "Europe/Berlin": ["2026-03-29T02:30", "2026-10-25T02:30", "2026-12-31T23:59"],
    "Asia/Kolkata": ["2026-07-01T05:29", "2026-07-01T05:31"],
    "Australia/Lord_Howe": ["2026-04-05T01:45", "2026-10-04T02:15", "2026-06-01T09:00"],
    "America/St_Johns": ["2026-03-08T01:59", "2026-03-08T03:00", "2026-02-28T23:00"],
}
FORWARD = {"2026-03-29T02:30": "2026-03-29T03:30", "2026-10-04T02:15": "2026-10-04T02:45"}
#: The zone that the message offers for the first of two times.
BACK = {
    "2026-11-01T01:30": "UTC-04:00",
    "2026-10-25T02:30": "UTC+02:00",
    "2026-04-05T01:45": "UTC+11:00",
}


@pytest.mark.parametrize("zone", TYPED)
def test_line_23_case_E6_moments_go_out_as_they_were_meant(
    zone: str, open_context: OpenContext, user: User
) -> None:
    tab = open_context(timezone_id=zone).new_page()
    typed = TYPED[zone]
    names = [f"m{number}" for number in range(len(typed))]
    elicitation = ask(user, schema(*names, **dict.fromkeys(names, MOMENT)))
    go(tab, elicitation)
    chosen = {tab.locator(f"[name=a-{number}_1]").input_value() for number in range(len(typed))}
    # Chromium calls Kolkata by its name of old.
    assert chosen == {tab.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")}
    said = tab.locator("[data-elicitation-moment]")
    for number, local in enumerate(typed):
        tab.locator(f"[name=a-{number}_0]").fill(local)
        beside = said.nth(number)
        if local in FORWARD:
            expect(beside).to_contain_text("does not exist")
        elif local in BACK:
            expect(beside).to_contain_text("exists twice")
        else:
            iso = tab.evaluate("local => new Date(local).toISOString()", local)
            expect(beside.locator("time")).to_have_attribute("datetime", iso)
            expect(beside).to_contain_text("In UTC, this is:")
    submit(tab)
    for number, local in enumerate(typed):
        if local in FORWARD:
            expect(tab.locator(f"#id_a-{number}_error")).to_contain_text("does not exist")
            tab.locator(f"[name=a-{number}_0]").fill(FORWARD[local])
        elif local in BACK:
            expect(tab.locator(f"#id_a-{number}_error")).to_contain_text(BACK[local])
            tab.locator(f"[name=a-{number}_1]").select_option(BACK[local])
    meant = [
        tab.evaluate("local => new Date(local).toISOString()", FORWARD.get(local, local))
        for local in typed
    ]
    if not {*typed}.isdisjoint({*FORWARD, *BACK}):
        times = tab.locator("[data-elicitation-moment] time").all()
        assert [each.get_attribute("datetime") for each in times] == meant
        submit(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Your answer was stored")
    answers = [datetime.fromisoformat(str(text)) for text in sent(elicitation).values()]
    assert answers == [datetime.fromisoformat(iso) for iso in meant]


def test_line_23_another_zone_can_be_chosen(open_context: OpenContext, user: User) -> None:
    tab = open_context().new_page()
    elicitation = ask(user, schema("at", at=MOMENT))
    go(tab, elicitation)
    tab.get_by_label("Date and time").fill("2026-07-01T12:00")
    tab.get_by_label("Time zone").select_option("Asia/Tokyo")
    beside = tab.locator("[data-elicitation-moment] time")
    expect(beside).to_have_attribute("datetime", "2026-07-01T03:00:00.000Z")
    tab.reload()
    # What was typed is filled in again, with the zone that was chosen.
    expect(tab.get_by_label("Time zone")).to_have_value("Asia/Tokyo")
    expect(beside).to_have_attribute("datetime", "2026-07-01T03:00:00.000Z")
    tab.get_by_role("button", name="Discard it").click()
    expect(tab.get_by_label("Time zone")).to_have_value("America/New_York")
    expect(beside).to_be_hidden()


def test_line_23_a_default_keeps_its_moment(open_context: OpenContext, user: User) -> None:
    allow(prefill=True)
    tab = open_context().new_page()
    default = {**MOMENT, "default": "2026-07-01T12:00:30.5+02:00"}
    elicitation = ask(user, schema("at", at=default))
    go(tab, elicitation)
    expect(tab.locator("[data-elicitation-moment] time")).to_have_attribute(
        "datetime", "2026-07-01T10:00:30.500Z"
    )
    submit(tab)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Your answer was stored")
    assert sent(elicitation) == {"at": "2026-07-01T12:00:30.500000+02:00"}
