"""The patches fit the code of today; ``make mutations`` runs the tests that notice them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutations.__main__ import PASSED, Mutation, copy, mutations, run
from tests.processes import BASE_DIR


@pytest.mark.parametrize("mutation", mutations(), ids=lambda each: each.name)
def test_a_mutation_fits_the_code_and_names_its_tests(mutation: Mutation) -> None:
    mutation.apply(BASE_DIR, "--check")
    for test in mutation.tests:
        path, *names = test.split("::")
        source = (BASE_DIR / path).read_text()
        assert all(f" {name}" in source for name in names), test


def test_a_patch_is_noticed_and_can_be_taken_back(tmp_path: Path) -> None:
    copy(tmp_path)
    (mutation,) = (each for each in mutations() if each.name.startswith("08-"))
    mutation.apply(tmp_path)
    assert run(tmp_path, mutation.tests).returncode != PASSED
    mutation.apply(tmp_path, "-R")
    assert run(tmp_path, mutation.tests).returncode == PASSED
