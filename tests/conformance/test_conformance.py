"""MCP's conformance suite, run against a host built on the app, with a person on its pages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tests.asking import allow
from tests.conformance.client import SCENARIOS
from tests.conformance.packages import CONFORMANCE, node
from tests.host import SERVER
from tests.person import Person, Typed
from tests.processes import BASE_DIR, DATABASE, WAIT_SECONDS, wait_until

pytestmark = pytest.mark.conformance

DEFAULTS, ROUNDS, METADATA = SCENARIOS
#: What the suite tests of clients that has nothing to do with elicitation.
ELSEWHERE = re.compile(
    r"initialize|tools_call|sse-retry|auth/.+|http-.+|json-schema-.+|sep-2640-.+"
)


def suite(*arguments: str) -> subprocess.Popen[str]:
    """Start the suite, whose clients work on this test's database."""
    return subprocess.Popen(
        [node(), str(CONFORMANCE / "index.js"), *arguments],
        cwd=BASE_DIR,
        env=os.environ | {DATABASE: str(connection.settings_dict["NAME"])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def checks(
    scenario: str, person: Person, answers: Sequence[dict[str, Typed]], folder: Path
) -> list[dict[str, Any]]:
    """Run a scenario while a person gives these answers; return what the suite reports."""
    process = suite(
        *("client", "--scenario", scenario, "--output-dir", str(folder)),
        *("--timeout", str(WAIT_SECONDS * 1000)),
        *("--command", f"{sys.executable} -m tests.conformance.client"),
    )
    try:
        for typed in answers:
            wait_until(lambda: process.poll() is not None or person.waiting(), "a question")
            for address in person.waiting():
                person.answer(address, typed)
        said, _ = process.communicate(timeout=2 * WAIT_SECONDS)
    finally:
        process.kill()
    reports = list(folder.glob("*/checks.json"))
    assert len(reports) == 1, said
    # The suite writes down the messages that it saw, too, under this status.
    report = [check for check in json.loads(reports[0].read_text()) if check["status"] != "INFO"]
    # It fails where the client breaks, too.
    passed = {check["status"] for check in report} == {"SUCCESS"}
    assert (process.returncode == 0) == passed, said
    return report


def defaults(report: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the suite expected and received of each property with a default."""
    found = [check.get("details", {}) for check in report]
    return [details for details in found if "expectedDefault" in details]


@pytest.mark.parametrize(
    ("scenario", "answers"),
    [(DEFAULTS, [{}]), (ROUNDS, [{"confirmed": True}] * 2), (METADATA, [])],
    ids=list(SCENARIOS),
)
def test_every_check_of_a_scenario_passes(
    scenario: str, answers: list[dict[str, Typed]], person: Person, tmp_path: Path
) -> None:
    allow(SERVER, prefill=True)
    report = checks(scenario, person, answers, tmp_path)
    assert report
    assert [check for check in report if check["status"] != "SUCCESS"] == []
    # The suite is content with any value of the right type.
    sent = defaults(report)
    assert len(sent) == (5 if scenario == DEFAULTS else 0)
    for details in sent:
        assert details["receivedValue"] == details["expectedDefault"]


def test_no_default_is_sent_without_the_operators_word(person: Person, tmp_path: Path) -> None:
    allow(SERVER)
    report = checks(DEFAULTS, person, [{}], tmp_path)
    sent = defaults(report)
    assert len(sent) == 5
    assert not any("receivedValue" in details for details in sent)


def test_no_scenario_about_elicitation_is_left_out() -> None:
    said, _ = suite("list", "--client").communicate(timeout=WAIT_SECONDS)
    listed = re.findall(r"^  - (\S+)", said, re.MULTILINE)
    assert listed
    assert {name for name in listed if not ELSEWHERE.fullmatch(name)} == set(SCENARIOS)
