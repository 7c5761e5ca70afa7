"""Every input that went wrong once has a test by its number."""

from __future__ import annotations

import re

import pytest

from tests.processes import BASE_DIR

#: How many there are of each kind: the wire, leases, in the middle of a call, and schemas.
CASES = {"A": 17, "B": 3, "C": 6, "D": 9}


@pytest.mark.parametrize("kind", CASES)
def test_each_case_has_a_test(kind: str) -> None:
    named = set()
    for path in (BASE_DIR / "tests").rglob("test_*.py"):
        for name in re.findall(r"def test_case_(\w+)", path.read_text()):
            named |= set(re.findall(rf"(?:^|_and_){kind}(\d+)(?=_)", name))
    assert {int(number) for number in named} == set(range(1, CASES[kind] + 1))
