"""What a retry can meet, row by row (specification, section 6), over the wire.

Each row is met twice: over a connection made by ``elicitation.mcp.transport``, and over a plain
one of the SDK's, which hides what happened from everybody.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import NamedTuple

import pytest
from django.utils import timezone
from mcp.types import CallToolResult

from elicitation.calls.replies import (
    CONSENT,
    REPLIES,
    NotSentError,
    RoundLostError,
    ServerWorkingPending,
)
from elicitation.core import ElicitationPending
from elicitation.models import Elicitation, ParkedCall
from tests.wire.conftest import (
    ANSWER,
    Host,
    check_kept,
    check_over,
    check_silent,
    delivery,
    stored,
)
from tests.wire.server import (
    SEATS,
    Reply,
    asks,
    bad_gzip,
    error,
    events,
    http,
    message,
    raw,
    result,
    runs,
    slow,
)

#: What becomes of a call.
DELIVERED = "delivered"
SERVER_ERROR = "server_error"
ASKED = "asked"
WORKING = "working"
AFRESH = "afresh"
NOT_SENT = "not sent"
LOST = "lost"
#: The SDK takes the whole session down: the host gets a group of exceptions, and no result.
COLLAPSED = "collapsed"


class Row(NamedTuple):
    """One thing that a retry can meet, and what becomes of the call."""

    name: str
    reply: Reply
    outcome: str
    reason: str = ""
    #: The same over a plain session, where it differs.
    plain: str = ""
    plain_reason: str = ""


#: No handler sees a request that is refused so.
REFUSED = (401, 403, 404, 405, 406, 413, 415, 421, 429, 503)
#: These do not say whether one has.
UNCLEAR = (400, 409, 500, 502, 504)

RPC = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "no"}}'


def refused(status: int) -> list[Row]:
    """A status with nothing, a page, JSON of some kind, and JSON-RPC under it."""
    code = f"http_{status}"
    bare = (NOT_SENT, "method_not_found") if status == 404 else (LOST, "error -32603")
    return [
        Row(f"{status}", http(status, kind=""), NOT_SENT, code, *bare),
        Row(f"{status} page", http(status, b"<p>No</p>", "text/html"), NOT_SENT, code, *bare),
        Row(
            f"{status} problem",
            http(status, b'{"title": "No"}', "application/problem+json"),
            NOT_SENT,
            code,
            *bare,
        ),
        Row(f"{status} json", http(status, b'{"detail": "No"}'), NOT_SENT, code, *bare),
        Row(
            f"{status} json-rpc",
            http(status, RPC),
            NOT_SENT,
            code,
            LOST,
            "error -32000",
        ),
    ]


def unclear(status: int) -> list[Row]:
    return [
        Row(f"{status}", http(status, kind=""), LOST, "error -32603"),
        Row(f"{status} page", http(status, b"<p>No</p>", "text/html"), LOST, "error -32603"),
        Row(f"{status} json-rpc", http(status, RPC), LOST, "error -32000"),
    ]


INVALID = {"reason": "invalid_request_state"}

CODES = [
    # The client makes these itself as well: the raw body shows who did.
    Row("-32700", error(-32700, status=400), NOT_SENT, "parse_error", LOST, "error -32700"),
    Row("-32700 id null", message(400, id=None, error={"code": -32700, "message": "no"}),
        NOT_SENT, "parse_error", LOST, "error -32700"),
    # Handlers raise it too, and servers give it the status 400 whoever did.
    Row("-32600", error(-32600, status=400), LOST, "error -32600"),
    Row("-32601", error(-32601, status=404), NOT_SENT, "http_404", NOT_SENT, "method_not_found"),
    Row("-32601 in a 200", error(-32601), NOT_SENT, "method_not_found"),
    Row("-32602", error(-32602, "Invalid params", status=400), LOST, "error -32602"),
    Row("-32602 unknown tool", error(-32602, "Unknown tool: buy"), LOST, "error -32602"),
    Row("-32602 state", error(-32602, "Invalid or expired requestState", INVALID), AFRESH),
    Row("-32602 state, 400", error(-32602, "No", INVALID, status=400), AFRESH),
    Row("-32602 state, text alone", error(-32602, "requestState expired"), AFRESH),
    Row("-32602 state used", error(-32602, "requestState already used"), LOST, "error -32602"),
    Row("-32603", error(-32603), LOST, "error -32603"),
    Row("-32020", error(-32020, status=400), NOT_SENT, "header_mismatch"),
    Row("-32021", error(-32021, status=400), LOST, "error -32021"),
    Row("-32022", error(-32022, status=400), NOT_SENT, "unsupported_version"),
    Row("-32042 without urls", error(-32042), LOST, "no valid reply"),
    Row("-32002", error(-32002), LOST, "error -32002"),
    Row("-32000", error(-32000), LOST, "error -32000"),
    Row("-32001", error(-32001), LOST, "error -32001"),
    Row("-32019", error(-32019), LOST, "error -32019"),
    Row("a code of its own", error(4711), LOST, "error 4711"),
]  # fmt: skip

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BODY = b'{"jsonrpc": "2.0", "id": '

#: The connection breaks after the request was written.
BROKEN = [
    Row("closed before the headers", raw(), LOST, "error -32000", COLLAPSED),
    Row("reset", raw(reset=True), LOST, "error -32000", COLLAPSED),
    Row("closed inside the headers", raw(HEAD), LOST, "error -32000", COLLAPSED),
    Row("reset inside the headers", raw(HEAD, reset=True), LOST, "error -32000", COLLAPSED),
    Row("half a body", raw(HEAD + b"Content-Length: 999\r\n\r\n" + BODY),
        LOST, "error -32000", COLLAPSED),
    Row("half a chunk", raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n" + BODY),
        LOST, "error -32000", COLLAPSED),
    Row("half a body of a 503",
        raw(HEAD.replace(b"200 OK", b"503 No") + b"Content-Length: 999\r\n\r\n" + BODY),
        NOT_SENT, "http_503", COLLAPSED),
    Row("bad gzip", bad_gzip(), LOST, "error -32000", COLLAPSED),
    Row("garbage", raw(b"\x00\x01SSH-2.0\r\n\r\n"), LOST, "error -32000", COLLAPSED),
    Row("a stream that ends", events(), LOST, "error -32000"),
    Row("a stream that is cut", events(end=b""), LOST, "error -32000"),
    Row("a stream of half an event", events('data: {"jsonrpc"', end=b""), LOST, "error -32000"),
    Row("a stream of no JSON", events("data: no\n\n"), LOST, "error -32700"),
    Row("202", http(202), LOST, "error -32600"),
    Row("204", http(204, kind=""), LOST, "error -32600"),
    Row("a page", http(200, b"<p>Hello</p>", "text/html"), LOST, "error -32600"),
    Row("no JSON", http(200, b"no"), LOST, "error -32700"),
    Row("other JSON", http(200, b"{}"), LOST, "error -32700"),
    Row("nothing", http(200), LOST, "error -32700"),
    Row("a redirect to another place", http(307, Location="http://127.0.0.2:1/"),
        LOST, "error -32600"),
    Row("a redirect as GET", http(303, Location="/mcp"), LOST, "error -32600"),
]  # fmt: skip

STREAMED = 'data: {"jsonrpc": "2.0", "id": {id}, "result": {"content": []}}\n\n'

RESULTS = [
    Row("a result", result(), DELIVERED),
    Row("a result in a stream", runs(events(STREAMED)), DELIVERED),
    Row("isError", result(isError=True), SERVER_ERROR),
    Row("without resultType", result(resultType=None), DELIVERED),
    Row("without structuredContent", result(), DELIVERED),
    Row("not fitting its schema", result(structuredContent={"total": "no number"}), DELIVERED),
    Row("of an unknown content type", result(content=[{"type": "hologram", "x": 1}]), DELIVERED),
    Row("without content", result(content=None), DELIVERED),
    Row("under a 500", result(status=500), DELIVERED, "", LOST, "error -32603"),
    Row("under a 503", result(status=503), DELIVERED, "", LOST, "error -32603"),
    Row("with fields of its own", result(more={"a": 1}), DELIVERED),
    Row("asks", asks("later", SEATS, "How many?"), ASKED),
    Row("asks wrongly", message(result={"resultType": "input_required", "inputRequests": 1}),
        LOST, "no valid reply"),
    Row("state only", message(result={"resultType": "input_required", "requestState": "s"}),
        WORKING),
    Row("task", message(result={"resultType": "task", "taskId": "t", "status": "working"}),
        WORKING),
    Row("another type", message(result={"resultType": "surprise"}), LOST, "no valid reply"),
]  # fmt: skip

ROWS = [
    *(row for status in REFUSED for row in refused(status)),
    *(row for status in UNCLEAR for row in unclear(status)),
    *CODES,
    *BROKEN,
    *RESULTS,
]


def check(row: Row, host: Host, caplog: pytest.LogCaptureFixture, *, plain: bool) -> None:
    """Let a person answer, meet the retry with the row, and look at everything there is."""
    expected, reason = row.outcome, row.reason
    if plain and row.plain:
        expected, reason = row.plain, row.plain_reason
    server = host.server
    pending = host.answered()
    (answer,) = stored()
    until = answer.expires_at
    server.retry = row.reply
    got = host.resume(pending)
    check_silent(got, caplog)
    assert all(sent == ("accept", {"plan": ANSWER}) for sent in server.sent), (
        "an answer of another kind was sent"
    )

    if expected in (DELIVERED, SERVER_ERROR):
        assert isinstance(got, CallToolResult), got
        check_over(pending, said=expected)
    elif expected == ASKED:
        assert isinstance(got, ElicitationPending)
        assert delivery(pending) == DELIVERED
        assert ParkedCall.objects.get().round == 2
        assert stored() == []
    elif expected == WORKING:
        assert isinstance(got, ServerWorkingPending), got
        assert delivery(pending) == DELIVERED
        parked = ParkedCall.objects.get()
        assert parked.look_at is not None
        assert parked.lease is None
        assert stored() == []
    elif expected == AFRESH:
        # Asked again by a fresh call, and answered with what was in hand: refused again.
        assert isinstance(got, RoundLostError), got
        assert got.reason == "invalid_request_state"
        assert "may have run" not in str(got)
        assert "read none of the answers" in str(got)
        assert server.ran == 0
        assert [bool(call.answers) for call in server.calls] == [False, True, False, True]
        check_over(pending, said="round_lost")
        return
    elif expected == NOT_SENT:
        assert isinstance(got, NotSentError), got
        assert (got.code, got.reason) == ("not_sent", reason)
        assert reason in REPLIES
        assert "Nothing was done because of it" in str(got)
        assert got.parked_call_id == pending.parked_call_id
        assert got.retry_at is not None
        check_kept(pending, reason=reason, until=until)
        check_sent_later(host, pending)
        return
    elif expected == LOST:
        assert isinstance(got, RoundLostError), got
        assert (got.code, got.reason) == ("round_lost", reason)
        assert "may have run" in str(got)
        check_over(pending, said="round_lost")
    else:
        # The session is gone, and with it what could have said anything.
        assert isinstance(got, BaseExceptionGroup), got
        check_over(pending, said="round_lost")
    if expected != WORKING:
        assert len(server.retries) == 1
    assert server.ran == (row.outcome in (DELIVERED, SERVER_ERROR))


def check_sent_later(host: Host, pending: ElicitationPending) -> None:
    """The server has recovered: the tool runs, once, with what the person said."""
    server = host.server
    before = len(server.retries)
    server.retry = result()
    assert server.ran == 0
    assert isinstance(host.resume(pending), CallToolResult)
    assert len(server.retries) == before + 1
    assert server.retries[-1].params["requestState"] == "state"
    assert server.ran == 1
    check_over(pending, said="delivered")


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_the_retry(row: Row, host: Host, caplog: pytest.LogCaptureFixture) -> None:
    check(row, host, caplog, plain=False)


#: A plain session makes one thing of all kinds of body.
PLAIN = [row for row in ROWS if row.name.partition(" ")[2] not in ("page", "problem", "json")]


@pytest.mark.parametrize("row", PLAIN, ids=[row.name for row in PLAIN])
def test_the_retry_in_a_plain_session(
    row: Row, plain_host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    check(row, plain_host, caplog, plain=True)


@pytest.mark.parametrize("status", REFUSED)
def test_a_first_call_that_is_refused_is_the_host_s_to_repeat(status: int, host: Host) -> None:
    host.server.first = http(status, kind="", Retry_After="7")
    got = host.call()
    assert isinstance(got, NotSentError)
    assert (got.reason, got.parked_call_id) == (f"http_{status}", None)
    assert not ParkedCall.objects.parked().exists()


IN_TWO_HOURS = "in two hours"


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("7200", 7200),
        (IN_TWO_HOURS, 7200),
        ("1", 60),
        ("soon", 60),
        ("99999999", 86400),
        ("-5", 60),
    ],
    ids=["seconds", "a date", "less than our pause", "no number", "for months", "the past"],
)
@pytest.mark.parametrize("status", [429, 503])
def test_it_is_told_again_no_earlier_than_the_server_says(
    said: str, seconds: int, status: int, host: Host
) -> None:
    pending = host.answered()
    if said == IN_TWO_HOURS:
        said = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    host.server.retry = http(status, kind="", Retry_After=said)
    before = timezone.now()
    got = host.resume(pending)
    assert isinstance(got, NotSentError)
    assert got.retry_at is not None
    waits = (got.retry_at - before).total_seconds()
    assert seconds - 5 <= waits <= seconds + 60
    question = Elicitation.objects.get(pk=pending.elicitation_ids[0])
    assert question.resume_at == got.retry_at


@pytest.mark.parametrize("way", ["transport", "plain"])
def test_headers_that_do_not_come_in_time(way: str, host: Host, plain_host: Host) -> None:
    used = host if way == "transport" else plain_host
    pending = used.answered()
    # The SDK's own patience is five minutes: there the server gives up.
    used.server.retry = slow(30 if way == "transport" else 0.8, raw())
    got = used.resume(pending)
    if way == "transport":
        assert isinstance(got, RoundLostError)
        assert got.reason == "error -32000"
    else:
        assert isinstance(got, BaseExceptionGroup)
    check_over(pending, said="round_lost")
    assert len(used.server.retries) == 1


def test_every_reason_of_not_sent_is_in_a_row() -> None:
    # The last one is met by tests/tasks: with it no answer is on its way.
    seen = {row.reason for row in ROWS} | {"connect", "wrong_revision", CONSENT, "task_not_read"}
    assert {code for code, reply in REPLIES.items() if reply.event.name == "NOT_SENT"} <= seen


def test_nothing_listens(host: Host) -> None:
    pending = host.answered()
    (answer,) = stored()
    host.server.stop()
    got = host.resume(pending)
    assert isinstance(got, NotSentError)
    assert got.reason == "connect"
    check_kept(pending, reason="connect", until=answer.expires_at)
    host.server.start()
    check_sent_later(host, pending)


def test_nothing_listens_for_a_plain_session(plain_host: Host) -> None:
    """The SDK ends the whole session, and tells the call nothing: nobody can know."""
    pending = plain_host.answered()
    plain_host.server.stop()
    assert isinstance(plain_host.resume(pending), BaseExceptionGroup)
    check_over(pending, said="round_lost")


def test_a_first_call_that_becomes_a_task_is_no_error(host: Host) -> None:
    host.server.first = message(result={"resultType": "task", "taskId": "t"})
    got = host.call()
    assert isinstance(got, ServerWorkingPending), got
    assert ParkedCall.objects.get(pk=got.parked_call_id).task
    assert len(host.server.calls) == 1
