"""Policies and the predicates of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from elicitation import inbox
from elicitation.models import ParkedCall, ServerPolicy, TooLargeError, encode_json, row_key
from tests.asking import ask, ask_to_open, schema

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db


def valid(**fields: Any) -> ServerPolicy:
    policy = ServerPolicy(**fields)
    policy.full_clean()
    policy.save()
    return policy


def test_without_a_row_a_server_shows_no_form() -> None:
    policy = ServerPolicy.objects.for_server("unknown")
    assert policy._state.adding
    assert policy.policy == "url"
    assert not policy.allows_forms
    assert (policy.allow_confirmation, policy.prefill) == (False, False)
    assert policy.display_name == "unknown"


def test_a_policy_belongs_to_the_exact_name(
    django_assert_num_queries: Callable[[int], Any],
) -> None:
    valid(server="Billing", policy="url_and_form", label="Money")
    with django_assert_num_queries(1):
        found = ServerPolicy.objects.for_servers(["Billing", "billing", "Billing "])
    assert [found[name].allows_forms for name in ("Billing", "billing", "Billing ")] == [
        True,
        False,
        False,
    ]


def test_a_question_has_the_policy_of_now(user: User) -> None:
    question = ask(user, schema(), server="Billing")
    assert not inbox.get(user, question.pk).server_policy.allows_forms
    policy = valid(server="Billing", policy="url_and_form")
    valid(server="billing", label="Another")
    for found in (question, inbox.get(user, question.pk)):
        assert found.server_policy.allows_forms
    # Nothing keeps an operator from taking a decision back.
    policy.delete()
    assert not inbox.get(user, question.pk).server_policy.allows_forms


SHOP = {"url": "https://shop.example/mcp", "policy": "url_and_form", "label": "Corner Shop"}


def test_the_settings_have_a_policy_and_a_row_wins_over_it(
    user: User, settings: SettingsWrapper, django_assert_num_queries: Callable[[int], Any]
) -> None:
    question = ask(user, schema(), server="shop")
    settings.ELICITATION_SERVERS = {"shop": SHOP}
    with django_assert_num_queries(1):
        policy = ServerPolicy.objects.for_server("shop")
    assert (policy.display_name, policy.allows_forms) == ("Corner Shop", True)
    with django_assert_num_queries(1):
        assert inbox.get(user, question.pk).server_policy.allows_forms
    assert not ServerPolicy.objects.for_server("Shop").allows_forms
    row = valid(server="shop", policy="none")
    for found in (
        ServerPolicy.objects.for_server("shop"),
        inbox.get(user, question.pk).server_policy,
    ):
        # As a whole: the label of the settings is not that of the row.
        assert (found.display_name, found.policy) == ("shop", "none")
    row.delete()
    assert inbox.get(user, question.pk).server_policy.allows_forms


def test_a_parked_call_has_the_policy_of_the_settings(
    user: User, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_SERVERS = {"shop": SHOP}
    ask_to_open(user, parked=True)
    assert ParkedCall.objects.select_related("policy").get().server_policy.allows_forms


def test_no_row_takes_the_name_of_another_server_of_the_settings(
    settings: SettingsWrapper,
) -> None:
    settings.ELICITATION_SERVERS = {"shop": SHOP}
    with pytest.raises(ValidationError) as caught:
        valid(server="other", label="corner shop")
    assert list(caught.value.error_dict) == ["label"]
    # Its own row may.
    valid(server="shop", label="Corner Shop")


def test_names_that_differ_in_case_only_are_two_servers() -> None:
    valid(server="Billing", label="One")
    valid(server="billing", label="Two")
    assert ServerPolicy.objects.count() == 2


def test_one_server_has_one_policy() -> None:
    valid(server="shop")
    with pytest.raises(ValidationError) as refused:
        valid(server="shop", label="Another label")
    assert "server" in refused.value.message_dict


@pytest.mark.parametrize(
    "label", ["SHOP", "ｓｈｏｐ", " shop", "The Shop", "the sh\u043ep", "\u0405HOP"]
)
def test_two_servers_do_not_look_the_same_to_people(label: str) -> None:
    valid(server="shop")
    valid(server="other", label="the shop")
    with pytest.raises(ValidationError) as refused:
        valid(server="third", label=label)
    assert "label" in refused.value.message_dict


def test_a_policy_can_be_saved_again() -> None:
    policy = valid(server="shop", label="Shop")
    policy.policy = "none"
    policy.full_clean()
    policy.save()
    assert ServerPolicy.objects.get().policy == "none"


@pytest.mark.parametrize("label", ["a\nb", "a\u200bb", "a\u202eb", "a\x07", "a\u3164b", "x" * 65])
def test_a_label_is_one_visible_line(label: str) -> None:
    with pytest.raises(ValidationError) as refused:
        valid(server="shop", label=label)
    assert "label" in refused.value.message_dict


@pytest.mark.parametrize("server", ["", " ", "a\x00b"])
def test_a_server_has_a_name(server: str) -> None:
    with pytest.raises(ValidationError) as refused:
        valid(server=server)
    assert "server" in refused.value.message_dict


def test_keys_depend_on_every_part_and_its_borders() -> None:
    keys = {row_key(*parts) for parts in [("a", "b"), ("ab",), ("ab", ""), ("", "ab"), ("b", "a")]}
    assert len(keys) == 5
    assert row_key("a", "b") == row_key("a", "b")


def test_json_is_kept_exactly_and_within_bounds() -> None:
    value = {"b": 1e16, "a": -0.0, "n": 9007199254740993, "t": "\ud800 \x00 é"}
    text = encode_json("arguments", value, 1000)
    assert text.isascii()
    assert list(__import__("json").loads(text)) == ["b", "a", "n", "t"]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for bad in (float("nan"), {1, 2}, deep, 10**5000, "x" * 1000):
        with pytest.raises(TooLargeError) as refused:
            encode_json("arguments", bad, 1000)
        assert "xxxx" not in str(refused.value)
