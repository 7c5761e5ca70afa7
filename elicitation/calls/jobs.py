"""What a worker does with the id of a call: go on with it, whatever comes of that."""

from __future__ import annotations

import logging
import uuid
from functools import partial

from ..conf import settings
from ..core import ElicitationError, ElicitationPending
from ..inbox.listening import between_requests
from ..models import ParkedCall
from . import background, parking, sdk
from .lease import CallInProgressError
from .replies import NotSentError

logger = logging.getLogger("elicitation")


async def go_on(parked_call_id: uuid.UUID | str) -> None:
    """Go on with a call, or make it, at its own server and with its respondent's credentials.

    How it ends is stored with the call, and told by ``call_finished``: nothing is returned, and
    nothing that a call can end with is an error of the job. A call that cannot go on now is left
    as it is; where it failed, the outbox tells of it again.

    Args:
        parked_call_id: The call's id.

    Raises:
        DatabaseError: The database is away, before anything was done.
    """
    fields = {"parked_call_id": str(parked_call_id)}
    if not await between_requests(partial(_can_go_on, parked_call_id)):
        logger.debug("A call has ended, or is not for workers to go on with", extra=fields)
        return
    try:
        await sdk.servers().resume(parked_call_id, progress=None)
    except ParkedCall.DoesNotExist:
        logger.debug("A call has ended in the meantime", extra=fields)
    except (ElicitationPending, CallInProgressError) as error:
        logger.debug("A call goes on later", extra=fields | {"code": error.code})
    except NotSentError as error:
        logger.info(
            "A call was not sent; it is tried again", extra=fields | {"reason": error.reason}
        )
    except ElicitationError as error:
        logger.info("A call has ended without a result", extra=fields | {"code": error.code})
    except Exception as error:
        # Its text, and that of what it came from, may quote what a server sent.
        logger.error(
            "A worker could not go on with a call; the outbox tells of it again",
            extra=fields | {"error": type(error).__name__},
        )


def go_on_sync(parked_call_id: uuid.UUID | str) -> None:
    """Do the same as ``go_on`` from code that has no event loop: the job of a queue."""
    background.run(partial(go_on, parked_call_id))


def _can_go_on(parked_call_id: uuid.UUID | str) -> bool:
    """Whether the call has not ended, and has a server of ``ELICITATION_SERVERS``."""
    named = parking.rows().parked().filter(server__in=list(settings.SERVERS))
    return named.filter(pk=parking.as_uuid(parked_call_id)).exists()
