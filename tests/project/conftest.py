"""The demo as `make demo` sets it up, with its worker in the process of the test."""

import io
import time

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command

from tests.processes import WAIT_SECONDS


@pytest.fixture
def demo(db, settings, mcp_url, monkeypatch):
    """Set up the demo, and return the person."""
    monkeypatch.setenv("SECRET_KEY", "only-for-tests")
    from project import settings as of_the_demo

    server = of_the_demo.ELICITATION_SERVERS[settings.DEMO_SERVER] | {"url": mcp_url}
    settings.ELICITATION_SERVERS = {settings.DEMO_SERVER: server}
    settings.ELICITATION_SCOPE_URL = of_the_demo.ELICITATION_SCOPE_URL
    settings.DEMO_MCP_URL = mcp_url
    call_command("demo_setup", verbosity=0)
    return get_user_model().objects.get(username="demo")


@pytest.fixture
def signed_in(client, demo):
    client.force_login(demo)
    return client


def work_until(holds, what):
    """Do what the demo's worker can do, until something holds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_SECONDS} s"
        call_command("elicitation_worker", once=True, stdout=io.StringIO())
