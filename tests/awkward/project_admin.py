"""What operators do, in an admin that looks different."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from elicitation.calls import refusals
from elicitation.models import Elicitation, ParkedCall, Refusal, ServerPolicy, StoredFormAnswer
from tests.asking import ask
from tests.ops.conftest import ANSWER, NAME, answer, park

pytestmark = pytest.mark.django_db(transaction=True)

#: What only the pages of this look have.
LOOKS = {"unfold": "unfold/css/", "jazzmin": "jazzmin/css/"}


@pytest.fixture
def answered(user: User) -> Elicitation:
    (asked,) = park(user, "Which of our plans?")
    answer(asked, user)
    ask(user, NAME)
    refusals.count("shop", "ask_operator", "why", tool="buy")
    return Elicitation.objects.get(pk=asked.pk)


def address(name: str, *args: object, **query: str) -> str:
    return reverse(f"admin:elicitation_{name}", args=args, query=query)


def read(client: Client, where: str) -> str:
    response = client.get(where)
    assert response.status_code == 200, where
    shown: str = response.content.decode()
    assert LOOKS[settings.INSTALLED_APPS[0]] in shown
    return shown


def test_lists_and_rows_are_shown(admin_client: Client, answered: Elicitation) -> None:
    for model in (Elicitation, ParkedCall, StoredFormAnswer, Refusal, ServerPolicy):
        name = model._meta.model_name
        assert "shop" in read(admin_client, address(f"{name}_changelist"))
        row = model._default_manager.order_by("pk")[0]
        assert "shop" in read(admin_client, address(f"{name}_change", row.pk))
    stored = StoredFormAnswer.objects.get()
    assert ANSWER in read(admin_client, address("storedformanswer_change", stored.pk))


def test_a_timeline_and_figures_are_shown(admin_client: Client, answered: Elicitation) -> None:
    shown = read(admin_client, address("elicitation_change", answered.pk))
    assert "answered by ada, through: web page" in shown
    assert "Which of our plans?" in read(admin_client, address("elicitation_changelist"))
    figures = address("serverpolicy_servers", server="shop")
    assert 'class="elicitation-figures"' in read(admin_client, figures)
    # The ways to them.
    assert address("serverpolicy_servers") in read(
        admin_client, address("serverpolicy_changelist")
    )
    policy = ServerPolicy.objects.get()
    assert figures in read(admin_client, address("serverpolicy_change", policy.pk))


def test_requests_are_handed_over(admin_client: Client, answered: Elicitation) -> None:
    grace = User.objects.create_user("grace")
    waits = Elicitation.objects.pending().get()
    sent = {"action": "hand_over_selected", "_selected_action": str(waits.pk)}
    led = admin_client.post(address("elicitation_changelist"), sent)
    assert 'name="person"' in read(admin_client, led["Location"])
    admin_client.post(led["Location"], {"id": str(waits.pk), "person": "grace"})
    assert Elicitation.objects.pending().get().respondent == grace


def test_a_tool_is_allowed(admin_client: Client, answered: Elicitation) -> None:
    sent = {"action": "allow_tools", "_selected_action": str(Refusal.objects.get().pk)}
    admin_client.post(address("refusal_changelist"), sent)
    assert ServerPolicy.objects.get().tools == "allow buy"


def test_a_server_is_switched_off(admin_client: Client, answered: Elicitation) -> None:
    where = address("serverpolicy_switch_off", server="shop")
    assert 'name="server" value="shop"' in read(admin_client, where)
    admin_client.post(where, {"server": "shop"})
    assert ServerPolicy.objects.get().policy == "none"
    assert not Elicitation.objects.pending().exists()


def test_a_reset_says_what_it_does(admin_client: Client, answered: Elicitation) -> None:
    ServerPolicy.objects.update(policy="none")
    where = address("serverpolicy_delete", ServerPolicy.objects.get().pk)
    shown = read(admin_client, where)
    assert "Warning: the reset allows more than now" in shown
    admin_client.post(where, {"post": "yes"})
    assert not ServerPolicy.objects.exists()
