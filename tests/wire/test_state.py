"""What servers say where they cannot read a request state (case A5), and docs/wire.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import MCPError
from mcp.types import CallToolResult

from elicitation.calls.replies import REPLIES, RoundLostError
from elicitation.calls.rounds import Event
from elicitation.mcp.replies import refuses_state
from tests.wire.conftest import ANSWER, Host, check_over
from tests.wire.server import Request, error, result

DOC = Path(__file__).resolve().parents[2] / "docs" / "wire.md"

#: Who says so, the code, the text, the data.
UNREAD = [
    ("Python, FastMCP, TypeScript", -32602, "Invalid or expired requestState",
     {"reason": "invalid_request_state"}),
    ("any, by the reason alone", -32000, "No", {"reason": "invalid_request_state"}),
    ("Ruby", -32602, "Invalid params", "Invalid or expired requestState"),
    ("PHP", -32602, "The supplied requestState failed verification.", None),
    ("Rust, rmcp", -32602, "tampered or unknown request state", None),
    ("Rust, others", -32602, "requestState integrity check failed", None),
    ("Rust, others", -32602, "malformed requestState", None),
    ("SwiftMCP", -32602, "Invalid params: requestState failed verification", None),
    ("Delphi", -32602, "requestState belongs to another principal", None),
    ("Apache Juneau", -32022, "requestState has expired", None),
    ("by hand", -32602, "requestState signature mismatch", None),
    ("by hand", -32602, "Invalid request_state: the MAC is wrong", None),
    ("by hand", -32602, "requestState expired; start the call again", None),
    ("by hand", -32602, "requestState does not match this request", None),
    ("by hand", -32602, "requestState was issued to a different client", None),
    ("by hand", -32602, "requestState is not one this server issued", None),
    ("by hand", -32602, "requestState is not valid for this call.", None),
]  # fmt: skip

#: These do not say that nobody has read it, or speak of something else.
READ = [
    ("used", -32602, "requestState has already been used", None),
    ("perhaps used", -32602, "requestState is unknown or already used", None),
    ("consumed", -32602, "Permission requestState has already been consumed",
     {"reason": "permission_state_replay"}),
    ("another argument", -32602, "plan is invalid", None),
    ("no state", -32602, "requestState is required", None),
    ("from inside", -32603, "Invalid or expired requestState", None),
    ("no code of it", -32000, "Invalid or expired requestState", None),
    ("data of another kind", -32602, "Invalid params", {"field": "requestState"}),
]  # fmt: skip


@pytest.mark.parametrize(("who", "code", "text", "data"), UNREAD)
def test_case_A5_a_state_is_refused_unread(who: str, code: int, text: str, data: object) -> None:
    assert refuses_state(MCPError(code, text, data))


@pytest.mark.parametrize(("why", "code", "text", "data"), READ)
def test_case_A5_nothing_else_is(why: str, code: int, text: str, data: object) -> None:
    assert not refuses_state(MCPError(code, text, data))


@pytest.mark.parametrize(("plain", "status"), [(False, 200), (True, 400)])
@pytest.mark.parametrize(("who", "code", "text", "data"), UNREAD)
def test_case_A5_the_call_is_made_afresh_with_the_same_answer(
    who: str,
    code: int,
    text: str,
    data: object,
    plain: bool,
    status: int,
    host: Host,
    plain_host: Host,
) -> None:
    used = plain_host if plain else host
    server = used.server
    pending = used.answered()

    def reply(request: Request) -> object:
        server.retry = result()
        return error(code, text, data, status=status)(request)

    server.retry = reply
    assert isinstance(used.resume(pending), CallToolResult)
    # First call; refused; afresh; sent again.
    assert [bool(call.answers) for call in server.calls] == [False, True, False, True]
    assert server.sent == [("accept", {"plan": ANSWER})] * 2
    assert server.ran == 1
    check_over(pending, said="delivered")


def test_case_A5_a_used_state_is_not_sent_again(host: Host) -> None:
    pending = host.answered()
    host.server.retry = error(-32602, "requestState has already been used")
    assert isinstance(host.resume(pending), RoundLostError)
    assert len(host.server.calls) == 2
    check_over(pending, said="round_lost")


def test_case_A5_an_isError_result_about_the_state_is_a_result(host: Host) -> None:
    """It came from a handler; its text is for the model (github-mcp-server, FastMCP's proxy)."""
    pending = host.answered()
    text = {"type": "text", "text": "Invalid or expired requestState"}
    host.server.retry = result(content=[text], isError=True)
    got = host.resume(pending)
    assert isinstance(got, CallToolResult)
    assert got.is_error
    check_over(pending, said="server_error")


# --- The document ----------------------------------------------------------------------------

BECOMES = {
    Event.RESULT: "delivered",
    Event.ASKS: "delivered",
    Event.WORKS: "delivered",
    Event.TASK: "delivered",
    Event.UNREAD: "in hand again, the call is made afresh once",
    Event.NOT_SENT: "kept, told again later",
    Event.UNKNOWN: "lost",
}


def table() -> str:
    lines = ["| code | the answer | why | where that is said, or was seen |", "|---|---|---|---|"]
    lines += [
        f"| `{code}` | {BECOMES[reply.event]} | {reply.why} | {reply.source} |"
        for code, reply in REPLIES.items()
    ]
    return "\n".join(lines)


def test_the_document_has_the_table() -> None:
    text = DOC.read_text()
    block = text.partition("<!-- REPLIES: begin -->\n")[2].partition("\n<!-- REPLIES: end -->")[0]
    assert block == table(), f"put this between the marks of docs/wire.md:\n{table()}"


@pytest.mark.parametrize("text", sorted({row[2] for row in UNREAD if row[2] != "No"}))
def test_the_document_names_each_text(text: str) -> None:
    assert text.rstrip(".") in DOC.read_text()
