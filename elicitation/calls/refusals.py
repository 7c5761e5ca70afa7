"""What servers ask and nobody is asked: counted in rows, and logged once a minute.

A flood of refusals changes one row again and again, and hides nothing else in the log.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from time import monotonic

from django.db import Error as DatabaseProblem
from django.db import IntegrityError
from django.db.models import F
from django.utils import timezone

from ..core import ElicitationError
from ..core.errors import plain
from ..models import MAX_REASON_CHARS, Refusal, Retention, row_key
from ..transactions import in_transaction, is_duplicate, write_alias
from .steps import step

logger = logging.getLogger("elicitation")

#: Seconds for which a server and a code are not logged again, in one process.
PAUSE = 60.0
#: Most rows of one server. A server chooses the names of properties, and so how many there are:
#: above this they are counted without a name.
MAX_ROWS = 200

#: What the agent reads after the text of a refusal.
WHERE = "Operators see refusals in the admin, under refusals."

#: When each server and code was logged last, and how often it was left out since then.
_logged: dict[tuple[str, str], tuple[float, int]] = {}
_lock = threading.Lock()


async def note_refusal(
    server: str, code: str, reason: str, *, tool: str = "", property: str = "", **fields: object
) -> None:
    """Count a refusal in its row, and log it.

    Args:
        server: The configured name of the server.
        code: The code of the refusal.
        reason: Why, in words of this package, never in the server's.
        tool: The tool that was called, if it is known.
        property: The property that it is about, if it is about one.
        fields: Further attributes of the log record.
    """
    log_refusal(server, code, reason, tool=tool, **fields)
    try:
        await step(partial(count, server, code, reason, tool=tool, property=property))
    except DatabaseProblem as error:
        # The refusal stands all the same.
        logger.warning(
            "A refusal could not be counted",
            extra={"server": server, "code": code, "error": type(error).__name__},
        )


def say_where(refusal: ElicitationError) -> None:
    """Let the text of a refusal, which an agent reads, name the place where operators look."""
    if WHERE not in str(refusal):
        refusal.args = (f"{refusal} {WHERE}",)


def count(server: str, code: str, reason: str, *, tool: str = "", property: str = "") -> None:
    """Count a refusal in its row; arguments are as for ``note_refusal``."""
    rows = Refusal.objects.using(write_alias())
    now = timezone.now()
    changes = {"times": F("times") + 1, "last_at": now, "reason": reason[:MAX_REASON_CHARS]}

    def count(about: str) -> bool:
        key = row_key(server, tool, code, about)
        if in_transaction(partial(rows.filter(pk=key).update, **changes), redoable=True):
            return True
        is_full = rows.filter(policy=row_key(server)).count() >= MAX_ROWS
        if is_full and about:
            return False
        row = Refusal(
            id=key,
            server=server,
            policy_id=row_key(server),
            tool=tool,
            code=code,
            property_name=about,
            reason=reason[:MAX_REASON_CHARS],
            first_at=now,
            last_at=now,
        )
        try:
            in_transaction(partial(row.save, using=rows.db, force_insert=True), redoable=True)
        except IntegrityError as error:
            if not is_duplicate(error):
                raise
            # Another process was quicker.
            in_transaction(partial(rows.filter(pk=key).update, **changes), redoable=True)
        return True

    if not count(plain(property)):
        count("")


def delete_old(retention: Retention, *, limit: int = 500) -> int:
    """Delete up to ``limit`` refusals that are old by their last time."""
    old = Refusal.objects.using(write_alias()).filter(retention.is_old("last_at"))
    # Keys first: MariaDB knows no LIMIT in a subquery.
    keys = list(old.order_by("last_at").values_list("pk", flat=True)[:limit])

    def delete() -> int:
        # Counted once more in the meantime, it stays.
        return old.filter(pk__in=keys).delete()[0]

    return in_transaction(delete, redoable=True) if keys else 0


def log_refusal(server: str, code: str, reason: str, **fields: object) -> None:
    """Log that a server asked what is put to nobody, at most once a minute for each code of it.

    Args:
        server: The configured name of the server.
        code: The code of the refusal.
        reason: Why, in words of this package, never in the server's.
        fields: Further attributes of the log record.
    """
    now = monotonic()
    with _lock:
        logged_at, left_out = _logged.get((server, code), (now - PAUSE, 0))
        if now - logged_at < PAUSE:
            _logged[server, code] = logged_at, left_out + 1
            return
        _logged[server, code] = now, 0
    logger.warning(
        "The server '%s' asked what is put to nobody: %s (%s)%s",
        server,
        reason,
        code,
        f"; {left_out} more since this was logged last" if left_out else "",
        extra={"server": server, "code": code, "reason": reason, "left_out": left_out} | fields,
    )


def forget() -> None:
    """Forget what was logged, so that the next refusal is logged again."""
    with _lock:
        _logged.clear()
