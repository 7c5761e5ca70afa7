"""A task: a call that its server goes on with by itself (``io.modelcontextprotocol/tasks``)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from ..core import SchemaRefusal

#: The identifier of the extension (SEP-2663).
TASKS: Final = "io.modelcontextprotocol/tasks"
#: How often a task is read whose server does not say, and how often at most and at least.
POLL, SHORTEST_POLL, LONGEST_POLL = 5_000, 1_000, 3_600_000
#: The longest id of a task, and how much of its status message is kept, in characters.
MAX_ID_CHARS, MAX_STATUS_CHARS = 1_000, 500
#: The longest time to live that is reckoned with, in milliseconds: a hundred years.
MAX_TTL = 3_155_760_000_000

#: Why a task ended without a result.
FAILED, CANCELLED, EXPIRED, UNKNOWN = (
    "task_failed",
    "task_cancelled",
    "task_expired",
    "task_unknown",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as its server described it last.

    ``ttl_ms`` is ``None`` where it is kept without end. ``answered`` are the keys of requests that
    were answered: they are unique as long as the task lives.
    """

    # No part of a repr, which may end in a log: the id may be all that is needed to read it.
    id: str = field(repr=False)
    created_at: str
    ttl_ms: float | None
    poll_ms: float
    status_message: str = field(default="", repr=False)
    answered: tuple[str, ...] = ()
    #: Before this moment it is not read again, whoever asks; blank where it was not read yet.
    read_after: str = ""

    @classmethod
    def of(cls, reply: Mapping[str, Any], received_at: datetime) -> Self:
        """Return the task that a server has created.

        Raises:
            SchemaRefusal: It has no id.
        """
        key = reply.get("taskId")
        if not isinstance(key, str) or not 0 < len(key) <= MAX_ID_CHARS:
            raise SchemaRefusal("the server's task has no id")
        return cls(id=key, created_at=received_at.isoformat(), ttl_ms=None, poll_ms=POLL).read(
            reply
        )

    def read(self, reply: Mapping[str, Any]) -> Self:
        """Return it as its server describes it now: time to live and interval may change."""
        ttl, poll = _number(reply.get("ttlMs")), _number(reply.get("pollIntervalMs"))
        created, said = reply.get("createdAt"), reply.get("statusMessage")
        return replace(
            self,
            created_at=str(created) if _moment(created) else self.created_at,
            ttl_ms=None if ttl is None else min(ttl, MAX_TTL),
            poll_ms=POLL if poll is None else max(SHORTEST_POLL, min(poll, LONGEST_POLL)),
            status_message=said[:MAX_STATUS_CHARS] if isinstance(said, str) else "",
        )

    def answering(self, keys: Collection[str]) -> Self:
        """Return it once these keys were answered."""
        return replace(self, answered=(*self.answered, *keys))

    @property
    def poll(self) -> timedelta:
        """How long to wait before it is read again."""
        return timedelta(milliseconds=self.poll_ms)

    def left_until(self, moment: datetime) -> Self:
        """Return it as one that is not read before this moment."""
        return replace(self, read_after=moment.isoformat())

    def next_read(self, now: datetime) -> datetime:
        """Return when it may be read: now, or later."""
        return max(_moment(self.read_after) or now, now)

    def has_expired(self, now: datetime) -> bool:
        """Whether its server need not keep it any more."""
        created = _moment(self.created_at)
        if self.ttl_ms is None or created is None:
            return False
        return now > created + timedelta(milliseconds=self.ttl_ms)

    def as_json(self) -> str:
        """Return it as its call's row holds it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """Return the task in a row, ``None`` where there is none."""
        if not text:
            return None
        fields = json.loads(text)
        return cls(**fields | {"answered": tuple(fields["answered"])})


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Not NaN, which is no JSON.
    return value if is_number and value >= 0 else None  # type: ignore[operator,return-value]


def _moment(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)  # type: ignore[arg-type]  # judged here
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
