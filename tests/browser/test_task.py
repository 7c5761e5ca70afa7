"""A task that goes on after the answer, in Chromium: seen, followed, and stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from elicitation import inbox
from elicitation.calls.tasks import Task
from elicitation.models import Elicitation, ParkedCall, row_key
from tests.asking import allow, ask

from .test_browser import BUY, violations

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from playwright.sync_api import Page

pytestmark = [pytest.mark.django_db(transaction=True)]

TASK = Task(
    id="task-1",
    created_at="2026-12-01T00:00:00Z",
    ttl_ms=None,
    poll_ms=1000,
    status_message="Wrapping it up",
)


def at_work(user: User) -> Elicitation:
    """An answered request whose server goes on with the call as a task."""
    asked = ask(user, BUY)
    answers = asked.schema.answers_from_content({"plan": "pro", "seats": 3})
    inbox.answer(asked.pk, answers, by=user)
    now = timezone.now()
    Elicitation.objects.filter(pk=asked.pk).update(delivered_at=now, delivery="delivered")
    ParkedCall.objects.create(
        id=asked.parked_call_id,
        scope=asked.scope,
        scope_key=row_key(asked.scope),
        server=asked.server,
        policy_id=asked.policy_id,
        tool=asked.tool,
        respondent=user,
        arguments="{}",
        round=1,
        requests="{}",
        request_state="null",
        received_at=now,
        working_since=now,
        task=TASK.as_json(),
    )
    return Elicitation.objects.get(pk=asked.pk)


def test_line_27_a_task_is_followed_and_stopped_with_the_keyboard(tab: Page, user: User) -> None:
    asked = at_work(user)
    allow(asked.server, people_may_stop=True)
    tab.goto(asked.get_absolute_url())
    expect(tab.get_by_text("Wrapping it up")).to_be_visible()
    assert not violations(tab)
    button = tab.get_by_role("button", name="Stop this")
    button.focus()
    news = replace(TASK, status_message="Tying the bow")
    ParkedCall.objects.update(task=news.as_json())
    expect(tab.get_by_text("Tying the bow")).to_be_visible()
    # What was replaced had the focus, and the person is still there.
    expect(button).to_be_focused()
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("was asked to stop")).to_be_visible()
    assert ParkedCall.objects.get().outcome == "cancelled"
    assert not violations(tab)
