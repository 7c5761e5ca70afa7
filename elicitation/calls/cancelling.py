"""Telling servers that a task of theirs is not wanted any more (``tasks/cancel``)."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from django.db import transaction

from ..conf import settings
from ..models import ParkedCall
from ..transactions import write_alias
from . import background, sdk

logger = logging.getLogger("elicitation")


def tell_servers(rows: Collection[ParkedCall]) -> None:
    """Ask the servers of calls that have ended here to cancel their tasks, after the commit.

    It takes at most ``servers.CANCEL_PATIENCE`` seconds for all of them. A server need not follow,
    and one that cannot be reached is not told again: the call has ended for this site, whatever
    becomes of its task.

    Args:
        rows: The calls, as they were before they ended. Those are left out that are no task, and
            those whose server is not one of ``ELICITATION_SERVERS``: no connection is known.
    """
    working = [row for row in rows if row.task and row.server in settings.SERVERS]
    if working:
        transaction.on_commit(partial(_tell, working), using=write_alias())


def _tell(rows: Collection[ParkedCall]) -> None:
    try:
        background.run(partial(sdk.servers().cancel_tasks, rows))
    except Exception as error:
        # The outcome is committed, and nothing that happens here may hide it.
        logger.warning(
            "Servers could not be asked to cancel their tasks",
            extra={"calls": len(rows), "error": type(error).__name__},
        )
