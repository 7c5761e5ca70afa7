"""A server made with the TypeScript SDK 2.x, whose tools ask as their client can be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from tests.conformance.packages import TYPESCRIPT_SDK_2, node
from tests.others.conftest import Driver, texts

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.parametrize("era", ["2026-07-28", "legacy"]),
]

SERVER = Path(__file__).with_name("typescript.mjs")


@pytest.fixture
def typescript() -> StdioServerParameters:
    return StdioServerParameters(command=node(), args=[str(SERVER), str(TYPESCRIPT_SDK_2)])


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ({"confirm": True}, "deployed to production"),
        ({"confirm": False}, "not deployed: accept"),
        (None, "not deployed: decline"),
    ],
)
def test_a_question_is_asked_and_answered(
    era: str, typescript: Any, drive: Driver, does: Any, says: str
) -> None:
    result = drive(typescript, "deploy", {"env": "production"}, does=[does], mode=era)
    assert texts(result) == [says]


def test_the_second_question_is_made_of_the_first_answer(
    era: str, typescript: Any, drive: Driver
) -> None:
    does = [{"name": "Größe\n№ 1"}, {"count": 9007199254740991}]
    (said,) = texts(drive(typescript, "rename", {"env": "staging"}, does=does, mode=era))
    assert json.loads(said) == {
        "env": "staging",
        "name": "Größe\n№ 1",
        "count": 9007199254740991,
    }
