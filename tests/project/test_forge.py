"""The files for a public forge, as far as they can be checked here: they run what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import release
from tests.processes import BASE_DIR

WORKFLOWS = sorted((BASE_DIR / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):.*## ", (BASE_DIR / "Makefile").read_text(), re.MULTILINE))


def steps_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_is_there_with_few_rights(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for step in steps_of(workflow):
        command = step.get("run", "")
        if command.startswith("make "):
            assert set(command.removeprefix("make ").split()) <= TARGETS
        elif command.startswith(".ci/"):
            assert (BASE_DIR / command).is_file()
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}


def test_what_publishes_runs_nothing_of_the_project() -> None:
    workflow = yaml.safe_load((BASE_DIR / ".github/workflows/release.yml").read_text())
    publish = workflow["jobs"]["publish"]
    assert publish["needs"] == "build"
    assert publish["permissions"] == {"id-token": "write"}
    assert not any("run" in step for step in publish["steps"])
    assert {"run": "make release-check"} in workflow["jobs"]["build"]["steps"]


def test_each_hook_is_a_tool_of_make_lint() -> None:
    lint = (BASE_DIR / "Makefile").read_text()
    config = yaml.safe_load((BASE_DIR / ".pre-commit-config.yaml").read_text())
    for repository in config["repos"]:
        for hook in repository["hooks"]:
            tool = hook["entry"].replace(".venv/bin/", "$(BIN)/").replace(" --force-exclude", "")
            assert tool in lint


def test_the_release_is_tried_on_the_versions_that_the_package_names() -> None:
    package = (BASE_DIR / "pyproject.toml").read_text()
    pythons = re.findall(r"Python :: (3\.\d+)", package)
    djangos = re.findall(r"Django :: (\d\.\d)", package)
    (oldest, old_django), (newest, new_django) = release.TRIED
    assert (oldest, newest) == (pythons[0], pythons[-1])
    assert f">={djangos[0]}" in old_django
    assert f">={djangos[-1][0]}" in new_django


def test_a_licence_that_is_not_known_is_found() -> None:
    listed = "django\t5.2\tBSD License\nother\t1.0\tGPL-3.0-only\nnone\t1.0\t\n"
    assert [line.split("\t")[0] for line in release.licences(listed)] == ["other", "none"]
