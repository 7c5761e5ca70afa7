"""How a transaction is opened, tried again on a passing conflict, and refused inside another.

Transient conflicts are tried again outermost only: MariaDB rolls back everything, so a retry
inside an outer transaction would go on with half of it.
"""

from __future__ import annotations

import logging
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, IntegrityError, connections, models, router, transaction

from . import backoff
from .core import ElicitationError
from .models import StoredFormAnswer

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

    return _retry_on_conflict(work, alias)


def refuse_outer_transaction() -> None:
    """Refuse to be called inside a transaction; that of a ``TestCase`` is none.

    Raises:
        OuterTransactionError: There is one.
    """
    if connections[write_alias()].in_atomic_block:
        in_transaction(lambda: None, durable=True)


def _retry_on_conflict(work: Callable[[], T], alias: str) -> T:
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
