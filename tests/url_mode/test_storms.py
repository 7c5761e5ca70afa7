"""How often a server that asks for the same address without end is told the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from elicitation import inbox
from elicitation.calls import outbox
from elicitation.mcp import drive
from elicitation.models import Elicitation
from elicitation.signals import elicitation_closed
from tests.integration.conftest import Host
from tests.integration.scripted import ScriptedServer, ask, url

#: So often a server is told in one go; once more where somebody says meanwhile that they finished.
MOST = 2 + drive.MAX_WAITS


class Endless:
    """A tool that goes on asking, and says each time that the person has finished."""

    def __init__(self, url_id: str = "") -> None:
        self.url_id = url_id
        self.told = 0

    async def __call__(self, params: Any) -> Any:
        if params.input_responses:
            self.told += 1
            if self.told > 50:
                # A host that cannot be stopped must not stop the tests.
                raise ValueError
            await inbox.acomplete("shop", self.url_id)
        return ask("state", k=url("Sign in.", "https://login.example.com/"))


@pytest.fixture
def heard() -> Any:
    calls: list[Any] = []

    def hear(**kwargs: Any) -> None:
        calls.append(kwargs["parked_call_id"])

    elicitation_closed.connect(hear)
    yield calls
    elicitation_closed.disconnect(hear)


def test_a_server_that_says_each_time_that_the_person_has_finished_is_heard_once(
    host_for: Callable[[ScriptedServer], Host], user: User, heard: list[Any]
) -> None:
    host = host_for(ScriptedServer(tool := Endless("e-1")))
    pending = host.pending()
    Elicitation.objects.update(url_id="e-1")
    inbox.consent(pending.elicitation_ids[0], by=user)
    for _ in range(2):
        host.pending(host.resume, pending)
    assert tool.told <= 2 * MOST
    # Of the consent, and once that the person has finished.
    assert len(heard) == 2
    # The person's own word counts as often as they give it.
    for _ in range(2):
        inbox.go_on(pending.elicitation_ids[0], by=user)
    assert len(heard) == 4


def test_one_word_that_the_person_has_finished_saves_one_pause(
    host_for: Callable[[ScriptedServer], Host], user: User
) -> None:
    host = host_for(ScriptedServer(tool := Endless()))
    pending = host.pending()
    inbox.consent(pending.elicitation_ids[0], by=user)
    # Said on a machine whose clock is ahead: every reply comes before it.
    Elicitation.objects.update(continued_at=timezone.now() + timedelta(minutes=2))
    host.pending(host.resume, pending)
    assert tool.told <= MOST


@pytest.mark.django_db
@pytest.mark.parametrize("url_id", ["", " ", "\0", "\ud800", "e" * 100_000])
def test_an_id_that_no_row_can_have_is_unknown(url_id: str) -> None:
    assert inbox.complete("shop", url_id) == 0


def test_the_audit_says_that_a_consent_was_told_though_nobody_went_on_with_the_call(
    host_for: Callable[[ScriptedServer], Host], user: User
) -> None:
    host = host_for(ScriptedServer(Endless()))
    pending = host.pending()
    inbox.consent(pending.elicitation_ids[0], by=user)
    host.pending(host.resume, pending)
    now = timezone.now()
    Elicitation.objects.update(resume_at=now, resent=10)
    assert outbox.resend_due(now=now) == (0, 1)
    assert Elicitation.objects.get().delivery == Elicitation.Delivery.DELIVERED
