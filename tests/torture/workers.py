"""Workers are killed at each point of a call: ``python -m tests.torture.workers``.

For each point so many workers, each a process, kill themselves there with a call in their hands, a
person answers what is asked, and one more worker goes on with what they have left. Every outcome
has to be received once or more. The tool takes each of its states once, so it may run at most
once. Makes a database of its own and removes it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import processes
from tests.processes import WAIT_SECONDS

from .command import in_own_database, report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import User

    from tests.named.running import Running

#: How many workers die at the same time.
AT_ONCE = 4


@dataclass(kw_only=True)
class Run:
    """One call, and what became of it: how often its host received which end, and the tool ran."""

    point: str
    key: uuid.UUID
    codes: list[str] = field(default_factory=list)
    ran: int = 0

    def faults(self, ends: set[str]) -> list[str]:
        """Say what is wrong with it."""
        found = []
        if not self.codes:
            found.append("no outcome was received")
        if set(self.codes) - ends:
            found.append(f"it ended as {', '.join(self.codes)}")
        if self.ran > 1:
            found.append(f"the tool ran {self.ran} times")
        if "finished" in self.codes and not self.ran:
            found.append("it has finished, and the tool did not run")
        return [f"{self.point}, call {self.key}: {fault}" for fault in found]


class Site:
    """A site with one person, whose calls workers make and drop."""

    #: What a worker runs.
    module = "tests.workers.process"

    def __init__(self, user: User, shop: Running, folder: Path) -> None:
        self.user = user
        self.shop = shop
        self.received = folder / "received"
        self.received.touch()

    def servers(self, numbers: Iterable[int]) -> dict[str, Any]:
        """One server under many names: a worker goes on with the calls of those it knows."""
        options = self.shop.options | {"policy": "url_and_form"}
        return {f"shop-{number}": options for number in numbers}

    @contextmanager
    def worker(self, numbers: Iterable[int], point: str = "") -> Iterator[subprocess.Popen[str]]:
        servers = json.dumps(self.servers(numbers))
        process = processes.start(self.module, servers, point, str(self.received))
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "started" in line, process.communicate(timeout=WAIT_SECONDS)
            yield process
        finally:
            process.kill()
            process.communicate(timeout=WAIT_SECONDS)

    def begin(self, number: int) -> uuid.UUID:
        from elicitation import calls

        arguments = {"number": number}
        return calls.start_sync(
            f"shop-{number}", "once", arguments, scope="chat", user=self.user, call=number
        )

    def answering(self, holds: Callable[[], bool], what: str) -> None:
        """Answer what is asked until something holds."""
        from elicitation import inbox
        from elicitation.models import Elicitation

        def held() -> bool:
            for asked in Elicitation.objects.pending():
                answers = asked.schema.answers_from_content({"note": "blue"})
                inbox.answer(asked.pk, answers, by=self.user)
            return holds()

        # As many calls as there are runs go on at the same time here.
        processes.wait_until(held, what, 10 * WAIT_SECONDS)

    def kill(self, point: str, numbers: Sequence[int]) -> list[Run]:
        """Kill a worker at this point for each number, and return what became of the calls."""
        keys: dict[int, uuid.UUID] = {}
        for first in range(0, len(numbers), AT_ONCE):
            some = numbers[first : first + AT_ONCE]
            with ExitStack() as stack:
                dying = [stack.enter_context(self.worker([number], point)) for number in some]
                keys |= {number: self.begin(number) for number in some}
                self.answering(
                    lambda dying=dying: all(each.poll() is not None for each in dying),  # type: ignore[misc]
                    f"a death {point}",
                )
        with self.worker(numbers):
            wanted = {str(key) for key in keys.values()}
            self.answering(lambda: wanted <= self.codes().keys(), f"outcomes after {point}")
        codes = self.codes()
        return [
            self.run(number, point=point, key=key, codes=codes[str(key)])
            for number, key in keys.items()
        ]

    def run(self, number: int, **fields: Any) -> Run:
        """Return what became of a call, by what the server has seen of it."""
        ran = Counter(line["arguments"]["number"] for line in self.shop.lines("tools/call"))
        return Run(ran=ran[number], **fields)

    def codes(self) -> dict[str, list[str]]:
        """How each call ended, as often as that was received."""
        found: dict[str, list[str]] = {}
        for line in self.received.read_text().splitlines():
            received = json.loads(line)
            found.setdefault(received["key"], []).append(received["code"])
        return found


def torture(points: Sequence[str], runs: int) -> Iterator[list[Run]]:
    """Kill as many workers at each of these points; give what became of the calls of each."""
    from django.contrib.auth.models import User
    from django.test import override_settings

    from tests.named.running import over_http

    user = User.objects.create_user("ada")
    with tempfile.TemporaryDirectory(prefix="workers-") as folder:
        for number, point in enumerate(points):
            with over_http(Path(folder), f"shop-{number}") as shop:
                site = Site(user, shop, Path(folder))
                numbers = range(number * runs, (number + 1) * runs)
                with override_settings(ELICITATION_SERVERS=site.servers(numbers)):
                    yield site.kill(point, numbers)


def judge(
    runs: Sequence[Run], ends: Mapping[str, set[str]] | None = None
) -> tuple[Counter[str], list[str]]:
    """Count what became of the calls, and say what is wrong.

    Args:
        runs: The calls.
        ends: How a call may end, by the point at which its worker died.
    """
    from tests.workers.process import ENDS

    ends = ends or ENDS
    counts: Counter[str] = Counter(runs=len(runs))
    wrong: list[str] = []
    for run in runs:
        counts[f"received {len(run.codes)} times, {' and '.join(sorted(set(run.codes)))}"] += 1
        counts[f"the tool ran {run.ran} times"] += 1
        wrong += run.faults(ends[run.point])
    counts["faults"] = len(wrong)
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.workers", description=__doc__)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--runs", type=int, default=30, help="kills at each point")
    parser.add_argument("--point", help="this point alone")
    options = parser.parse_args()
    clean = True
    with in_own_database(options.database_url):
        from tests.workers.process import POINTS

        points = [options.point] if options.point else POINTS
        for point, runs in zip(points, torture(points, options.runs), strict=True):
            clean &= report(f"killed {point}", *judge(runs))
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
