"""Record and take answers: the one place that knows how a row is taken exactly once.

What is done here, and why it is done so, was measured on three databases:

* A take looks first, without a lock: a miss is one read and no lock. (Locking a missing key
  at MariaDB's default isolation blocks whoever wants to record it.)
* It owns the row only by a plain, blocking ``SELECT … FOR UPDATE`` *and* a ``DELETE`` that
  counts one. Without the lock a taker destroys an answer that was recorded a moment later;
  without the count SQLite delivers twice.
* Transient conflicts are tried again outermost only: MariaDB rolls back everything, so a
  retry inside an outer transaction would go on with half of it.
"""

from __future__ import annotations

import logging
import random
import sqlite3
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, IntegrityError, connections, models, router, transaction
from django.utils import timezone

from . import backoff
from .conf import settings
from .core import (
    AnswerRefusal,
    AnyElicitation,
    ElicitationError,
    FormAnswer,
    FormAnswerAction,
)
from .models import StoredFormAnswer, check_name, encode_json, row_key

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("elicitation")

T = TypeVar("T")

#: How often a transaction is tried in all when the database reports a passing conflict. At
#: SERIALIZABLE a long transaction on a busy table loses more often than not.
ATTEMPTS = 20
#: The longest pause before the next try, in seconds; doubled each time, and random below it.
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.3

_SQLITE_BUSY, _SQLITE_LOCKED = 5, 6


class OuterTransactionError(ElicitationError, RuntimeError):
    """An answer was to be taken inside somebody else's transaction."""

    def __init__(self) -> None:
        super().__init__(
            "An answer cannot be taken inside another transaction: if that were rolled back, "
            "the answer would be sent a second time. Call this outside transaction.atomic(), "
            "and mark a view that does it with transaction.non_atomic_requests where "
            "ATOMIC_REQUESTS is on.",
            code="outer_transaction",
        )


def write_alias() -> str:
    """Return the database to which the app's rows are written, and from which they are taken."""
    return router.db_for_write(StoredFormAnswer)


def parked_call_id(
    *, scope: str, call: str, server: str, tool: str, method: str = "tools/call"
) -> uuid.UUID:
    """Return the key of one call: of its parked row, and in its elicitations and answers.

    A prompt or a resource may have the name of a tool.
    """
    kind = () if method == "tools/call" else (method,)
    return row_key(scope, call, server, tool, *kind)


def lock_now(queryset: models.QuerySet[models.Model]) -> None:
    """Take SQLite's write lock at once; elsewhere the statements that follow lock by row.

    SQLite's default deferred transactions fail with "database is locked" where a read turns
    into a write, and no timeout helps.
    """
    if connections[queryset.db].vendor == "sqlite":
        queryset.update(id=models.F("id"))


def is_transient(error: Error) -> bool:
    """Whether trying the whole transaction again is the right answer to this error.

    Deadlock, serialization failure, lock wait and "database is locked". Time-outs that an
    operator set (57014 on PostgreSQL, 1969 on MariaDB) are not.
    """
    cause = error.__cause__ or error
    if (state := getattr(cause, "sqlstate", None)) is not None:
        return state in ("40001", "40P01", "55P03")
    if (code := getattr(cause, "sqlite_errorcode", None)) is not None:
        # The low byte is the primary code; the rest tells what exactly was busy.
        return code & 0xFF in (_SQLITE_BUSY, _SQLITE_LOCKED)
    return bool(cause.args) and cause.args[0] in (1213, 1205)


def is_duplicate(error: IntegrityError) -> bool:
    """Whether there is a row with the same key already; nothing else that a row may not be."""
    cause = error.__cause__ or error
    if (state := getattr(cause, "sqlstate", None)) is not None:
        return bool(state == "23505")
    if (code := getattr(cause, "sqlite_errorcode", None)) is not None:
        return bool(code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
    return bool(cause.args) and cause.args[0] == 1062


def in_transaction(
    function: Callable[[], T], *, durable: bool = False, redoable: bool = False
) -> T:
    """Run ``function`` in a transaction, again where the database reports a passing conflict.

    Inside an outer transaction it runs once, as part of that one.

    Args:
        function: Does the work; may run several times, so it must touch rows only.
        durable: Refuse an outer transaction.
        redoable: Were it lost in a crash of the database, the same work would be found and done
            again. PostgreSQL then does not keep the rows locked until the disk has it.

    Raises:
        OuterTransactionError: ``durable``, and there is an outer transaction.
        ImproperlyConfigured: The connection never commits (``AUTOCOMMIT: False``).
    """
    alias = write_alias()
    _check_that_it_commits(alias)

    def work() -> T:
        with ExitStack() as stack:
            try:
                stack.enter_context(transaction.atomic(using=alias, durable=durable))
            except RuntimeError:
                raise OuterTransactionError from None
            if redoable:
                _set_async_commit(connections[alias])
            return function()

    return retry_on_conflict(work, alias)


def refuse_outer_transaction() -> None:
    """Refuse to be called inside a transaction; that of a ``TestCase`` is none.

    Raises:
        OuterTransactionError: There is one.
    """
    if connections[write_alias()].in_atomic_block:
        in_transaction(lambda: None, durable=True)


def retry_on_conflict(work: Callable[[], T], alias: str) -> T:
    """Do the work, again where the database reports a passing conflict, but outermost only."""
    outermost = not connections[alias].in_atomic_block
    attempt = 1
    while True:
        try:
            return work()
        except Error as error:
            if not outermost or attempt == ATTEMPTS or not is_transient(error):
                if outermost:
                    # Django keeps a broken connection until a request ends. On MariaDB, where
                    # one broke after COMMIT, this thread would never open another again.
                    connections[alias].close_if_unusable_or_obsolete()
                raise
            logger.info(
                "The database reported a passing conflict; trying again",
                extra={"attempt": attempt, "database": alias},
            )
            longest = backoff.pause(attempt, FIRST_PAUSE, LONGEST_PAUSE)
            time.sleep(random.uniform(0, longest))  # noqa: S311
            attempt += 1


def _set_async_commit(connection: BaseDatabaseWrapper) -> None:
    """Let this transaction's commit return before it is on the disk, unless it is part of another.

    A later commit that waits brings it to the disk as well: nothing that was built on it, such
    as an answer's take, can survive a crash without it.
    """
    if connection.vendor == "postgresql" and not connection.savepoint_ids:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO OFF")


def _check_that_it_commits(alias: str) -> None:
    if not connections[alias].settings_dict["AUTOCOMMIT"]:
        raise ImproperlyConfigured(
            f"DATABASES[{alias!r}] has AUTOCOMMIT off: nothing that elicitation records would "
            "be committed. Remove that setting."
        )


class DatabaseFormAnswerStore:
    """Answers of one call in one scope, kept in the database until they are taken.

    Args:
        scope: The host's id of the conversation or run.
        call: The host's id of the tool call, unique in the scope.
        respondent_id: The key of the person whose answers these are. Where given, an answer
            of anybody else stays where it is.
        parked_call_id: The key of the call's row, where the caller has it already.

    Raises:
        InvalidNameError: The scope or the call is no name that a row can hold.
    """

    def __init__(
        self,
        *,
        scope: str,
        call: str,
        respondent_id: Any = None,
        parked_call_id: uuid.UUID | None = None,
    ) -> None:
        self.scope = check_name("The scope", scope)
        self.call = check_name("The call", call)
        self.respondent_id = respondent_id
        self.parked_call_id = parked_call_id

    def record_form_answer(
        self,
        elicitation: AnyElicitation,
        action: FormAnswerAction | str,
        answers: Mapping[str, FormAnswer],
        *,
        number: int = 0,
        elicitation_id: uuid.UUID | None = None,
    ) -> StoredFormAnswer:
        """Keep an answer until it is taken or expires; a newer one takes its place.

        Args:
            elicitation: What was asked.
            action: Accept or decline.
            answers: By property name; empty for a decline.
            number: Which of several identical elicitations of the round, from 0.
            elicitation_id: The elicitation's row, where there is one.

        Raises:
            AnswerRefusal: An accepted answer does not fit the schema.
            InvalidNameError: The server's or the tool's name is no name that a row can hold.
        """
        action = FormAnswerAction(action)
        if action == FormAnswerAction.ACCEPT:
            elicitation.schema.content_from_answers(answers)
        row = self.answer_row(
            server=elicitation.server_name,
            tool=elicitation.tool_name,
            fingerprint=elicitation.fingerprint(),
            action=action,
            answers=answers,
            number=number,
            elicitation_id=elicitation_id,
        )
        alias = write_alias()
        _check_that_it_commits(alias)
        retry_on_conflict(lambda: record([row]), alias)
        return row

    def answer_row(
        self,
        *,
        server: str,
        tool: str,
        fingerprint: str,
        action: FormAnswerAction,
        answers: Mapping[str, FormAnswer],
        number: int,
        elicitation_id: uuid.UUID | None,
        round: int = 0,
        from_person: bool = True,
    ) -> StoredFormAnswer:
        """Return the row of an answer that was found to fit, unwritten.

        It takes what names the elicitation, not the elicitation: to decline one, nothing that a
        server wrote has to be read again.
        """
        if action == FormAnswerAction.DECLINE:
            answers = {}
        now = timezone.now()
        return StoredFormAnswer(
            id=self._key(server, tool, fingerprint, number),
            parked_call_id=self._parked_call_id(server, tool),
            scope=self.scope,
            call=self.call,
            server=server,
            tool=tool,
            fingerprint=fingerprint,
            number=number,
            round=round,
            from_person=from_person,
            elicitation_id=elicitation_id,
            respondent_id=self.respondent_id,
            action=action.value,
            answers_json=encode_json(
                "answers",
                {name: answer.to_dict() for name, answer in answers.items()},
                settings.MAX_CALL_BYTES,
            ),
            recorded_at=now,
            expires_at=now + settings.ANSWER_TTL,
        )

    def take_form_answer(self, elicitation: AnyElicitation) -> StoredFormAnswer | None:
        """Take the answer to this elicitation: return it and delete it, or return ``None``.

        Raises:
            OuterTransactionError: Called inside a transaction.
        """
        taken = self.take_form_answers([elicitation])
        return taken[0] if taken else None

    def take_form_answers(
        self, elicitations: Sequence[AnyElicitation], numbers: Sequence[int] | None = None
    ) -> list[StoredFormAnswer] | None:
        """Take the answers to all these elicitations, or none of them.

        Only answers that can be sent are taken: recorded for exactly this scope, call,
        server, tool and elicitation, by this respondent, not expired, and still fitting the
        schema.

        Args:
            elicitations: What was asked.
            numbers: Which of several identical elicitations of the round each one is; by
                default they are counted in the order given.

        Returns:
            The answers in the order of the elicitations; ``None`` where one is missing, in
            which case all of them stay.

        Raises:
            OuterTransactionError: Called inside a transaction.
        """
        if not elicitations:
            return []
        wanted = self.wanted(elicitations, numbers)
        # A look without a lock: to lock a missing row blocks MariaDB's inserters.
        if not answers(wanted).exists():
            return None
        return in_transaction(lambda: take(wanted), durable=True)

    def wanted(
        self,
        elicitations: Sequence[AnyElicitation],
        numbers: Sequence[int] | None = None,
        fingerprints: Sequence[str] | None = None,
    ) -> list[WantedAnswer]:
        """Return what to look for, for each of these elicitations.

        Args:
            elicitations: What was asked.
            numbers: As for ``take_form_answers``.
            fingerprints: Those of the elicitations, where the caller has them already.
        """
        found = fingerprints or [elicitation.fingerprint() for elicitation in elicitations]
        if numbers is None:
            numbers = number_identical(
                (elicitation.server_name, elicitation.tool_name, fingerprint)
                for elicitation, fingerprint in zip(elicitations, found, strict=True)
            )
        return [
            WantedAnswer(
                key=self._key(elicitation.server_name, elicitation.tool_name, fingerprint, number),
                store=self,
                elicitation=elicitation,
                fingerprint=fingerprint,
            )
            for elicitation, fingerprint, number in zip(elicitations, found, numbers, strict=True)
        ]

    def _parked_call_id(self, server: str, tool: str) -> uuid.UUID:
        return self.parked_call_id or parked_call_id(
            scope=self.scope,
            call=self.call,
            server=check_name("The server", server),
            tool=check_name("The tool", tool),
        )

    def key(self, elicitation: AnyElicitation, number: int = 0) -> uuid.UUID:
        """Return the key of the answer to this elicitation."""
        return self._key(
            elicitation.server_name, elicitation.tool_name, elicitation.fingerprint(), number
        )

    def _key(self, server: str, tool: str, fingerprint: str, number: int) -> uuid.UUID:
        return row_key(str(self._parked_call_id(server, tool)), fingerprint, str(number))

    def is_mine(self, row: StoredFormAnswer) -> bool:
        """Whether this row was recorded for this call, and by its respondent."""
        return (row.scope, row.call) == (self.scope, self.call) and (
            self.respondent_id is None or row.respondent_id == self.respondent_id
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedAnswer:
    """The answer that one elicitation of a call needs: its key, and what it has to fit."""

    key: uuid.UUID
    store: DatabaseFormAnswerStore
    elicitation: AnyElicitation
    fingerprint: str

    def is_answered_by(self, row: StoredFormAnswer | None) -> bool:
        """Whether this row is an answer of this call to this elicitation, and still fits it.

        The parts of the key are compared once more: a collision fails closed.
        """
        if row is None or not self.store.is_mine(row):
            return False
        elicitation = self.elicitation
        if not row.applies_to(
            elicitation.server_name, elicitation.tool_name, self.fingerprint, timezone.now()
        ):
            return False
        if row.action == StoredFormAnswer.Action.DECLINE:
            return True
        try:
            row.content = elicitation.schema.content_from_answers(row.answers)
        except AnswerRefusal as refusal:
            logger.warning(
                "A recorded answer no longer fits its elicitation; asking again",
                extra={"server": row.server, "tool": row.tool, "code": refusal.code},
            )
            return False
        return True


def answers(wanted: Iterable[WantedAnswer]) -> models.QuerySet[StoredFormAnswer]:
    """Return the rows that have the keys of these answers."""
    keys = [each.key for each in wanted]
    return StoredFormAnswer.objects.using(write_alias()).filter(pk__in=keys)


def take(wanted: Sequence[WantedAnswer]) -> list[StoredFormAnswer] | None:
    """Take all these answers or none, inside the transaction that the caller has opened.

    The caller has looked before that there are any, without a lock, and commits before it sends
    one.

    Returns:
        The answers in the order of ``wanted``, each with its ``content``.
    """
    rows = answers(wanted)
    lock_now(rows)
    # In key order, so that two takers of the same rows never wait for each other.
    locked = {row.pk: row for row in rows.select_for_update().order_by("pk")}
    taken = [row for each in wanted if each.is_answered_by(row := locked.get(each.key)) and row]
    if len(taken) < len(wanted):
        return None
    _total, deleted = rows.delete()
    # The lock alone does not make us the owner: on SQLite it does nothing.
    owned = deleted.get(StoredFormAnswer._meta.label, 0) == len(wanted)
    return taken if owned else None


def number_identical(asked: Iterable[Hashable]) -> list[int]:
    """Number identical elicitations of one round, from 0 in the order given."""
    seen: Counter[Hashable] = Counter()
    result = []
    for each in asked:
        result.append(seen[each])
        seen[each] += 1
    return result


def record(rows: Sequence[StoredFormAnswer]) -> None:
    """Write answers, each in place of an older one of the same key, in one statement."""
    alias = write_alias()
    fields = [
        field.name for field in StoredFormAnswer._meta.concrete_fields if not field.primary_key
    ]
    # MariaDB finds the conflicting key itself, and cannot be told it.
    with_target = connections[alias].features.supports_update_conflicts_with_target
    StoredFormAnswer.objects.using(alias).bulk_create(
        rows,
        update_conflicts=True,
        update_fields=fields,
        unique_fields=["id"] if with_target else None,
    )


def drop(keys: Collection[uuid.UUID]) -> list[StoredFormAnswer]:
    """Delete these answers, and return those that were there; inside a transaction."""
    if not keys:
        return []
    left = StoredFormAnswer.objects.using(write_alias()).filter(pk__in=keys)
    # Locked in key order, as a taker of the same rows does.
    rows = list(left.select_for_update().order_by("pk"))
    if rows:
        left.filter(pk__in=[row.pk for row in rows]).delete()
    return rows


def delete_expired(keys: Collection[uuid.UUID], now: datetime) -> list[uuid.UUID]:
    """Delete those of these answers whose time is up, and return their keys; in a transaction.

    An answer that was recorded meanwhile under one of the keys has time left, and stays.
    Locked first: a receiver of a delete signal makes Django delete by key alone, and drop the
    condition.
    """
    expired = StoredFormAnswer.objects.using(write_alias()).expired(now)
    rows = expired.filter(pk__in=keys)
    lock_now(rows)
    locked = list(rows.select_for_update().order_by("pk").values_list("pk", flat=True))
    if locked:
        expired.filter(pk__in=locked).delete()
    return locked
