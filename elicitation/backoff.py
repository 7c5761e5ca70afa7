"""How long to pause before something is tried, looked at or told again."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

#: Seconds, or a duration.
Pause = TypeVar("Pause", float, timedelta)

#: More often than this no pause is doubled: it is the longest one long before.
_MAX_DOUBLINGS = 32


def pause(times: int, first: Pause, longest: Pause) -> Pause:
    """Return ``first``, doubled ``times`` times, but at most ``longest``.

    Args:
        times: How many pauses there were before, from 0.
        first: The first pause, in seconds or as a duration.
        longest: The longest one, likewise.
    """
    # Bounded before it is doubled: a setting may be any duration, and a count any number.
    return min(min(first, longest) * (1 << min(times, _MAX_DOUBLINGS)), longest)
