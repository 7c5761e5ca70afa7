"""Eight processes at one table."""

from __future__ import annotations

from collections import Counter

import pytest

from elicitation.models import StoredFormAnswer
from elicitation.store import DatabaseFormAnswerStore
from tests import processes
from tests.store.conftest import elicitation, plan

ANSWERS = 400
PROCESSES = 8


@pytest.mark.django_db(transaction=True)
def test_eight_processes_take_each_of_400_answers_exactly_once() -> None:
    for number in range(ANSWERS):
        store = DatabaseFormAnswerStore(scope="race", call=f"call-{number}")
        store.record_form_answer(elicitation(), "accept", plan("team"))
    takers = [processes.start("tests.store.taker", str(ANSWERS)) for _ in range(PROCESSES)]
    for taker in takers:
        assert taker.stdout is not None
        assert taker.stdout.readline() == "ready\n"
    for taker in takers:
        # All begin at once: none has a head start over those that still load.
        assert taker.stdin is not None
        taker.stdin.write("go\n")
        taker.stdin.flush()
    taken = Counter(call for calls in processes.finish(takers) for call in calls)
    assert taken == Counter({f"call-{number}": 1 for number in range(ANSWERS)})
    assert not StoredFormAnswer.objects.exists()
