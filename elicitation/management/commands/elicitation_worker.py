"""Go on with calls: the worker of the default queue."""

from __future__ import annotations

import asyncio
import signal
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

from asgiref.sync import sync_to_async
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from elicitation.calls.worker import Worker


class Command(BaseCommand):
    """Run a worker until it is stopped."""

    help = (
        "Go on with calls of the servers in ELICITATION_SERVERS: resume those that were answered, "
        "make those that were started, wait where a server asks in the middle of a call, and look "
        "after servers that are at work. It also does what elicitation_resume and "
        "elicitation_cleanup do, so that these are not needed beside it. On PostgreSQL it is "
        "woken by NOTIFY; elsewhere it looks for calls once a second. Runs until it is stopped "
        "(SIGTERM or Ctrl-C): then it begins nothing more, and lets calls come to their end. "
        "Several workers can run at the same time. Run it as a service."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's options."""
        parser.add_argument(
            "--concurrency",
            type=int,
            default=100,
            help="how many calls at a time (default: 100); one that waits for a person in its "
            "middle is not counted",
        )
        parser.add_argument(
            "--patience",
            type=float,
            default=20.0,
            help="seconds that calls may take to end after SIGTERM (default: 20); what is cut "
            "off with a request on its way is lost",
        )
        parser.add_argument(
            "--once", action="store_true", help="do what can be done now, and stop"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until stopped."""
        if options["concurrency"] < 1:
            raise CommandError("--concurrency must be at least 1.")
        if options["patience"] < 0:
            raise CommandError("--patience must not be negative.")
        worker = Worker(options["concurrency"], options["patience"])
        asyncio.run(self._run(worker, once=options["once"]))
        self.stdout.write("elicitation_worker: stopped")

    async def _run(self, worker: Worker, *, once: bool) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Not in a thread, and not on Windows.
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, worker.stop)
        self.stdout.write("elicitation_worker: started")
        self.stdout.flush()
        try:
            await worker.run(once=once)
        finally:
            await sync_to_async(connections.close_all)()
