"""Make a restored database safe."""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from elicitation.calls import restoring
from elicitation.management.moments import MOMENT, moment

logger = logging.getLogger("elicitation")


class Command(BaseCommand):
    """Drop what a restored database holds and what may have been sent since."""

    help = (
        "Run this after you restored a backup, or promoted a standby that had not received "
        "everything, and before anything else works with the database. Answers and results "
        "that are in it may have been sent since, and would be sent a second time: they are "
        "dropped. Calls that were under way end as lost, their hosts receive call_finished, "
        "and what they asked is withdrawn. The audit says 'restored'."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's options."""
        parser.add_argument(
            "--before",
            required=True,
            help=f"what was stored before this moment is dropped: when the restored database "
            f"began to work again, {MOMENT}",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Drop, and say in one line what that was."""
        before = moment("--before", options["before"])
        if before > timezone.now():
            raise CommandError("--before must not be in the future.")
        done = restoring.make_safe(before)
        self.stdout.write(
            f"elicitation_restore: dropped answers {done.answers}, withdrawn requests "
            f"{done.withdrawn}, ended calls {done.calls}, dropped results {done.results}"
        )
        logger.warning("A restored database was made safe", extra=done._asdict())
        if done.in_progress:
            raise CommandError(
                f"Calls that a process is resuming: {done.in_progress}. Stop the site and its "
                "workers, wait for ELICITATION_RESUME_LEASE, and run the command again."
            )
