"""Answer, decline, withdraw, expire: the first to close an elicitation wins.

Closing is one conditional ``UPDATE`` that counts one, whoever does it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from asgiref.sync import sync_to_async
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.views.decorators.debug import sensitive_variables

from ..conf import settings
from ..core import AnswerRefusal, AnswerRefusals, FormAnswer, FormAnswerAction
from ..core.schema import CheckedAnswers, check_answers
from ..models import Elicitation
from ..signals import elicitation_closed
from ..store import DatabaseFormAnswerStore, record
from ..transactions import in_transaction, write_alias
from .errors import ElicitationClosedError, ElicitationReplacedError, WrongModeError
from .reading import of
from .rows import TAKEN_BACK, announce, change, win

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser


State = Elicitation.State
Via = Elicitation.Via


@sensitive_variables()
def answer(
    elicitation: Elicitation | uuid.UUID,
    answers: Mapping[str, FormAnswer] | CheckedAnswers,
    *,
    by: AbstractBaseUser,
    via: str = Via.PAGE,
    fingerprint: str | None = None,
    unread: Mapping[str, AnswerRefusal] | None = None,
) -> Elicitation:
    """Record a person's answer, once it was found to fit what was asked.

    The same answer sent again succeeds again; another one finds the elicitation closed.

    Args:
        elicitation: Its id, or the row that ``get`` returned for this person.
        answers: By property name, or what ``check_answers`` returned for the row's schema.
        by: Who answers.
        via: The interface that was used.
        fingerprint: The fingerprint of the form that the person saw, if it is known.
        unread: As for ``check_answers``.

    Raises:
        AnswerRefusals: An answer does not fit, or has the format of a credential.
        ElicitationClosedError: It was answered differently, was declined or withdrawn, or has
            expired.
        ElicitationReplacedError: The form is not the one that was asked.
        WrongModeError: It asks to open a URL.
        Elicitation.DoesNotExist: There is no such elicitation for this person.
    """
    elicitation = same_form(of(by, elicitation), fingerprint)
    if elicitation.is_url:
        raise WrongModeError(elicitation)
    if isinstance(answers, CheckedAnswers) and answers.schema is elicitation.schema:
        checked = answers
    else:
        given = answers.answers if isinstance(answers, CheckedAnswers) else answers
        try:
            checked = check_answers(elicitation.schema, given, unread=unread)
        except AnswerRefusals:
            # A closed elicitation says that it is closed, whatever was typed.
            if elicitation.is_open():
                raise
            closed = _expire(elicitation) if elicitation.is_expired() else elicitation
            raise ElicitationClosedError(closed) from None
    digest = salted_hmac(
        "elicitation.answer",
        f"{elicitation.pk}:{json.dumps(checked.content, sort_keys=True)}",
        algorithm="sha256",
    ).hexdigest()
    return accept(elicitation, checked.answers, digest, by=by, via=via)


def same_form(elicitation: Elicitation, fingerprint: str | None) -> Elicitation:
    if fingerprint is not None and fingerprint != elicitation.fingerprint:
        raise ElicitationReplacedError(elicitation)
    return elicitation


@sensitive_variables()
def accept(
    elicitation: Elicitation,
    answers: Mapping[str, FormAnswer],
    digest: str,
    *,
    by: AbstractBaseUser,
    via: str,
) -> Elicitation:
    closed = close(
        elicitation, State.ANSWERED, by=by, via=via, answers=answers, answer_digest=digest
    )
    # The same person: others who may answer must not find out the answer by guessing.
    same = closed.answer_digest == digest and closed.closed_by_id == by.pk
    if closed.state != State.ANSWERED or not same:
        raise ElicitationClosedError(closed)
    return closed


def decline(
    elicitation: Elicitation | uuid.UUID, *, by: AbstractBaseUser, via: str = Via.PAGE
) -> Elicitation:
    """Record that a person declined; declining again succeeds again.

    A person who agreed to open a URL can still decline as long as the server asks for it.

    Args:
        elicitation: Its id, or the row that ``get`` returned for this person.
        by: Who declines.
        via: The interface that was used.

    Raises:
        ElicitationClosedError: It was answered or withdrawn, or has expired.
        Elicitation.DoesNotExist: There is no such elicitation for this person.
    """
    closed = close(of(by, elicitation), State.DECLINED, by=by, via=via)
    if closed.is_url and closed.state == State.ANSWERED and closed.closed_by_id == by.pk:
        _take_back(closed, via=via)
    if closed.state != State.DECLINED:
        raise ElicitationClosedError(closed)
    return closed


def withdraw(
    elicitation_id: uuid.UUID,
    *,
    by: AbstractBaseUser | None = None,
    via: str = Via.HOST,
    reason: str = "",
) -> Elicitation:
    """Withdraw an elicitation; the server receives ``decline``. Again succeeds again.

    Args:
        elicitation_id: Its id.
        by: Who withdraws it; ``None`` for a program.
        via: The interface that was used.
        reason: A code for the audit, such as ``replaced``.

    Raises:
        ElicitationClosedError: It was closed in another way.
        Elicitation.DoesNotExist: There is no such elicitation.
    """
    elicitation = Elicitation.objects.using(write_alias()).get(pk=elicitation_id)
    closed = close(elicitation, State.WITHDRAWN, by=by, via=via, reason=reason)
    if closed.state != State.WITHDRAWN:
        raise ElicitationClosedError(closed)
    return closed


def expire(elicitation_id: uuid.UUID, *, via: str = Via.HOST) -> Elicitation:
    """Let an elicitation expire if its deadline has passed; the server receives ``decline``.

    Raises:
        Elicitation.DoesNotExist: There is no such elicitation.
    """
    elicitation = Elicitation.objects.using(write_alias()).get(pk=elicitation_id)
    return _expire(elicitation, via=via) if elicitation.is_expired() else elicitation


def expire_now(
    elicitation_id: uuid.UUID, *, by: AbstractBaseUser | None = None, via: str = Via.HOST
) -> Elicitation:
    """Let an elicitation expire before its deadline. Again succeeds again.

    Raises:
        ElicitationClosedError: It was closed in another way.
        Elicitation.DoesNotExist: There is no such elicitation.
    """
    elicitation = Elicitation.objects.using(write_alias()).get(pk=elicitation_id)
    closed = close(elicitation, State.EXPIRED, by=by, via=via)
    if closed.state != State.EXPIRED:
        raise ElicitationClosedError(closed)
    return closed


def _expire(elicitation: Elicitation, *, via: str = Via.HOST) -> Elicitation:
    return close(elicitation, State.EXPIRED, via=via)


@sensitive_variables()
def close(
    elicitation: Elicitation,
    state: str,
    *,
    by: AbstractBaseUser | None = None,
    via: str,
    reason: str = "",
    answers: Mapping[str, FormAnswer] | None = None,
    answer_digest: str = "",
    now: datetime | None = None,
    redoable: bool = False,
) -> Elicitation:
    """Close an elicitation in this state, if it is pending; return it as it is then.

    After its deadline it expires instead. The first one to close it wins.
    """

    def close() -> Elicitation:
        at = now or timezone.now()
        late = elicitation.expires_at <= at
        if not win(
            elicitation,
            state=State.EXPIRED if late else state,
            # Only a person who agreed to open the URL still needs it.
            url=elicitation.url if state == State.ANSWERED and not late else "",
            reason="" if late else reason,
            closed_at=at,
            closed_by=None if late else by,
            closed_via=via,
            answer_digest="" if late else answer_digest,
            resume_at=timezone.now() + settings.RESUME_AFTER,
        ):
            elicitation.refresh_from_db(using=write_alias())
            return elicitation
        _record(elicitation, answers or {})
        announce(elicitation_closed, elicitation)
        return elicitation

    return in_transaction(close, redoable=redoable)


@sensitive_variables()
def _record(elicitation: Elicitation, answers: Mapping[str, FormAnswer]) -> None:
    """Store the answer that the server receives about a closed elicitation."""
    accepted = elicitation.state == State.ANSWERED
    store = DatabaseFormAnswerStore(
        scope=elicitation.scope,
        call=elicitation.call,
        # The call takes the answers of the person for whom it is made.
        respondent_id=elicitation.made_for_id or elicitation.respondent_id,
        parked_call_id=elicitation.parked_call_id,
    )
    answer_row = store.answer_row(
        server=elicitation.server,
        tool=elicitation.tool,
        fingerprint=elicitation.fingerprint,
        action=FormAnswerAction.ACCEPT if accepted else FormAnswerAction.DECLINE,
        answers=answers,
        number=elicitation.number,
        elicitation_id=elicitation.pk,
        round=elicitation.round,
        from_person=elicitation.state in (State.ANSWERED, State.DECLINED),
    )
    record([answer_row])


def _take_back(elicitation: Elicitation, *, via: str) -> None:
    """Turn a consent into a decline, if the server still asks for the URL."""
    now = timezone.now()
    going_on = Elicitation.objects.using(write_alias()).going_on()

    def take_back() -> None:
        if change(
            elicitation,
            going_on,
            state=State.DECLINED,
            reason=TAKEN_BACK,
            url="",
            closed_at=now,
            closed_via=via,
            resume_at=now + settings.RESUME_AFTER,
            resent=0,
            delivered_at=None,
            delivery="",
        ):
            _record(elicitation, {})
            announce(elicitation_closed, elicitation)

    in_transaction(take_back)


aanswer = sync_to_async(answer)
adecline = sync_to_async(decline)
awithdraw = sync_to_async(withdraw)
aexpire_now = sync_to_async(expire_now)
