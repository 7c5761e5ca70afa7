"""Projects that are set up otherwise, each under settings of its own in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from django.db import connection

from tests.processes import BASE_DIR

PROJECTS = {
    "atomic_requests": ["any", "atomic_requests"],
    "replica": ["any", "replica"],
    "persistent": ["any", "persistent"],
    "naive_times": ["naive_times", "zones"],
    "far_zone": ["any", "zones"],
}
if connection.vendor == "postgresql":
    # psycopg's; the others have none.
    PROJECTS["pool"] = ["any"]


@pytest.mark.parametrize("name", PROJECTS)
def test_project(name: str) -> None:
    files = [f"tests/awkward/project_{part}.py" for part in PROJECTS[name]]
    # What is said of this run, such as where its report goes, is not meant for that one.
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            # What these need not is not loaded, which would take as long as all they do.
            *("-p", "no:hypothesispytest", "-p", "no:playwright"),
            f"--ds=tests.awkward.settings.{name}",
            *files,
        ],
        cwd=BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    summary = ran.stdout.splitlines()[-1]
    assert re.fullmatch(r"=* ?\d+ passed in .*", summary), summary
