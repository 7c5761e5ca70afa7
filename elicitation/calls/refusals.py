"""What servers ask and nobody is asked, in the operator's log: a flood there hides the rest."""

from __future__ import annotations

import logging
import threading
from time import monotonic

logger = logging.getLogger("elicitation")

#: Seconds for which a server and a code are not logged again, in one process.
PAUSE = 60.0

#: When each server and code was logged last, and how often it was left out since then.
_logged: dict[tuple[str, str], tuple[float, int]] = {}
_lock = threading.Lock()


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
