"""A host built on the app, as an agent runs it, for servers of every era.

It knows nothing of the person: it puts questions into the database, and goes on with a parked call
over a connection of its own once its questions are closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import mcp
from mcp.client.session import ListRootsFnT, SamplingFnT
from mcp.types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    GetPromptResult,
    ListRootsResult,
    TextContent,
)

from elicitation.core import ElicitationError, ElicitationPending
from elicitation.mcp.client import (
    aclient_options,
    call_tool,
    elicitation_callback,
    resume,
)
from elicitation.models import Elicitation

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: The name under which the site knows the server.
SERVER = "published"
SCOPE = "conversation"


async def sample(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Answer for a model that has one thing to say."""
    said = TextContent(type="text", text="Hello.")
    return CreateMessageResult(role="assistant", content=said, model="none")


async def no_roots(context: object) -> ListRootsResult:
    """Answer that there are no roots."""
    return ListRootsResult(roots=[])


class Host:
    """Calls the tools of one server for one person.

    Args:
        target: Where the server is: what ``mcp.Client`` takes.
        user: Who is asked.
        mode: The era that is spoken: what ``mcp.Client`` takes.
        sampling: What answers a server that wants a model, if anything does.
        roots: What answers a server that wants to know roots, likewise.
    """

    def __init__(
        self,
        target: Any,
        user: User,
        mode: str = "auto",
        sampling: SamplingFnT | None = None,
        roots: ListRootsFnT | None = None,
    ) -> None:
        self.target = target
        self.user = user
        self.mode = mode
        self.sampling = sampling
        self.roots = roots

    async def client(self, tool: str = "") -> mcp.Client:
        """Return a connection of its own, in which a tool is called."""
        callback = elicitation_callback(SERVER, tool, SCOPE, self.user)
        return mcp.Client(
            self.target,
            mode=self.mode,
            sampling_callback=self.sampling,
            list_roots_callback=self.roots,
            **await aclient_options(SERVER, callback=callback),
        )

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None
    ) -> CallToolResult | UUID:
        """Call a tool; return the call's id where it was parked."""
        return await self._connected(
            tool,
            lambda session: call_tool(
                session,
                server=SERVER,
                tool=tool,
                arguments=arguments or {},
                scope=SCOPE,
                respondent=self.user,
                sampling=self.sampling,
                roots=self.roots,
            ),
        )

    async def go_on(self, parked_call_id: UUID) -> CallToolResult | UUID:
        """Go on with a call once its questions are closed; return its id where it asks again."""
        while await Elicitation.objects.pending().of_call(parked_call_id).aexists():
            await asyncio.sleep(0.05)
        return await self._connected(
            "",
            lambda session: resume(
                session, parked_call_id, server=SERVER, sampling=self.sampling, roots=self.roots
            ),
        )

    async def _connected(
        self, tool: str, work: Callable[[mcp.ClientSession], Awaitable[CallToolResult]]
    ) -> CallToolResult | UUID:
        async with await self.client(tool) as client:
            # Caught in here: leaving the client with an exception wraps it in a group.
            try:
                return await work(client.session)
            except ElicitationPending as pending:
                return pending.parked_call_id
            except ElicitationError as error:
                refused = error
        raise refused

    async def through(
        self, tool: str, arguments: Mapping[str, Any] | None = None
    ) -> CallToolResult:
        """Call a tool, and go on with it until there is a result."""
        outcome = await self.call(tool, arguments)
        while isinstance(outcome, UUID):
            outcome = await self.go_on(outcome)
        return outcome

    async def again_and_again(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Make one call over one connection until there is a result.

        For a server that remembers by connection what it has asked.
        """
        async with await self.client(tool) as client:
            while True:
                try:
                    return await call_tool(
                        client.session,
                        server=SERVER,
                        tool=tool,
                        arguments=arguments,
                        scope=SCOPE,
                        respondent=self.user,
                    )
                except ElicitationPending:
                    await asyncio.sleep(0.05)

    async def prompt(self, name: str) -> GetPromptResult:
        """Get a prompt. Only tool calls are parked: what its server asks is waited for."""
        async with await self.client(name) as client:
            return await client.get_prompt(name)
