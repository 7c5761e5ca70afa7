"""A router as projects with a replica have it."""

from __future__ import annotations

from typing import Any


class ReadFromReplica:
    """Reads the app's tables from the replica, and writes to the default database."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "replica" if model._meta.app_label == "elicitation" else None

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"

    def allow_relation(self, first: Any, second: Any, **hints: Any) -> bool:
        return True
