"""People who leave: what waits for them is withdrawn, and what is theirs is forgotten."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import transaction
from django.db.models import F

from .. import inbox
from ..core import NO_PROPERTIES_JSON
from ..models import Elicitation, ElicitationQuerySet, StoredFormAnswer, row_key
from ..transactions import in_transaction, write_alias
from . import outcomes, parking
from .lease import CallInProgressError

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

#: How many records one transaction empties.
BATCH = 500


class Forgotten(NamedTuple):
    """What ``forget`` did, in numbers."""

    #: Requests that waited for the person.
    withdrawn: int
    #: Calls that were made for the person.
    cancelled: int
    #: Answers that were not sent yet.
    answers: int
    #: Outcomes that no host had acknowledged yet.
    outcomes: int
    #: Records of the audit that say no longer what was asked, of whom, and in which conversation.
    emptied: int
    #: Records of others that no longer say that this person answered, or was asked at first.
    unnamed: int
    #: Calls that another process is resuming; their records were left. Forget again later.
    in_progress: int


def forget(user: AbstractBaseUser) -> Forgotten:
    """Erase what is a person's, and keep what counts: servers, tools, states and times.

    Each step is a transaction of its own. If this is cut off, call it again. Entries in the log
    of the admin, logs, backups and what servers received are not the app's to erase.
    """
    theirs = Elicitation.objects.using(write_alias()).for_respondent(user)
    calls = parking.rows().filter(respondent=user.pk)
    ended = in_transaction(lambda: calls.ended().delete()[0])
    cancelled = 0
    for key in list(calls.parked().order_by("pk").values_list("pk", flat=True)):
        with suppress(CallInProgressError):
            cancelled += outcomes.cancel(key)
    withdrawn = withdraw(theirs)
    answers = StoredFormAnswer.objects.using(write_alias()).filter(respondent=user.pk)
    # A decline has no content, and whoever waits in the middle of a call receives it.
    given = answers.filter(action=StoredFormAnswer.Action.ACCEPT)
    deleted = in_transaction(lambda: given.delete()[0])
    busy = set(calls.parked().values_list("pk", flat=True))
    emptied = _empty(theirs.closed().exclude(parked_call_id__in=busy))
    others = Elicitation.objects.using(write_alias()).exclude(respondent=user.pk)
    unnamed = in_transaction(
        lambda: (
            others.filter(closed_by=user.pk).update(closed_by=None)
            + others.closed().filter(made_for=user.pk).update(made_for=None)
        )
    )
    return Forgotten(withdrawn, cancelled, deleted, ended, emptied, unnamed, len(busy))


def _empty(rows: ElicitationQuerySet) -> int:
    """Empty records of the audit, in batches; return how many."""
    emptied = 0
    while keys := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        empty = partial(
            Elicitation.objects.using(write_alias()).filter(pk__in=keys).update,
            respondent=None,
            closed_by=None,
            made_for=None,
            message="",
            requested_schema=NO_PROPERTIES_JSON,
            allow_confirmation=True,
            url="",
            url_id="",
            fingerprint="",
            answer_digest="",
            key="",
            scope="",
            scope_key=row_key(""),
            scope_label="",
            call="",
            # The key of a call is a digest of its conversation.
            parked_call_id=F("id"),
        )
        emptied += in_transaction(empty)
    return emptied


def withdraw(rows: ElicitationQuerySet) -> int:
    """Withdraw what waits among these for a person who is gone; return how many."""
    return _withdraw(_waiting(rows))


def _waiting(rows: ElicitationQuerySet) -> list[uuid.UUID]:
    return list(rows.pending().order_by("pk").values_list("pk", flat=True))


def _withdraw(keys: Iterable[uuid.UUID]) -> int:
    withdrawn = 0
    for key in keys:
        with suppress(inbox.ElicitationClosedError, Elicitation.DoesNotExist):
            inbox.withdraw(key, reason=inbox.PERSON_GONE)
            withdrawn += 1
    return withdrawn


# --- Receivers of the signals of the user model ----------------------------------------------


def on_saved(instance: AbstractBaseUser, raw: bool = False, **kwargs: Any) -> None:
    """Withdraw what waits for somebody who may not sign in any more."""
    # A site's own model of users need not know the word; Django takes them for active then.
    if not raw and not getattr(instance, "is_active", True):
        _after_commit(instance)


def on_deleted(instance: AbstractBaseUser, **kwargs: Any) -> None:
    """Withdraw what waits for somebody whose account is deleted."""
    _after_commit(instance)


def _after_commit(user: AbstractBaseUser) -> None:
    # Read now: after a deletion no row names the person.
    waiting = _waiting(Elicitation.objects.using(write_alias()).for_respondent(user))
    if waiting:
        transaction.on_commit(partial(_withdraw, waiting), using=write_alias(), robust=True)
