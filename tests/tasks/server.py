"""A server of the Tasks extension, written by hand: it answers JSON-RPC byte by byte (SEP-2663).

It runs in a thread of the tests. A test says what each ``tasks/get`` returns, in order; the last
one is returned again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CREATED = {
    "resultType": "task",
    "taskId": "task-1",
    "status": "working",
    "createdAt": "2026-12-01T00:00:00Z",
    "lastUpdatedAt": "2026-12-01T00:00:00Z",
    "ttlMs": None,
    "pollIntervalMs": 1000,
}
NOTE = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def asks(**messages: str) -> dict[str, Any]:
    """A task that asks these, by their keys."""
    return {
        "status": "input_required",
        "inputRequests": {
            key: {
                "method": "elicitation/create",
                "params": {"mode": "form", "message": message, "requestedSchema": NOTE},
            }
            for key, message in messages.items()
        },
    }


def completed(text: str, **more: Any) -> dict[str, Any]:
    result = {"content": [{"type": "text", "text": text}], **more}
    return {"status": "completed", "result": result}


WORKING = {"status": "working"}


class Listening(ThreadingHTTPServer):
    """Listens in a thread."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that was killed leaves its connections as they are."""


class TaskServer:
    """What the server was sent, and what it says.

    ``states`` are what ``tasks/get`` returns, one after the other. ``call`` is the reply to
    ``tools/call``.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
        self.states: list[dict[str, Any]] = []
        self.call: Callable[[dict[str, Any]], dict[str, Any]] = lambda params: CREATED
        self.is_forgotten = False
        #: Answer what is sent about a task with an internal error.
        self.breaks_down = False
        #: Close the connection instead of replying to the next ``tasks/update``.
        self.breaks_off = False
        self.lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                reply = server.reply(json.loads(body), dict(self.headers))
                if reply is None:
                    self.close_connection = True
                    return
                sent = json.dumps(reply).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = Listening(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/mcp"

    def of(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the requests with this method."""
        return [each["params"] for each in self.requests if each["method"] == method]

    def reply(self, message: dict[str, Any], headers: dict[str, str]) -> dict[str, Any] | None:
        with self.lock:
            found = self.result(message, headers)
        if found is None:
            return None
        return {"jsonrpc": "2.0", "id": message["id"], **found}

    def result(self, message: dict[str, Any], headers: dict[str, str]) -> dict[str, Any] | None:
        method, params = message["method"], message.get("params", {})
        if method == "server/discover":
            return {
                "result": {
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "tasks", "version": "1"},
                    "ttlMs": 0,
                    "cacheScope": "private",
                }
            }
        self.requests.append({"method": method, "params": params})
        self.headers.append({key.lower(): value for key, value in headers.items()})
        self.times.append(time.monotonic())
        if method in ("tools/call", "prompts/get"):
            return {"result": self.call(params)}
        if self.breaks_down:
            return {"error": {"code": -32603, "message": "Internal error"}}
        if self.is_forgotten:
            return {"error": {"code": -32602, "message": "Task not found"}}
        if method == "tasks/update":
            if self.breaks_off:
                self.breaks_off = False
                return None
            return {"result": {"resultType": "complete"}}
        if method == "tasks/cancel":
            return {"result": {"resultType": "complete"}}
        assert method == "tasks/get", method
        task = {"resultType": "complete", "taskId": params["taskId"]}
        return {"result": CREATED | task | self.state(params)}

    def state(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return what a task is doing that is read."""
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]
