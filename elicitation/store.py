"""Record and take answers: the one place that knows how a row is taken exactly once.

What is done here, and why it is done so, was measured on three databases:

* A take looks first, without a lock: a miss is one read and no lock. (Locking a missing key
  at MariaDB's default isolation blocks whoever wants to record it.)
* It owns the row only by a plain, blocking ``SELECT … FOR UPDATE`` *and* a ``DELETE`` that
  counts one. Without the lock a taker destroys an answer that was recorded a moment later;
  without the count SQLite delivers twice.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connections, models
from django.utils import timezone

from .conf import settings
from .core import AnswerRefusal, AnyElicitation, FormAnswer, FormAnswerAction
from .core.elicitation import number_identical
from .models import StoredFormAnswer, check_name, encode_json, parked_call_id, row_key
from .transactions import in_transaction, lock_now, write_alias

logger = logging.getLogger("elicitation")

#: What a newer answer replaces: all but the key.
_UPDATED = [
    field.name for field in StoredFormAnswer._meta.concrete_fields if not field.primary_key
]


class DatabaseFormAnswerStore:
    """Answers of one call in one scope, kept in the database until they are taken.

    Args:
        scope: The host's id of the conversation or run.
        call: The host's id of the tool call, unique in the scope.
        respondent_id: The key of the person whose answers these are. Where given, an answer
            of anybody else stays where it is.
        parked_call_id: The key of the call's row, where the caller has it already.

    Raises:
        InvalidNameError: The scope or the call is no name that a row can hold.
    """

    def __init__(
        self,
        *,
        scope: str,
        call: str,
        respondent_id: Any = None,
        parked_call_id: uuid.UUID | None = None,
    ) -> None:
        self.scope = check_name("The scope", scope)
        self.call = check_name("The call", call)
        self.respondent_id = respondent_id
        self.parked_call_id = parked_call_id

    def record_form_answer(
        self,
        elicitation: AnyElicitation,
        action: FormAnswerAction | str,
        answers: Mapping[str, FormAnswer],
        *,
        number: int = 0,
        elicitation_id: uuid.UUID | None = None,
    ) -> StoredFormAnswer:
        """Keep an answer until it is taken or expires; a newer one takes its place.

        Args:
            elicitation: What was asked.
            action: Accept or decline.
            answers: By property name; empty for a decline.
            number: Which of several identical elicitations of the round, from 0.
            elicitation_id: The elicitation's row, where there is one.

        Raises:
            AnswerRefusal: An accepted answer does not fit the schema.
            InvalidNameError: The server's or the tool's name is no name that a row can hold.
        """
        action = FormAnswerAction(action)
        if action == FormAnswerAction.ACCEPT:
            elicitation.schema.content_from_answers(answers)
        row = self.answer_row(
            server=elicitation.server_name,
            tool=elicitation.tool_name,
            fingerprint=elicitation.fingerprint(),
            action=action,
            answers=answers,
            number=number,
            elicitation_id=elicitation_id,
        )
        in_transaction(lambda: record([row]))
        return row

    def answer_row(
        self,
        *,
        server: str,
        tool: str,
        fingerprint: str,
        action: FormAnswerAction,
        answers: Mapping[str, FormAnswer],
        number: int,
        elicitation_id: uuid.UUID | None,
        round: int = 0,
        from_person: bool = True,
    ) -> StoredFormAnswer:
        """Return the row of an answer that was found to fit, unwritten.

        It takes what names the elicitation, not the elicitation: to decline one, nothing that a
        server wrote has to be read again.
        """
        if action == FormAnswerAction.DECLINE:
            answers = {}
        now = timezone.now()
        parked_call_id = self._parked_call_id(server, tool)
        return StoredFormAnswer(
            id=_key(parked_call_id, fingerprint, number),
            parked_call_id=parked_call_id,
            scope=self.scope,
            call=self.call,
            server=server,
            tool=tool,
            fingerprint=fingerprint,
            number=number,
            round=round,
            from_person=from_person,
            elicitation_id=elicitation_id,
            respondent_id=self.respondent_id,
            action=action.value,
            answers_json=encode_json(
                "answers",
                {name: answer.to_dict() for name, answer in answers.items()},
                settings.MAX_CALL_BYTES,
            ),
            recorded_at=now,
            expires_at=now + settings.ANSWER_TTL,
        )

    def take_form_answer(self, elicitation: AnyElicitation) -> StoredFormAnswer | None:
        """Take the answer to this elicitation: return it and delete it, or return ``None``.

        Raises:
            OuterTransactionError: Called inside a transaction.
        """
        taken = self.take_form_answers([elicitation])
        return taken[0] if taken else None

    def take_form_answers(
        self, elicitations: Sequence[AnyElicitation], numbers: Sequence[int] | None = None
    ) -> list[StoredFormAnswer] | None:
        """Take the answers to all these elicitations, or none of them.

        Only answers that can be sent are taken: recorded for exactly this scope, call,
        server, tool and elicitation, by this respondent, not expired, and still fitting the
        schema.

        Args:
            elicitations: What was asked.
            numbers: Which of several identical elicitations of the round each one is; by
                default they are counted in the order given.

        Returns:
            The answers in the order of the elicitations; ``None`` where one is missing, in
            which case all of them stay.

        Raises:
            OuterTransactionError: Called inside a transaction.
        """
        if not elicitations:
            return []
        wanted = self.wanted(elicitations, numbers)
        rows = answers(wanted)
        # A look without a lock: to lock a missing row blocks MariaDB's inserters.
        if not rows.exists():
            return None
        return in_transaction(lambda: take(wanted, rows), durable=True)

    def wanted(
        self,
        elicitations: Sequence[AnyElicitation],
        numbers: Sequence[int] | None = None,
        fingerprints: Sequence[str] | None = None,
    ) -> list[WantedAnswer]:
        """Return what to look for, for each of these elicitations.

        Args:
            elicitations: What was asked.
            numbers: As for ``take_form_answers``.
            fingerprints: Those of the elicitations, where the caller has them already.
        """
        found = fingerprints or [elicitation.fingerprint() for elicitation in elicitations]
        if numbers is None:
            numbers = number_identical(
                (elicitation.server_name, elicitation.tool_name, fingerprint)
                for elicitation, fingerprint in zip(elicitations, found, strict=True)
            )
        return [
            WantedAnswer(
                key=_key(
                    self._parked_call_id(elicitation.server_name, elicitation.tool_name),
                    fingerprint,
                    number,
                ),
                store=self,
                elicitation=elicitation,
                fingerprint=fingerprint,
            )
            for elicitation, fingerprint, number in zip(elicitations, found, numbers, strict=True)
        ]

    def _parked_call_id(self, server: str, tool: str) -> uuid.UUID:
        return self.parked_call_id or parked_call_id(
            scope=self.scope,
            call=self.call,
            server=check_name("The server", server),
            tool=check_name("The tool", tool),
        )

    def key(self, elicitation: AnyElicitation, number: int = 0) -> uuid.UUID:
        """Return the key of the answer to this elicitation."""
        parked_call_id = self._parked_call_id(elicitation.server_name, elicitation.tool_name)
        return _key(parked_call_id, elicitation.fingerprint(), number)

    def is_mine(self, row: StoredFormAnswer) -> bool:
        """Whether this row was recorded for this call, and by its respondent."""
        return (row.scope, row.call) == (self.scope, self.call) and (
            self.respondent_id is None or row.respondent_id == self.respondent_id
        )


def _key(parked_call_id: uuid.UUID, fingerprint: str, number: int) -> uuid.UUID:
    return row_key(str(parked_call_id), fingerprint, str(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedAnswer:
    """The answer that one elicitation of a call needs: its key, and what it has to fit."""

    key: uuid.UUID
    store: DatabaseFormAnswerStore
    elicitation: AnyElicitation
    fingerprint: str

    def is_answered_by(self, row: StoredFormAnswer | None) -> bool:
        """Whether this row is an answer of this call to this elicitation, and still fits it.

        The parts of the key are compared once more: a collision fails closed.
        """
        if row is None or not self.store.is_mine(row):
            return False
        elicitation = self.elicitation
        if not row.applies_to(
            elicitation.server_name, elicitation.tool_name, self.fingerprint, timezone.now()
        ):
            return False
        if row.action == StoredFormAnswer.Action.DECLINE:
            return True
        try:
            row.content = elicitation.schema.content_from_answers(row.answers)
        except AnswerRefusal as refusal:
            logger.warning(
                "A recorded answer no longer fits its elicitation; asking again",
                extra={"server": row.server, "tool": row.tool, "code": refusal.code},
            )
            return False
        return True


def answers(wanted: Iterable[WantedAnswer]) -> models.QuerySet[StoredFormAnswer]:
    """Return the rows that have the keys of these answers."""
    keys = [each.key for each in wanted]
    return StoredFormAnswer.objects.using(write_alias()).filter(pk__in=keys)


def answered(
    wanted: Iterable[WantedAnswer], rows: Mapping[uuid.UUID, StoredFormAnswer]
) -> set[uuid.UUID]:
    """Return the keys of those to which one of these rows, by their keys, is the answer."""
    return {each.key for each in wanted if each.is_answered_by(rows.get(each.key))}


def take(
    wanted: Sequence[WantedAnswer], rows: models.QuerySet[StoredFormAnswer] | None = None
) -> list[StoredFormAnswer] | None:
    """Take all these answers or none, inside the transaction that the caller has opened.

    The caller has looked before that there are any, without a lock, and commits before it sends
    one.

    Args:
        wanted: Which answers.
        rows: ``answers(wanted)``, where the caller has that already.

    Returns:
        The answers in the order of ``wanted``, each with its ``content``.
    """
    if rows is None:
        rows = answers(wanted)
    lock_now(rows)
    # In key order, so that two takers of the same rows never wait for each other.
    locked = {row.pk: row for row in rows.select_for_update().order_by("pk")}
    taken = [row for each in wanted if each.is_answered_by(row := locked.get(each.key)) and row]
    if len(taken) < len(wanted):
        return None
    _total, deleted = rows.delete()
    # The lock alone does not make us the owner: on SQLite it does nothing.
    owned = deleted.get(StoredFormAnswer._meta.label, 0) == len(wanted)
    return taken if owned else None


def record(rows: Sequence[StoredFormAnswer]) -> None:
    """Write answers, each in place of an older one of the same key, in one statement."""
    alias = write_alias()
    # MariaDB finds the conflicting key itself, and cannot be told it.
    with_target = connections[alias].features.supports_update_conflicts_with_target
    StoredFormAnswer.objects.using(alias).bulk_create(
        rows,
        update_conflicts=True,
        update_fields=_UPDATED,
        unique_fields=["id"] if with_target else None,
    )


def drop(keys: Collection[uuid.UUID]) -> list[StoredFormAnswer]:
    """Delete these answers, and return those that were there; inside a transaction."""
    left = StoredFormAnswer.objects.using(write_alias()).filter(pk__in=keys)
    # Locked in key order, as a taker of the same rows does.
    rows = list(left.select_for_update().order_by("pk"))
    if rows:
        left.filter(pk__in=[row.pk for row in rows]).delete()
    return rows


def delete_expired(keys: Collection[uuid.UUID], now: datetime) -> list[uuid.UUID]:
    """Delete those of these answers whose time is up, and return their keys; in a transaction.

    An answer that was recorded meanwhile under one of the keys has time left, and stays.
    Locked first: a receiver of a delete signal makes Django delete by key alone, and drop the
    condition.
    """
    expired = StoredFormAnswer.objects.using(write_alias()).expired(now)
    rows = expired.filter(pk__in=keys)
    lock_now(rows)
    locked = list(rows.select_for_update().order_by("pk").values_list("pk", flat=True))
    if locked:
        expired.filter(pk__in=locked).delete()
    return locked
