"""Every input that went wrong once has a test by its number, or is on the list of those that miss.

A test carries the number of its case in its name: ``test_case_F5_…``.
"""

from __future__ import annotations

import re

import pytest

from tests.processes import BASE_DIR

#: How many there are of each kind: the wire, leases, in the middle of a call, schemas, pages and
#: API, and operators.
CASES = {"A": 17, "B": 3, "C": 6, "D": 9, "E": 8, "F": 10}

#: Those without a test by their number yet, and what it has to show. Whoever writes the test takes
#: the case off the list.
OPEN = {
    "E5": "a decline in a stale tab says what became of this press",
    "E6": "the zone of the browser is chosen at first, and the page says which moment that is",
    "E8": "what was typed is still there after the session or the elicitation has ended",
}


def named() -> set[str]:
    """Return the cases that are in the name of a test."""
    found = set()
    for path in (BASE_DIR / "tests").rglob("test_*.py"):
        for name in re.findall(r"def test_case_(\w+)", path.read_text("utf-8")):
            found |= set(re.findall(r"(?:^|_and_)([A-Z]\d+)(?=_)", name))
    return found


@pytest.mark.parametrize("kind", CASES)
def test_each_case_has_a_test_or_is_known_to_have_none(kind: str) -> None:
    cases = {f"{kind}{number}" for number in range(1, CASES[kind] + 1)}
    tested = {case for case in named() if case.startswith(kind)}
    assert tested - cases == set(), "there is no such case"
    assert cases - tested - set(OPEN) == set(), "neither tested nor on the list of open ones"
    assert tested & set(OPEN) == set(), "tested by now: take it off the list of open ones"


def test_the_open_ones_are_cases() -> None:
    assert {case for case in OPEN if int(case[1:]) > CASES[case[0]]} == set()
