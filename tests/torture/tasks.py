"""Workers are killed at each point of a task's life: ``python -m tests.torture.tasks``.

As ``tests.torture.workers``, with a server that goes on with each call as a task, which asks two
things one after the other. The tool has to be started once, each key answered at most once, and
every outcome received once or more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.tasks.server import CREATED, TaskServer, asks, completed

from .command import in_own_database, report
from .workers import Run, Site, judge

if TYPE_CHECKING:
    from django.contrib.auth.models import User

KEYS = ("a", "b")


class Tasks(TaskServer):
    """A server whose tasks ask for each key until it is answered, and have completed then."""

    def __init__(self) -> None:
        super().__init__()
        #: The numbers of the calls, by the ids of their tasks.
        self.numbers: dict[str, int] = {}
        self.call = self.create

    def create(self, params: dict[str, Any]) -> dict[str, Any]:
        task = str(uuid.uuid4())
        self.numbers[task] = params["arguments"]["number"]
        return CREATED | {"taskId": task}

    def state(self, params: dict[str, Any]) -> dict[str, Any]:
        answered = self.answered(params["taskId"])
        left = [key for key in KEYS if key not in answered]
        return asks(**{left[0]: "Which?"}) if left else completed("bought")

    def answered(self, task: str) -> Counter[str]:
        """How often each key of a task was answered."""
        updates = [each for each in self.of("tasks/update") if each["taskId"] == task]
        return Counter(key for each in updates for key in each["inputResponses"])


@dataclass(kw_only=True)
class TaskRun(Run):
    """One call whose server goes on with it as a task."""

    #: How often each key was answered.
    answered: Counter[str]

    def faults(self, ends: set[str]) -> list[str]:
        """Say what is wrong with it."""
        found = super().faults(ends)
        wrong = [key for key, times in self.answered.items() if times > 1]
        if "finished" in self.codes:
            wrong += [key for key in KEYS if not self.answered[key]]
        if wrong:
            found.append(f"{self.point}, call {self.key}: not answered once: {', '.join(wrong)}")
        return found


class TaskSite(Site):
    """A site with one person, whose tasks workers look after and drop."""

    module = "tests.tasks.process"

    def __init__(self, user: User, tasks: Tasks, folder: Path) -> None:
        self.user = user
        self.tasks = tasks
        self.received = folder / "received"
        self.received.touch()

    def servers(self, numbers: Sequence[int]) -> dict[str, Any]:  # type: ignore[override]
        options = {"url": self.tasks.url, "policy": "url_and_form"}
        return {f"shop-{number}": options for number in numbers}

    def run(self, number: int, **fields: Any) -> TaskRun:
        mine = [task for task, its in self.tasks.numbers.items() if its == number]
        answered = sum((self.tasks.answered(task) for task in mine), Counter[str]())
        return TaskRun(ran=len(mine), answered=answered, **fields)


def torture(points: Sequence[str], runs: int) -> Iterator[list[Run]]:
    """Kill as many workers at each of these points; give what became of the calls of each."""
    from django.contrib.auth.models import User
    from django.test import override_settings

    user = User.objects.create_user("ada")
    with tempfile.TemporaryDirectory(prefix="tasks-") as folder:
        for number, point in enumerate(points):
            tasks = Tasks()
            try:
                site = TaskSite(user, tasks, Path(folder))
                numbers = range(number * runs, (number + 1) * runs)
                with override_settings(ELICITATION_SERVERS=site.servers(numbers)):
                    yield site.kill(point, numbers)
            finally:
                tasks.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.tasks", description=__doc__)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--runs", type=int, default=30, help="kills at each point")
    parser.add_argument("--point", help="this point alone")
    options = parser.parse_args()
    clean = True
    with in_own_database(options.database_url):
        from tests.tasks.process import ENDS

        points = [options.point] if options.point else list(ENDS)
        for point, runs in zip(points, torture(points, options.runs), strict=True):
            clean &= report(f"killed {point}", *judge(runs, ENDS))
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
