"""How often, and how much, people are asked, by the settings' defaults."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User

from elicitation.calls.parking import TooManyOpenRefusal
from elicitation.calls.replies import TooManyRoundsError
from elicitation.models import Elicitation, ServerPolicy
from tests import asking
from tests.integration.conftest import Host
from tests.integration.scripted import PLAN, ScriptedServer, ask, form


@pytest.fixture
def host(transactional_db: None, user: User) -> Host:
    """A host of a server that asks without end."""
    ServerPolicy.objects.create(server="shop", policy="url_and_form")

    def tool(params: Any) -> Any:
        round = int(params.request_state or 0) + 1
        return ask(str(round), k=form(f"Round {round}?", PLAN))

    return Host(ScriptedServer(tool), user)


def fill(user: User, server: str, number: int) -> None:
    """Let so many of a server wait for the person."""
    row = asking.ask(user, PLAN, server=server)
    values = Elicitation.objects.filter(pk=row.pk).values().get()
    rows = [Elicitation(**values | {"id": uuid.uuid4()}) for _ in range(number - 1)]
    Elicitation.objects.bulk_create(rows)


def test_100_of_one_server_and_500_in_all_wait_for_one_person(
    host: Host, user: User, other_user: User
) -> None:
    # Those of others do not count.
    fill(other_user, "shop", 100)
    fill(user, "shop", 99)
    host.pending(call="the 100th")
    with pytest.raises(TooManyOpenRefusal):
        host.call(call="the 101st")
    assert Elicitation.objects.open().filter(respondent=user).count() == 100
    Elicitation.objects.filter(respondent=user).delete()
    for number in range(5):
        fill(user, f"server {number}", 100 if number else 99)
    host.pending(call="the 500th")
    with pytest.raises(TooManyOpenRefusal):
        host.call(call="the 501st")
    assert Elicitation.objects.open().filter(respondent=user).count() == 500


def test_a_call_asks_in_ten_rounds_and_is_declined_after_that(host: Host) -> None:
    pending = host.pending()
    for _ in range(9):
        host.answer(pending, plan="team")
        pending = host.pending(host.resume, pending)
    host.answer(pending, plan="team")
    with pytest.raises(TooManyRoundsError):
        host.resume(pending)
    assert [action for action, _ in host.server.answers] == ["accept"] * 10 + ["decline"]
    assert Elicitation.objects.count() == 10
