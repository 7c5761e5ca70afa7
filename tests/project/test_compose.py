"""``compose.yaml``, as far as it can be checked without Docker: its form, and what it starts."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from tests.processes import BASE_DIR

FILE: dict[str, Any] = yaml.safe_load((BASE_DIR / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
#: Keys of a service that are used here, as the Compose specification names them.
KEYS = {
    "build",
    "command",
    "depends_on",
    "environment",
    "healthcheck",
    "image",
    "network_mode",
    "ports",
    "profiles",
    "stop_grace_period",
}


def test_it_has_what_the_demo_and_the_tests_need() -> None:
    assert set(SERVICES) == {"postgresql", "mariadb", "redis", "shop", "migrate", "web", "worker"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_the_form_of_one(name: str) -> None:
    service = SERVICES[name]
    assert set(service) <= KEYS
    assert ("image" in service) != ("build" in service)
    for other, how in service.get("depends_on", {}).items():
        assert other in SERVICES
        assert how["condition"] in {
            "service_started",
            "service_healthy",
            "service_completed_successfully",
        }
        assert how["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]
    if mode := service.get("network_mode"):
        assert mode.removeprefix("service:") in SERVICES
        assert "ports" not in service
    # Nothing is reachable from other machines.
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("name", [name for name in SERVICES if "command" in SERVICES[name]])
def test_what_a_service_starts_is_there(name: str) -> None:
    line = " ".join(SERVICES[name]["command"])
    parts = [part.strip() for part in line.removeprefix("sh -c ").split("&&")]
    for part in parts:
        what, *options = part.removeprefix("python ").split()
        if what == "-m":
            assert find_spec(options[0])
            continue
        assert what == "manage.py"
        command, *options = options
        assert (BASE_DIR / what).is_file()
        app = get_commands()[command]
        assert isinstance(app, str)
        if options or app != "django.core":
            load_command_class(app, command).create_parser(what, command).parse_args(options)


def test_what_is_copied_is_there_and_is_all_that_the_demo_needs() -> None:
    made = FILE["x-site"]["build"]["dockerfile_inline"]
    copied = re.findall(r"^COPY (.+) \S+$", made, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (BASE_DIR / name).exists(), name
    assert {"elicitation", "manage.py", "project", "templates"} <= set(" ".join(copied).split())
    assert "mysqlclient" in (BASE_DIR / "requirements-databases.txt").read_text()
