"""Keep the tables small, and close what nobody closed."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from elicitation import inbox
from elicitation.calls import outbox
from elicitation.conf import settings
from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer
from elicitation.store import write_alias


class Command(BaseCommand):
    """Expire, delete and close what is due, in small batches."""

    help = (
        "Close questions whose time is up (and announce it), delete answers whose time is up, "
        "close calls that nobody goes on with (ELICITATION_ABANDON_AFTER), forget addresses that "
        "nobody can open any more, and delete closed questions after ELICITATION_RETENTION_DAYS. "
        "Works in small batches and can run beside everything else, itself included. Run it "
        "every few minutes."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's options."""
        parser.add_argument(
            "--dry-run", action="store_true", help="only say how much there is to do"
        )
        parser.add_argument(
            "--batch-size",
            type=int,
            default=100,
            help="rows that one transaction deletes at most (default: 100)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what is due, and say in one line how much that was."""
        size: int = options["batch_size"]
        if size < 1:
            raise CommandError("--batch-size must be at least 1.")
        now = timezone.now()
        unused = now - settings.ABANDON_AFTER
        lapsed = now - settings.ANSWER_TTL
        days = settings.RETENTION_DAYS
        old = None if days is None else now - timedelta(days=days)
        if options["dry_run"]:
            alias = write_alias()
            questions = Elicitation.objects.using(alias)
            expired = questions.due(now).count() + questions.orphaned().count()
            answers = StoredFormAnswer.objects.using(alias).expired(now).count()
            calls = ParkedCall.objects.using(alias).abandoned(unused).unleased().count()
            forgotten = questions.closed_before(lapsed).with_address().count()
            deleted = 0 if old is None else questions.closed_before(old).count()
        else:
            expired = _all(lambda: inbox.expire_due(now=now, limit=size))
            expired += _all(lambda: outbox.close_orphans(limit=size))
            answers = _all(lambda: outbox.delete_expired(now=now, limit=size))
            calls = _all(lambda: outbox.close_abandoned(unused, limit=size))
            forgotten = _all(lambda: inbox.forget_addresses(lapsed, limit=size))
            deleted = 0 if old is None else _all(lambda: inbox.delete_old(old, limit=size))
        prefix = "elicitation_cleanup (dry run)" if options["dry_run"] else "elicitation_cleanup"
        self.stdout.write(
            f"{prefix}: expired questions {expired}, deleted answers {answers}, "
            f"closed calls {calls}, forgotten addresses {forgotten}, "
            f"deleted old questions {deleted}"
        )


def _all(batch: Callable[[], int]) -> int:
    """Run batches until one finds nothing more.

    Rests as long as each has taken: nobody waits for the cleaning up, and the people whose
    pages run beside it should not notice.
    """
    total = 0
    begin = time.monotonic()
    while done := batch():
        total += done
        time.sleep(time.monotonic() - begin)
        begin = time.monotonic()
    return total
