"""Rules for tools: which tool of a server may ask people, and which not before an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.test import Client
from django.urls import reverse

from elicitation import inbox
from elicitation.calls import switching
from elicitation.calls.switching import SwitchedOff
from elicitation.core import ElicitationRefusal
from elicitation.models import Elicitation, Refusal, ServerPolicy, URLPolicyRefusal
from tests.asking import allow, ask_to_open
from tests.integration.conftest import Host
from tests.integration.scripted import PLAN, ScriptedServer, form, text
from tests.integration.scripted import ask as asks

pytestmark = pytest.mark.django_db(transaction=True)

RULES = "ask *\nallow read_*\nnever read_secret_*\nnever buy\nallow read_secret_santa"


def tool(params: Any) -> Any:
    return text("ok") if params.input_responses else asks(k=form("Which plan?", PLAN))


@pytest.fixture
def host_with(user: User) -> Callable[[str], Host]:
    def host_with(rules: str) -> Host:
        allow(label="The shop", tools=rules)
        return Host(ScriptedServer(tool), user)

    return host_with


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("buy", "never"),
        ("buy_all", "ask"),
        ("Buy", "ask"),
        ("read_mail", "allow"),
        ("read_secret_key", "never"),
        ("read_secret_santa", "allow"),
        ("read_", "allow"),
        ("", "ask"),
    ],
)
def test_the_exact_name_wins_and_then_the_longest_beginning(name: str, rule: str) -> None:
    for lines in (RULES.split("\n"), RULES.split("\n")[::-1]):
        assert ServerPolicy(server="shop", tools="\r\n".join(lines)).tool_rule(name) == rule


def test_without_rules_every_tool_may_ask_what_the_server_may() -> None:
    assert ServerPolicy(server="shop").tool_rule("buy") == "allow"


@pytest.mark.parametrize("line", ["forbid buy", "never", "buy", "Never buy", "never " + "x" * 201])
def test_what_is_no_rule_is_refused_and_allows_nothing(line: str) -> None:
    policy = ServerPolicy(server="shop", tools=f"allow buy\n{line}")
    with pytest.raises(ValidationError) as caught:
        policy.full_clean()
    assert list(caught.value.message_dict) == ["tools"]
    assert "Rule 2" in caught.value.message_dict["tools"][0]
    assert policy.tool_rule("buy") == "allow"
    assert policy.tool_rule("another") == "ask"


def test_a_name_has_one_rule() -> None:
    with pytest.raises(ValidationError, match="two rules"):
        ServerPolicy(server="shop", tools="allow buy\nnever buy").full_clean()


def test_the_settings_have_rules_by_name(settings: Any) -> None:
    entry: dict[str, Any] = {"command": "shop", "tools": {"buy": "never", "*": "ask"}}
    settings.ELICITATION_SERVERS = {"shop": entry}
    policy = ServerPolicy.objects.for_server("shop")
    assert [policy.tool_rule(name) for name in ("buy", "sell")] == ["never", "ask"]
    for wrong in ({"buy": "forbid"}, {"": "never"}, ["never buy"]):
        settings.ELICITATION_SERVERS = {"shop": entry | {"tools": wrong}}
        with pytest.raises(ImproperlyConfigured, match=r"\['tools'\]"):
            ServerPolicy.objects.for_server("shop")


@pytest.mark.parametrize(
    ("rules", "code", "words"),
    [
        ("never tool", "not_allowed", "may not ask people on this site"),
        ("ask too*", "ask_operator", "before an operator of this site has decided"),
    ],
)
def test_a_tool_asks_nobody_and_the_agent_reads_where_that_is_decided(
    rules: str, code: str, words: str, host_with: Callable[[str], Host]
) -> None:
    host = host_with(rules)
    with pytest.raises(ElicitationRefusal) as caught:
        host.call()
    assert caught.value.code == code
    assert words in str(caught.value)
    assert "server policies, among the rules for tools" in str(caught.value)
    assert "under refusals" in str(caught.value)
    assert not Elicitation.objects.exists()
    row = Refusal.objects.get()
    assert (row.server, row.tool, row.code) == ("shop", "tool", code)


def test_other_tools_ask(host_with: Callable[[str], Host]) -> None:
    host = host_with("never sell\nnever tool_*")
    host.pending()
    assert Elicitation.objects.get().tool == "tool"


def test_an_answer_of_a_tool_that_was_forbidden_since_is_never_sent(
    host_with: Callable[[str], Host],
) -> None:
    host = host_with("")
    pending = host.pending()
    host.answer(pending, plan="team")
    ServerPolicy.objects.update(tools="never tool")
    with pytest.raises(ElicitationRefusal):
        host.resume(pending)
    assert ("accept", {"plan": "team"}) not in host.server.answers
    assert Elicitation.objects.get().delivery == "switched_off"


def test_a_url_of_a_tool_that_was_forbidden_since_is_not_opened(user: User) -> None:
    policy = allow()
    asked = ask_to_open(user)
    policy.tools = "never buy"
    policy.save()
    with pytest.raises(URLPolicyRefusal):
        inbox.consent(asked.pk, by=user)


def test_stopping_withdraws_what_forbidden_tools_ask_and_no_more(
    host_with: Callable[[str], Host], user: User
) -> None:
    host = host_with("")
    host.pending()
    kept = ask_to_open(user, call="another")
    Elicitation.objects.filter(pk=kept.pk).update(tool="sell")
    ServerPolicy.objects.update(tools="never tool")
    assert switching.stop("shop") == SwitchedOff(1, 1, 0)
    assert [row.tool for row in Elicitation.objects.pending()] == ["sell"]


class TestInTheAdmin:
    def test_saving_a_rule_stops_what_is_under_way(
        self, host_with: Callable[[str], Host], admin_client: Client
    ) -> None:
        host = host_with("")
        host.pending()
        row = ServerPolicy.objects.get()
        where = reverse("admin:elicitation_serverpolicy_change", args=[row.pk])
        sent = {"policy": "url_and_form", "label": row.label, "tools": "never tool"}
        shown = admin_client.post(where, sent, follow=True).content.decode()
        assert "some tools may not ask any more" in shown
        assert Elicitation.objects.get().state == "withdrawn"

    def test_an_operator_lets_a_tool_ask_from_its_refusal(
        self, host_with: Callable[[str], Host], admin_client: Client
    ) -> None:
        host = host_with("ask *")
        with pytest.raises(ElicitationRefusal):
            host.call()
        where = reverse("admin:elicitation_refusal_changelist")
        row = Refusal.objects.get()
        sent = {"action": "allow_tools", "_selected_action": str(row.pk)}
        shown = admin_client.post(where, sent, follow=True).content.decode()
        assert "1 tool may ask now." in shown
        assert ServerPolicy.objects.get().tools == "ask *\nallow tool"
        host.pending()

    def test_only_operators_who_decide_about_servers_let_tools_ask(
        self, host_with: Callable[[str], Host], client: Client
    ) -> None:
        host = host_with("ask *")
        with pytest.raises(ElicitationRefusal):
            host.call()
        looks = User.objects.create_user("looks", is_staff=True)
        looks.user_permissions.add(Permission.objects.get(codename="view_refusal"))
        client.force_login(looks)
        sent = {"action": "allow_tools", "_selected_action": str(Refusal.objects.get().pk)}
        client.post(reverse("admin:elicitation_refusal_changelist"), sent)
        assert ServerPolicy.objects.get().tools == "ask *"

    def test_a_reset_warns_where_a_tool_may_ask_more(self) -> None:
        strict = ServerPolicy(server="shop", tools="allow *\nnever delete_*")
        assert ServerPolicy(server="shop").allows_more_than(strict) == ["tools"]
        assert strict.allows_more_than(ServerPolicy(server="shop")) == []
        same = ServerPolicy(server="shop", tools="never delete_*")
        assert same.allows_more_than(strict) == strict.allows_more_than(same) == []
        wider = ServerPolicy(server="shop", tools="never delete_*\nask delete_draft")
        assert wider.allows_more_than(strict) == ["tools"]
