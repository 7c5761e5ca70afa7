"""The code of the guide for hosts, run as it stands there."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from elicitation import conf, inbox
from elicitation.models import Elicitation, ServerPolicy
from elicitation.signals import elicitation_closed
from tests.integration.test_in_call import answer_plan, together, when_asked
from tests.integration.test_in_call import server as older_server
from tests.processes import BASE_DIR

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper


def blocks_of(page: str) -> dict[str, str]:
    """The Python blocks of a page, by the names in the comments before them."""
    text = (BASE_DIR / page).read_text()
    return dict(re.findall(r"<!-- test: (\w+) -->\n```python\n(.*?)```", text, re.DOTALL))


HOSTS = blocks_of("docs/hosts.md")


def test_every_python_block_is_tested() -> None:
    assert (BASE_DIR / "docs/hosts.md").read_text().count("```python") == len(HOSTS) > 0


@pytest.mark.django_db(transaction=True)
def test_sessions_of_ones_own_park_and_resume(mcp_url: str, user: User) -> None:
    enqueued: list[dict[str, Any]] = []
    names: dict[str, Any] = {"enqueue": lambda name, **kwargs: enqueued.append(kwargs)}
    for block in ("policy", "agent", "resuming"):
        exec(HOSTS[block], names)  # noqa: S102
    assert ServerPolicy.objects.for_server("shop").display_name == "The shop"
    try:
        reply = async_to_sync(names["run_tool"])(
            mcp_url, "buy", {}, conversation="chat-1", call_id="call-1", user=user
        )
        assert "shop" in reply
        assert "Which plan" not in reply
        first = Elicitation.objects.get()
        content = {"plan": "team", "seats": 3}
        inbox.answer(first.pk, first.schema.answers_from_content(content), by=user)
        (closed,) = enqueued
        assert closed["conversation"] == "chat-1"
        resume_tool = async_to_sync(names["resume_tool"])
        assert "shop" in resume_tool(mcp_url, closed["parked_call_id"])
        second = Elicitation.objects.pending().get()
        inbox.answer(second.pk, second.schema.answers_from_content({"confirmed": True}), by=user)
        assert resume_tool(mcp_url, enqueued[1]["parked_call_id"]) == "Bought 3 seats of team."
    finally:
        elicitation_closed.disconnect(names["go_on"])


@pytest.mark.django_db(transaction=True)
def test_the_short_way_of_a_host(mcp_url: str, user: User, settings: SettingsWrapper) -> None:
    names: dict[str, Any] = {}
    exec(HOSTS["servers"], names)  # noqa: S102
    exec(HOSTS["short"], names)  # noqa: S102
    options = names["ELICITATION_SERVERS"]["shop"]
    assert ServerPolicy.objects.for_server("shop").display_name == "shop"
    options |= {"url": mcp_url, "auth": lambda user: {"Authorization": f"Bearer {user.pk}"}}
    settings.ELICITATION_SERVERS = {"shop": options}
    assert ServerPolicy.objects.for_server("shop").display_name == "The shop"
    chat = SimpleNamespace(pk=7)
    reply = async_to_sync(names["run"])("ship", {}, chat=chat, user=user)
    assert "shop" in reply
    asked = Elicitation.objects.get()
    assert asked.scope == "7"
    inbox.decline(asked.pk, by=user)
    assert async_to_sync(names["go_on"])(asked.parked_call_id).content


def test_the_settings_of_a_front_end(settings: SettingsWrapper) -> None:
    names: dict[str, Any] = {}
    exec(HOSTS["page_url"] + HOSTS["way_back"], names)  # noqa: S102
    settings.ELICITATION_PAGE_URL = names["ELICITATION_PAGE_URL"]
    asked = Elicitation()
    assert asked.page_url == f"https://app.example.com/ask/{asked.pk}"
    for name in ("SCOPE_URL", "RESULT_URL"):
        assert names[f"ELICITATION_{name}"]
        assert name in conf.NAMES


@pytest.mark.django_db(transaction=True)
def test_the_callback_for_older_servers(user: User) -> None:
    exec(HOSTS["policy"], {})  # noqa: S102
    names: dict[str, Any] = {}
    exec(HOSTS["callback"], names)  # noqa: S102
    result = async_to_sync(together)(
        names["run_old_tool"](older_server, conversation="chat-1", user=user),
        when_asked(answer_plan(user)),
    )
    assert result.content[0].text == "bought team"
