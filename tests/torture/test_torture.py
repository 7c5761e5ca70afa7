"""The short form of ``make torture``, on the database that the tests run on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.processes import BASE_DIR


def torture(seconds: int, *options: str) -> tuple[int, Any]:
    """Run it; return how it ended, and what it counted."""
    # It makes a database of its own, and takes DATABASE_URL from the environment as the tests do.
    command = [sys.executable, "-m", "tests.torture", "--seconds", str(seconds), "--json"]
    done = subprocess.run(
        [*command, "--processes", "6", *options],
        cwd=BASE_DIR,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def test_many_processes_and_kills_leave_a_clean_account() -> None:
    code, result = torture(5, "--kill-every", "0.5")
    assert result["wrong"] == []
    assert code == 0
    counts = result["counts"]
    for happened in ("records", "takes", "calls", "answers delivered", "processes killed"):
        assert counts[happened] > 0, counts
