from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Literal

import httpx2
import mcp
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.utils import timezone

from elicitation import inbox
from elicitation.core import ElicitationPending
from elicitation.mcp import drive
from elicitation.mcp.client import aclient_options, call_tool, resume
from elicitation.mcp.transport import connect, http_client
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from tests.wire.server import Server

#: What a person answers: it must show up nowhere.
ANSWER = "team-7391"

#: Seconds until the HTTP client gives up a server that says nothing.
PATIENCE = 0.5

Way = Literal["transport", "plain"]


@pytest.fixture
def policy(transactional_db: None) -> ServerPolicy:
    return ServerPolicy.objects.create(
        server="shop", policy=ServerPolicy.Policy.URL_AND_FORM, label="Shop"
    )


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for a server that is at work."""
    monkeypatch.setattr(drive, "FIRST_PAUSE", 0.0)


class Host:
    """A host that calls the tool of a server; each call is a connection of its own."""

    def __init__(self, server: Server, user: User, way: Way = "transport") -> None:
        self.server = server
        self.user = user
        self.way = way
        self.mode = "2026-07-28"
        self.patience = PATIENCE

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[mcp.Client]:
        options: dict[str, Any] = await aclient_options("shop") | {"mode": self.mode}
        if self.way == "plain":
            async with mcp.Client(self.server.url, **options) as client:
                yield client
        else:
            timeout = httpx2.Timeout(5, read=self.patience)
            async with (
                http_client(timeout=timeout) as http,
                connect(self.server.url, http=http, **options) as client,
            ):
                yield client

    def run(self, work: Callable[[mcp.Client], Awaitable[Any]]) -> Any:
        """Do something in a session, and return what came of it, an exception included."""

        async def run() -> Any:
            try:
                async with self.connected() as client:
                    try:
                        return await work(client)
                    except Exception as error:
                        return error
            except BaseExceptionGroup as group:
                return group

        return async_to_sync(run)()

    def call(self, **options: Any) -> Any:
        return self.run(lambda client: self.acall(client, **options))

    async def acall(self, client: mcp.Client, **options: Any) -> Any:
        arguments: dict[str, Any] = {
            "server": "shop",
            "tool": "buy",
            "arguments": {"a": 1},
            "scope": "chat",
            "respondent": self.user,
        }
        return await call_tool(client.session, **arguments | options)

    def resume(self, pending: ElicitationPending) -> Any:
        assert pending.parked_call_id is not None
        key = pending.parked_call_id
        return self.run(lambda client: resume(client.session, key, server="shop"))

    def asked(self, **options: Any) -> ElicitationPending:
        pending = self.call(**options)
        assert isinstance(pending, ElicitationPending), pending
        return pending

    def answer(self, pending: ElicitationPending, **content: Any) -> Elicitation:
        elicitation = Elicitation.objects.get(pk=pending.elicitation_ids[0])
        answers = elicitation.schema.answers_from_content(content or {"plan": ANSWER})
        return inbox.answer(elicitation.pk, answers, by=self.user)

    def answered(self) -> ElicitationPending:
        """Park a call, and let the person answer."""
        pending = self.asked()
        self.answer(pending)
        return pending


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def host(server: Server, policy: ServerPolicy, user: User) -> Host:
    return Host(server, user)


@pytest.fixture
def plain_host(server: Server, policy: ServerPolicy, user: User) -> Host:
    return Host(server, user, "plain")


# --- What the store, the audit and the parked row say -------------------------------------------


def stored() -> list[StoredFormAnswer]:
    return list(StoredFormAnswer.objects.all())


def is_parked(pending: ElicitationPending) -> bool:
    return ParkedCall.objects.parked().filter(pk=str(pending.parked_call_id)).exists()


def delivery(pending: ElicitationPending) -> str:
    return Elicitation.objects.get(pk=pending.elicitation_ids[0]).delivery


def check_kept(pending: ElicitationPending, *, reason: str, until: datetime) -> ParkedCall:
    """The call is parked and free to be resumed, and its answer is there until its time."""
    parked = ParkedCall.objects.get(pk=str(pending.parked_call_id))
    assert (parked.lease, parked.unsent_reason) == (None, reason)
    (answer,) = stored()
    assert answer.expires_at == until
    question = Elicitation.objects.get(pk=pending.elicitation_ids[0])
    assert (question.delivered_at, question.delivery) == (None, "not_sent")
    assert question.resume_at is not None
    assert question.resume_at > timezone.now() + timedelta(seconds=30)
    return parked


def check_over(pending: ElicitationPending, *, said: str) -> None:
    """The call is gone with its answer, and the audit says how."""
    assert stored() == []
    assert not is_parked(pending)
    assert delivery(pending) == said


def check_silent(outcome: object, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of the answer is in an exception, its traceback, or a log line of ours."""
    if isinstance(outcome, BaseException):
        assert ANSWER not in "".join(traceback.format_exception(outcome))
    for record in caplog.records:
        if record.name.startswith("elicitation"):
            assert ANSWER not in record.getMessage() + str(vars(record))
