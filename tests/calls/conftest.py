"""What the tests of outcomes share: a host, and what ``call_finished`` told it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from elicitation.signals import call_finished
from tests.integration.conftest import host_for, policy

__all__ = ["host_for", "policy"]


@pytest.fixture
def finished() -> Iterator[list[dict[str, Any]]]:
    """What ``call_finished`` carried, as it was sent."""
    received: list[dict[str, Any]] = []

    def receive(**kwargs: Any) -> None:
        del kwargs["signal"]
        received.append(kwargs)

    call_finished.connect(receive)
    yield received
    call_finished.disconnect(receive)
