"""One process of the torture test: it does one thing after another, at random, until its time is
up or it is killed."""

from __future__ import annotations

import logging
import random
import re
import time
import traceback
import uuid
from collections.abc import Callable
from contextlib import contextmanager, suppress
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DatabaseError, connections
from django.test import Client

from elicitation import calls, inbox
from elicitation.core import (
    ElicitationError,
    ElicitationPending,
    FormAnswer,
    FormElicitation,
    parse_requested_schema,
)
from elicitation.mcp.client import call_tool
from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer, parked_call_id
from elicitation.store import DatabaseFormAnswerStore
from tests.integration.scripted import ScriptedServer, ask, form, text

from .log import Log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.types import CallToolRequestParams

# Not "token": that is a word for a credential, which no form asks for.
FORM = {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"]}
SCHEMA = parse_requested_schema(FORM)

#: Few, so that everybody meets everybody.
STORE_CALLS, QUESTIONS, PARKED_CALLS = 5, 2, 8
SCOPE = "store"

LONG, SHORT = 1800.0, 0.4


def question(number: int) -> FormElicitation:
    return FormElicitation(
        server_name="shop", tool_name="buy", key="k", message=f"Mark {number}?", schema=SCHEMA
    )


def slot(call: int, number: int) -> str:
    return f"{call}/{number}"


def slot_of(row: StoredFormAnswer) -> str:
    """The slot of a row that a recorder wrote."""
    number = next(n for n in range(QUESTIONS) if question(n).fingerprint() == row.fingerprint)
    return slot(int(row.call), number)


def ttl_of(call: int) -> float:
    """How long answers of this call can be taken; those of every third expire all the time."""
    return SHORT if call % 3 == 0 else LONG


class Retries(logging.Handler):
    """Writes down each transient error that was tried again."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "attempt"):
            self.log.write(event="retry", attempt=record.attempt)


class Worker:
    """What a process can do; each method is one operation, written down before and after."""

    def __init__(self, log: Log, people: dict[int, Client]) -> None:
        self.log = log
        #: A signed-in browser for each respondent, by the person's key.
        self.people = people

    def run(self, until: float, operations: int) -> None:
        weights = {
            self.record: 30,
            self.take: 30,
            self.call: 14,
            self.answer_on_page: 5,
            self.answer_by_api: 8,
            self.decline: 2,
            self.withdraw: 1,
            self.expire: 1,
            self.clean_up: 2,
        }
        chosen = random.choices(list(weights), list(weights.values()), k=operations)
        for operation in chosen:
            if time.monotonic() >= until:
                break
            operation()

    @contextmanager
    def noted(self, operation: str, **details: Any) -> Iterator[Callable[..., None]]:
        """Write down an operation; the block says how it ended by calling what it is given."""
        number = self.log.begin(operation, **details)
        try:
            yield lambda outcome, **result: self.log.end(number, outcome, **result)
        except Exception as error:
            self.log.end(number, "failed")
            self.log.write(
                event="error",
                database=isinstance(error, DatabaseError),
                text=f"{operation}: {traceback.format_exc()}",
            )

    # --- At the store ------------------------------------------------------------------------

    def record(self) -> None:
        call, number = random.randrange(STORE_CALLS), random.randrange(QUESTIONS)
        token = uuid.uuid4()
        ttl = ttl_of(call)
        action = random.choice(["accept", "accept", "decline"])
        answers = {"mark": FormAnswer(other_text=str(token))} if action == "accept" else {}
        settings.ELICITATION_ANSWER_TTL = timedelta(seconds=ttl)
        with self.noted("record", slot=slot(call, number), token=str(token), ttl=ttl) as done:
            self.store(call).record_form_answer(
                question(number), action, answers, elicitation_id=token
            )
            done("recorded")

    def take(self) -> None:
        call = random.randrange(STORE_CALLS)
        numbers = random.choice([[0], [1], [0, 1]])
        stranger = random.random() < 0.1
        slots = [slot(call, number) for number in numbers]
        with self.noted("take", slots=slots, stranger=stranger) as done:
            taken = self.store(call, stranger=stranger).take_form_answers(
                [question(number) for number in numbers]
            )
            if taken is None:
                done("none")
                return
            torn = any(
                row.action == "accept"
                and row.answers != {"mark": FormAnswer(other_text=str(row.elicitation_id))}
                for row in taken
            )
            done("taken", tokens=[str(row.elicitation_id) for row in taken], torn=torn)

    def store(self, call: int, *, stranger: bool = False) -> DatabaseFormAnswerStore:
        respondent, another = list(self.people)
        return DatabaseFormAnswerStore(
            scope=SCOPE, call=str(call), respondent_id=another if stranger else respondent
        )

    # --- All the way -------------------------------------------------------------------------

    def call(self) -> None:
        """Call a tool of two rounds, or go on with it."""
        number = random.randrange(PARKED_CALLS)
        respondent = User(pk=list(self.people)[number % 2])
        settings.ELICITATION_QUESTION_TTL = timedelta(seconds=random.choice([1, 20, 20]))

        async def run() -> str:
            # The server is this process's own, and knows a call by what comes with it.
            async with ScriptedServer(self.tool).connect() as session:
                try:
                    await call_tool(
                        session,
                        server="shop",
                        tool="tool",
                        scope="calls",
                        call=str(number),
                        respondent=respondent,
                    )
                except ElicitationPending:
                    return "pending"
                except ElicitationError as error:
                    return error.code
                except ParkedCall.DoesNotExist:
                    return "finished by another process"
                # Caught inside: the SDK's connection wraps what passes through it in a group.
                except Exception as error:
                    self.failure = error
                    return "failed"
                return "finished"

        with self.noted("call", number=number) as done:
            outcome = async_to_sync(run)()
            if outcome == "failed":
                raise self.failure
            key = parked_call_id(scope="calls", call=str(number), server="shop", tool="tool")
            # As a host does, so that the same call can be made anew.
            with suppress(calls.CallNotEndedError):
                calls.acknowledge(key)
            done(outcome)

    def tool(self, params: CallToolRequestParams) -> Any:
        """The server's tool: it writes down each answer in the moment it is told."""
        for response in (params.input_responses or {}).values():
            if response.action == "accept":
                self.log.write(event="delivered", token=response.content["mark"])
        if params.request_state == "second":
            return text("done")
        if params.input_responses:
            return ask("second", b=form("And then?", FORM))
        return ask("first", a=form("Who?", FORM))

    def pending(self) -> tuple[uuid.UUID, int] | None:
        """A question that seems to wait, and whom it was put to."""
        rows = Elicitation.objects.pending().values_list("pk", "respondent_id")[:20]
        try:
            found = list(rows)
        except DatabaseError:
            # This look is the test's own, and not tried again.
            self.log.write(event="own look failed")
            return None
        return random.choice(found) if found else None

    def answer_on_page(self) -> None:
        if (found := self.pending()) is None:
            return
        key, respondent = found
        client, address = self.people[respondent], f"/elicitation/{key}/"
        token, ttl = self.new_answer()
        with self.noted("answer", question=str(key), token=token, ttl=ttl, via="page") as done:
            page = client.get(address).content.decode()
            form = re.search(r'name="fingerprint" value="(\w+)"', page)
            response = client.post(address, {"fingerprint": form[1] if form else "", "a-0": token})
            assert response.status_code in (302, 409), response.content
            done("answered" if response.status_code == 302 else "closed")

    def answer_by_api(self) -> None:
        if (found := self.pending()) is None:
            return
        key, respondent = found
        token, ttl = self.new_answer()
        with self.noted("answer", question=str(key), token=token, ttl=ttl, via="api") as done:
            response = self.people[respondent].post(
                f"/api/elicitation/elicitations/{key}/answer/",
                {"answers": {"mark": {"other_text": token}}},
                content_type="application/json",
            )
            assert response.status_code in (200, 409, 410), response.content
            done("answered" if response.status_code == 200 else "closed")

    def new_answer(self) -> tuple[str, float]:
        ttl = SHORT if random.random() < 0.1 else LONG
        settings.ELICITATION_ANSWER_TTL = timedelta(seconds=ttl)
        return str(uuid.uuid4()), ttl

    def decline(self) -> None:
        if (found := self.pending()) is not None:
            self.close("decline", lambda: inbox.decline(found[0], by=User(pk=found[1])))

    def withdraw(self) -> None:
        if (found := self.pending()) is not None:
            self.close("withdrawal", lambda: inbox.withdraw(found[0]))

    def expire(self) -> None:
        self.close("expiry", inbox.expire_due)

    def close(self, operation: str, work: Callable[[], object]) -> None:
        settings.ELICITATION_ANSWER_TTL = timedelta(seconds=LONG)
        with self.noted(operation) as done:
            try:
                work()
            except inbox.ElicitationClosedError as closed:
                done(closed.code)
            else:
                done("done")

    def clean_up(self) -> None:
        with self.noted("cleanup") as done:
            out = StringIO()
            call_command("elicitation_cleanup", batch_size=random.choice([2, 500]), stdout=out)
            done("done", said=out.getvalue())


def warm_up(directory: Path, people: dict[int, Client]) -> None:
    """Load and compile what a first call, page and answer need; leave nothing behind."""
    worker = Worker(Log(directory / "warm-up"), people)
    for operation in (worker.call, worker.answer_on_page, worker.call, worker.answer_by_api):
        operation()
    for model in (Elicitation, ParkedCall, StoredFormAnswer):
        model._default_manager.all().delete()


def main(log: Log, people: dict[int, Client], until: float, operations: int) -> None:
    """Work until the time is up, in a process that was forked."""
    random.seed()
    logger = logging.getLogger("elicitation")
    logger.setLevel(logging.INFO)
    logger.addHandler(Retries(log))
    logger.propagate = False
    try:
        Worker(log, people).run(until, operations)
    finally:
        connections.close_all()
