"""A server of today whose results are those of yesterday: they do not say what they are."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import mcp
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from elicitation.mcp.client import aclient_options, call_tool
from elicitation.models import ServerPolicy
from tests.integration.scripted import said

LISTED = {
    "tools": [{"name": "tool", "inputSchema": {"type": "object"}}],
    "ttlMs": 0,
    "cacheScope": "private",
}
DONE = {"content": [{"type": "text", "text": "done"}]}


class Handler(BaseHTTPRequestHandler):
    """Answers by hand: the SDK's servers always say of which type a result is."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = LISTED if request["method"] == "tools/list" else DONE
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


def test_a_result_without_a_type_is_a_complete_one(
    policy: ServerPolicy, user: User, address: str
) -> None:
    async def call() -> Any:
        options = await aclient_options("shop")
        async with mcp.Client(address, mode="2026-07-28", **options) as client:
            return await call_tool(
                client.session, server="shop", tool="tool", scope="chat", respondent=user
            )

    assert said(async_to_sync(call)()) == "done"
