"""The real take, and the same with a part left out, in the moment in which it matters."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from tests.torture.__main__ import what_is_left
from tests.torture.careless import LOCK_SHOWS, meet
from tests.torture.check import FAULTS, Verdict

TIMES = 3

Meet = Callable[..., tuple[Verdict, int]]


@pytest.fixture
def meeting(transactional_db: None, user: User, tmp_path: Path) -> Meet:
    def run(**options: Any) -> tuple[Verdict, int]:
        return meet(tmp_path, user.pk, what_is_left, times=TIMES, **options)

    return run


def faults(verdict: Verdict) -> dict[str, int]:
    return {name: verdict.counts[name] for name in FAULTS if verdict.counts[name]}


def test_a_take_locks_everybody_out_between_its_look_and_its_deletion(
    meeting: Meet, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "elicitation"):
        verdict, locked_out = meeting()
    assert faults(verdict) == {}
    assert verdict.counts["answers delivered"] == 2 * TIMES
    assert locked_out == 2 * TIMES
    assert "passing conflict" not in caplog.text


def test_a_take_delivers_once_where_no_lock_holds(meeting: Meet) -> None:
    verdict, locked_out = meeting(locks_hold=False)
    assert faults(verdict) == {}
    assert (verdict.counts["answers delivered"], locked_out) == (TIMES, 0)


def test_a_take_without_its_count_is_found_out(meeting: Meet) -> None:
    verdict, _ = meeting(without="count", locks_hold=False)
    assert faults(verdict) == {"delivered twice": TIMES}


def test_a_take_without_its_lock_is_found_out(
    meeting: Meet, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "elicitation"):
        verdict, _ = meeting(without="lock")
    if connection.vendor in LOCK_SHOWS:
        assert faults(verdict) == {"lost": TIMES}
    else:
        # SQLite refuses what was built on an old look.
        assert faults(verdict) == {}
        assert caplog.text.count("passing conflict") == 2 * TIMES
