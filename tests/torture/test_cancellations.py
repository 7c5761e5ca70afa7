"""The short form of ``python -m tests.torture.cancellations``, on the database of the tests."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.torture.cancellations import kinds
from tests.torture.flows import add_up, prepare, without_pauses

RUNS = 30


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", kinds())
def test_a_call_that_is_cancelled_loses_nothing_in_silence(kind: str) -> None:
    user = prepare()
    with without_pauses():
        # Every third turn; what is left out comes the next time round.
        flows = [flow for _, flow in islice(kinds()[kind](user, every=3), RUNS)]
    counts, wrong = add_up(flows)
    assert wrong == []
    assert counts["runs"] == RUNS
    assert counts["passes cancelled"] >= RUNS / 3
