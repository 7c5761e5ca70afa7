"""The short form of ``python -m tests.torture.failover``, with servers of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from django.db import connection

from tests.processes import BASE_DIR
from tests.torture.failover import judge
from tests.torture.log import Story

# It makes servers of its own. Where the tests run on PostgreSQL, its programs are there, too.
if connection.vendor == "postgresql":

    @pytest.mark.parametrize("how", ["asynchronous", "synchronous"])
    def test_no_answer_is_sent_twice_across_a_failover(how: str) -> None:
        command = [sys.executable, "-m", "tests.torture.failover", "--seconds", "1"]
        command += ["--synchronous"] if how == "synchronous" else []
        done = subprocess.run(
            command,
            cwd=BASE_DIR,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        counts = {
            name: int(number.replace(",", ""))
            for number, name in re.findall(r"^ *([\d,]+)  (.+)$", done.stdout, re.MULTILINE)
        }
        assert counts["runs"] >= 1
        assert counts["answers that reached a server"] > 0
        assert counts["answers that reached a server twice"] == 0


def test_the_judge_notices_what_was_sent_twice() -> None:
    events = [{"event": "received", "mark": mark, "at": 1.0} for mark in ("a", "b", "a")]
    counts, wrong = judge(Story(events=events))
    assert counts["answers that reached a server"] == 2
    assert wrong == ["a reached its server 2 times"]
