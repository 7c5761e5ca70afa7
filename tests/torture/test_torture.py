"""The short form of ``make torture``, on the database that the tests run on."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.processes import BASE_DIR


def test_many_processes_and_kills_leave_a_clean_account() -> None:
    # It makes a database of its own, and takes DATABASE_URL from the environment as the tests do.
    command = [sys.executable, "-m", "tests.torture", "--seconds", "10", "--kill-every", "1"]
    done = subprocess.run(
        [*command, "--processes", "6", "--json"],
        cwd=BASE_DIR,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["wrong"] == []
    assert done.returncode == 0, done.stderr
    counts = result["counts"]
    for happened in ("records", "takes", "calls", "answers delivered", "processes killed"):
        assert counts[happened] > 0, counts
