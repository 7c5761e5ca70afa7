"""Erase what is a person's."""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from elicitation.calls import leaving
from elicitation.calls.parking import rows
from elicitation.models import Elicitation
from elicitation.transactions import write_alias

logger = logging.getLogger("elicitation")


class Command(BaseCommand):
    """Erase from the audit what was asked of a person, and what they answered."""

    help = (
        "Erase what is a person's. What waits for them is withdrawn, calls that were made for "
        "them are cancelled, and answers and results that are stored are deleted. Records of "
        "the audit stay and count: they keep server, tool, state and times, and lose the "
        "person, the message, the schema and the conversation. Run it before you delete the "
        "account. It cannot be undone."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's options."""
        parser.add_argument("user", metavar="USER", help="the user name of the person")
        parser.add_argument(
            "--yes", action="store_true", help="erase; without it the command only counts"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Erase, and say in one line what that was."""
        users = get_user_model()
        try:
            named = {users.USERNAME_FIELD: options["user"]}
            user = users._default_manager.using(write_alias()).get(**named)
        except users.DoesNotExist:
            raise CommandError("There is no user of this name.") from None
        if not options["yes"]:
            records = Elicitation.objects.using(write_alias()).for_respondent(user)
            self.stdout.write(
                f"elicitation_forget (nothing was erased): records {records.count()}, "
                f"waiting {records.pending().count()}, "
                f"calls {rows().filter(respondent=user.pk).count()}. Add --yes to erase."
            )
            return
        done = leaving.forget(user)
        self.stdout.write(
            f"elicitation_forget: withdrawn requests {done.withdrawn}, "
            f"cancelled calls {done.cancelled}, deleted answers {done.answers}, "
            f"deleted outcomes {done.outcomes}, emptied records {done.emptied}, "
            f"records without the name of who answered {done.unnamed}"
        )
        logger.info("What was a person's was erased", extra=done._asdict())
        if done.in_progress:
            raise CommandError(
                f"Calls that go on right now: {done.in_progress}. Run the command again later."
            )
