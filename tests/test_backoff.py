"""Pauses before something is tried again."""

from __future__ import annotations

from datetime import timedelta

from elicitation.backoff import pause


def test_a_pause_doubles_up_to_the_longest() -> None:
    assert [pause(times, 0.5, 3.0) for times in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_durations_of_any_size_and_any_count_have_a_pause() -> None:
    hour = timedelta(hours=1)
    assert pause(1, timedelta(minutes=1), hour) == timedelta(minutes=2)
    assert pause(10**9, timedelta(microseconds=1), hour) == hour
    assert pause(3, timedelta.max, hour) == hour
