"""The benchmarks run with the code of today; what they measure is no matter of a test."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest
from django.conf import settings

from bench import tasks, waiting
from tests.processes import BASE_DIR


def test_each_benchmark_of_the_database_runs() -> None:
    sizes = ["--rows", "5", "--runs", "1", "--rounds", "1"]
    run = subprocess.run(
        [sys.executable, "-m", "bench.database", *sizes],
        cwd=BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for measured in ("take an answer", "ask: from the call to the parked call", "question page"):
        assert measured in run.stdout


@pytest.mark.django_db(transaction=True)
def test_what_it_costs_to_wait_for_people_is_measured() -> None:
    found = waiting.measure(3, idle=0.1)
    assert found["connections to the server"] == 3
    assert found["statements in a minute in which nothing happens"] is not None
    assert found["seconds until one more call asked"] is not None


@pytest.mark.django_db(transaction=True)
def test_what_it_costs_to_look_after_tasks_is_measured() -> None:
    found = tasks.measure(3, poll=1)
    # No window that is as long as the interval has more than two reads of a task in it.
    most = 2 * found["requests a second, at most, by the interval"]
    assert found["requests a second"] <= most
    assert found["statements a second"] >= found["requests a second"]


def test_the_environment_of_the_flow_has_every_app_of_the_settings() -> None:
    listed = set()
    for name in ("bench/requirements-flow.txt", "requirements.txt"):
        listed |= set(re.findall(r"(?m)^[a-z-]+", (BASE_DIR / name).read_text()))
    installed = {app.split(".")[0] for app in settings.INSTALLED_APPS}
    distributions = packages_distributions()
    missing = [
        app
        for app in installed - {"elicitation", "project"}
        if not {name.lower() for name in distributions[app]} & listed
    ]
    assert missing == []
