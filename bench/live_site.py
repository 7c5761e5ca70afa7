"""The site as ``bench.live`` serves it: it also says at ``/measured`` what its process needs."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tests.processes import use_test_database

use_test_database()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.db.backends.signals import connection_created  # noqa: E402

queries: list[None] = []


def count(execute: Any, sql: str, *rest: Any) -> Any:
    queries.append(None)
    return execute(sql, *rest)


def on_connection(connection: Any, **kwargs: Any) -> None:
    if count not in connection.execute_wrappers:
        connection.execute_wrappers.append(count)


connection_created.connect(on_connection)
site = get_asgi_application()


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] != "/measured":
        await site(scope, receive, send)
        return
    status = Path("/proc/self/status").read_text()  # noqa: ASYNC240 - not on a disk
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    measured = {
        "queries": len(queries),
        "kilobytes": int(resident.split()[1]),
        "threads": threading.active_count(),
    }
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(measured).encode()})
