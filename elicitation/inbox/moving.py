"""Extend the time to answer, and hand an elicitation to somebody else."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from django.utils import timezone

from ..conf import settings
from ..models import Elicitation
from ..transactions import in_transaction, write_alias
from .errors import ElicitationClosedError, WrongModeError
from .rows import change, log_fields

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

logger = logging.getLogger("elicitation")


def extend(elicitation_id: uuid.UUID) -> Elicitation:
    """Let an elicitation be answered for ``ELICITATION_QUESTION_TTL`` from now on.

    Not one in the middle of a call: there the server decides how long it waits.

    Raises:
        ElicitationClosedError: It cannot be answered any more, or its server waits.
        Elicitation.DoesNotExist: There is no such elicitation.
    """
    return _change(elicitation_id, expires_at=timezone.now() + settings.QUESTION_TTL)


def hand_over(elicitation_id: uuid.UUID, *, to: AbstractBaseUser) -> Elicitation:
    """Let somebody else answer a form, in place of the person who was asked.

    The call stays that of the person for whom it is made: so does the connection to its server.

    Raises:
        WrongModeError: It asks to open a URL. Who signs in there must be who made the call (MCP
            2026-07-28, client/elicitation, "Phishing").
        ElicitationClosedError: It cannot be answered any more, or its server waits.
        Elicitation.DoesNotExist: There is no such elicitation.
    """
    elicitation = Elicitation.objects.using(write_alias()).get(pk=elicitation_id)
    if elicitation.is_url:
        raise WrongModeError(elicitation)
    made_for = elicitation.made_for_id or elicitation.respondent_id
    return _change(
        elicitation_id,
        respondent_id=to.pk,
        made_for_id=None if made_for == to.pk else made_for,
        # Neither has the other seen it, nor had an e-mail about it.
        first_shown_at=None,
        notified_at=None,
    )


def _change(elicitation_id: uuid.UUID, **changes: object) -> Elicitation:
    rows = Elicitation.objects.using(write_alias())
    elicitation = rows.get(pk=elicitation_id)
    movable = rows.open().filter(in_call=False)
    if not in_transaction(lambda: change(elicitation, movable, **changes)):
        raise ElicitationClosedError(rows.get(pk=elicitation_id))
    logger.info("An operator changed an open elicitation", extra=log_fields(elicitation))
    return elicitation
