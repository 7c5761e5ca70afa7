"""Server policies from the command line."""

from __future__ import annotations

import shlex
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from elicitation.management.commands.elicitation_policy import EXAMPLES
from elicitation.models import Elicitation, ServerPolicy
from tests.asking import allow

from .conftest import park

pytestmark = pytest.mark.django_db(transaction=True)


def run(*words: str) -> str:
    out = StringIO()
    call_command("elicitation_policy", *words, stdout=out)
    return out.getvalue()


def test_the_list_has_every_server_and_where_its_policy_comes_from(
    user: User, settings: Any
) -> None:
    settings.ELICITATION_SERVERS = {"bank": {"command": "bank", "tools": {"a": "ask", "b": "ask"}}}
    park(user)
    lines = [line.split() for line in run("list").splitlines()]
    assert lines == [
        ["server", "may", "show", "rules", "from", "waiting", "calls"],
        ["bank", "url", "2", "settings", "0", "0"],
        ["shop", "url_and_form", "0", "database", "1", "1"],
    ]


def test_show_writes_every_decision() -> None:
    allow(label="The shop", tools="never a\nask b", prefill=True, retention_days=30)
    assert run("show", "shop").splitlines() == [
        "server: shop",
        "from: database",
        "policy: url_and_form",
        "tools:",
        "  never a",
        "  ask b",
        "label: The shop",
        "allow_confirmation: False",
        "wide_limits: False",
        "prefill: True",
        "people_may_stop: False",
        "allowed_domains:",
        "allow_loopback_http: False",
        "retention_days: 30",
    ]
    assert "from: default" in run("show", "another")


def test_set_changes_what_is_named_and_nothing_else() -> None:
    allow(label="The shop", prefill=True, tools="never a\nask b")
    run("set", "shop", "--policy", "url", "--wide-limits", "--domain", "example.com")
    run("set", "shop", "--tool", "a", "allow", "--no-tool", "b", "--tool", "c_*", "never")
    row = ServerPolicy.objects.get()
    assert (row.policy, row.label, row.prefill, row.wide_limits) == ("url", "The shop", True, True)
    assert (row.allowed_domains, row.tools) == ("example.com", "allow a\nnever c_*")
    run("set", "shop", "--retention-days", "7")
    row.refresh_from_db()
    assert row.retention_days == 7
    run("set", "shop", "--no-prefill", "--domain", "", "--retention-days", "0")
    row.refresh_from_db()
    assert row.retention_days is None
    assert (row.prefill, row.allowed_domains) == (False, "")


def test_set_begins_with_what_the_settings_say(settings: Any) -> None:
    settings.ELICITATION_SERVERS = {"shop": {"command": "shop", "label": "Corner shop"}}
    run("set", "shop", "--policy", "url_and_form")
    row = ServerPolicy.objects.get()
    assert (row.policy, row.label) == ("url_and_form", "Corner shop")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--tool", "a", "forbid"], "tools: Rule 1"),
        (["--domain", "https://example.com/"], "allowed_domains: Write one host per line"),
        (["--retention-days", "-1"], "retention_days: Ensure"),
        (["--retention-days", "1000000"], "retention_days: Ensure"),
        (["--label", "bank"], "label: Another server"),
        (["--label", "a\u200bb"], "label: A label must be one line"),
    ],
)
def test_what_cannot_be_set_says_why_and_changes_nothing(words: list[str], told: str) -> None:
    allow("bank")
    with pytest.raises(CommandError, match=told):
        run("set", "shop", *words)
    assert not ServerPolicy.objects.filter(server="shop").exists()


def test_what_is_forbidden_stops_at_once(user: User) -> None:
    park(user)
    assert "requests withdrawn 1, calls ended 1" in run("set", "shop", "--tool", "buy", "never")
    row = Elicitation.objects.get()
    assert (row.state, row.reason, row.closed_via) == ("withdrawn", "switched_off", "command")


def test_reset_removes_the_row_and_warns_where_that_allows_more(settings: Any) -> None:
    allow()
    run("reset", "shop")
    assert not ServerPolicy.objects.exists()
    ServerPolicy.objects.create(server="shop", policy="none")
    with pytest.raises(CommandError, match="allows more than now: policy"):
        run("reset", "shop")
    assert ServerPolicy.objects.exists()
    run("reset", "shop", "--yes")
    assert not ServerPolicy.objects.exists()
    with pytest.raises(CommandError, match="no policy of this server"):
        run("reset", "shop")


def test_off_is_for_the_servers_that_are_named_or_for_all(user: User) -> None:
    park(user)
    allow("bank")
    with pytest.raises(CommandError, match="--all"):
        run("off")
    with pytest.raises(CommandError, match="--all"):
        run("off", "--all", "shop")
    assert "off shop; requests withdrawn 1, calls ended 1" in run("off", "shop")
    assert ServerPolicy.objects.get(server="bank").policy == "url_and_form"
    run("off", "--all")
    assert set(ServerPolicy.objects.values_list("policy", flat=True)) == {"none"}


def test_a_name_that_no_row_can_hold_is_refused() -> None:
    for words in (["show", " "], ["set", "a\nb"], ["off", "x" * 300], ["reset", ""]):
        with pytest.raises(CommandError, match="The server"):
            run(*words)


def test_the_help_has_examples_that_run(capsys: pytest.CaptureFixture[str], user: User) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    assert EXAMPLES.strip() in capsys.readouterr().out
    lines = [shlex.split(line)[2:] for line in EXAMPLES.splitlines() if "manage.py" in line]
    assert len(lines) == 8
    for words in lines:
        run(*words)
