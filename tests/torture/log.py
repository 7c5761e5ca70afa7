"""What each process of the torture test says it is about to do, and what it saw.

One file a process, only ever appended to: a line before an operation, and one after it. Nothing
here goes through the database, so that it can be asked about the database afterwards. A line is
one ``write``: a process that is killed leaves whole lines behind.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Log:
    """The file of one process."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.count = 0

    def write(self, **line: Any) -> None:
        # The monotonic clock is one for all processes of the machine.
        text = json.dumps({"at": time.monotonic(), **line})
        os.write(self.file, f"{text}\n".encode())

    def begin(self, operation: str, **details: Any) -> int:
        self.count += 1
        self.write(begin=self.count, operation=operation, **details)
        return self.count

    def end(self, number: int, outcome: str, **details: Any) -> None:
        self.write(end=number, outcome=outcome, **details)


#: For how long the server may go on with what a killed process has sent, in seconds.
GRACE = 2.0


@dataclass(kw_only=True)
class Operation:
    """One operation as the log has it; ``end`` is when it was over at the latest."""

    kind: str
    begin: float
    details: dict[str, Any]
    end: float = float("inf")
    outcome: str = ""
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether the process lived to say how it ended."""
        return self.outcome not in ("", "failed")


@dataclass
class Story:
    """All that the processes wrote down."""

    operations: list[Operation] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def of(self, *kinds: str) -> Iterator[Operation]:
        return (one for one in self.operations if one.kind in kinds)

    def events_of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]


def read(directory: Path) -> Story:
    """Read the files of all processes."""
    story = Story()
    by_file: dict[str, list[Operation]] = {}
    for path in sorted(directory.glob("*.log")):
        begun: dict[int, Operation] = {}
        for text in path.read_text().splitlines():
            line = json.loads(text)
            at = line.pop("at")
            if "begin" in line:
                number, kind = line.pop("begin"), line.pop("operation")
                begun[number] = Operation(kind=kind, begin=at, details=line)
            elif "end" in line:
                operation = begun[line.pop("end")]
                operation.end, operation.outcome = at, line.pop("outcome")
                operation.result = line
            else:
                story.events.append({"at": at, **line})
        by_file[path.name] = list(begun.values())
        story.operations += begun.values()
    for kill in story.events_of("kill"):
        for operation in by_file[kill["log"]]:
            operation.end = min(operation.end, kill["at"] + GRACE)
    return story
