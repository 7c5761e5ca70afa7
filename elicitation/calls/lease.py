"""The lease of a call: which process goes on with it, and until when.

Its times come from the clock of the database. A process decides by its own monotonic clock
whether its lease still holds, and counts from the last renewal that it saw committed. The clocks
of two hosts are never compared.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import connections

from ..conf import settings
from ..core import ElicitationError
from ..models import DatabaseNow, ParkedCall, ParkedCallQuerySet
from ..transactions import lock_now, write_alias


class CallInProgressError(ElicitationError):
    """Another process is resuming this call just now."""

    def __init__(self) -> None:
        seconds = settings.RESUME_LEASE.total_seconds()
        super().__init__(
            "Another process is resuming this call. If that process has died, the call can be "
            f"resumed {seconds:g} seconds after its last sign of life.",
            code="call_in_progress",
        )


@dataclass(slots=True, kw_only=True)
class Lease:
    """A call's lease, held by this process.

    ``token`` stands for this process in the call's row; ``duration`` is how long the lease lasts
    after ``renewed_at``, a moment of ``time.monotonic()``.
    """

    parked_call_id: uuid.UUID
    token: uuid.UUID = field(default_factory=uuid.uuid4)
    duration: timedelta = field(default_factory=lambda: settings.RESUME_LEASE)
    renewed_at: float = field(default_factory=time.monotonic)

    def is_live(self) -> bool:
        """Whether nobody else can have the call, so that something may be sent for it."""
        return time.monotonic() - self.renewed_at < self.duration.total_seconds()

    def rows(self) -> ParkedCallQuerySet:
        """Return the call's row, if this process still holds its lease."""
        rows = ParkedCall.objects.using(write_alias())
        return rows.filter(pk=self.parked_call_id, lease=self.token)

    def claim(self) -> bool:
        """Take the lease, inside a transaction, if no process has it.

        Returns:
            Whether that was so.
        """
        rows = ParkedCall.objects.using(write_alias()).filter(pk=self.parked_call_id)
        return self._prolong(rows.parked().unleased(), lease=self.token)

    def hold(self, rows: ParkedCallQuerySet, **changes: object) -> bool:
        """Take the lease with other changes of the row, which the caller has locked."""
        return self._prolong(rows, lease=self.token, **changes)

    def renew(self) -> bool:
        """Prolong the lease, inside a transaction; whether this process still had it."""
        return self._prolong(self.rows())

    def release(self) -> None:
        """Let any process resume the call, if this one still has it."""
        self.rows().update(lease=None, leased_until=None, called_at=None)

    @staticmethod
    def renew_all(leases: Collection[Lease], duration: timedelta) -> None:
        """Prolong those of these leases that this process still has, inside a transaction.

        A row that somebody has locked just now is left out: one call must not hold up all others.
        Its lease is renewed the next time.

        Args:
            leases: Leases of one duration.
            duration: How long they last from now on.
        """
        now = time.monotonic()
        rows = ParkedCall.objects.using(write_alias()).filter(
            pk__in=[lease.parked_call_id for lease in leases],
            lease__in=[lease.token for lease in leases],
        )
        lock_now(rows)
        can_skip = connections[rows.db].features.has_select_for_update_skip_locked
        locked = rows.select_for_update(skip_locked=can_skip).order_by("pk")
        tokens = dict(locked.values_list("pk", "lease"))
        rows.filter(pk__in=list(tokens)).update(leased_until=DatabaseNow() + duration)
        for lease in leases:
            if tokens.get(lease.parked_call_id) == lease.token:
                lease.renewed_at = now

    def _prolong(self, rows: ParkedCallQuerySet, **changes: object) -> bool:
        # Read before the statement is sent: in the database the lease begins no earlier.
        now = time.monotonic()
        if rows.update(leased_until=DatabaseNow() + self.duration, **changes) != 1:
            return False
        self.renewed_at = now
        return True
