"""Processes that the tests start, and waiting for them; nothing here imports Django by itself."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

BASE_DIR = Path(__file__).resolve().parent.parent
WAIT_SECONDS = 30
# A process that was started for a test finds the name of the test's database here.
DATABASE = "ELICITATION_TEST_DATABASE"


def start(module: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a module as a process of its own, which works on this test's database."""
    from django.db import connection

    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=BASE_DIR,
        env=os.environ | {DATABASE: str(connection.settings_dict["NAME"])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(processes: Sequence[subprocess.Popen[str]]) -> list[Any]:
    """Wait for processes, and return the JSON that each printed last."""
    printed = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=4 * WAIT_SECONDS)
        finally:
            process.kill()
        assert process.returncode == 0, err
        printed.append(json.loads(out.splitlines()[-1]))
    return printed


def use_test_database() -> None:
    """Set Django up in a process that was started so, before it imports any model."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

    import django
    from django.conf import settings

    settings.DATABASES["default"]["NAME"] = os.environ[DATABASE]
    django.setup()


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether anybody answers HTTP on this port, with whatever status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    except OSError:
        return False
    else:
        return True
    finally:
        connection.close()


def wait_until(holds: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Wait for something to hold; fail, naming it, where it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)
