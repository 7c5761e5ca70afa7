"""The audit trail as records: what was asked, of whom, and what became of it. No answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Q

from ..models import Elicitation
from ..transactions import write_alias

#: What a record has, in its order.
FIELDS = (
    "id",
    "parked_call_id",
    "scope",
    "scope_label",
    "call",
    "server",
    "tool",
    "round",
    "message",
    "requested_schema",
    # Only the host of a URL: paths and queries carry secrets.
    "url_host",
    "fingerprint",
    "respondent",
    "state",
    "reason",
    "asked_at",
    "expires_at",
    "first_shown_at",
    "closed_at",
    "closed_by",
    "closed_via",
    "delivered_at",
    "delivery",
    "resent",
    "notified_at",
    "never_fetched",
)

Record = dict[str, str | int | None]


def records(
    *, since: datetime | None = None, until: datetime | None = None, batch_size: int = 1000
) -> Iterator[Record]:
    """Yield a record of each elicitation that was asked in a period, the oldest first.

    Read in pages by key: that needs the memory of one page on every database (MariaDB's driver
    would fetch a whole result at once) and holds no transaction open while somebody slowly
    reads the export.

    Args:
        since: From this moment on.
        until: Before this moment.
        batch_size: Rows read at a time.
    """
    rows = Elicitation.objects.using(write_alias()).order_by("asked_at", "id")
    if since is not None:
        rows = rows.filter(asked_at__gte=since)
    if until is not None:
        rows = rows.filter(asked_at__lt=until)
    page = list(rows.values(*FIELDS)[:batch_size])
    while page:
        for row in page:
            yield {name: _plain(row[name]) for name in FIELDS}
        last = page[-1]
        # The first condition alone is what the index is for.
        after = rows.filter(asked_at__gte=last["asked_at"]).filter(
            Q(asked_at__gt=last["asked_at"]) | Q(id__gt=last["id"])
        )
        page = list(after.values(*FIELDS)[:batch_size])


def spreadsheet_cell(value: str | int | None) -> str | int:
    """Return a value as a cell that no spreadsheet takes for a formula.

    A server chooses what its messages begin with, and a spreadsheet would run a formula.
    """
    if value is None:
        return ""
    # The full-width forms are read as their ASCII ones by some spreadsheets.
    if isinstance(value, str) and value.lstrip(" ").startswith(
        ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
    ):
        return f"'{value}"
    return value


def _plain(value: object) -> str | int | None:
    if value is None or isinstance(value, (int, str)):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)
