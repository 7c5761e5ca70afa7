"""What the tests that count statements and calls share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def told() -> list[str]:
    """How open pages of other processes hear of a change, after its commit."""
    return ["NOTIFY"] if connection.vendor == "postgresql" else []


def closed() -> list[str]:
    """Closing: the row is read and changed where nobody was first, and an answer is left."""
    return ["SELECT", "BEGIN", "UPDATE", "INSERT", "COMMIT", *told()]


def statements(face: Callable[[], Any]) -> list[str]:
    """Return the first words of a request's statements, without those of session and user."""
    with CaptureQueriesContext(connection) as captured:
        response = face()
    assert response.status_code in (200, 302), response.content
    others = ("django_session", "auth_user", "authtoken_token")
    return [
        "NOTIFY" if "pg_notify" in query["sql"] else query["sql"].split()[0]
        for query in captured.captured_queries
        if not any(f"FROM {connection.ops.quote_name(table)}" in query["sql"] for table in others)
    ]


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[None]:
    """Return a list that has one item for each call of a function."""
    calls: list[None] = []
    function = getattr(owner, name)

    def count(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, count)
    return calls
