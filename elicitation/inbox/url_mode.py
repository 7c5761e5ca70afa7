"""URL mode: consent to open a URL, and going on once the person has finished there."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db.models import Max
from django.utils import timezone

from ..conf import settings
from ..models import Elicitation, InvalidNameError, check_name
from ..signals import elicitation_closed
from ..transactions import in_transaction, write_alias
from .closing import accept, same_form
from .errors import WrongModeError
from .reading import of
from .rows import announce, change

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser


State = Elicitation.State
Via = Elicitation.Via


def consent(
    elicitation: Elicitation | uuid.UUID,
    *,
    by: AbstractBaseUser,
    via: str = Via.PAGE,
    fingerprint: str | None = None,
) -> Elicitation:
    """Record that a person agrees to open a URL; agreeing again succeeds again.

    The server receives ``accept``, without content, as often as it asks for the same URL
    within ``ELICITATION_ANSWER_TTL`` (MCP 2026-07-28, client/elicitation, "URL Mode").

    Args:
        elicitation: Its id, or the row that ``get`` returned for this person.
        by: Who agrees.
        via: The interface that was used.
        fingerprint: The fingerprint of the URL that the person saw, if it is known.

    Raises:
        URLPolicyRefusal: The policy of the server no longer lists the URL.
        URLRefusal: The app no longer shows such a URL to anyone.
        ElicitationClosedError: Somebody else agreed, or it was declined or withdrawn, or has
            expired.
        ElicitationReplacedError: The URL is not the one that was asked.
        WrongModeError: It is a form.
        Elicitation.DoesNotExist: There is no such elicitation for this person.
    """
    elicitation = same_form(of(by, elicitation), fingerprint)
    if not elicitation.is_url:
        raise WrongModeError(elicitation)
    if elicitation.is_open():
        # The person sees the link next, so the policy of this moment decides.
        elicitation.server_policy.parse_url(elicitation.url)
    return accept(elicitation, {}, "", by=by, via=via)


def consent_lasts(elicitation: Elicitation) -> bool:
    """Whether a person agreed to open the URL, and may still do so."""
    return (
        elicitation.is_url
        and elicitation.state == State.ANSWERED
        and elicitation.closed_at is not None
        and elicitation.closed_at + settings.ANSWER_TTL > timezone.now()
    )


def waits_for_completion(elicitation: Elicitation) -> bool:
    """Whether a person agreed to open the URL, and the server still asks for it."""
    rows = Elicitation.objects.using(write_alias())
    return elicitation.is_url and rows.going_on().filter(pk=elicitation.pk).exists()


def go_on(elicitation: Elicitation | uuid.UUID, *, by: AbstractBaseUser) -> Elicitation:
    """Record that a person has finished at a URL, and send ``elicitation_closed`` once more.

    The host then resumes the call. Nothing happens if the call has finished, or if somebody
    else agreed.

    Raises:
        WrongModeError: It is a form.
        Elicitation.DoesNotExist: There is no such elicitation for this person.
    """
    elicitation = of(by, elicitation)
    if not elicitation.is_url:
        raise WrongModeError(elicitation)
    if elicitation.closed_by_id == by.pk:
        _go_on(elicitation)
    return elicitation


def complete(server: str, url_id: str) -> int:
    """Go on with the calls of this server for which it says that the person has finished.

    MCP 2025-11-25, client/elicitation, "Completion Notifications"; unknown ids are passed over,
    and so is what it has said before: a server must not wake a host as often as it likes.

    Args:
        server: The name under which this site configured the server that sent the notification.
        url_id: Its ``elicitationId``.

    Returns:
        How many calls that were.
    """
    try:
        check_name("The elicitationId", url_id)
    except InvalidNameError:
        return 0
    since = timezone.now() - settings.ANSWER_TTL
    rows = Elicitation.objects.using(write_alias()).filter(closed_at__gt=since, url_id=url_id)
    # Compared once more: some databases call `A1` and `a1` equal.
    found = [row for row in rows.going_on() if (row.server, row.url_id) == (server, url_id)]
    return sum(_go_on(row, url_id="") for row in found)


def _go_on(elicitation: Elicitation, **others: Any) -> bool:
    now = timezone.now()
    # An id that counts once may have been used since it was read.
    going_on = (
        Elicitation.objects.using(write_alias()).going_on().filter(url_id=elicitation.url_id)
    )

    def go_on() -> bool:
        changed = change(
            elicitation,
            going_on,
            continued_at=now,
            # Back into the outbox, in case no host resumes the call.
            resume_at=now + settings.RESUME_AFTER,
            resent=0,
            delivered_at=None,
            **others,
        )
        if changed:
            announce(elicitation_closed, elicitation)
        return changed

    return in_transaction(go_on)


def continued(elicitation_ids: Collection[uuid.UUID], since: datetime) -> datetime | None:
    """Return when a person last said, since that moment, that they finished at one of the URLs."""
    rows = Elicitation.objects.using(write_alias()).filter(pk__in=elicitation_ids)
    said: datetime | None = rows.filter(continued_at__gte=since).aggregate(
        last=Max("continued_at")
    )["last"]
    return said


aconsent = sync_to_async(consent)
ago_on = sync_to_async(go_on)
acomplete = sync_to_async(complete)
acontinued = sync_to_async(continued)
