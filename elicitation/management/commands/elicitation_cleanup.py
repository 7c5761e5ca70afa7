"""Keep the tables small, and close what nobody closed."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from elicitation.calls import outbox
from elicitation.conf import settings
from elicitation.models import Elicitation, ParkedCall, Refusal, Retention, StoredFormAnswer
from elicitation.transactions import write_alias


class Command(BaseCommand):
    """Expire, delete and close what is due, in small batches."""

    help = (
        "Close elicitations whose deadline has passed and send the signal. Delete expired "
        "answers. Close calls that no host has resumed for ELICITATION_ABANDON_AFTER. Delete "
        "outcomes that no host has fetched for ELICITATION_RESULT_TTL. Remove URLs that nobody "
        "can open any more. Delete closed elicitations and refusals after "
        "ELICITATION_RETENTION_DAYS, or the days of their server's policy. Works in small "
        "batches. Several copies can run at the same time. Run it every few minutes."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's options."""
        parser.add_argument(
            "--dry-run", action="store_true", help="only print how much there is to do"
        )
        parser.add_argument(
            "--batch-size",
            type=int,
            default=100,
            help="how many rows one transaction deletes at most (default: 100)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what is due, and say in one line how much that was."""
        size: int = options["batch_size"]
        if size < 1:
            raise CommandError("--batch-size must be at least 1.")
        now = timezone.now()
        unused = now - settings.ABANDON_AFTER
        lapsed = now - settings.ANSWER_TTL
        if options["dry_run"]:
            alias = write_alias()
            questions = Elicitation.objects.using(alias)
            expired = questions.due(now).count() + questions.orphaned().count()
            answers = StoredFormAnswer.objects.using(alias).expired(now).count()
            calls = ParkedCall.objects.using(alias).abandoned(unused).unleased().count()
            outcomes = ParkedCall.objects.using(alias).unfetched(now).count()
            forgotten = questions.closed_before(lapsed).with_url().count()
            retention = Retention.at(now)
            deleted = questions.closed().filter(retention.is_old("closed_at")).count()
            refusals = Refusal.objects.using(alias).filter(retention.is_old("last_at")).count()
        else:
            done = {name: _all(batch) for name, batch in outbox.chores(size, now).items()}
            expired = done["expired elicitations"] + done["orphaned elicitations"]
            answers, calls = done["deleted answers"], done["closed calls"]
            outcomes, forgotten = done["deleted outcomes"], done["removed URLs"]
            deleted = done["deleted old elicitations"]
            refusals = done["deleted refusals"]
        prefix = "elicitation_cleanup (dry run)" if options["dry_run"] else "elicitation_cleanup"
        self.stdout.write(
            f"{prefix}: expired elicitations {expired}, deleted answers {answers}, "
            f"closed calls {calls}, deleted outcomes {outcomes}, removed URLs {forgotten}, "
            f"deleted old elicitations {deleted}, deleted refusals {refusals}"
        )


def _all(batch: Callable[[], int]) -> int:
    """Run batches until one finds nothing more.

    Pauses after each batch for as long as the batch took, so that people who use the pages do
    not notice it.
    """
    total = 0
    begin = time.monotonic()
    while done := batch():
        total += done
        time.sleep(time.monotonic() - begin)
        begin = time.monotonic()
    return total
