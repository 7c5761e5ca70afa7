from __future__ import annotations

import pytest

from elicitation.core import FormAnswer, FormElicitation, parse_requested_schema
from elicitation.store import DatabaseFormAnswerStore

PLAN = {"type": "object", "properties": {"plan": {"type": "string", "enum": ["solo", "team"]}}}


def elicitation(
    message: str = "Which plan?", *, server: str = "shop", tool: str = "buy"
) -> FormElicitation:
    return FormElicitation(
        server_name=server,
        tool_name=tool,
        key="k",
        message=message,
        schema=parse_requested_schema(PLAN),
    )


def plan(value: str) -> dict[str, FormAnswer]:
    return {"plan": FormAnswer(selected=(value,))}


@pytest.fixture
def store() -> DatabaseFormAnswerStore:
    return DatabaseFormAnswerStore(scope="conversation", call="call-1")
