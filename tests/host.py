"""A host built on the app, as an agent runs it, for servers of every era.

It knows nothing of the person: it puts questions into the database, and goes on with a parked call
over a connection of its own once its questions are closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import mcp
from mcp.types import CallToolResult

from elicitation.core import FormElicitationPending
from elicitation.integrations.mcp_sdk import (
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


class Host:
    """Calls the tools of one server for one person.

    Args:
        target: Where the server is: what ``mcp.Client`` takes.
        user: Who is asked.
        mode: The era that is spoken: what ``mcp.Client`` takes.
    """

    def __init__(self, target: Any, user: User, mode: str = "auto") -> None:
        self.target = target
        self.user = user
        self.mode = mode

    async def client(self, tool: str = "", **options: Any) -> mcp.Client:
        """Return a connection of its own, in which a tool is called."""
        callback = elicitation_callback(SERVER, tool, SCOPE, self.user)
        asked = await aclient_options(SERVER, callback=callback)
        return mcp.Client(self.target, mode=self.mode, **asked, **options)

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None
    ) -> CallToolResult | UUID:
        """Call a tool; return the call's id where it was parked."""
        async with await self.client(tool) as client:
            try:
                return await call_tool(
                    client.session,
                    server=SERVER,
                    tool=tool,
                    arguments=arguments or {},
                    scope=SCOPE,
                    respondent=self.user,
                )
            except FormElicitationPending as pending:
                return pending.parked_call_id

    async def go_on(self, parked_call_id: UUID) -> CallToolResult | UUID:
        """Go on with a call once its questions are closed; return its id where it asks again."""
        while await Elicitation.objects.pending().of_call(parked_call_id).aexists():
            await asyncio.sleep(0.05)
        async with await self.client() as client:
            try:
                return await resume(client.session, parked_call_id)
            except FormElicitationPending as pending:
                return pending.parked_call_id

    async def through(
        self, tool: str, arguments: Mapping[str, Any] | None = None
    ) -> CallToolResult:
        """Call a tool, and go on with it until there is a result."""
        outcome = await self.call(tool, arguments)
        while isinstance(outcome, UUID):
            outcome = await self.go_on(outcome)
        return outcome
