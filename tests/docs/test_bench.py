"""The benchmarks run with the code of today; what they measure is no matter of a test."""

from __future__ import annotations

import subprocess
import sys

from tests.processes import BASE_DIR


def test_each_benchmark_of_the_database_runs() -> None:
    sizes = ["--rows", "5", "--runs", "1", "--rounds", "1"]
    run = subprocess.run(
        [sys.executable, "-m", "bench.database", *sizes],
        cwd=BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for measured in ("take an answer", "ask: from the call to the parked call", "question page"):
        assert measured in run.stdout
