"""What went wrong at the wire once, each by its number, with the right value."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import mcp
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import OperationalError, transaction
from django.utils import timezone
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.types import CallToolResult, Result, TextContent

from elicitation.calls import outbox, parking
from elicitation.calls.replies import NotSentError, RoundLostError, ServerWorkingPending
from elicitation.calls.tasks import Task
from elicitation.core import ElicitationPending
from elicitation.mcp import drive
from elicitation.mcp.client import WrongServerError, aclient_options, call_tool, resume
from elicitation.mcp.transport import connect, http_client
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from elicitation.signals import call_due
from elicitation.transactions import OuterTransactionError
from tests.wire.conftest import (
    ANSWER,
    Host,
    check_kept,
    check_over,
    check_silent,
    delivery,
    is_parked,
    stored,
)
from tests.wire.server import (
    SEATS,
    Reply,
    Request,
    Server,
    asks,
    error,
    held,
    http,
    message,
    result,
    tools,
    wait_for,
)

INVALID = {"reason": "invalid_request_state"}
ACCEPT = ("accept", {"plan": ANSWER})


def said(got: Any) -> str:
    assert isinstance(got, CallToolResult), got
    (content,) = got.content
    assert isinstance(content, TextContent)
    return content.text


def once(first: Reply, then: Reply) -> Reply:
    """Reply so the first time, and otherwise after that."""
    replies = [first]

    def reply(request: Request) -> object:
        return (replies.pop() if replies else then)(request)

    return reply


# --- A1: headers -----------------------------------------------------------------------------

HEADERS = {
    "type": "object",
    "properties": {"a": {"type": "integer", "x-mcp-header": "Amount"}},
}


def wants_header(then: Reply) -> Reply:
    """Refuse what lacks the header of the argument, before anything is read."""

    def reply(request: Request) -> object:
        if request.headers.get("mcp-param-amount") != "1":
            return error(-32020, "Header mismatch", status=400)(request)
        return then(request)

    return reply


@pytest.fixture
def headers(server: Server) -> Server:
    server.lists = tools(inputSchema=HEADERS)
    server.first, server.retry = wants_header(asks()), wants_header(result())
    return server


@pytest.mark.parametrize("plain", [False, True])
def test_case_A1_the_tools_are_listed_once_and_the_request_sent_again(
    headers: Server, host: Host, plain_host: Host, plain: bool
) -> None:
    used = plain_host if plain else host
    pending = used.answered()
    assert said(used.resume(pending)) == "done"
    assert [bool(call.answers) for call in headers.calls] == [False, False, True, True]
    assert headers.ran == 1
    check_over(pending, said="delivered")


def test_case_A1_where_that_does_not_help_the_answer_is_kept(headers: Server, host: Host) -> None:
    pending = host.answered()
    (answer,) = stored()
    headers.lists = http(503)
    got = host.resume(pending)
    assert isinstance(got, NotSentError)
    assert got.reason == "header_mismatch"
    assert len(headers.retries) == 2
    check_kept(pending, reason="header_mismatch", until=answer.expires_at)


# --- A2: a result is a result ----------------------------------------------------------------

TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


@pytest.mark.parametrize("is_first", [True, False], ids=["first call", "retry"])
@pytest.mark.parametrize(
    ("lists", "reply"),
    [
        (http(503), result()),
        (http(503), result(structuredContent={"total": 1})),
        (tools(outputSchema=TOTAL), result()),
        (tools(outputSchema=TOTAL), result(structuredContent={"total": "no"})),
        (tools(outputSchema={"type": "unheard of"}), result(structuredContent={"total": 1})),
    ],
    ids=["list fails", "list fails, structured", "missing", "does not fit", "no schema at all"],
)
def test_case_A2_a_result_that_came_is_handed_over(
    host: Host, lists: Reply, reply: Reply, is_first: bool
) -> None:
    server = host.server
    server.lists = lists
    if is_first:
        server.first = reply

        async def listed_before(client: mcp.Client) -> Any:
            with suppress(mcp.MCPError):
                await client.session.list_tools()
            return await host.acall(client)

        assert said(host.run(listed_before)) == "done"
    else:
        pending = host.answered()
        server.retry = reply
        assert said(host.resume(pending)) == "done"
        check_over(pending, said="delivered")
    assert server.ran == 1


@pytest.mark.parametrize(
    ("reply", "is_said"),
    [
        (result(structuredContent={"total": 1}), False),
        (result(structuredContent={"total": ANSWER}), True),
        (result(), True),
        (result(isError=True), False),
    ],
    ids=["fits", "does not", "missing", "an error"],
)
def test_case_A2_that_it_does_not_fit_is_a_log_line(
    reply: Reply, is_said: bool, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.server.lists, host.server.first = tools(outputSchema=TOTAL), reply

    async def listed_before(client: mcp.Client) -> Any:
        await client.session.list_tools()
        return await host.acall(client)

    got = host.run(listed_before)
    assert said(got) == "done"
    lines = [record for record in caplog.records if "output schema" in record.getMessage()]
    assert len(lines) == is_said
    check_silent(got, caplog)


# --- A3: tasks -------------------------------------------------------------------------------


class TaskResult(Result):
    result_type: Literal["task"]
    task_id: str


class Tasks(ClientExtension):
    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Any:
        async def resolve(claimed: TaskResult, context: Any) -> CallToolResult:
            raise AssertionError("nobody resolves it")

        return [ResultClaim(result_type="task", model=TaskResult, resolve=resolve)]


def test_case_A3_a_task_is_no_lost_round(host: Host) -> None:
    pending = host.answered()
    host.server.retry = message(
        result={"resultType": "task", "taskId": "t", "status": "working", "ttlMs": None}
    )
    key = pending.parked_call_id
    assert key is not None

    async def run() -> Any:
        options = await aclient_options("shop") | {"extensions": [Tasks()]}
        async with connect(host.server.url, **options) as client:
            try:
                return await resume(client.session, key, server="shop")
            except Exception as raised:
                return raised

    got = async_to_sync(run)()
    assert isinstance(got, ServerWorkingPending), got
    assert got.parked_call_id == key
    # To retry the round would start another task: it is the task that is read.
    task = Task.from_json(ParkedCall.objects.get(pk=key).task)
    assert task is not None
    assert task.id == "t"
    assert delivery(pending) == "delivered"


# --- A4: refused before anything read it -----------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 404, 429, 503])
def test_case_A4_a_refused_retry_is_kept_and_tried_again(status: int, host: Host) -> None:
    pending = host.answered()
    (answer,) = stored()
    host.server.retry = http(status, kind="")
    got = host.resume(pending)
    assert isinstance(got, NotSentError)
    assert host.server.ran == 0
    check_kept(pending, reason=f"http_{status}", until=answer.expires_at)
    assert outbox.resend_due(now=timezone.now() + timedelta(minutes=2)).sent == 1
    host.server.retry = result()
    assert said(host.resume(pending)) == "done"
    assert host.server.ran == 1


def test_case_A4_so_is_one_that_found_nobody(host: Host) -> None:
    pending = host.answered()
    host.server.stop()
    got = host.resume(pending)
    assert isinstance(got, NotSentError)
    assert got.reason == "connect"
    host.server.start()
    assert said(host.resume(pending)) == "done"
    assert (host.server.ran, host.server.sent) == (1, [ACCEPT])


# --- A6: a state that a restarted server cannot read -----------------------------------------


def two_rounds() -> Reply:
    """Ask a second question of whoever answered the first, and then run."""

    def reply(request: Request) -> object:
        if "plan" in str(request.answers):
            return asks("second", SEATS, "How many?")(request)
        return result()(request)

    return reply


def test_case_A6_in_a_later_round_its_answer_stays_in_hand(host: Host) -> None:
    server = host.server
    server.retry = two_rounds()
    second = host.resume(host.answered())
    assert isinstance(second, ElicitationPending)
    host.answer(second, seats=3)
    server.retry = once(error(-32602, "Invalid or expired requestState", INVALID), two_rounds())
    again = host.resume(second)
    # The server starts afresh with its first question; its answer was delivered, and is gone.
    assert isinstance(again, ElicitationPending)
    host.answer(again)
    assert said(host.resume(again)) == "done"
    assert server.ran == 1
    assert server.sent == [
        ACCEPT,
        ("accept", {"seats": 3}),
        ACCEPT,
        ("accept", {"seats": 3}),
    ]
    assert delivery(second) == "delivered"
    # Nobody was asked for the seats again.
    assert Elicitation.objects.count() == 3
    check_over(again, said="delivered")


# --- A7, A8: stored first --------------------------------------------------------------------


@pytest.mark.parametrize("minutes", [4, 6, 11, 60])
def test_case_A7_and_A8_the_stored_state_is_sent_whatever_its_age(
    minutes: int, host: Host
) -> None:
    server, drafts = host.server, []

    def draft(request: Request) -> object:
        drafts.append(request)
        return asks(f"draft {len(drafts)}", text=f"That costs {len(drafts)}.99. Buy?")(request)

    server.first = draft
    pending = host.asked()
    rows = ParkedCall.objects.all()
    rows.update(received_at=timezone.now() - timedelta(minutes=minutes))
    host.answer(pending)
    assert said(host.resume(pending)) == "done"
    assert (len(drafts), server.ran, server.sent) == (1, 1, [ACCEPT])
    assert server.retries[0].params["requestState"] == "draft 1"


# --- A9: a server at work --------------------------------------------------------------------

WORKS = message(result={"resultType": "input_required", "requestState": "at work"})


def test_case_A9_a_server_at_work_is_looked_after(host: Host) -> None:
    server = host.server
    pending = host.answered()
    server.retry = WORKS
    got = host.resume(pending)
    assert isinstance(got, ServerWorkingPending)
    assert len(server.retries) == 1
    assert delivery(pending) == "delivered"
    assert got.look_at is not None

    due: list[Any] = []
    call_due.connect(listener := lambda parked_call_id, **_: due.append(parked_call_id))
    try:
        outbox.resend_due(now=got.look_at + timedelta(seconds=1))
    finally:
        call_due.disconnect(listener)
    assert due == [pending.parked_call_id]

    later = host.resume(pending)
    assert isinstance(later, ServerWorkingPending)
    assert later.look_at is not None
    assert later.look_at - timezone.now() > timedelta(seconds=45)
    server.retry = result()
    assert said(host.resume(pending)) == "done"
    assert (server.ran, len(server.retries)) == (1, 1)
    assert not is_parked(pending)


def test_case_A9_the_pauses_grow_from_half_a_minute_to_an_hour(host: Host) -> None:
    pending = host.answered()
    host.server.retry = WORKS
    pauses = []
    for _ in range(9):
        before = timezone.now()
        got = host.resume(pending)
        assert isinstance(got, ServerWorkingPending), got
        assert got.look_at is not None
        # `call_due` comes then, and not before.
        assert outbox.resend_due(now=got.look_at - timedelta(seconds=1)).sent == 0
        assert outbox.resend_due(now=got.look_at + timedelta(seconds=1)).sent == 1
        # A look has a small part of a second of its own.
        pauses.append(int((got.look_at - before).total_seconds() / 30))
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 120, 120]


# --- A11: the closing write ------------------------------------------------------------------


def test_case_A11_the_closing_write_is_tried_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "RECORD_PAUSES", (0.0, 0.0))
    pending = host.answered()
    close = parking.close
    failed: list[bool] = []

    def fails_once(*args: Any, **options: Any) -> None:
        if not failed:
            failed.append(True)
            raise OperationalError("the connection is closed")
        close(*args, **options)

    monkeypatch.setattr(parking, "close", fails_once)
    assert said(host.resume(pending)) == "done"
    assert failed
    check_over(pending, said="delivered")


def test_case_A11_a_result_is_worth_more_than_that_write(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "RECORD_PAUSES", (0.0,))
    pending = host.answered()

    def fails(*args: Any, **options: Any) -> None:
        raise OperationalError("the connection is closed")

    with monkeypatch.context() as patched:
        patched.setattr(parking, "close", fails)
        assert said(host.resume(pending)) == "done"
    assert (host.server.ran, stored()) == (1, [])


# --- A12: another server's session -----------------------------------------------------------


def test_case_A12_a_session_of_another_server_gets_nothing(host: Host) -> None:
    pending = host.answered()
    key = pending.parked_call_id
    assert key is not None
    with Server() as other:
        elsewhere = Host(other, host.user)
        got = elsewhere.run(lambda client: resume(client.session, key, server="kitchen"))
        assert isinstance(got, WrongServerError)
        assert other.calls == []
    assert len(stored()) == 1
    assert said(host.resume(pending)) == "done"


# --- A13: the same call twice ----------------------------------------------------------------


def test_case_A13_a_late_first_reply_does_not_turn_the_call_back(host: Host) -> None:
    server = host.server
    host.patience = 60
    late = threading.Event()
    server.first = held(late, asks("late"))
    server.retry = asks("second", SEATS, "How many?")

    async def both(client: mcp.Client) -> Any:
        slow = asyncio.ensure_future(host.acall(client))
        await asyncio.to_thread(wait_for, lambda: len(server.calls) == 1)
        server.first = asks()
        pending = await _pending(host.acall(client))
        await sync_to_async(host.answer)(pending)
        key = pending.parked_call_id
        assert key is not None
        second = await _pending(resume(client.session, key, server="shop"))
        await sync_to_async(host.answer)(second, seats=3)
        server.retry = result()
        late.set()
        return await slow

    # It joins the later round, whose answer is recorded.
    assert said(host.run(both)) == "done"
    assert server.sent == [ACCEPT, ("accept", {"seats": 3})]
    assert server.ran == 1


async def _pending(call: Any) -> ElicitationPending:
    try:
        got = await call
    except ElicitationPending as pending:
        return pending
    raise AssertionError(got)


# --- A14: transactions -----------------------------------------------------------------------


def test_case_A14_a_call_inside_a_transaction_is_refused(host: Host) -> None:
    with transaction.atomic():
        got = host.call()
    assert isinstance(got, OuterTransactionError)
    assert host.server.calls == []


def test_case_A14_so_is_a_resume(host: Host) -> None:
    pending = host.answered()
    with transaction.atomic():
        got = host.resume(pending)
    assert isinstance(got, OuterTransactionError)
    assert len(host.server.calls) == 1
    assert len(stored()) == 1


# --- A15: echoes -----------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        error(-32603, f"I cannot do {ANSWER}", {"answer": ANSWER}),
        error(-32602, f"Invalid requestState of {ANSWER}"),
        message(result={"resultType": ANSWER}),
        message(result={"resultType": "input_required", "inputRequests": ANSWER}),
        http(200, b'{"' + ANSWER.encode() + b'": '),
        http(503, ANSWER.encode()),
    ],
    ids=["error", "state", "type", "no round", "no JSON", "refused"],
)
def test_case_A15_what_the_server_echoes_is_in_no_exception(
    reply: Reply,
    plain: bool,
    host: Host,
    plain_host: Host,
    caplog: pytest.LogCaptureFixture,
) -> None:
    used = plain_host if plain else host
    pending = used.answered()
    used.server.retry = reply
    got = used.resume(pending)
    assert isinstance(got, RoundLostError | NotSentError)
    check_silent(got, caplog)


# --- A16: revisions --------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_case_A16_a_legacy_session_gets_no_answer(
    status: int, plain: bool, host: Host, plain_host: Host
) -> None:
    used = plain_host if plain else host
    pending = used.answered()
    before = StoredFormAnswer.objects.get()
    used.server.discover = http(status, kind="")
    used.mode = "auto"
    for got in (used.resume(pending), used.call()):
        assert isinstance(got, NotSentError), got
        assert got.reason == "wrong_revision"
    assert len(used.server.calls) == 1
    after = StoredFormAnswer.objects.get()
    assert (after.pk, after.expires_at) == (before.pk, before.expires_at)
    assert ParkedCall.objects.get().lease is None
    used.mode = "2026-07-28"
    assert said(used.resume(pending)) == "done"


def test_case_A16_so_a_session_that_was_made_legacy(host: Host) -> None:
    pending = host.answered()
    host.mode = "legacy"
    got = host.resume(pending)
    assert isinstance(got, NotSentError)
    assert got.reason == "wrong_revision"
    assert len(host.server.calls) == 1


# --- A17: one client, many calls -------------------------------------------------------------


@pytest.mark.parametrize(
    ("breaks", "reason"), [("refused", "connect"), ("closed", "error -32000")]
)
def test_case_A17_the_other_calls_of_a_client_go_on(breaks: str, reason: str, host: Host) -> None:
    server = host.server
    go = threading.Event()
    pending = host.answered()
    key = pending.parked_call_id
    assert key is not None

    async def both(client: mcp.Client) -> tuple[Any, Any]:
        server.first = held(go, result(content=[{"type": "text", "text": "other"}]))
        other = asyncio.ensure_future(host.acall(client, call="other"))
        await asyncio.to_thread(wait_for, lambda: len(server.calls) == 2)
        if breaks == "refused":
            server.stop()
        else:
            server.retry = lambda request: None
        try:
            return None, await resume(client.session, key, server="shop")
        except (NotSentError, RoundLostError) as broken:
            go.set()
            return broken, await other

    broken, other = host.run(both)
    assert broken.reason == reason
    assert said(other) == "other"
    assert is_parked(pending) is (breaks == "refused")


# --- stdio -----------------------------------------------------------------------------------


@pytest.fixture
def over_stdio(
    policy: ServerPolicy, server: Server, user: Any, tmp_path: Path
) -> Callable[[str], tuple[Any, ElicitationPending, list[str]]]:
    host = Host(server, user)
    log = tmp_path / "retries"
    log.touch()

    def run(way: str) -> tuple[Any, ElicitationPending, list[str]]:
        async def go_on(work: Any, patience: float | None = None) -> Any:
            parameters = mcp.StdioServerParameters(
                command=sys.executable, args=["-m", "tests.wire.stdio_server", str(log), way]
            )
            options = await aclient_options("shop") | {"read_timeout_seconds": patience}
            try:
                async with mcp.Client(parameters, mode="2026-07-28", **options) as client:
                    try:
                        return await work(client)
                    except Exception as raised:
                        return raised
            except BaseExceptionGroup as group:
                return group

        pending = async_to_sync(go_on)(host.acall)
        assert isinstance(pending, ElicitationPending), pending
        host.answer(pending)
        key = pending.parked_call_id
        assert key is not None
        got = async_to_sync(go_on)(lambda client: resume(client.session, key, server="shop"))
        return got, pending, log.read_text().splitlines()

    return run


@pytest.mark.parametrize("way", ["result", "garbage"])
def test_stdio_a_result(way: str, over_stdio: Any) -> None:
    got, pending, retries = over_stdio(way)
    assert said(got) == "done"
    assert len(retries) == 1
    check_over(pending, said="delivered")


@pytest.mark.parametrize("way", ["die", "refuse"])
def test_stdio_a_process_that_ends_during_the_call(way: str, over_stdio: Any) -> None:
    got, pending, retries = over_stdio(way)
    assert isinstance(got, RoundLostError), got
    assert got.reason == "error -32000"
    assert len(retries) == 1
    check_over(pending, said="round_lost")


def test_stdio_a_command_that_is_not_there(host: Host) -> None:
    """The host has no session to go on with: nothing was taken."""
    pending = host.answered()

    async def run() -> None:
        parameters = mcp.StdioServerParameters(command="/nowhere/at-all")
        async with mcp.Client(parameters, mode="2026-07-28"):
            raise AssertionError("entered")

    with pytest.raises(OSError, match="nowhere"):
        async_to_sync(run)()
    assert len(stored()) == 1
    assert said(host.resume(pending)) == "done"


# --- The other era ---------------------------------------------------------------------------


def test_a_legacy_server_is_called_over_the_transport(host: Host) -> None:
    host.server.first = result()
    host.mode = "legacy"
    assert said(host.call()) == "done"


def test_without_a_client_of_its_own_connect_makes_one(host: Host) -> None:
    host.server.first = result()

    async def run() -> Any:
        async with connect(host.server.url) as client:
            return await call_tool(
                client.session, server="shop", tool="buy", scope="chat", respondent=None
            )

    assert said(async_to_sync(run)()) == "done"


def test_its_client_is_one_of_httpx(host: Host) -> None:
    """Requests that are no MCP messages go through untouched."""
    seen: list[int] = []

    async def run() -> int:
        async def note(response: Any) -> None:
            seen.append(response.status_code)

        async with http_client(event_hooks={"response": [note]}) as http:
            return (await http.get(host.server.url)).status_code

    assert async_to_sync(run)() == 405
    assert seen == [405]
