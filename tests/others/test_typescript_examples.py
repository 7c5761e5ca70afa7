"""The example servers inside ``@modelcontextprotocol/sdk``, the TypeScript SDK's package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from elicitation.models import Elicitation
from tests.conformance.packages import TYPESCRIPT_SDK_1, node
from tests.others.conftest import Driver, serving, texts

pytestmark = pytest.mark.conformance

EXAMPLES = TYPESCRIPT_SDK_1 / "esm" / "examples" / "server"


@pytest.fixture(scope="module")
def forms() -> Iterator[str]:
    with serving(node(), str(EXAMPLES / "elicitationFormExample.js"), PORT="PORT") as url:
        yield f"{url}/mcp"


@pytest.fixture(scope="module")
def simple() -> Iterator[str]:
    with serving(node(), str(EXAMPLES / "simpleStreamableHttp.js"), MCP_PORT="PORT") as url:
        yield f"{url}/mcp"


def content(text: str) -> Any:
    """Return the JSON at the end of what a tool says."""
    return json.loads(text[text.index("{") :])


def test_a_tool_that_asks_twice_gets_both_answers(forms: str, drive: Driver) -> None:
    result = drive(
        forms,
        "create_event",
        does=[
            {"Event Title": "Tea", "Description": "With Charles\nand Mary"},
            {"Date": "1843-09-05", "Start Time": "16:30", "Duration": 90},
        ],
    )
    (text,) = texts(result)
    assert text.startswith("Event created successfully!")
    assert content(text) == {
        "title": "Tea",
        "description": "With Charles\nand Mary",
        "date": "1843-09-05",
        "startTime": "16:30",
        "duration": 90,
    }


@pytest.mark.parametrize("does", [[None], [{"Event Title": "Tea"}, None]])
def test_a_tool_that_asks_twice_can_be_declined_each_time(
    forms: str, drive: Driver, does: list[Any]
) -> None:
    assert texts(drive(forms, "create_event", does=does)) == ["Event creation cancelled."]


def test_an_address_arrives_with_what_is_optional_and_without(forms: str, drive: Driver) -> None:
    address = {
        "Full Name": "Ada Lovelace",
        "Street Address": "12 St James's Square",
        "City": "London",
        "State/Province": "LN",
        "ZIP/Postal Code": "01234",
    }
    sent = {
        "name": "Ada Lovelace",
        "street": "12 St James's Square",
        "city": "London",
        "state": "LN",
        "zipCode": "01234",
    }
    (text,) = texts(drive(forms, "update_shipping_address", does=[address]))
    assert content(text) == sent
    phone = {"Phone Number (optional)": "+44 20 7946 0000"}
    (text,) = texts(drive(forms, "update_shipping_address", does=[address | phone]))
    assert content(text) == sent | {"phone": "+44 20 7946 0000"}


def test_nobody_is_asked_for_a_password(forms: str, drive: Driver) -> None:
    assert texts(drive(forms, "register_user", does=[])) == ["Registration cancelled by user."]
    assert not Elicitation.objects.exists()


@pytest.mark.parametrize(
    ("kind", "typed", "sent"),
    [
        (
            "contact",
            {"Full Name": "Ada", "Email Address": "ada@example.test"},
            {"name": "Ada", "email": "ada@example.test"},
        ),
        (
            "preferences",
            {"Theme": "Dark", "Enable Notifications": False, "Notification Frequency": "Weekly"},
            {"theme": "dark", "notifications": False, "frequency": "weekly"},
        ),
        (
            "feedback",
            {"Rating": 5, "Comments": "Très bien 🙂", "Would you recommend this?": True},
            {"rating": 5, "comments": "Très bien 🙂", "recommend": True},
        ),
    ],
)
def test_what_a_tool_collects_is_what_was_typed(
    simple: str, drive: Driver, kind: str, typed: dict[str, Any], sent: dict[str, Any]
) -> None:
    arguments = {"infoType": kind}
    (text,) = texts(drive(simple, "collect-user-info", arguments, does=[typed]))
    assert text.startswith(f"Thank you! Collected {kind} information:")
    assert content(text) == sent
    (text,) = texts(drive(simple, "collect-user-info", arguments, does=[None]))
    assert text == f"No information was collected. User declined {kind} information request."
