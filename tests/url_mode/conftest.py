"""What the tests of URL mode share: a host, and an address with what looks like a secret."""

from __future__ import annotations

import pytest

from elicitation.mcp import drive
from tests.integration.conftest import host_for, policy

__all__ = ["host_for", "policy"]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that ask again are told again without making the tests wait."""
    monkeypatch.setattr(drive, "FIRST_WAIT", 0.001)
