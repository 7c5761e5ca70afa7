"""The client that the conformance suite tests: a host built on the app, as an agent runs it.

``python -m tests.conformance.host URL``; the suite says in MCP_CONFORMANCE_SCENARIO what to do.
The host knows nothing of the person: it puts questions into the database, and goes on with a
parked call over a new connection once its question is closed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import UUID

from tests.processes import use_test_database

if __name__ == "__main__":
    use_test_database()

import mcp
from django.contrib.auth.models import User
from mcp.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ErrorData,
    ListRootsResult,
    TextContent,
)

from elicitation.core import FormElicitationPending
from elicitation.integrations.mcp_sdk import (
    aclient_options,
    call_tool,
    elicitation_callback,
    resume,
)
from elicitation.models import Elicitation

SERVER, SCOPE = "suite", "conversation"


class Host:
    """A host that acts for one person, at one server."""

    def __init__(self, url: str, user: User) -> None:
        self.url = url
        self.user = user

    async def client(self, **options: Any) -> AbstractAsyncContextManager[mcp.Client]:
        """Return a connection of its own."""
        return mcp.Client(self.url, **await aclient_options(SERVER), **options)

    async def call(self, tool: str) -> UUID | None:
        """Call a tool; return the id of the call where it was parked."""
        async with await self.client() as client:
            try:
                await call_tool(
                    client.session,
                    server=SERVER,
                    tool=tool,
                    arguments={},
                    scope=SCOPE,
                    respondent=self.user,
                )
            except FormElicitationPending as pending:
                return pending.parked_call_id
        return None

    async def go_on(self, parked_call_id: UUID | None) -> None:
        """Go on with a call once the person has answered, in a connection of its own."""
        assert parked_call_id is not None, "nothing was asked"
        while await Elicitation.objects.pending().of_call(parked_call_id).aexists():
            await asyncio.sleep(0.05)
        async with await self.client() as client:
            await resume(client.session, parked_call_id)


async def in_the_middle_of_a_call(host: Host) -> None:
    """A server of before 2026-07-28 asks while it waits."""
    tool = "test_client_elicitation_defaults"
    callback = elicitation_callback(SERVER, tool, SCOPE, host.user)
    options = await aclient_options(SERVER, callback=callback)
    async with mcp.Client(host.url, **options) as client:
        await client.call_tool(tool, {})


async def in_rounds(host: Host) -> None:
    """A server asks with a state and without one; another tool is called in between."""
    echoed = await host.call("test_mrtr_echo_state")
    await host.call("test_mrtr_unrelated")
    await host.go_on(echoed)
    await host.go_on(await host.call("test_mrtr_no_state"))
    assert await host.call("test_mrtr_no_result_type") is None


async def declared(host: Host) -> None:
    """What a host declares that can also sample and has roots."""

    async def sample(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text="?"), model="none"
        )

    async def roots(context: object) -> ListRootsResult | ErrorData:
        return ListRootsResult(roots=[])

    async with await host.client(sampling_callback=sample, list_roots_callback=roots) as client:
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
