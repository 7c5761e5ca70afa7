"""Servers that ask from within the tasks of MCP 2025-11-25: their own, and those of the client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from mcp import StdioServerParameters

from tests.conformance.packages import EVERYTHING, TYPESCRIPT_SDK_1, node
from tests.others.conftest import Driver, serving
from tests.others.tasks import connected

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.conformance

EXAMPLES = TYPESCRIPT_SDK_1 / "esm" / "examples" / "server"


@pytest.fixture
def everything() -> StdioServerParameters:
    return StdioServerParameters(command=node(), args=[str(EVERYTHING / "index.js"), "stdio"])


@pytest.fixture(scope="module")
def simple() -> Iterator[str]:
    with serving(node(), str(EXAMPLES / "simpleStreamableHttp.js"), MCP_PORT="PORT") as url:
        yield f"{url}/mcp"


@pytest.fixture(scope="module")
def interactive() -> Iterator[str]:
    with serving(node(), str(EXAMPLES / "simpleTaskInteractive.js"), PORT="PORT") as url:
        yield f"{url}/mcp"


async def called(
    target: Any, user: User, tool: str, arguments: dict[str, Any] | None = None
) -> list[str]:
    """Call a tool, as a task where arguments are given, and return what it says."""
    async with connected(target, user) as client:
        if arguments is None:
            result = await client.call(tool)
        else:
            result = await client.call_task(tool, arguments)
    return [block["text"] for block in result["content"]]


def test_a_task_of_the_client_waits_for_the_person(
    everything: Any, drive: Driver, user: User
) -> None:
    typed = {"Your Name": "Ada", "Favorite Color": "Green", "Terms Agreement": False}
    work = called(everything, user, "trigger-elicitation-request-async")
    said = drive.meanwhile(work, does=[typed])
    assert said[0] == "[COMPLETED] User provided the requested information!"
    assert said[1] == (
        "User inputs:\n- Name: Ada\n- Favorite Color: Green\n- Agreed to terms: false"
    )


def test_a_task_of_the_client_can_be_declined(everything: Any, drive: Driver, user: User) -> None:
    work = called(everything, user, "trigger-elicitation-request-async")
    said = drive.meanwhile(work, does=[None])
    assert said[0] == "[DECLINED] User declined to provide the requested information."


def test_a_task_of_the_server_goes_on_with_the_answer(
    everything: Any, drive: Driver, user: User
) -> None:
    arguments = {"topic": "python", "ambiguous": True}
    work = called(everything, user, "simulate-research-query", arguments)
    (report,) = drive.meanwhile(work, does=[{"Clarification": "Monty Python comedy group"}])
    assert report.startswith("# Research Report: python (comedy)")


def test_a_task_of_the_sdks_example_collects_what_was_typed(
    simple: str, drive: Driver, user: User
) -> None:
    arguments = {"infoType": "preferences"}
    work = called(simple, user, "collect-user-info-task", arguments)
    (said,) = drive.meanwhile(work, does=[{"Theme": "auto", "Enable Notifications": False}])
    collected = said.removeprefix("Collected preferences info: ")
    assert json.loads(collected) == {"theme": "auto", "notifications": False}


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ({"confirm": True}, "Deleted 'notes.txt'"),
        ({"confirm": False}, "Deletion cancelled"),
        (None, "Deletion cancelled"),
    ],
)
def test_a_task_deletes_only_what_the_person_confirms(
    interactive: str, drive: Driver, user: User, does: Any, says: str
) -> None:
    work = called(interactive, user, "confirm_delete", {"filename": "notes.txt"})
    assert drive.meanwhile(work, does=[does]) == [says]
