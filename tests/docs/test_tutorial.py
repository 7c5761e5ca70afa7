"""The tutorial, done as it stands there by somebody who has nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.processes import BASE_DIR
from tests.tutorial import BLOCKS, PAGE, Newcomer


def test_every_block_says_what_is_done_with_it() -> None:
    assert PAGE.read_text().count("```") == 2 * len(BLOCKS)


def test_it_ends_with_a_question_answered(tmp_path: Path) -> None:
    Newcomer(tmp_path, sys.executable, pythonpath=str(BASE_DIR)).follow()
