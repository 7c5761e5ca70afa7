"""The admin under other looks, each installed for this run, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import BASE_DIR

#: What is installed for each, without what it depends on: that is Django.
LOOKS = {"unfold": "django-unfold==0.91.0", "jazzmin": "django-jazzmin==3.0.5"}


@pytest.mark.parametrize("name", LOOKS)
def test_operators_find_everything(name: str, tmp_path: Path) -> None:
    install = [*(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps")]
    installed = subprocess.run(
        [*install, "--target", str(tmp_path), LOOKS[name]],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if installed.returncode and "CI" not in os.environ:
        pytest.skip(f"{LOOKS[name]} cannot be installed here")
    assert installed.returncode == 0, installed.stderr
    # What is said of this run, such as where its report goes, is not meant for that one.
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-p", "no:hypothesispytest", "-p", "no:playwright"),
            f"--ds=tests.awkward.settings.{name}",
            "tests/awkward/project_admin.py",
        ],
        cwd=BASE_DIR,
        env=environment | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
    assert "skipped" not in ran.stdout
