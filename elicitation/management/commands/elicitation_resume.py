"""Send the signal again for calls that no host has resumed."""

from __future__ import annotations

import logging
import signal
from argparse import ArgumentParser
from threading import Event, current_thread, main_thread
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseProblem
from django.db import close_old_connections

from elicitation.calls import outbox

logger = logging.getLogger("elicitation")


class Command(BaseCommand):
    """Send ``elicitation_closed`` again for elicitations whose calls were not resumed."""

    help = (
        "Send the signal elicitation_closed again for closed elicitations whose calls no host "
        "has resumed. Several copies can run at the same time. With --loop it runs until it is "
        "stopped (SIGTERM or Ctrl-C). Use --loop to run it as a service."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's options."""
        parser.add_argument("--loop", action="store_true", help="run until stopped")
        parser.add_argument(
            "--interval",
            type=float,
            default=5.0,
            help="seconds between two searches of --loop (default: 5)",
        )
        parser.add_argument(
            "--batch-size",
            type=int,
            default=100,
            help="how many elicitations are read at a time (default: 100)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run once, or until stopped."""
        if options["batch_size"] < 1:
            raise CommandError("--batch-size must be at least 1.")
        if not options["interval"] > 0:
            raise CommandError("--interval must be greater than zero.")
        stop = Event()
        if not options["loop"]:
            self._report(*self._resend(options["batch_size"], stop))
            return
        if current_thread() is main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stop.set())
        sent = given_up = 0
        while not stop.is_set():
            # A process that lives for weeks must notice a connection that the server closed.
            close_old_connections()
            try:
                resent = self._resend(options["batch_size"], stop)
            except DatabaseProblem as error:
                # The database may be away for a moment; the rows are still there afterwards.
                logger.warning(
                    "The outbox could not be read; trying again",
                    extra={"error": type(error).__name__},
                )
            else:
                sent += resent.sent
                given_up += resent.given_up
            stop.wait(options["interval"])
        self._report(sent, given_up)

    def _resend(self, batch_size: int, stop: Event) -> outbox.Resent:
        sent = given_up = 0
        while not stop.is_set():
            resent = outbox.resend_due(limit=batch_size)
            sent += resent.sent
            given_up += resent.given_up
            if not any(resent):
                break
        return outbox.Resent(sent, given_up)

    def _report(self, sent: int, given_up: int) -> None:
        self.stdout.write(f"elicitation_resume: sent again {sent}, given up {given_up}")
