"""Start the whole demo with one command: ``make demo``, or ``python -m project.demo_run``.

The site, its worker and the MCP server run as three processes. They are started in sessions of
their own, so that Ctrl-C reaches this process alone, which then stops them in order.
"""

import argparse
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

BASE_DIR = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
START_SECONDS = 60
STOP_SECONDS = 5


class Failure(Exception):
    """Why the demo cannot run; its text says what to do."""


def main() -> int:
    options = _parse()
    stop = threading.Event()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: stop.set())
    try:
        _run(options.port, options.mcp_port, stop)
    except Failure as failure:
        _say(str(failure), sys.stderr)
        return 1
    _say("Stopped.")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m project.demo_run",
        description="Start the demo site, its worker and its MCP server on this machine; Ctrl-C "
        "stops them.",
    )
    parser.add_argument(
        "--port", type=_port, default=8000, help="port of the site (default: %(default)s)"
    )
    parser.add_argument(
        "--mcp-port",
        type=_port,
        default=8808,
        help="port of the MCP server (default: %(default)s)",
    )
    return parser.parse_args()


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; a port is 1 to 65535")
    return int(text)


def _run(port: int, mcp_port: int, stop: threading.Event) -> None:
    if port == mcp_port:
        raise Failure(
            f"The site and the MCP server cannot share port {port}. "
            "Choose another for one of them: make demo PORT=… MCP_PORT=…"
        )
    _require_free(port, "PORT", "the site")
    _require_free(mcp_port, "MCP_PORT", "the MCP server")
    mcp_url = f"http://{HOST}:{mcp_port}/mcp"
    environment = os.environ | {"DEMO_MCP_URL": mcp_url}
    python = sys.executable
    manage = [python, "manage.py"]
    for command in (["migrate", "--verbosity=0"], ["demo_setup", "--verbosity=0"]):
        if subprocess.run([*manage, *command], cwd=BASE_DIR, env=environment).returncode:
            raise Failure(f"“manage.py {command[0]}” failed; the lines above say why.")

    with ExitStack() as stack:
        children = {
            "MCP server": stack.enter_context(
                _child([python, "-m", "project.demo_server", f"--port={mcp_port}"], environment)
            ),
            "site": stack.enter_context(
                _child(
                    [*manage, "runserver", "--noreload", "--insecure", f"{HOST}:{port}"],
                    environment,
                )
            ),
            "worker": stack.enter_context(
                _child([*manage, "elicitation_worker", "--patience=2"], environment)
            ),
        }
        _await_answer(children, {"MCP server": (mcp_port, "/mcp"), "site": (port, "/")}, stop)
        if not stop.is_set():
            _say(
                f"\nThe demo runs at http://{HOST}:{port}/\n"
                "Sign in as demo, password demo (or as admin, password admin).\n"
                "Ctrl-C stops it.\n"
            )
        while not stop.wait(0.5):
            _require_alive(children)


def _require_free(port: int, variable: str, what: str) -> None:
    with socket.socket() as probe:
        # What a server that has just stopped leaves behind must not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise Failure(
                f"Port {port}, meant for {what}, cannot be used: {error.strerror}. "
                f"Choose another: make demo {variable}={port + 1 if port < 65535 else 8001}"
            ) from error


@contextmanager
def _child(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        cwd=BASE_DIR,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_answer(
    children: dict[str, subprocess.Popen[bytes]],
    addresses: dict[str, tuple[int, str]],
    stop: threading.Event,
) -> None:
    deadline = time.monotonic() + START_SECONDS
    silent = dict(addresses)
    while silent and not stop.wait(0.1):
        _require_alive(children)
        if time.monotonic() > deadline:
            raise Failure(f"The {' and the '.join(silent)} did not answer in {START_SECONDS} s.")
        silent = {name: address for name, address in silent.items() if not _answers(*address)}


def _answers(port: int, path: str) -> bool:
    """Whether anything comes back; an MCP server has no page to show, but refuses politely."""
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _require_alive(children: dict[str, subprocess.Popen[bytes]]) -> None:
    for name, process in children.items():
        if process.poll() is not None:
            raise Failure(
                f"The {name} has stopped (exit status {process.returncode}); "
                "the lines above say why."
            )


def _say(text: str, stream: TextIO | None = None) -> None:
    (stream or sys.stdout).write(f"{text}\n")
    (stream or sys.stdout).flush()


if __name__ == "__main__":
    sys.exit(main())
