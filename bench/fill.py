"""Fills the tables with a million rows in the database's own words; the ORM would take hours."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import connection

from elicitation.models import Elicitation, ServerPolicy, StoredFormAnswer, row_key

#: Among how many people the rows are spread.
PEOPLE = 500


def fill(first: int, last: int) -> None:
    """Add rows number ``first`` to ``last - 1`` to the questions and to the answers."""
    if not User.objects.filter(username="filler-0").exists():
        User.objects.bulk_create(User(username=f"filler-{n}") for n in range(PEOPLE))
    people = User.objects.filter(username__startswith="filler-")
    lowest = people.order_by("pk").values_list("pk", flat=True)[0]
    numbers = {
        "postgresql": f"(SELECT generate_series({first}, {last - 1}) AS n) numbers",
        "mysql": f"(SELECT CAST(seq AS SIGNED) AS n FROM seq_{first}_to_{last - 1}) numbers",
        "sqlite": (
            f"(WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s "
            f"WHERE n + 1 < {last}) SELECT n FROM s) numbers"
        ),
    }[connection.vendor]
    person = f"{lowest} + (n % {PEOPLE})"
    _insert(
        Elicitation,
        numbers,
        id=_uuid("question"),
        parked_call_id=_uuid("call"),
        scope=_text("scope"),
        scope_key=_uuid("scope"),
        scope_label="''",
        call=_text("call"),
        server="'shop'",
        server_key=f"'{ServerPolicy._meta.pk.get_db_prep_value(row_key('shop'), connection)}'",
        tool="'buy'",
        method="'tools/call'",
        # "key" is a word of MariaDB's, and quoted with the others.
        key="'k'",
        round="1",
        number="0",
        message="'Which plan would you like?'",
        requested_schema='\'{"type":"object","properties":{"a":{"type":"string"}}}\'',
        allow_confirmation="FALSE",
        wide_limits="FALSE",
        fingerprint="'" + "0" * 64 + "'",
        respondent_id=person,
        # One of ten waits, as in a busy site; its time is not up.
        state="CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'answered' END",
        reason="''",
        asked_at=_ago("n % 1000000"),
        expires_at=_ago("n % 1000000 - 10000000"),
        closed_at=f"CASE WHEN n % 10 = 0 THEN NULL ELSE {_ago('n % 1000000')} END",
        closed_via="''",
        delivered_at=f"CASE WHEN n % 10 = 0 THEN NULL ELSE {_ago('n % 1000000')} END",
        delivery="''",
        answer_digest="''",
    )
    _insert(
        StoredFormAnswer,
        numbers,
        id=_uuid("answer"),
        parked_call_id=_uuid("call"),
        scope=_text("scope"),
        call=_text("call"),
        server="'shop'",
        tool="'buy'",
        fingerprint="'" + "0" * 64 + "'",
        number="0",
        respondent_id=person,
        action="'accept'",
        answers_json='\'{"a":{"selected":[],"other_text":"x"}}\'',
        recorded_at=_ago("n % 1000000"),
        expires_at=_ago("n % 1000000 - 10000000"),
    )
    analyze()


def analyze() -> None:
    """Tell the planner how many rows there are, as time tells it in a database in use."""
    verb = "ANALYZE TABLE" if connection.vendor == "mysql" else "ANALYZE"
    with connection.cursor() as cursor:
        for model in (Elicitation, StoredFormAnswer):
            cursor.execute(f"{verb} {connection.ops.quote_name(model._meta.db_table)}")
        if connection.vendor == "postgresql":
            # Not in the middle of a measurement.
            cursor.execute("CHECKPOINT")


def _insert(
    model: type[Elicitation] | type[StoredFormAnswer], numbers: str, **columns: str
) -> None:
    for field in model._meta.concrete_fields:
        # What is not said here is empty, or the column's own default.
        if field.column not in columns and field.has_default():
            default = field.get_default()
            columns[field.column] = (
                str(default).upper() if default in (True, False) else str(default)
            )
        elif field.column not in columns and not field.null:
            columns[field.column] = "''"
    quote = connection.ops.quote_name
    names = ", ".join(quote(name) for name in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {quote(model._meta.db_table)} ({names}) "
            f"SELECT {', '.join(columns.values())} FROM {numbers}"
        )


def _text(what: str) -> str:
    return {
        "postgresql": f"'{what}-' || n",
        "mysql": f"CONCAT('{what}-', n)",
        "sqlite": f"'{what}-' || n",
    }[connection.vendor]


def _uuid(what: str) -> str:
    """A version 5 UUID of the row's number, in the form in which the column has it."""
    digest = f"MD5({_text(what)})"
    parts = (
        f"SUBSTR({digest}, 1, 12)",
        "'5'",
        f"SUBSTR({digest}, 14, 3)",
        "'8'",
        f"SUBSTR({digest}, 18)",
    )
    if connection.vendor == "sqlite":
        return " || ".join(parts)
    return f"CAST(CONCAT({', '.join(parts)}) AS UUID)"


def _ago(seconds: str) -> str:
    """So many seconds ago; a negative number is a time to come."""
    return {
        "postgresql": f"NOW() - ({seconds}) * INTERVAL '1 second'",
        "mysql": f"UTC_TIMESTAMP(6) - INTERVAL ({seconds}) SECOND",
        "sqlite": f"DATETIME('now', (-({seconds})) || ' seconds')",
    }[connection.vendor]
