"""The floors: the same work in SQL, through the driver alone, on a connection of its own."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import connection

from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer
from project.database import SQLITE_INIT

TABLE = StoredFormAnswer._meta.db_table


class Raw:
    """A driver's connection, in autocommit like Django's."""

    def __init__(self) -> None:
        settings = connection.settings_dict
        self.vendor = connection.vendor
        self.mark = "?" if self.vendor == "sqlite" else "%s"
        if self.vendor == "postgresql":
            import psycopg

            self.connection: Any = psycopg.connect(
                dbname=settings["NAME"],
                user=settings["USER"],
                password=settings["PASSWORD"] or None,
                host=settings["HOST"] or None,
                port=settings["PORT"] or None,
                autocommit=True,
                # As Django sets it: what is prepared in one session is unknown in the next one
                # that a pooler gives out.
                prepare_threshold=None,
            )
        elif self.vendor == "mysql":
            import MySQLdb

            self.connection = MySQLdb.connect(
                db=settings["NAME"],
                user=settings["USER"],
                password=settings["PASSWORD"],
                host=settings["HOST"] or "127.0.0.1",
                port=int(settings["PORT"] or 3306),
                charset="utf8mb4",
                autocommit=True,
            )
        else:
            import sqlite3

            self.connection = sqlite3.connect(
                settings["NAME"], isolation_level=None, timeout=20, cached_statements=256
            )
            self.connection.executescript(SQLITE_INIT)
        self.cursor = self.connection.cursor()
        begin = "BEGIN IMMEDIATE" if self.vendor == "sqlite" else "BEGIN"
        lock = "" if self.vendor == "sqlite" else " FOR UPDATE"
        where = f"FROM {TABLE} WHERE id = {self.mark}"
        self.take_statements = (begin, f"SELECT * {where}{lock}", f"DELETE {where}")
        self.upsert = self._insert(StoredFormAnswer, replace=True)
        self.begin = begin
        self.inserts = (self._insert(ParkedCall), self._insert(Elicitation))

    def take(self, key: uuid.UUID) -> None:
        begin, select, delete = self.take_statements
        cursor, value = self.cursor, self.value(key)
        cursor.execute(begin)
        cursor.execute(select, (value,))
        assert cursor.fetchone() is not None
        cursor.execute(delete, (value,))
        assert cursor.rowcount == 1
        cursor.execute("COMMIT")

    def record(self, row: tuple[Any, ...]) -> None:
        self.cursor.execute(self.upsert, row)

    def ask(self, call: tuple[Any, ...], question: tuple[Any, ...]) -> None:
        self.cursor.execute(self.begin)
        self.cursor.execute(self.inserts[0], call)
        self.cursor.execute(self.inserts[1], question)
        self.cursor.execute("COMMIT")

    def value(self, value: object) -> Any:
        """As the driver wants it."""
        if isinstance(value, uuid.UUID) and self.vendor != "postgresql":
            return str(value) if self.vendor == "mysql" else value.hex
        return value

    def row(self, instance: StoredFormAnswer | ParkedCall | Elicitation) -> tuple[Any, ...]:
        """The values of a row as the columns hold them."""
        found = []
        for field in instance._meta.concrete_fields:
            prepared = field.get_db_prep_save(getattr(instance, field.attname), connection)
            found.append(self.value(prepared))
        return tuple(found)

    def _insert(
        self,
        model: type[StoredFormAnswer] | type[ParkedCall] | type[Elicitation],
        *,
        replace: bool = False,
    ) -> str:
        quote = connection.ops.quote_name
        columns = [field.column for field in model._meta.concrete_fields]
        sql = (
            f"INSERT INTO {quote(model._meta.db_table)} ({', '.join(map(quote, columns))}) "
            f"VALUES ({', '.join([self.mark] * len(columns))})"
        )
        if not replace:
            return sql
        others = [quote(column) for column in columns if column != "id"]
        if self.vendor == "mysql":
            changes = ", ".join(f"{column} = VALUES({column})" for column in others)
            return f"{sql} ON DUPLICATE KEY UPDATE {changes}"
        changes = ", ".join(f"{column} = excluded.{column}" for column in others)
        return f"{sql} ON CONFLICT (id) DO UPDATE SET {changes}"
