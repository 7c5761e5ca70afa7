"""Tasks that nobody waits for any more: their servers are told, as far as that is possible."""

from __future__ import annotations

import asyncio
import logging
import uuid
from functools import partial

from django.db import transaction

from ..conf import settings
from ..models import ParkedCall
from ..transactions import write_alias
from . import background, sdk
from .tasks import Task

logger = logging.getLogger("elicitation")

#: How long a server may take to be told, in seconds.
PATIENCE = 30.0


def cancel_task(call: ParkedCall) -> None:
    """Send ``tasks/cancel`` for the task of a call that was ended here, after the commit.

    Nobody waits for that, and it is not tried again: to cancel is a wish (SEP-2663), and how the
    call ended is written down already. A server that is none of ``ELICITATION_SERVERS`` cannot be
    told, as only its host has a session with it.
    """
    task = Task.from_json(call.task)
    if task is not None and call.server in settings.SERVERS:
        tell = partial(_tell, call.pk, call.server, call.respondent_id, task.id)
        transaction.on_commit(partial(background.begin, tell), using=write_alias(), robust=True)


async def _tell(key: uuid.UUID, server: str, respondent_id: object, task_id: str) -> None:
    fields = {"parked_call_id": str(key), "server": server}
    try:
        async with asyncio.timeout(PATIENCE):
            await sdk.servers().cancel_task(server, respondent_id, task_id)
    except Exception as error:
        # Its text may quote what the server sent.
        logger.info(
            "A server could not be told that nobody waits for its task",
            extra=fields | {"error": type(error).__name__},
        )
    else:
        logger.info("A server was told that nobody waits for its task", extra=fields)
