"""The examples and the test server of the Python SDK, in the eras that each of them speaks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from mcp.types import CallToolResult

from elicitation.mcp.client import TooManyRoundsError
from tests.host import Host, no_roots, sample
from tests.others.conftest import Answer, Driver, serving, texts

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.conformance

MODERN, LEGACY = "2026-07-28", "legacy"


@pytest.fixture(scope="module")
def examples() -> Iterator[str]:
    command = (sys.executable, "-m", "tests.others.python_examples", "PORT")
    with serving(*command) as url:
        yield url


class Case(NamedTuple):
    """A call of a tool, what the person does, and what the tool then says."""

    example: str
    tool: str
    arguments: dict[str, Any]
    does: Sequence[Answer]
    says: str


#: Tools that return what they want to know as the result of a round.
ROUNDS = [
    Case(
        "everything",
        "test_input_required_result_elicitation",
        {},
        [{"name": "Ada"}],
        "Hello, Ada!",
    ),
    Case("everything", "test_input_required_result_elicitation", {}, [None], "Hello, ?!"),
    Case(
        "everything",
        "test_input_required_result_request_state",
        {},
        [{"ok": True}],
        "state-ok: confirmation received",
    ),
    Case(
        "everything",
        "test_input_required_result_tampered_state",
        {},
        [{"ok": True}],
        "state-ok: round-1",
    ),
    Case(
        "everything",
        "test_input_required_result_multi_round",
        {},
        [{"name": "Ada"}, {"color": "green"}],
        "Ada likes green.",
    ),
    Case(
        "everything",
        "test_input_required_result_multiple_inputs",
        {},
        [{"name": "Ada"}],
        "All inputs received.",
    ),
    Case("mrtr", "deploy", {"env": "production"}, [{"confirm": True}], "deployed to production"),
    Case(
        "mrtr",
        "deploy",
        {"env": "staging"},
        [{"confirm": False}],
        "deployment to staging cancelled",
    ),
    Case("mrtr", "deploy", {"env": "staging"}, [None], "deployment to staging cancelled"),
    Case(
        "mrtr-lowlevel",
        "deploy",
        {"env": "production"},
        [{"confirm": True}],
        "deployed to production",
    ),
    Case(
        "provisioner",
        "provision",
        {"name": "orders"},
        [{"region": "eu-west-1"}],
        "Provisioned 'orders' in eu-west-1.",
    ),
    Case("billing", "refund", {"amount": 12}, [{"ok": True}], "refunded $12"),
    Case("billing", "refund", {"amount": 12}, [{"ok": False}], "refund cancelled"),
]

#: Tools that ask while the call is under way.
IN_CALL = [
    Case(
        "everything",
        "test_elicitation",
        {"message": "Well?"},
        [{"Response": "Yes."}],
        'User response: action=accept, content={"response":"Yes."}',
    ),
    Case(
        "everything",
        "test_elicitation",
        {"message": "Well?"},
        [None],
        "User response: action=decline, content={}",
    ),
    Case(
        "everything",
        "test_elicitation_sep1034_defaults",
        {},
        [{"Name": "Ada", "Age": 36, "Score": 9.5, "Status": "pending", "Verified": False}],
        'Elicitation result: action=accept, content={"name":"Ada","age":36,"score":9.5,'
        '"status":"pending","verified":false}',
    ),
    Case(
        "everything",
        "test_elicitation_sep1330_enums",
        {},
        [
            {
                "Untitledsingle": "inactive",
                "Titledsingle": "High Priority",
                "Untitledmulti": ["read", "execute"],
                "Titledmulti": ["Bug Fix"],
                "Legacyenum": "Large Size",
            }
        ],
        'Elicitation completed: action=accept, content={"untitledSingle":"inactive",'
        '"titledSingle":"high","untitledMulti":["read","execute"],"titledMulti":["bug"],'
        '"legacyEnum":"large"}',
    ),
    Case(
        "snippet",
        "book_table",
        {"date": "2024-12-25", "time": "19:00", "party_size": 2},
        [{"Checkalternative": True, "Alternativedate": "2024-12-27"}],
        "[SUCCESS] Booked for 2024-12-27",
    ),
    Case(
        "legacy",
        "register_user",
        {},
        [{"Username": "ada", "Plan": "pro"}],
        "registered ada (plan: pro)",
    ),
    Case("legacy", "register_user", {}, [{"Username": "ada"}], "registered ada (plan: free)"),
    Case(
        "legacy-lowlevel",
        "register_user",
        {},
        [{"username": "ada"}],
        "registered ada (plan: free)",
    ),
    Case(
        "bistro",
        "book_table",
        {"date": "2025-12-25", "party_size": 2},
        [
            {"Accept Alternative": True, "Date": "2025-12-25"},
            {"Accept Alternative": True, "Date": "2025-12-27"},
        ],
        "Booked a table for 2 on 2025-12-27.",
    ),
    Case("library", "issue_card", {}, [{"Name": "Ada Lovelace"}], "Card issued to Ada Lovelace."),
    Case(
        "confirmed",
        "book_table",
        {"date": "2026-12-24"},
        [{"Confirm": True}],
        "Booked for 2026-12-24.",
    ),
]

#: Tools that do either, as their client can.
EITHER = [
    Case(
        "everything",
        "test_streaming_elicitation",
        {},
        [{"Response": "word"}],
        "elicitation accept",
    ),
    Case("everything", "test_streaming_elicitation", {}, [None], "elicitation decline"),
    Case("files", "delete_folder", {"path": "/tmp/project"}, [{"Ok": False}], "kept the folder"),
    Case(
        "files", "delete_folder", {"path": "/tmp/project"}, [None], "declined: folder not deleted"
    ),
    Case(
        "bookshop",
        "order_book",
        {"title": "Neuromancer"},
        [{"Confirm": True}],
        "Backordered 'Neuromancer'; it ships in 2-3 weeks.",
    ),
    Case("copies", "reserve", {"title": "Dune"}, [{"Copies": 3}], "Reserved 3 of 'Dune'."),
    Case("copies", "reserve", {"title": "Dune"}, [None], "Nothing reserved."),
    Case(
        "resolved",
        "book_table",
        {"date": "2026-12-24"},
        [{"Confirm": True}],
        "Booked for 2026-12-24.",
    ),
]

EVERY = [
    *[(MODERN, case) for case in [*ROUNDS, *EITHER]],
    *[(LEGACY, case) for case in [*IN_CALL, *EITHER]],
]


def _name(value: object) -> str:
    return f"{value.example}-{value.tool}" if isinstance(value, Case) else str(value)


@pytest.mark.parametrize(("era", "case"), EVERY, ids=_name)
def test_a_tool_gets_what_the_person_answers(
    era: str, case: Case, examples: str, drive: Driver
) -> None:
    result = drive(
        f"{examples}/{case.example}",
        case.tool,
        case.arguments,
        does=case.does,
        mode=era,
        sampling=sample,
        roots=no_roots,
    )
    assert texts(result) == [case.says]


@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_a_refund_follows_what_two_questions_brought(
    era: str, examples: str, drive: Driver
) -> None:
    def refund(*does: Answer) -> CallToolResult:
        arguments = {"order_id": "ORD-7002", "reason": "broken"}
        return drive(f"{examples}/refunds", "refund_order", arguments, does=does, mode=era)

    receipt = {"order_id": "ORD-7002", "reason": "broken"}
    whole = refund({"Full": True}, {"Restock": True})
    assert whole.structured_content == receipt | {"refunded_cents": 4800, "restocked": True}
    part = refund({"Full": False, "Sku": "canvas-tote"}, None)
    assert part.structured_content == receipt | {"refunded_cents": 2400, "restocked": False}
    assert refund(None).is_error


CONFIRM = {"notes": "Confirm", "notes-lowlevel": "Yes, permanently delete every sticky note"}


@pytest.mark.parametrize("example", CONFIRM)
def test_notes_are_removed_only_where_the_person_says_so(
    example: str, examples: str, drive: Driver
) -> None:
    def remove(*does: Answer) -> Any:
        target = f"{examples}/{example}"
        drive(target, "add_note", {"text": "Buy milk"}, does=[], mode=LEGACY)
        result = drive(target, "remove_all", does=does, mode=LEGACY)
        return result.structured_content

    confirm = CONFIRM[example]
    assert remove(None) == {"status": "declined", "removed": 0}
    assert remove({confirm: False}) == {"status": "declined", "removed": 0}
    assert remove({confirm: True}) == {"status": "cleared", "removed": 3}


def test_a_tool_that_asks_without_end_is_given_up(
    examples: str, drive: Driver, settings: Any
) -> None:
    settings.ELICITATION_MAX_ROUNDS = 2
    with pytest.raises(TooManyRoundsError):
        drive(
            f"{examples}/everything",
            "test_input_required_result_capabilities",
            does=[{"name": "Ada"}] * 2,
            mode=MODERN,
        )


@pytest.mark.parametrize(
    ("example", "prompt", "typed", "says"),
    [
        (
            "everything",
            "test_input_required_result_prompt",
            {"context": "tea"},
            "Use the following context: tea",
        ),
        ("briefing", "briefing", {"audience": "Ada"}, "Write a briefing for Ada."),
    ],
)
def test_a_prompt_that_asks_waits_for_the_person(
    example: str,
    prompt: str,
    typed: dict[str, Any],
    says: str,
    examples: str,
    drive: Driver,
    user: User,
) -> None:
    host = Host(f"{examples}/{example}", user, MODERN)
    result = drive.meanwhile(host.prompt(prompt), does=[typed])
    assert [getattr(message.content, "text", None) for message in result.messages] == [says]
