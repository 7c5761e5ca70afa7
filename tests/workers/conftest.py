from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from django.conf import settings as django_settings

from tests.named.conftest import http_servers, nothing_is_left, serve
from tests.processes import WAIT_SECONDS, start

from .process import SOON

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

__all__ = ["http_servers", "nothing_is_left", "serve"]

#: Starts a worker that dies at a point: ``worker("after the take")``.
StartWorker = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def worker(settings: SettingsWrapper) -> Iterator[StartWorker]:
    """Start worker processes on the database of the test."""
    settings.ELICITATION_RESUME_AFTER = SOON
    started: list[subprocess.Popen[str]] = []

    def begin(point: str = "") -> subprocess.Popen[str]:
        servers = json.dumps(django_settings.ELICITATION_SERVERS, default=str)
        process = start("tests.workers.process", servers, point)
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "started" in line, process.communicate(timeout=WAIT_SECONDS)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate(timeout=WAIT_SECONDS)
