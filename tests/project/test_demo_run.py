"""The launcher behind `make demo`, as a process of its own."""

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.person import Person
from tests.processes import BASE_DIR, WAIT_SECONDS, answers, free_port, wait_until

COMMAND = [sys.executable, "-m", "project.demo_run"]


@contextmanager
def launched(tmp_path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {
        "DATABASE_URL": f"sqlite:///{tmp_path / 'demo.sqlite3'}",
        "SECRET_KEY": "only-for-tests",
        "DJANGO_SETTINGS_MODULE": "project.settings",
    }
    with subprocess.Popen(
        [*COMMAND, *options],
        cwd=BASE_DIR,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM])
def test_starts_all_and_stops_all(tmp_path, stop_signal):
    port, mcp_port = free_port(), free_port()
    with launched(tmp_path, f"--port={port}", f"--mcp-port={mcp_port}") as process:
        said = ""
        while "Ctrl-C stops it." not in said:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            said += line
        status, content = get(port, "/accounts/login/")
        assert status == 200
        assert "Sign in" in content
        assert get(port, "/static/demo/site.css")[0] == 200
        assert answers(mcp_port)
        # The worker makes the call, and goes on with it.
        person = Person(f"http://127.0.0.1:{port}")
        person.sign_in("demo", "demo")
        assert "The call" in person.press("/", "Run delete_project")
        (question,) = person.wait_for()
        person.answer(question)
        wait_until(lambda: "Finished" in person.read("/"), "the end of the run")

        process.send_signal(stop_signal)
        out, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0
    assert f"http://127.0.0.1:{port}/\nSign in as demo, password demo" in said
    assert out.endswith("Stopped.\n")
    assert all(" INFO elicitation: " in line for line in err.splitlines()), err
    wait_until(lambda: not answers(port) and not answers(mcp_port), "both ports free again")


@pytest.mark.parametrize(("option", "variable"), [("--port", "PORT"), ("--mcp-port", "MCP_PORT")])
def test_a_taken_port_is_named_with_the_variable_to_set(tmp_path, option, variable):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = {"--port": free_port(), "--mcp-port": free_port()} | {option: port}
        with launched(
            tmp_path, *(f"{name}={value}" for name, value in options.items())
        ) as process:
            out, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 1
    assert out == ""
    assert f"Port {port}, meant for " in err
    assert f"make demo {variable}=" in err
    assert len(err.splitlines()) == 1


def test_two_servers_cannot_share_a_port(tmp_path):
    port = free_port()
    with launched(tmp_path, f"--port={port}", f"--mcp-port={port}") as process:
        _, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 1
    assert f"cannot share port {port}" in err


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "８０００"])
def test_a_port_is_a_number_in_range(tmp_path, port):
    with launched(tmp_path, f"--port={port}") as process:
        _, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 2
    assert "is not a port; a port is 1 to 65535" in err


def test_help_says_what_can_be_chosen(tmp_path):
    with launched(tmp_path, "--help") as process:
        out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0
    assert "--port" in out
    assert "--mcp-port" in out
