"""A server is switched off under load: ``python -m tests.torture.switching --seconds 60``.

Several processes park calls of one server, answer them and go on with them, as fast as they can.
Meanwhile the server is switched off and on again and again. Nothing may reach it by a take that
began after the commit of a policy of nothing, and before the policy let it ask again. Makes a
database of its own and removes it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from .command import in_own_database, report
from .log import Log, Story, read

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVER = "shop"
#: How many calls of a process wait at once: some of them are answered when it is switched off.
BATCH = 6
FORM = {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"]}
#: Seconds for which the server is on, and off, at most.
LONGEST_ON, LONGEST_OFF = 2.0, 0.6


def work(log: Log, user_id: int, until: float) -> None:
    """Park calls, answer them and go on with them, until the time is up."""
    from django.contrib.auth.models import User
    from django.db import connections

    from elicitation import inbox
    from elicitation.core import ElicitationError, ElicitationPending, FormAnswer
    from tests.integration.conftest import Host
    from tests.integration.scripted import ScriptedServer, accepted, ask, form, text

    def tool(params: Any) -> Any:
        if not params.input_responses:
            return ask(k=form("Mark?", FORM))
        if content := accepted(params, "k"):
            log.write(event="received", mark=content["mark"])
        return text("ok")

    host = Host(ScriptedServer(tool), User(pk=user_id))

    def park() -> ElicitationPending | None:
        try:
            host.call(call=str(uuid.uuid4()))
        except ElicitationPending as pending:
            return pending
        except ElicitationError as refusal:
            log.write(event="refused", code=refusal.code)
        return None

    def go_on(pending: ElicitationPending) -> None:
        mark = str(uuid.uuid4())
        (key,) = pending.elicitation_ids
        try:
            inbox.answer(key, {"mark": FormAnswer(other_text=mark)}, by=host.respondent)
        except ElicitationError:
            log.write(event="withdrawn")
            return
        # The take begins no earlier than here.
        log.write(event="take", mark=mark)
        try:
            host.resume(pending)
        except ElicitationError as refusal:
            log.write(event="refused", code=refusal.code)

    while time.monotonic() < until:
        for pending in [park() for _ in range(BATCH)]:
            if pending is not None:
                go_on(pending)
    connections.close_all()


def switch(log: Log, until: float) -> None:
    """Switch the server off and on, and write down when the policy was committed."""
    from elicitation.calls import switching
    from elicitation.models import ServerPolicy

    stop = switching.stop

    def stop_and_say_when(*args: Any, **kwargs: Any) -> switching.SwitchedOff:
        log.write(event="off")
        return stop(*args, **kwargs)

    while time.monotonic() < until:
        time.sleep(random.uniform(0.1, LONGEST_ON))
        with mock.patch.object(switching, "stop", stop_and_say_when):
            done = switching.switch_off(SERVER)
        log.write(event="stopped", **done._asdict())
        time.sleep(random.uniform(0.1, LONGEST_OFF))
        log.write(event="on")
        ServerPolicy.objects.filter(server=SERVER).update(policy="url_and_form")


def judge(story: Story) -> tuple[Counter[str], list[str]]:
    """Count what happened, and say which answers were sent though the server was off."""
    names = ("switched off", "answers sent", "takes that began while it was off", "of these, sent")
    counts: Counter[str] = Counter(dict.fromkeys(names, 0))
    wrong: list[str] = []
    offs = sorted(event["at"] for event in story.events_of("off"))
    ons = sorted(event["at"] for event in story.events_of("on"))
    times = list(zip(offs, ons, strict=False))
    received = {event["mark"]: event["at"] for event in story.events_of("received")}
    counts["switched off"] = len(offs)
    counts["answers sent"] = len(received)
    counts["refused"] = len(story.events_of("refused"))
    counts["withdrawn before they were answered"] = len(story.events_of("withdrawn"))
    for take in story.events_of("take"):
        during = next(((off, on) for off, on in times if off <= take["at"] < on), None)
        sent_at = received.get(take["mark"])
        if during is None:
            is_late = sent_at is not None and any(take["at"] < off < sent_at for off in offs)
            counts["sent after the commit by a take that began before"] += is_late
            continue
        counts["takes that began while it was off"] += 1
        # On again by then, a take may find that the policy allows it.
        if sent_at is not None and sent_at < during[1]:
            counts["of these, sent"] += 1
            wrong.append(f"{take['mark']} was sent {sent_at - during[0]:.3f} s after the commit")
    for event in story.events_of("error"):
        wrong.append(event["text"])
    return counts, wrong


def fight(seconds: float, workers: int, directory: Path) -> tuple[Counter[str], list[str]]:
    """Let the processes work while the server is switched off and on."""
    from django.contrib.auth.models import User
    from django.db import connections

    from elicitation.models import ServerPolicy

    ServerPolicy.objects.create(server=SERVER, policy="url_and_form")
    user = User.objects.create_user("ada")
    connections.close_all()
    until = time.monotonic() + seconds
    context = multiprocessing.get_context("fork")
    log = Log(directory / "switching.log")
    running = []
    for number in range(workers):
        its_log = Log(directory / f"{number}.log")
        process = context.Process(target=work, args=(its_log, user.pk, until))
        process.start()
        os.close(its_log.file)
        running.append(process)
    switch(log, until)
    for process in running:
        process.join(seconds + 120)
        if process.exitcode != 0:
            log.write(event="error", text=f"a process ended with {process.exitcode}")
            with suppress(ProcessLookupError):
                process.kill()
    return judge(read(directory))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.switching")
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=8)
    options = parser.parse_args(arguments)
    with (
        in_own_database(options.database_url),
        tempfile.TemporaryDirectory(prefix="switching-") as directory,
    ):
        counts, wrong = fight(options.seconds, options.workers, Path(directory))
        title = f"switching, {options.workers} processes, {options.seconds:g} s"
        return 0 if report(title, counts, wrong) else 1


if __name__ == "__main__":
    sys.exit(main())
