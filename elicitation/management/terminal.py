"""Text in a terminal, partly written by servers.

A terminal obeys escape sequences: they move the cursor, colour text, and retype it. Only visible
characters may reach it (``untrusted.visible``), and every line of a server begins with a bar.
Lines are broken here: if the terminal broke them, the rest would stand at the left edge, like the
site's own lines.
"""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import suppress

from django.core.management.base import OutputWrapper

from elicitation.core.untrusted import visible

BAR, ANSWER = "| ", "  = "
#: The narrowest and the widest lines, in cells.
NARROWEST, WIDEST = 30, 90


class Ended(Exception):
    """The input has ended."""


def reader_has_gone() -> None:
    """Go on writing to nobody: ``… | head`` has read enough.

    Python would complain once more when it ends.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Terminal:
    """Writes and reads lines.

    Args:
        out: The stream to write to.
    """

    def __init__(self, out: OutputWrapper) -> None:
        self.out = out
        columns = shutil.get_terminal_size().columns
        # Some terminals begin a new line after the last column.
        self.width = min(max(columns - 1, NARROWEST), WIDEST)

    def say(self, text: str = "") -> None:
        """Write a text of this site."""
        self._write(text, "", "")

    def quote(self, text: str, before: str = "", *, most: int | None = None) -> None:
        """Write a text of a server; each line begins with a bar.

        Args:
            text: What the server wrote.
            before: What stands before the first bar. Blanks stand before the others.
            most: How many lines are written; more are cut off.
        """
        self._write(text.strip("\n"), before + BAR, " " * len(before) + BAR, most)

    def listed(self, text: str, before: str) -> None:
        """Write a text of this site as an item of a list."""
        self._write(text, before, " " * len(before))

    def typed(self, text: str) -> None:
        """Write an answer as it will be sent; each line is marked."""
        self._write(text, ANSWER, ANSWER)

    def read(self) -> str:
        """Return the next line that is typed.

        Raises:
            Ended: The input has ended.
        """
        if sys.stdin.isatty() and sys.stdout.isatty():
            with suppress(ImportError):
                # Lets people edit what they type; what they typed is not kept to be shown again.
                import readline

                readline.set_auto_history(False)
            try:
                return input("> ")
            except EOFError:
                raise Ended from None
        self.out.write("> ", ending="")
        self.out.flush()
        line = sys.stdin.readline()
        # Nobody saw it typed.
        self.out.write("")
        if not line:
            raise Ended
        return line.rstrip("\r\n")

    def _write(self, text: str, first: str, other: str, most: int | None = None) -> None:
        lines = [
            line
            for paragraph in visible(text).expandtabs(4).split("\n")
            for line in _broken(paragraph, self.width - len(first))
        ]
        if most is not None and len(lines) > most:
            lines[most - 1 :] = ["…"]
        for number, line in enumerate(lines):
            shown = f"{other if number else first}{line}".rstrip(" ")
            encoding = getattr(self.out, "encoding", None) or "utf-8"
            self.out.write(shown.encode(encoding, "backslashreplace").decode(encoding))


def _broken(line: str, width: int) -> Iterator[str]:
    """Break a line into such as fit, between words where there are some."""
    while True:
        used, blank = 0, 0
        for position, character in enumerate(line):
            used += _cells(character)
            if used > width:
                break
            if character == " ":
                blank = position
        else:
            yield line
            return
        # A character that is wider than the line is written all the same.
        cut = blank or max(position, 1)
        yield line[:cut]
        line = line[cut:].lstrip(" ")


def _cells(character: str) -> int:
    """Return how many columns a character takes at most."""
    if unicodedata.combining(character):
        return 0
    # What is ambiguous is wide in some terminals; a line that breaks early does no harm.
    return 2 if unicodedata.east_asian_width(character) in "WFA" else 1
