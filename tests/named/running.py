"""Servers that run for a test, and the settings by which the app finds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import processes

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def bearer(user: User | None) -> dict[str, str]:
    """Return the token of a person, as ``auth`` of a server does."""
    return {"Authorization": f"Bearer {'nobody' if user is None else user.username}"}


@dataclass
class Running:
    """A server: its entry in ``ELICITATION_SERVERS``, and what it has received."""

    options: dict[str, Any]
    log: Path
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def lines(self, *methods: str) -> list[dict[str, Any]]:
        """Return what was noted of requests with these methods."""
        if not self.log.exists():
            return []
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["method"] in methods]

    @property
    def connections(self) -> list[str]:
        """The token of each connection that was made: of an older server, after the question."""
        made = self.lines("initialize") or self.lines("server/discover")
        return [line["token"].removeprefix("Bearer ") for line in made]

    @property
    def declared(self) -> list[dict[str, Any]]:
        """What each connection has declared of elicitation."""
        key = "io.modelcontextprotocol/clientCapabilities"
        made = [line["params"]["capabilities"] for line in self.lines("initialize")]
        made = made or [line["params"]["_meta"][key] for line in self.lines("server/discover")]
        return [capabilities.get("elicitation") for capabilities in made]

    @property
    def said(self) -> list[tuple[str, str]]:
        """The token and the answer of each call that came to its end."""
        calls = self.lines("tools/call")
        return [(line["token"].removeprefix("Bearer "), line["said"]) for line in calls]

    def allow(self, *tokens: str) -> None:
        """Let the server accept these tokens, and no others, from now on."""
        lines = "".join(f"Bearer {token}\n" for token in tokens)
        self.log.with_suffix(".tokens").write_text(lines)

    def forget(self) -> None:
        """Begin anew: whoever comes is let in, and nothing was noted."""
        self.log.write_text("")
        self.log.with_suffix(".tokens").unlink(missing_ok=True)


@contextmanager
def over_http(folder: Path, name: str, era: str = "modern", port: int = 0) -> Iterator[Running]:
    """Run a server over streamable HTTP."""
    port = port or processes.free_port()
    log = folder / f"{name}.log"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.named.server", era, str(log), str(port)],
        cwd=processes.BASE_DIR,
        env=os.environ,
        stdin=subprocess.DEVNULL,
    )
    try:
        processes.wait_until(lambda: processes.answers(port), "the server")
        yield Running({"url": f"http://127.0.0.1:{port}/mcp"}, log, process)
    finally:
        process.kill()
        process.wait(processes.WAIT_SECONDS)


def over_stdio(folder: Path, name: str, era: str = "modern") -> Running:
    """Return a server that the app starts by itself."""
    log = folder / f"{name}.log"
    args = ["-m", "tests.named.server", era, str(log)]
    options = {"command": sys.executable, "args": args, "cwd": processes.BASE_DIR}
    return Running(options, log)
