"""The short form of ``python -m tests.torture.switching``, on the database of the tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.processes import BASE_DIR
from tests.torture.log import Story
from tests.torture.switching import judge


def test_nothing_is_sent_by_a_take_that_began_after_the_commit() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.torture.switching",
        "--seconds",
        "15",
        "--workers",
        "3",
    ]
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
    assert counts["of these, sent"] == 0
    for happened in ("switched off", "answers sent", "refused"):
        assert counts[happened] > 0, counts


def test_the_judge_notices_what_was_sent() -> None:
    """Times: off at 1, on at 3; a take of each kind."""
    takes = {"before": (0.5, 0.6), "late": (0.9, 1.1), "while off": (1.5, 2), "on again": (2.9, 4)}
    events = [{"event": "off", "at": 1.0}, {"event": "on", "at": 3.0}]
    for mark, (began, sent) in takes.items():
        events.append({"event": "take", "mark": mark, "at": began})
        events.append({"event": "received", "mark": mark, "at": sent})
    counts, wrong = judge(Story(events=events))
    assert counts["takes that began while it was off"] == 2
    assert counts["sent after the commit by a take that began before"] == 1
    (line,) = wrong
    assert line.startswith("while off was sent")
