"""What a person sees: the elicitations that are theirs, and nobody else's."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import TYPE_CHECKING

from django.db.models.functions import Coalesce
from django.utils import timezone

from ..conf import settings
from ..models import Elicitation, ElicitationQuerySet
from ..transactions import in_transaction, write_alias
from . import access
from .rows import withdraw_orphans

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser


def closed_among(elicitation_ids: Collection[uuid.UUID]) -> list[uuid.UUID]:
    """Return the ids of those among these elicitations that are closed."""
    rows = Elicitation.objects.using(write_alias()).closed().filter(pk__in=elicitation_ids)
    return list(rows.values_list("pk", flat=True))


def get(user: AbstractBaseUser | AnonymousUser, elicitation_id: object) -> Elicitation:
    """Return the elicitation with this id, and its server's policy, if this person may see it.

    Raises:
        Elicitation.DoesNotExist: There is none, it is somebody else's, or the id is none.
            Nobody learns which.
    """
    try:
        key = uuid.UUID(str(elicitation_id))
    except ValueError:
        raise Elicitation.DoesNotExist from None
    # From the writer: a replica may not have the row yet that the person was just sent to.
    rows = Elicitation.objects.using(write_alias()).with_policies()
    elicitation = access.visible(rows, user).get(pk=key)
    is_waited_for = elicitation.in_call and elicitation.state == Elicitation.State.PENDING
    # Whoever looks closes it where the process that waits for it is gone.
    if is_waited_for and withdraw_orphans(rows.filter(pk=key)):
        elicitation.refresh_from_db(using=rows.db)
    elicitation.read_for = user.pk
    return elicitation


def of(user: AbstractBaseUser, elicitation: Elicitation | uuid.UUID) -> Elicitation:
    """Return this row if ``get`` read it for this person; otherwise read it.

    Raises:
        Elicitation.DoesNotExist: As ``get``.
    """
    if not isinstance(elicitation, Elicitation):
        return get(user, elicitation)
    return elicitation if elicitation.read_for == user.pk else get(user, elicitation.pk)


def visible(user: AbstractBaseUser) -> ElicitationQuerySet:
    """Every elicitation that this person may see, in any state."""
    return access.visible(Elicitation.objects.all(), user)


def waiting(user: AbstractBaseUser) -> ElicitationQuerySet:
    """The open elicitations that this person may answer, the oldest deadline first."""
    return visible(user).open()


def waiting_ids(user: AbstractBaseUser | AnonymousUser) -> list[uuid.UUID]:
    """Return the ids of what waits for this person, the oldest deadline first.

    At most ``ELICITATION_MAX_OPEN_PER_PERSON``: more can wait only for people who may answer
    what others are asked. From the writer: a replica may not have what was just asked.
    """
    rows = access.visible(Elicitation.objects.using(write_alias()), user).open()
    return list(rows.values_list("pk", flat=True)[: settings.MAX_OPEN_PER_PERSON])


def recent(user: AbstractBaseUser) -> ElicitationQuerySet:
    """The closed elicitations that this person may see, the latest first.

    An elicitation past its deadline is among them, even if its row is not closed yet.
    """
    theirs = visible(user)
    return (theirs.closed() | theirs.due()).order_by(
        Coalesce("closed_at", "expires_at").desc(), "id"
    )


def history(user: AbstractBaseUser) -> ElicitationQuerySet:
    """The elicitations that are closed in their rows, the latest first: one index leads there."""
    return visible(user).closed().order_by("-closed_at", "id")


def servers(elicitations: ElicitationQuerySet) -> list[str]:
    """Return the names of the servers of these elicitations, as this site spells them."""
    names = elicitations.order_by().values_list("policy_id", "server").distinct()
    return list(dict(names).values())


def shown(elicitation: Elicitation) -> bool:
    """Record for the audit that the elicitation was shown; only the first time counts.

    Returns:
        Whether it is the first of its server that was shown to this person.
    """
    if elicitation.first_shown_at is not None:
        return False
    rows = Elicitation.objects.using(write_alias())
    theirs = rows.filter(respondent=elicitation.read_for).of_server(elicitation.server)
    is_first = not theirs.exclude(first_shown_at=None).exists()
    unseen = rows.filter(pk=elicitation.pk, first_shown_at=None)
    in_transaction(lambda: unseen.update(first_shown_at=timezone.now()))
    return is_first


def follow_up(elicitation: Elicitation) -> Elicitation | None:
    """Return an open elicitation of the same call and respondent, if there is another one."""
    return (
        Elicitation.objects.using(write_alias())
        .of_call(elicitation.parked_call_id)
        .open()
        .filter(respondent=elicitation.respondent_id)
        .exclude(pk=elicitation.pk)
        .first()
    )
