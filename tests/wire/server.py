"""A server over raw sockets that asks once, and meets the retry with whatever a test tells it.

No library writes its replies: it can stop in the middle of a header, or reset a connection.
"""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

PLAN = {
    "type": "object",
    "properties": {"plan": {"type": "string", "enum": ["solo", "team-7391"]}},
    "required": ["plan"],
}
SEATS = {
    "type": "object",
    "properties": {"seats": {"type": "integer", "minimum": 1, "maximum": 50}},
    "required": ["seats"],
}


@dataclass
class Request:
    """One HTTP request, as it came in."""

    connection: socket.socket
    method: str
    headers: Mapping[str, str]
    message: Mapping[str, Any]
    server: Server

    @property
    def params(self) -> Mapping[str, Any]:
        params: Mapping[str, Any] = self.message.get("params") or {}
        return params

    @property
    def answers(self) -> Mapping[str, Any]:
        """What the retry answers, by the request's key."""
        found: Mapping[str, Any] = self.params.get("inputResponses") or {}
        return found

    def write(self, data: bytes) -> None:
        self.connection.sendall(data)


#: What meets a request: it writes to the connection. ``True`` keeps the connection open.
Reply = Callable[[Request], object]


def http(
    status: int, body: bytes = b"", kind: str = "application/json", **headers: str
) -> Callable[[Request], bool]:
    """Reply with a complete HTTP response."""
    lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}"]
    if kind:
        lines.append(f"Content-Type: {kind}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    data = "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def reply(request: Request) -> bool:
        request.write(data)
        return True

    return reply


def message(status: int = 200, /, *, id: object = "", **parts: Any) -> Reply:
    """Reply with a JSON-RPC message; its id is the request's, unless another is given."""

    def reply(request: Request) -> object:
        body = {"jsonrpc": "2.0", "id": request.message.get("id") if id == "" else id, **parts}
        return http(status, json.dumps(body).encode())(request)

    return reply


def error(code: int, text: str = "no", data: Any = None, *, status: int = 200) -> Reply:
    detail = {"code": code, "message": text} | ({} if data is None else {"data": data})
    return message(status, error=detail)


def runs(then: Reply) -> Reply:
    """Let the tool run, and reply."""

    def reply(request: Request) -> object:
        request.server.ran += 1
        return then(request)

    return reply


def result(*, status: int = 200, **fields: Any) -> Reply:
    """Let the tool run, and reply with a result; a field that is ``None`` is left out."""
    body = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"} | fields
    body = {name: value for name, value in body.items() if value is not None}
    return runs(message(status, result=body))


def asks(
    state: str | None = "state", requested: Mapping[str, Any] = PLAN, text: str = "Which?"
) -> Reply:
    """Reply with a question."""
    params = {"mode": "form", "message": text, "requestedSchema": requested}
    body: dict[str, Any] = {
        "resultType": "input_required",
        "inputRequests": {"k": {"method": "elicitation/create", "params": params}},
    }
    if state is not None:
        body["requestState"] = state
    return message(result=body)


def events(*lines: str, end: bytes = b"0\r\n\r\n") -> Reply:
    """Reply with an event stream in chunks; ``{id}`` stands for the request's id."""

    def reply(request: Request) -> None:
        request.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for line in lines:
            chunk = line.replace("{id}", json.dumps(request.message["id"])).encode()
            request.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        request.write(end)

    return reply


def raw(*parts: bytes, reset: bool = False) -> Reply:
    """Write bytes, and close the connection, or reset it."""

    def reply(request: Request) -> None:
        for part in parts:
            request.write(part)
        if reset:
            linger = struct.pack("ii", 1, 0)
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    return reply


def slow(seconds: float, then: Reply) -> Reply:
    """Reply once some time has passed, or the server stops."""

    def reply(request: Request) -> object:
        request.server.stopped.wait(seconds)
        return then(request)

    return reply


def held(until: threading.Event, then: Reply) -> Reply:
    """Reply once a test says so."""

    def reply(request: Request) -> object:
        until.wait(30)
        return then(request)

    return reply


def bad_gzip() -> Reply:
    body = gzip.compress(b"{}")[:-6] + b"broken"
    return http(200, body, Content_Encoding="gzip")


@dataclass
class Server:
    """The server; ``with`` starts it, and ``stop`` and ``start`` do so in between.

    ``retries`` are the tool calls that came with answers, in order; ``ran`` counts side effects.
    """

    retry: Reply = field(default_factory=result)
    first: Reply = field(default_factory=asks)
    lists: Reply = field(default_factory=lambda: tools())
    discover: Reply = field(default_factory=lambda: error(-32601, "no such method", status=404))
    calls: list[Request] = field(default_factory=list)
    ran: int = 0
    port: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def retries(self) -> list[Request]:
        return [call for call in self.calls if call.answers]

    @property
    def sent(self) -> list[Any]:
        """Every answer that came in, as action and content."""
        return [
            (answer["action"], answer.get("content"))
            for call in self.retries
            for answer in call.answers.values()
        ]

    def start(self) -> None:
        self.stopped.clear()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=[self.listener], daemon=True).start()

    def stop(self) -> None:
        """Listen no more; requests that are under way go on."""
        # An accept that waits keeps a closed socket open.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        with suppress(OSError):
            self.stop()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(30)
        with connection, suppress(OSError):
            stream = connection.makefile("rb")
            while (request := self._read(connection, stream)) is not None:
                if not self._reply(request):
                    # What is left of a request that was not read would reset the connection.
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_WR)
                    return

    def _read(self, connection: socket.socket, stream: Any) -> Request | None:
        head = stream.readline()
        if b" HTTP/1.1" not in head:
            # The end, or no HTTP.
            return None
        headers = {}
        while (line := stream.readline().strip()) != b"":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", 0)))
        parsed = json.loads(body) if body else {}
        return Request(connection, head.decode().split()[0], headers, parsed, self)

    def _reply(self, request: Request) -> object:
        method = request.message.get("method")
        if request.method != "POST":
            return http(405)(request)
        if method == "tools/call":
            self.calls.append(request)
            is_retry = request.answers or "requestState" in request.params
            return (self.retry if is_retry else self.first)(request)
        if method == "tools/list":
            return self.lists(request)
        if method == "server/discover":
            return self.discover(request)
        if method == "initialize":
            info = {"name": "raw", "version": "1"}
            version = {"protocolVersion": "2025-11-25", "serverInfo": info}
            return message(result=version | {"capabilities": {"tools": {}}})(request)
        return http(202)(request)


def tools(**fields: Any) -> Reply:
    """Reply with the list of the one tool."""
    tool = {"name": "buy", "inputSchema": {"type": "object"}} | fields
    listed = {"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"}
    return message(result=listed)


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
