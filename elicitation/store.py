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
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeVar

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections, models, router, transaction
from django.db.models.deletion import Collector
from django.utils import timezone

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


def call_key(*, scope: str, call: str, server: str, tool: str) -> uuid.UUID:
    """Return the key of one tool call: of its parked row, and in its questions and answers."""
    return row_key(scope, call, server, tool)


def lock_now(queryset: models.QuerySet[models.Model]) -> None:
    """Take SQLite's write lock at once; elsewhere the statements that follow lock by row.

    SQLite's default deferred transactions fail with "database is locked" where a read turns
    into a write, and no timeout helps.
    """
    if connections[queryset.db].vendor == "sqlite":
        queryset.update(id=models.F("id"))


def is_transient(error: DatabaseError) -> bool:
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
                _do_not_wait_for_the_disk(connections[alias])
            return function()

    return _tried_again(work, alias)


def _tried_again(work: Callable[[], T], alias: str) -> T:
    """Do the work, again where the database reports a passing conflict, but outermost only."""
    outermost = not connections[alias].in_atomic_block
    attempt = 1
    while True:
        try:
            return work()
        except DatabaseError as error:
            if not outermost or attempt == ATTEMPTS or not is_transient(error):
                raise
            logger.info(
                "The database reported a passing conflict; trying again",
                extra={"attempt": attempt, "database": alias},
            )
            longest = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
            time.sleep(random.uniform(0, longest))  # noqa: S311
            attempt += 1


def _do_not_wait_for_the_disk(connection: BaseDatabaseWrapper) -> None:
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


@dataclass(frozen=True, slots=True)
class _Statements:
    """The statements on the table of answers, in SQL.

    The ORM would write the same ones anew for every take and every record, and writing them
    costs more than all the rest (``docs/performance.md``).
    """

    peek: str
    lock: str
    delete: str
    upsert: str
    #: What has to be done to the values of some columns, by position.
    converters: tuple[tuple[int, Any, Any], ...]

    def rows(
        self, found: Iterable[Sequence[Any]], connection: BaseDatabaseWrapper
    ) -> Iterator[StoredFormAnswer]:
        """Return what ``lock`` found as rows of the model."""
        names = [field.attname for field in StoredFormAnswer._meta.concrete_fields]
        for columns in found:
            values = list(columns)
            for position, convert, expression in self.converters:
                values[position] = convert(values[position], expression, connection)
            yield StoredFormAnswer.from_db(connection.alias, names, values)

    @classmethod
    @lru_cache(maxsize=128)
    def of(cls, alias: str, count: int) -> Self:
        """Return the statements for so many keys, or rows."""
        connection = connections[alias]
        quote = connection.ops.quote_name
        table, key = quote(StoredFormAnswer._meta.db_table), quote("id")
        columns = [quote(str(field.column)) for field in StoredFormAnswer._meta.concrete_fields]
        names = ", ".join(columns)
        where = f"FROM {table} WHERE {key} IN ({', '.join(['%s'] * count)})"
        lock = f"SELECT {names} {where} ORDER BY {key}"
        if connection.features.has_select_for_update:
            lock += f" {connection.ops.for_update_sql()}"
        # PostgreSQL and SQLite want to be told which key conflicts, MariaDB cannot be.
        if connection.features.supports_update_conflicts_with_target:
            instead, newer = f"ON CONFLICT ({key}) DO UPDATE SET", "{0} = EXCLUDED.{0}"
        else:
            instead, newer = "ON DUPLICATE KEY UPDATE", "{0} = VALUES({0})"
        changes = ", ".join(newer.format(column) for column in columns if column != key)
        row = f"({', '.join(['%s'] * len(columns))})"
        values = ", ".join([row] * count)
        converters = []
        for position, field in enumerate(StoredFormAnswer._meta.concrete_fields):
            column = field.cached_col
            for convert in [
                *connection.ops.get_db_converters(column),
                *column.get_db_converters(connection),
            ]:
                converters.append((position, convert, column))
        # Nothing in them but names of our own columns.
        return cls(
            converters=tuple(converters),
            peek=f"SELECT 1 {where} LIMIT 1",
            lock=lock,
            delete=f"DELETE {where}",
            upsert=f"INSERT INTO {table} ({names}) VALUES {values} {instead} {changes}",  # noqa: S608
        )


class DatabaseFormAnswerStore:
    """Answers of one call in one scope, kept in the database until they are taken.

    Args:
        scope: The host's id of the conversation or run.
        call: The host's id of the tool call, unique in the scope.
        respondent_id: The key of the person whose answers these are. Where given, an answer
            of anybody else stays where it is.

    Raises:
        InvalidNameError: The scope or the call is no name that a row can hold.
    """

    def __init__(self, *, scope: str, call: str, respondent_id: Any = None) -> None:
        self.scope = check_name("The scope", scope)
        self.call = check_name("The call", call)
        self.respondent_id = respondent_id

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
            number: Which of several identical questions of the round, from 0.
            elicitation_id: The question's row, where there is one.

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
        # One statement is a transaction of its own.
        _tried_again(lambda: record([row]), alias)
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
    ) -> StoredFormAnswer:
        """Return the row of an answer that was found to fit, unwritten.

        It takes what names the question, not the question: to decline one, nothing that a
        server wrote has to be read again.
        """
        if action == FormAnswerAction.DECLINE:
            answers = {}
        now = timezone.now()
        return StoredFormAnswer(
            id=self._key(server, tool, fingerprint, number),
            parked_call_id=self._call_key(server, tool),
            scope=self.scope,
            call=self.call,
            server=server,
            tool=tool,
            fingerprint=fingerprint,
            number=number,
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
        """Take the answer to this question: return it and delete it, or return ``None``.

        Raises:
            OuterTransactionError: Called inside a transaction.
        """
        taken = self.take_form_answers([elicitation])
        return taken[0] if taken else None

    def take_form_answers(
        self, elicitations: Sequence[AnyElicitation], numbers: Sequence[int] | None = None
    ) -> list[StoredFormAnswer] | None:
        """Take the answers to all these questions, or none of them.

        Only answers that can be sent are taken: recorded for exactly this scope, call,
        server, tool and question, by this respondent, not expired, and still fitting the
        schema.

        Args:
            elicitations: What was asked.
            numbers: Which of several identical questions of the round each one is; by
                default they are counted in the order given.

        Returns:
            The answers in the order of the questions; ``None`` where one is missing, in
            which case all of them stay.

        Raises:
            OuterTransactionError: Called inside a transaction.
        """
        fingerprints = [elicitation.fingerprint() for elicitation in elicitations]
        asked = dict(
            zip(
                self._keys(elicitations, numbers, fingerprints),
                zip(elicitations, fingerprints, strict=True),
                strict=True,
            )
        )
        if not asked:
            return []
        keys = list(asked)
        alias = write_alias()
        connection = connections[alias]
        statements = _Statements.of(alias, len(keys))
        params = [_prepared_key(key, connection) for key in keys]
        rows = StoredFormAnswer.objects.using(alias)

        def take() -> list[StoredFormAnswer] | None:
            if connection.vendor == "sqlite":
                lock_now(rows.filter(pk__in=keys))
            # In key order, so that two takers of the same rows never wait for each other.
            cursor.execute(statements.lock, params)
            locked = {row.pk: row for row in statements.rows(cursor.fetchall(), connection)}
            found = [locked.get(key) for key in keys]
            taken = [
                row
                for row, (elicitation, fingerprint) in zip(found, asked.values(), strict=True)
                if row is not None and self.can_be_sent(row, elicitation, fingerprint)
            ]
            if len(taken) < len(keys):
                return None
            if Collector(using=alias).can_fast_delete(rows):
                cursor.execute(statements.delete, params)
                deleted = cursor.rowcount
            else:
                # Somebody's receivers want to know, or rows of theirs hang on it.
                _total, by_model = rows.filter(pk__in=keys).delete()
                deleted = by_model.get(StoredFormAnswer._meta.label, 0)
            # The lock alone does not make us the owner: on SQLite it does nothing.
            return taken if deleted == len(keys) else None

        with connection.cursor() as cursor:
            cursor.execute(statements.peek, params)
            if cursor.fetchone() is None:
                return None
            return in_transaction(take, durable=True)

    def can_take(
        self, elicitations: Sequence[AnyElicitation], numbers: Sequence[int] | None = None
    ) -> bool:
        """Whether answers to all these questions are recorded; a look, without a lock."""
        fingerprints = [elicitation.fingerprint() for elicitation in elicitations]
        keys = self._keys(elicitations, numbers, fingerprints)
        rows = StoredFormAnswer.objects.using(write_alias()).filter(pk__in=keys)
        return rows.filter(expires_at__gt=timezone.now()).count() == len(keys)

    arecord_form_answer = sync_to_async(record_form_answer)
    atake_form_answer = sync_to_async(take_form_answer)
    atake_form_answers = sync_to_async(take_form_answers)
    acan_take = sync_to_async(can_take)

    def _call_key(self, server: str, tool: str) -> uuid.UUID:
        return call_key(
            scope=self.scope,
            call=self.call,
            server=check_name("The server", server),
            tool=check_name("The tool", tool),
        )

    def key(self, elicitation: AnyElicitation, number: int = 0) -> uuid.UUID:
        """Return the key of the answer to this question."""
        return self._key(
            elicitation.server_name, elicitation.tool_name, elicitation.fingerprint(), number
        )

    def _key(self, server: str, tool: str, fingerprint: str, number: int) -> uuid.UUID:
        return row_key(str(self._call_key(server, tool)), fingerprint, str(number))

    def _keys(
        self,
        elicitations: Sequence[AnyElicitation],
        numbers: Sequence[int] | None,
        fingerprints: Sequence[str],
    ) -> list[uuid.UUID]:
        counted = count_identical(elicitations) if numbers is None else numbers
        return [
            self._key(elicitation.server_name, elicitation.tool_name, fingerprint, number)
            for elicitation, fingerprint, number in zip(
                elicitations, fingerprints, counted, strict=True
            )
        ]

    def can_be_sent(
        self, row: StoredFormAnswer, elicitation: AnyElicitation, fingerprint: str | None = None
    ) -> bool:
        """Whether this row is an answer of this call to this question, and still fits it.

        Args:
            row: The answer.
            elicitation: The question.
            fingerprint: The question's, where the caller has it already.
        """
        if (row.scope, row.call) != (self.scope, self.call):
            return False
        if self.respondent_id is not None and row.respondent_id != self.respondent_id:
            return False
        if not row.applies_to(
            elicitation.server_name,
            elicitation.tool_name,
            fingerprint or elicitation.fingerprint(),
            timezone.now(),
        ):
            return False
        if row.action == StoredFormAnswer.Action.DECLINE:
            return True
        try:
            elicitation.schema.content_from_answers(row.answers)
        except AnswerRefusal as refusal:
            logger.warning(
                "A recorded answer no longer fits its question; asking again",
                extra={"server": row.server, "tool": row.tool, "code": refusal.code},
            )
            return False
        return True


def count_identical(elicitations: Sequence[AnyElicitation]) -> list[int]:
    """Number identical questions of one round, from 0 in the order given."""
    if len(elicitations) == 1:
        return [0]
    seen: Counter[tuple[str, str, str]] = Counter()
    result = []
    for elicitation in elicitations:
        what = (elicitation.server_name, elicitation.tool_name, elicitation.fingerprint())
        result.append(seen[what])
        seen[what] += 1
    return result


def record(rows: Sequence[StoredFormAnswer]) -> None:
    """Write answers, each in place of an older one of the same key, in one statement."""
    if not rows:
        return
    alias = write_alias()
    connection = connections[alias]
    fields = StoredFormAnswer._meta.concrete_fields
    params = [
        field.get_db_prep_save(getattr(row, field.attname), connection)
        for row in rows
        for field in fields
    ]
    with connection.cursor() as cursor:
        cursor.execute(_Statements.of(alias, len(rows)).upsert, params)
    for row in rows:
        row._state.adding = False
        row._state.db = alias


def _prepared_key(key: uuid.UUID, connection: BaseDatabaseWrapper) -> Any:
    """Return a key as the database's driver wants it."""
    return StoredFormAnswer._meta.pk.get_db_prep_value(key, connection)


def drop(parked_call_id: uuid.UUID, *, keep: Collection[uuid.UUID] = ()) -> list[StoredFormAnswer]:
    """Delete what is left of a call's answers, but for the keys in ``keep``, and return it.

    Inside a transaction.
    """
    left = StoredFormAnswer.objects.using(write_alias()).of_call(parked_call_id)
    # Locked in key order, as a taker of the same rows does.
    rows = list(left.exclude(pk__in=keep).select_for_update().order_by("pk"))
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
