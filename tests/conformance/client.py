"""The client that the conformance suite tests: a process of a host built on the app.

``python -m tests.conformance.client URL``; MCP_CONFORMANCE_SCENARIO says what it has to do.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from uuid import UUID

from tests.processes import use_test_database

if __name__ == "__main__":
    use_test_database()

from django.contrib.auth.models import User

from tests.host import Host, no_roots, sample


async def in_the_middle_of_a_call(host: Host) -> None:
    """A server of before 2026-07-28 asks while it waits."""
    await host.through("test_client_elicitation_defaults")


async def in_rounds(host: Host) -> None:
    """A server asks with a state and without one; another tool is called in between."""
    parked = await host.call("test_mrtr_echo_state")
    assert isinstance(parked, UUID), "nothing was asked"
    await host.call("test_mrtr_unrelated")
    await host.go_on(parked)
    await host.through("test_mrtr_no_state")
    await host.through("test_mrtr_no_result_type")


async def declared(host: Host) -> None:
    """What a host declares that can sample and has roots, too."""
    host.sampling, host.roots = sample, no_roots
    async with await host.client() as client:
        await client.list_tools()


SCENARIOS: dict[str, Callable[[Host], Awaitable[None]]] = {
    "elicitation-sep1034-client-defaults": in_the_middle_of_a_call,
    "sep-2322-client-request-state": in_rounds,
    "request-metadata": declared,
}


async def main() -> None:
    host = Host(sys.argv[1], await User.objects.aget())
    await SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]](host)


if __name__ == "__main__":
    asyncio.run(main())
