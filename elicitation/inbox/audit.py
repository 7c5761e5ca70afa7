"""The audit trail as records: what was asked, of whom, and what became of it. No answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from ..models import Elicitation, Refusal
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
    "method",
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


#: What a record of a refusal has, in its order.
REFUSAL_FIELDS = (
    "server",
    "tool",
    "code",
    "property_name",
    "reason",
    "times",
    "first_at",
    "last_at",
)


def records(
    *, since: datetime | None = None, until: datetime | None = None, batch_size: int = 1000
) -> Iterator[Record]:
    """Yield a record of each elicitation that was asked in a period, the oldest first.

    Args:
        since: From this moment on.
        until: Before this moment.
        batch_size: Rows read at a time.
    """
    rows = Elicitation.objects.using(write_alias())
    return _read(rows, FIELDS, "asked_at", since, until, batch_size)


def refusals(
    *, since: datetime | None = None, until: datetime | None = None, batch_size: int = 1000
) -> Iterator[Record]:
    """Yield a record of each refusal whose last time was in a period, the oldest first.

    Arguments are as for ``records``.
    """
    rows = Refusal.objects.using(write_alias())
    return _read(rows, REFUSAL_FIELDS, "last_at", since, until, batch_size)


def _read(
    rows: QuerySet[Any],
    fields: Sequence[str],
    moment: str,
    since: datetime | None,
    until: datetime | None,
    batch_size: int,
) -> Iterator[Record]:
    """Yield rows as records, in the order of a moment.

    Read in pages by key: that needs the memory of one page on every database (MariaDB's driver
    would fetch a whole result at once) and holds no transaction open while somebody slowly
    reads the export.
    """
    rows = rows.order_by(moment, "id")
    if since is not None:
        rows = rows.filter(**{f"{moment}__gte": since})
    if until is not None:
        rows = rows.filter(**{f"{moment}__lt": until})
    columns = {*fields, moment, "id"}
    page = list(rows.values(*columns)[:batch_size])
    while page:
        for row in page:
            yield {name: _plain(row[name]) for name in fields}
        last = page[-1]
        # The first condition alone is what the index is for.
        after = rows.filter(**{f"{moment}__gte": last[moment]}).filter(
            Q(**{f"{moment}__gt": last[moment]}) | Q(id__gt=last["id"])
        )
        page = list(after.values(*columns)[:batch_size])


#: What begins a formula; the full-width forms are read as their ASCII ones by some spreadsheets.
_BEGINS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_FORMULA = re.compile(f" *[{_BEGINS}\t\r\n]")
#: The same inside a text: some spreadsheets read semicolons or tabs as separators, and the quotes
#: round a cell as a part of it.
_LATER_FORMULA = re.compile(f"([,;|\t\r\n][\\s\"']*)([{_BEGINS}])")


def spreadsheet_cell(value: str | int | None) -> str | int:
    """Return a value as a cell that no spreadsheet takes for a formula, nor any part of it.

    A server chooses what its messages begin with, and a spreadsheet would run a formula.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return value
    cell = value[:1] + _LATER_FORMULA.sub(r"\1'\2", value[1:])
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _plain(value: object) -> str | int | None:
    if value is None or isinstance(value, (int, str)):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)


#: The version of the Elastic Common Schema whose fields the lines have.
ECS_VERSION = "8.17.0"
#: Whether what was asked ended as it should, in the words of ``event.outcome``.
_OUTCOMES = {"delivered": "success", "server_error": "success", "round_lost": "unknown"}


def ecs(record: Record) -> dict[str, Any]:
    """Return a record, of an elicitation or of a refusal, as an event in ECS.

    Its own fields stand below ``elicitation``, under the names that they have in a record.
    """
    is_refusal = "code" in record
    begin, end = record["first_at" if is_refusal else "asked_at"], None
    if is_refusal:
        end = record["last_at"]
        event = {
            "action": "elicitation-refused",
            "type": ["denied"],
            "outcome": "failure",
            "code": record["code"],
            "reason": record["reason"],
        }
    else:
        end = record["closed_at"]
        event = {
            "action": f"elicitation-{record['state']}",
            "type": ["info"],
            "id": record["id"],
            "outcome": _OUTCOMES.get(str(record["delivery"]), _undelivered(record)),
        }
    found: dict[str, Any] = {
        "@timestamp": end or begin,
        "ecs": {"version": ECS_VERSION},
        "event": {
            "kind": "event",
            "category": ["api"],
            "module": "elicitation",
            "dataset": "elicitation.refusals" if is_refusal else "elicitation.audit",
            "start": begin,
            **({"end": end} if end else {}),
            **event,
        },
        "service": {"name": record["server"]},
        "elicitation": {name: value for name, value in record.items() if value not in (None, "")},
    }
    people = [str(each) for name in ("respondent", "closed_by") if (each := record.get(name))]
    if people:
        found["user"] = {"id": people[-1]}
        found["related"] = {"user": sorted(set(people))}
    if record.get("url_host"):
        found["url"] = {"domain": record["url_host"]}
    return found


def _undelivered(record: Record) -> str:
    """Return the outcome of what no server has got: none yet, or none any more."""
    return "failure" if record["delivered_at"] else "unknown"
