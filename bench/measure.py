"""Times a piece of work beside its baseline, in turn, so that a busy machine slows both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

#: Makes ready what a number of runs need, outside the time, and returns the runs.
Prepare = Callable[[int], Sequence[Callable[[], object]]]


@dataclass(kw_only=True)
class Result:
    """One line of the table: microseconds for one run, and the least ratio that must hold."""

    name: str
    baseline_name: str
    ours: float
    baseline: float
    ratio: float
    least: float | None = None
    #: How many statements one run sends to the database, and how long a response's body is.
    statements: int = 0
    bytes: int | None = None

    @property
    def holds(self) -> bool:
        return self.least is None or self.ratio >= self.least

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"holds": self.holds}


@dataclass(kw_only=True)
class Growth:
    """How long one piece of work takes with more and more rows in the tables."""

    name: str
    most: float | None = None
    microseconds: dict[int, float] = field(default_factory=dict)
    plans: list[str] = field(default_factory=list)
    scans: list[str] = field(default_factory=list)

    @property
    def factor(self) -> float:
        """The time with the most rows, as a multiple of that with the fewest."""
        sizes = sorted(self.microseconds)
        return self.microseconds[sizes[-1]] / self.microseconds[sizes[0]]

    @property
    def holds(self) -> bool:
        return (self.most is None or self.factor <= self.most) and not self.scans

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"factor": self.factor, "holds": self.holds}


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep the garbage collector out of a time; it would charge one for the other's garbage."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def timed(prepare: Prepare, runs: int) -> float:
    """The microseconds that one run takes, on average over ``runs``."""
    ready = prepare(runs)
    with undisturbed():
        return statistics.fmean(_time(run) for run in ready)


def in_turn(ours: Prepare, baseline: Prepare, runs: int) -> tuple[float, float]:
    """The microseconds of one run of each, on average, where each run follows one of the other.

    So both find the caches as the other left them, as requests to a site do, and whatever
    else the machine does meets both.
    """
    pairs = zip(ours(runs), baseline(runs), strict=True)
    with undisturbed():
        times = [(_time(mine), _time(low)) for mine, low in pairs]
    mine, low = zip(*times, strict=True)
    return statistics.fmean(mine), statistics.fmean(low)


def _time(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return (time.perf_counter() - begin) * 1e6


def compare(
    name: str,
    ours: Prepare,
    baseline_name: str,
    baseline: Prepare,
    *,
    runs: int,
    rounds: int,
    least: float | None = None,
) -> Result:
    """Measure both in turn; the ratio is the median of the rounds' own ratios.

    A ratio of 0.5 says that the baseline does in half the time what the app does.
    """
    in_turn(ours, baseline, 5)
    pairs = [in_turn(ours, baseline, runs) for _ in range(rounds)]
    return Result(
        name=name,
        baseline_name=baseline_name,
        ours=statistics.median(pair[0] for pair in pairs),
        baseline=statistics.median(pair[1] for pair in pairs),
        ratio=statistics.median(low / mine for mine, low in pairs),
        least=least,
    )


def median(prepare: Prepare, *, runs: int, rounds: int) -> float:
    """The median of the rounds, in microseconds for one run."""
    timed(prepare, 5)
    return statistics.median(timed(prepare, runs) for _ in range(rounds))
