"""The real take with one part left out, which must be found faulty.

A checker that calls even these clean would say nothing about the real take. Chance plays no part:
another process comes at the very moment between the look at the rows and their deletion
(``meet``). It waits for no lock: it is locked out, and then tries again after the take.

Where a part can show:

* ``lock``: on PostgreSQL and MariaDB. An answer is destroyed that was recorded in between. SQLite
  refuses the take's deletion then, and the take is tried again: nothing is lost, though the
  conflict could have been spared.
* ``count``: on each database, where locks do not hold (``without_locks``). Two takers deliver one
  answer. As long as the lock holds, the count finds what the lock has seen.
"""

from __future__ import annotations

import inspect
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from django.db import DatabaseError, connection, models

from elicitation import store, transactions
from elicitation.core import FormAnswer
from elicitation.store import DatabaseFormAnswerStore, WantedAnswer

from .check import Left, Verdict, check
from .log import Log, read
from .worker import LONG, SCOPE, question, slot

#: What is left out of the take: pieces of its code, and what stands in their places.
PARTS: dict[str, dict[str, str]] = {
    "lock": {"    lock_now(rows)\n": "", ".select_for_update()": ""},
    "count": {"return taken if owned else None": "return taken"},
}

#: On each of these a take without its lock destroys answers.
LOCK_SHOWS = frozenset({"postgresql", "mysql"})


@contextmanager
def take_without(part: str) -> Iterator[None]:
    """Leave one part out of the real take."""
    source = inspect.getsource(store.take)
    for piece, instead in PARTS[part].items():
        assert source.count(piece) == 1, f"the take has no {piece!r} any more"
        source = source.replace(piece, instead)
    made: dict[str, Any] = {}
    # The compiler reads annotations as it does in the module.
    flags = annotations.compiler_flag
    exec(compile(source, store.__file__, "exec", flags), vars(store), made)  # noqa: S102
    with patch.object(store, "take", made["take"]):
        yield


@contextmanager
def without_locks() -> Iterator[None]:
    """Make the database one in which no lock holds: each statement stands alone."""
    with ExitStack() as patches:
        for target, name, instead in (
            (store, "lock_now", lambda queryset: None),
            (store, "in_transaction", lambda function, **options: function()),
            (models.QuerySet, "select_for_update", lambda self: self.all()),
        ):
            patches.enter_context(patch.object(target, name, instead))
        yield


@contextmanager
def deferred_transactions() -> Iterator[None]:
    """Take away the lock that SQLite's transactions have where a site followed the advice."""
    if connection.vendor != "sqlite":
        yield
        return
    with patch.dict(connection.settings_dict["OPTIONS"], {"transaction_mode": "DEFERRED"}):
        connection.close()
        try:
            yield
        finally:
            connection.close()


#: Statements after which a connection waits for no lock, however busy the machine is.
_DO_NOT_WAIT = {
    "sqlite": "PRAGMA busy_timeout = 0",
    # Time that is spent at a lock, and at nothing else; 0 would be for ever.
    "postgresql": "SET lock_timeout = '1ms'",
    "mysql": "SET SESSION innodb_lock_wait_timeout = 0",
}


def _elsewhere(work: Callable[[], None]) -> bool:
    """Do the work over a connection of its own; return ``False`` where it is locked out."""

    def run() -> bool:
        try:
            with connection.cursor() as cursor:
                cursor.execute(_DO_NOT_WAIT[connection.vendor])
            work()
        except DatabaseError as error:
            if not transactions.is_transient(error):
                raise
            return False
        finally:
            connection.close()
        return True

    with patch.object(transactions, "ATTEMPTS", 1), ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


class Meeting:
    """A take, and another process that comes in its middle.

    Args:
        directory: Where both write down what they do.
        number: Which meeting it is: each has a call of its own.
        respondent_id: Whose answers these are.
    """

    def __init__(self, directory: Path, number: int, respondent_id: int) -> None:
        self.store = DatabaseFormAnswerStore(
            scope=SCOPE, call=str(number), respondent_id=respondent_id
        )
        self.slot = slot(number, 0)
        self.log = Log(directory / f"{number:05}.log")
        #: Whether the other process had to wait until the take was over.
        self.was_locked_out = False

    def run(self, other: Callable[[Meeting], Callable[[], None]]) -> None:
        self.record()()
        look = WantedAnswer.is_answered_by
        waits: list[Callable[[], None]] = []
        has_come = False

        def between(wanted: WantedAnswer, row: Any) -> bool:
            nonlocal has_come
            if not has_come:
                has_come = True
                work = other(self)
                if not _elsewhere(work):
                    waits.append(work)
            return look(wanted, row)

        mine = self.take()
        with patch.object(WantedAnswer, "is_answered_by", between):
            mine()
        self.was_locked_out = bool(waits)
        for work in waits:
            assert _elsewhere(work), "locked out, though the take is over"

    # Each is written down when it begins, and again when it is over.

    def record(self) -> Callable[[], None]:
        token = uuid.uuid4()
        begun = self.log.begin("record", slot=self.slot, token=str(token), ttl=LONG)

        def record() -> None:
            answers = {"mark": FormAnswer(other_text=str(token))}
            self.store.record_form_answer(question(0), "accept", answers, elicitation_id=token)
            self.log.end(begun, "recorded")

        return record

    def take(self) -> Callable[[], None]:
        begun = self.log.begin("take", slots=[self.slot], stranger=False)

        def take() -> None:
            row = self.store.take_form_answer(question(0))
            if row is None:
                self.log.end(begun, "none")
            else:
                self.log.end(begun, "taken", tokens=[str(row.elicitation_id)], torn=False)

        return take


def meet(
    directory: Path,
    respondent_id: int,
    left: Callable[[], Left],
    *,
    without: str = "",
    locks_hold: bool = True,
    times: int = 5,
) -> tuple[Verdict, int]:
    """Let another process come in the middle of takes, and judge what came of that.

    Args:
        directory: An empty one, for the logs.
        respondent_id: Whose answers these are.
        left: Returns what the tables hold.
        without: A part that the take does not have; by default it has all.
        locks_hold: Whether the database's locks hold.
        times: How many takes meet another take, and as many a new answer. Where no locks
            hold nothing can save a new answer, and there are none.

    Returns:
        The verdict, and how many of the others were locked out.
    """
    others = [Meeting.take, Meeting.record] if locks_hold else [Meeting.take]
    locked_out = 0
    with (
        deferred_transactions(),
        take_without(without) if without else nullcontext(),
        nullcontext() if locks_hold else without_locks(),
    ):
        for number in range(times * len(others)):
            meeting = Meeting(directory, number, respondent_id)
            meeting.run(others[number % len(others)])
            locked_out += meeting.was_locked_out
    return check(read(directory), left(), end=time.monotonic()), locked_out
