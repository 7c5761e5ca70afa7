"""What the published servers ask in URL mode."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from mcp import StdioServerParameters

from elicitation.mcp.client import URLDeclinedError
from elicitation.models import Elicitation
from tests.conformance.packages import EVERYTHING, node
from tests.host import Host
from tests.others.conftest import Answer, Driver, serving, texts

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.conformance

AGREE = ["Agree"]


@pytest.fixture
def everything() -> StdioServerParameters:
    return StdioServerParameters(command=node(), args=[str(EVERYTHING / "index.js"), "stdio"])


@pytest.fixture(scope="module")
def examples() -> Iterator[str]:
    command = (sys.executable, "-m", "tests.others.python_examples", "PORT")
    with serving(*command) as url:
        yield url


@pytest.mark.parametrize(
    ("does", "action", "says"),
    [
        (AGREE, "accept", "✅ User completed the URL elicitation flow."),
        (None, "decline", "❌ User declined to open the URL"),
    ],
)
def test_the_reference_server_hears_what_the_person_decides(
    everything: Any, drive: Driver, does: Answer, action: str, says: str
) -> None:
    arguments = {"url": "https://login.example.com/start?a=b", "message": "Sign in, please."}
    said = texts(drive(everything, "trigger-url-elicitation", arguments, does=[does]))
    assert said[0].startswith(says)
    assert json.loads(said[-1].removeprefix("\nRaw result: ")) == {"action": action}


@pytest.mark.parametrize(
    ("example", "tool", "arguments", "does", "says"),
    [
        (
            "snippet",
            "secure_payment",
            {"amount": 12.5},
            AGREE,
            "Payment of $12.50 initiated - check your browser to complete",
        ),
        ("snippet", "secure_payment", {"amount": 12.5}, None, "Payment declined by user"),
        ("legacy", "link_account", {"provider": "git"}, AGREE, "linked git"),
        ("legacy", "link_account", {"provider": "git"}, None, "link decline"),
        ("legacy-lowlevel", "link_account", {"provider": "git"}, AGREE, "linked git"),
        (
            "deposits",
            "pay_deposit",
            {"booking_id": "b1"},
            AGREE,
            "Complete the payment in your browser.",
        ),
        (
            "deposits",
            "pay_deposit",
            {"booking_id": "b1"},
            None,
            "No deposit taken. The booking expires in one hour.",
        ),
    ],
)
def test_an_example_hears_what_the_person_decides(
    example: str,
    tool: str,
    arguments: dict[str, Any],
    does: Answer,
    says: str,
    examples: str,
    drive: Driver,
) -> None:
    result = drive(f"{examples}/{example}", tool, arguments, does=[does], mode="legacy")
    assert texts(result) == [says]


def test_the_reference_server_goes_on_after_its_error_asked_for_an_address(
    everything: Any, drive: Driver, user: User
) -> None:
    address = "https://login.example.com/start"
    arguments = {"url": address, "message": "Sign in, please.", "errorPath": True}
    call = Host(everything, user).again_and_again("trigger-url-elicitation", arguments)
    result = drive.meanwhile(call, does=[["Agree", "Continue"], AGREE])
    assert texts(result)[0].startswith("✅ User completed the URL elicitation flow.")
    asked = Elicitation.objects.order_by("asked_at").values_list("url", flat=True)
    assert list(asked) == ["https://modelcontextprotocol.io", address]


def test_a_tool_whose_error_asks_for_an_address_ends_where_it_is_declined(
    examples: str, drive: Driver
) -> None:
    arguments = {"service_name": "git"}
    with pytest.raises(URLDeclinedError):
        drive(f"{examples}/snippet", "connect_service", arguments, does=[None], mode="legacy")
