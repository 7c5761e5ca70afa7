"""A newcomer who does what ``docs/tutorial.md`` says: ``python -m tests.tutorial --python PATH``.

Each block of the page is run, in an empty folder, by an interpreter that has the app installed or
finds it on ``PYTHONPATH``. Nothing here imports Django: the release is tried with it as well.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.person import Person
from tests.processes import BASE_DIR, WAIT_SECONDS, answers, free_port, wait_until

PAGE = BASE_DIR / "docs" / "tutorial.md"
#: What is done with each block, and its text.
BLOCKS = re.findall(r"<!-- test: (.+?) -->\n```\w+\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
PASSWORD = "long enough 1"


class Newcomer:
    """Somebody with an empty folder and the page."""

    def __init__(self, folder: Path, python: str, *, pythonpath: str = "") -> None:
        self.folder = folder
        self.python = python
        self.port = free_port()
        self.printed = folder / "printed.txt"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DJANGO_", "DATABASE_URL", "PYTHON"))
        }
        self.environment = kept | {
            "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
            "PYTHONUNBUFFERED": "1",
            **({"PYTHONPATH": pythonpath} if pythonpath else {}),
        }

    def command(self, line: str) -> list[str]:
        """Return the arguments of a line of the page, which a person would also type."""
        assert line.startswith("python "), line
        line = line.removeprefix("python ").replace(":8000", f":{self.port}")
        if "createsuperuser" in line:
            line += " --noinput"
        shown = re.findall(r'"([^"]*)"|(\S+)', line)
        return [self.python, *(quoted or plain for quoted, plain in shown)]

    def run(self, line: str) -> None:
        done = subprocess.run(
            self.command(line),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"

    def start(self, line: str, stack: ExitStack) -> None:
        """Start what runs on in a terminal of its own, until the end of the page."""
        file = stack.enter_context(self.printed.open("a"))
        process = subprocess.Popen(
            self.command(line), cwd=self.folder, env=self.environment, stdout=file
        )
        stack.callback(process.wait, WAIT_SECONDS)
        stack.callback(process.terminate)

    def answer(self) -> None:
        """Do in a browser what section 6 says."""
        wait_until(lambda: answers(self.port), "the site")
        person = Person(f"http://127.0.0.1:{self.port}")
        person.sign_in("ada", PASSWORD)
        (asked,) = person.wait_for(1)
        person.answer(asked, {"Size": "large", "Candles": "9"})

    def follow(self) -> None:
        """Do all of the page.

        Raises:
            AssertionError: A command failed, or something of what the page promises did not come.
        """
        with ExitStack() as stack:
            for what, text in BLOCKS:
                doing, _, name = what.partition(" ")
                if doing == "install":
                    continue
                if doing == "write":
                    (self.folder / name).write_text(text)
                elif doing == "append":
                    with (self.folder / name).open("a") as file:
                        file.write("\n" + text)
                elif doing == "printed":
                    self.answer()
                    wait_until(lambda text=text: text in self.printed.read_text(), text)
                else:
                    for line in text.splitlines():
                        if doing == "background":
                            self.start(line, stack)
                        else:
                            assert doing == "run", doing
                            self.run(line)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tutorial")
    parser.add_argument("--python", default=sys.executable, help="has the app installed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tutorial-") as folder:
        Newcomer(Path(folder), options.python).follow()
    sys.stdout.write("The tutorial ends with a question answered.\n")


if __name__ == "__main__":
    main()
