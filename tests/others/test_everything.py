"""``@modelcontextprotocol/server-everything``, the TypeScript SDK's reference server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from mcp import StdioServerParameters
from mcp.types import CallToolResult

from elicitation.models import ServerPolicy
from tests.conformance.packages import EVERYTHING, node
from tests.host import Host
from tests.others.conftest import Driver, serving, texts

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.conformance

TOOL = "trigger-elicitation-request"
#: What the person types into each field, and what arrives.
TYPED = {
    "String": ("Ada Lovelace", {"name": "Ada Lovelace"}),
    "Boolean": (False, {"check": False}),
    "String with default": ("Call me Ishmael.", {"firstLine": "Call me Ishmael."}),
    "String with email format": ("ada@example.test", {"email": "ada@example.test"}),
    "String with uri format": (
        "https://ada.example/a?b#c",
        {"homepage": "https://ada.example/a?b#c"},
    ),
    "String with date format": ("1815-12-10", {"birthdate": "1815-12-10"}),
    "Integer": (7, {"integer": 7}),
    "Number in range 1-1000": (2.718, {"number": 2.718}),
    "Untitled Single Select Enum": ("Ross", {"untitledSingleSelectEnum": "Ross"}),
    "Untitled Multiple Select Enum": (
        ["Piano", "Bass"],
        {"untitledMultipleSelectEnum": ["Piano", "Bass"]},
    ),
    "Titled Single Select Enum": ("Wonder Woman", {"titledSingleSelectEnum": "hero-3"}),
    "Titled Multiple Select Enum": (
        ["Salmon", "Trout"],
        {"titledMultipleSelectEnum": ["fish-2", "fish-3"]},
    ),
    "Legacy Titled Single Select Enum": ("Reptiles", {"legacyTitledEnum": "pet-5"}),
}


@pytest.fixture(scope="module", params=["stdio", "streamableHttp"])
def everything(request: pytest.FixtureRequest) -> Iterator[Any]:
    command = [str(EVERYTHING / "index.js"), request.param]
    if request.param == "stdio":
        yield StdioServerParameters(command=node(), args=command)
    else:
        with serving(node(), *command, PORT="PORT") as url:
            yield f"{url}/mcp"


def told(result: CallToolResult) -> dict[str, Any]:
    """Return the ElicitResult that the server shows as it came."""
    raw = texts(result)[-1].removeprefix("\nRaw result: ")
    return json.loads(raw)  # type: ignore[no-any-return]


def test_every_field_arrives_as_it_was_typed(everything: Any, drive: Driver) -> None:
    result = drive(everything, TOOL, does=[{title: typed for title, (typed, _) in TYPED.items()}])
    content = {name: value for _, sent in TYPED.values() for name, value in sent.items()}
    assert told(result) == {"action": "accept", "content": content}
    assert "✅ User provided the requested information!" in texts(result)


def test_what_is_left_blank_is_left_out(everything: Any, drive: Driver) -> None:
    result = drive(everything, TOOL, does=[{"String": "Ada"}])
    assert told(result) == {"action": "accept", "content": {"name": "Ada"}}


def test_a_decline_says_nothing_else(everything: Any, drive: Driver) -> None:
    result = drive(everything, TOOL, does=[None])
    assert told(result) == {"action": "decline"}
    assert "❌ User declined to provide the requested information." in texts(result)


def test_the_defaults_are_sent_where_the_operator_has_them_filled_in(
    everything: Any, drive: Driver, policy: ServerPolicy
) -> None:
    policy.prefill = True
    policy.save()
    result = drive(everything, TOOL, does=[{"String": "Ada"}])
    assert told(result)["content"] == {
        "name": "Ada",
        "firstLine": "It was a dark and stormy night.",
        "integer": 42,
        "number": 3.14,
        "untitledSingleSelectEnum": "Monica",
        "untitledMultipleSelectEnum": ["Guitar"],
        "titledSingleSelectEnum": "hero-1",
        "titledMultipleSelectEnum": ["fish-1"],
        "legacyTitledEnum": "pet-1",
    }


@pytest.mark.parametrize("policy_is", list(ServerPolicy.Policy))
def test_the_tool_is_there_only_where_somebody_can_be_asked(
    everything: Any, policy: ServerPolicy, user: User, policy_is: str
) -> None:
    policy.policy = policy_is
    policy.save()

    async def offered() -> list[str]:
        async with await Host(everything, user).client() as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert (TOOL in async_to_sync(offered)()) == (policy_is != ServerPolicy.Policy.NONE)
