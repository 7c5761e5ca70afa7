"""A take as one would write it without thinking of others: it neither locks nor counts.

``python -m tests.torture --careless`` runs with it, and has to find faults. A checker that calls
even this clean would say nothing about the real take.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from elicitation.core import FormElicitation
from elicitation.models import StoredFormAnswer
from elicitation.store import DatabaseFormAnswerStore, write_alias


def install() -> None:
    """Put the careless take in the place of the real one, in this process and its children."""
    DatabaseFormAnswerStore.take_form_answers = _take  # type: ignore[method-assign]


def _take(
    self: DatabaseFormAnswerStore,
    elicitations: Sequence[FormElicitation],
    numbers: Sequence[int] | None = None,
) -> list[StoredFormAnswer] | None:
    keys = [
        self.key(elicitation, number)
        for elicitation, number in zip(
            elicitations, numbers or [0] * len(elicitations), strict=True
        )
    ]
    rows = StoredFormAnswer.objects.using(write_alias()).filter(pk__in=keys)
    found = {row.pk: row for row in rows}
    taken = [
        found[key]
        for key, elicitation in zip(keys, elicitations, strict=True)
        if key in found and self.can_be_sent(found[key], elicitation)
    ]
    if len(taken) < len(keys):
        return None
    time.sleep(0.02)
    rows.delete()
    return taken
