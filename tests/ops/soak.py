"""The processes of a busy site: eight workers, two copies of the outbox, and the cleaning up.

``python -m tests.ops.soak SECONDS LOG`` prints at the end a JSON list, of what each process
counted. Whatever the server receives is appended to LOG, one question's id a line.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import random
import signal
import sys
import time
import uuid
from collections import Counter
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

from tests.processes import use_test_database

use_test_database()

from asgiref.sync import async_to_sync  # noqa: E402
from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402

from elicitation import calls, inbox  # noqa: E402
from elicitation.core import ElicitationPending, FormAnswer  # noqa: E402
from elicitation.mcp.client import (  # noqa: E402
    CallEndedError,
    CallInProgressError,
    call_tool,
    resume,
)
from elicitation.models import Elicitation, ParkedCall  # noqa: E402
from elicitation.signals import call_finished, elicitation_closed  # noqa: E402
from tests.integration.scripted import ScriptedServer, accepted, ask, form, text  # noqa: E402

# Everything happens within seconds here.
settings.ELICITATION_QUESTION_TTL = timedelta(seconds=2)
settings.ELICITATION_ANSWER_TTL = timedelta(seconds=3)
settings.ELICITATION_RESUME_AFTER = timedelta(milliseconds=300)
settings.ELICITATION_ABANDON_AFTER = timedelta(seconds=5)

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SECONDS, LOG = float(sys.argv[1]), Path(sys.argv[2])
ROLES = ["outbox"] * 2 + ["cleanup"] + ["worker"] * 8
counts: Counter[str] = Counter()
errors: list[str] = []


class Errors(logging.Handler):
    """Collects what no process of a healthy site logs, and counts passing conflicts."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            errors.append(logging.Formatter().format(record))
        elif "passing conflict" in record.msg:
            counts["conflicts"] += 1


def tool(params: Any) -> Any:
    if "k" not in (params.input_responses or {}):
        return ask(k=form("Who?", NAME))
    content = accepted(params, "k")
    if content is not None:
        with LOG.open("a") as log:
            log.write(f"{content['name']}\n")
    return text("done")


server = ScriptedServer(tool)


def connected(work: Any) -> Any:
    """Run a call, or its resuming; return the ids that it waits for."""

    async def run() -> Any:
        async with server.connect() as session:
            try:
                await work(session)
            except ElicitationPending as pending:
                return pending.elicitation_ids
            except CallInProgressError:
                counts["in progress"] += 1
            except (CallEndedError, ParkedCall.DoesNotExist):
                counts["gone"] += 1
            else:
                counts["finished"] += 1
        return ()

    return async_to_sync(run)()


def take_up(parked_call_id: uuid.UUID, **kwargs: Any) -> None:
    connected(lambda session: resume(session, parked_call_id, server="shop"))


def fetch(parked_call_id: uuid.UUID, **kwargs: Any) -> None:
    """Acknowledge how a call ended, or die before that: the outbox tells somebody."""
    if random.random() < 0.7:  # noqa: S311
        counts["fetched"] += calls.acknowledge(parked_call_id)


def work(respondent: User) -> None:
    """Make a call, answer it or not, and go on with it or not."""
    scope = str(uuid.uuid4())
    waiting = connected(
        lambda session: call_tool(
            session, server="shop", tool="tool", scope=scope, respondent=respondent
        )
    )
    counts["made"] += 1
    for key in waiting:
        chance = random.random()  # noqa: S311
        if chance < 0.1:
            continue  # nobody answers: it expires
        name = {"name": FormAnswer(other_text=str(key))}
        try:
            inbox.answer(key, name, by=respondent)
        except inbox.ElicitationClosedError:
            counts["too late"] += 1
        counts["answered"] += 1
        if chance < 0.4:
            continue  # the signal is lost: the outbox tells somebody
        if chance < 0.6:
            time.sleep(random.uniform(0.2, 0.6))  # noqa: S311  # just when the outbox does
        take_up(Elicitation.objects.get(pk=key).parked_call_id)


def play(role: str, results: Any) -> None:
    """Be one of the processes."""
    # If nobody is left to end it, it ends.
    signal.alarm(int(SECONDS) + 120)
    handler = Errors()
    logging.getLogger().addHandler(handler)
    logging.getLogger("elicitation").setLevel(logging.INFO)
    logging.getLogger("mcp").setLevel(logging.ERROR)
    call_finished.connect(fetch)
    end = time.monotonic() + SECONDS
    try:
        if role == "outbox":
            elicitation_closed.connect(take_up)
            call_command("elicitation_resume", loop=True, interval=0.1, stdout=StringIO())
        elif role == "cleanup":
            elicitation_closed.connect(take_up)
            while time.monotonic() < end:
                call_command("elicitation_cleanup", batch_size=20, stdout=StringIO())
                counts["cleanups"] += 1
                time.sleep(0.05)
        else:
            respondent = User.objects.get()
            while time.monotonic() < end:
                work(respondent)
    finally:
        results.put({"role": role, "errors": errors, "counts": counts})


def main() -> None:
    # Copies of this process, with all modules loaded and no connection: they begin at once.
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    running = [context.Process(target=play, args=(role, results)) for role in ROLES]
    for process in running:
        process.start()
    printed = [results.get() for role in ROLES if role != "outbox"]
    for process, role in zip(running, ROLES, strict=True):
        if role == "outbox":
            # As a service manager stops them: they end what they are at, and say so.
            process.terminate()
    printed += [results.get() for role in ROLES if role == "outbox"]
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * len(ROLES)
    print(json.dumps(printed))  # noqa: T201


if __name__ == "__main__":
    main()
