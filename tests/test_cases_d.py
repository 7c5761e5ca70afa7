"""The cases of requested schemas that an operator or a person sees, by their number."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse

from elicitation import inbox
from elicitation.calls.requests import read_requests
from elicitation.core import DEFAULT_LIMITS, WIDE_LIMITS, ElicitationRefusal
from elicitation.models import Elicitation, ServerPolicy
from tests.asking import allow, ask, schema
from tests.reading_html import page

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client

pytestmark = pytest.mark.django_db

WIDE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "Größe (cm)": {"type": "integer"},
        "colour": {"type": "string", "enum": [f"colour {number}" for number in range(50)]},
        **{f"extra {number}": {"type": "boolean"} for number in range(23)},
    },
}


def read(
    policy: ServerPolicy, requested_schema: dict[str, Any] = WIDE
) -> inbox.ElicitationRequest:
    params = {"mode": "form", "message": "Which?", "requestedSchema": requested_schema}
    request = {"method": "elicitation/create", "params": params}
    [asked_for] = read_requests({"k": request}, server=policy.server, tool="buy", policy=policy)
    return asked_for


def test_what_is_ignored_counts_in_a_request() -> None:
    """It is written as text and read again, which takes longer the more values there are."""
    ignored = {"$defs": [[]] * (DEFAULT_LIMITS.values + 1)}
    with pytest.raises(ElicitationRefusal, match="more than 4000 values"):
        read(allow(), schema() | ignored)


def asked(policy: ServerPolicy, user: User) -> Elicitation:
    return inbox.ask(
        read(policy),
        parked_call_id=uuid.uuid4(),
        scope="chat-1",
        scope_label="",
        call="call-1",
        round=1,
        respondent_id=user.pk,
    )


def test_case_D7_by_default_a_long_form_is_refused() -> None:
    policy = allow()
    assert policy.limits == DEFAULT_LIMITS
    with pytest.raises(ElicitationRefusal, match="25 properties; at most 16"):
        read(policy)


def test_case_D7_a_long_form_is_asked_shown_and_answered_where_the_policy_lets_it(
    user: User, ada: Client
) -> None:
    policy = allow(wide_limits=True)
    assert policy.limits == WIDE_LIMITS
    elicitation = asked(policy, user)
    # What was asked can be read again, although the operator has changed the policy since.
    ServerPolicy.objects.update(wide_limits=False)
    elicitation = Elicitation.objects.get(pk=elicitation.pk)
    assert [p.name for p in elicitation.schema.asked] == list(WIDE["properties"])
    shown = page(ada.get(elicitation.get_absolute_url()))
    assert "Größe (cm)" in shown.text
    answers = {"a-0": "180", "a-1": "7"} | {f"a-{2 + number}": "0" for number in range(23)}
    answers |= {"fingerprint": elicitation.fingerprint, "checked": "1"}
    response = ada.post(elicitation.get_absolute_url(), answers)
    assert response.status_code == 302
    elicitation.refresh_from_db()
    assert elicitation.state == Elicitation.State.ANSWERED


def test_case_D7_the_admin_says_both_columns_of_numbers(admin_client: Client) -> None:
    shown = page(admin_client.get(reverse("admin:elicitation_serverpolicy_add")))
    for number in map(str, (WIDE_LIMITS.properties, DEFAULT_LIMITS.properties,
                            WIDE_LIMITS.enum_members, DEFAULT_LIMITS.enum_members)):  # fmt: skip
        assert number in shown.text


def test_case_D8_a_description_makes_the_warning_stand_out(user: User, ada: Client) -> None:
    definition = {"type": "string", "title": "Sign-in", "description": "Your bank password"}
    elicitation = ask(user, schema(x=definition))
    shown = page(ada.get(elicitation.get_absolute_url()))
    (warning,) = shown.all("div", class_="elicitation-notice-warning")
    assert "Never enter passwords" in warning.text


def test_case_D2_the_description_of_an_option_is_on_the_page(user: User, ada: Client) -> None:
    option = {"const": "a", "title": "Tidy", "description": "Removes all files"}
    elicitation = ask(user, schema(x={"oneOf": [option, {"const": "b", "title": "Keep"}]}))
    shown = page(ada.get(elicitation.get_absolute_url()))
    assert "Removes all files" in shown.text


def test_case_D6_paired_isolates_are_shown_without_effect(user: User, ada: Client) -> None:
    elicitation = ask(user, schema(x={"type": "boolean"}), "Delete \u2068report.pdf\u2069?")
    shown = page(ada.get(elicitation.get_absolute_url()))
    assert "Delete report.pdf?" in shown.text
