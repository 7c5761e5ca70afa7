"""The host's side of a call: its session, and what it answers for itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext, ListRootsFnT, SamplingFnT
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import CallToolResult, CreateMessageRequest, ErrorData, InputResponse
from opentelemetry.propagate import inject

from ..calls import requests
from ..calls.values import Round
from ..core import ElicitationError
from .dispatcher import Dispatcher

SAMPLING, ROOTS = "sampling/createMessage", "roots/list"

#: The first revision of MCP that has rounds and request states.
MODERN = "2026-07-28"


class InputNotSupportedError(ElicitationError):
    """The server asks for something that this host does not provide."""

    def __init__(self, server: str, method: str) -> None:
        # A server can name any method; only the two that MCP has are repeated.
        named = method if method in (SAMPLING, ROOTS) else "a method that MCP does not have"
        super().__init__(
            f"The server '{server}' asks for {named}, which this host does not provide. Pass "
            "sampling= or roots= to call_tool() and resume(), or do not declare the capability.",
            code="input_not_supported",
        )


class Host:
    """The host's side of a call: a connected session, and what it answers for itself."""

    def __init__(
        self,
        session: ClientSession,
        sampling: SamplingFnT | None,
        roots: ListRootsFnT | None,
        progress: ProgressFnT | None = None,
    ) -> None:
        Dispatcher.install(session)
        self.session = session
        self.sampling = sampling
        self.roots = roots
        self.progress = progress

    @property
    def is_modern(self) -> bool:
        """Whether the session agreed on a revision that has rounds and request states."""
        version = self.session.protocol_version
        return version is None or version >= MODERN

    @property
    def has_ended(self) -> bool:
        """Whether nothing can be sent over the session's connection any more."""
        # An SDK without a dispatcher to wrap does not say.
        return bool(getattr(getattr(self.session, "_dispatcher", None), "has_ended", False))

    def check_supported(self, round: Round, server: str) -> None:
        """Refuse a round that asks for what this host does not provide.

        Raises:
            InputNotSupportedError: It does.
        """
        provided = {requests.ELICITATION}
        provided |= {SAMPLING} if self.sampling else set()
        provided |= {ROOTS} if self.roots else set()
        for request in round.requests.values():
            if request["method"] not in provided:
                raise InputNotSupportedError(server, request["method"])

    async def fits(self, tool: str, result: CallToolResult) -> bool:
        """Whether a result fits its tool's output schema, as far as this session has listed it."""
        # Private to the SDK. Its own check would ask the server for the list first.
        listed = getattr(self.session, "_tool_output_schemas", {})
        if listed.get(tool) is None or result.is_error:
            return True
        try:
            await self.session.validate_tool_result(tool, result)
        except Exception:
            # Its text quotes the result.
            return False
        return True

    async def fulfil(self, round: Round) -> dict[str, InputResponse]:
        """Answer what is not asked of a person, through the host's callables."""
        responses: dict[str, InputResponse] = {}
        response: InputResponse | ErrorData
        for key, request in round.requests.items():
            context = ClientRequestContext(session=self.session, request_id=key)
            if request["method"] == SAMPLING and self.sampling:
                sampled = CreateMessageRequest.model_validate(request)
                response = await self.sampling(context, sampled.params)
            elif request["method"] == ROOTS and self.roots:
                response = await self.roots(context)
            else:
                continue
            if isinstance(response, ErrorData):
                raise MCPError.from_error_data(response)
            responses[key] = response
        return responses


def request_options(meta: Mapping[str, Any] | None, read_timeout: float | None) -> dict[str, Any]:
    """Return what a retry repeats of the first request, as JSON.

    Args:
        meta: Its ``_meta``. The trace that OpenTelemetry has now is added to it (MCP 2026-07-28,
            basic: ``traceparent`` and ``tracestate``): a retry, hours later and in another
            process, belongs to the same one.
        read_timeout: In seconds.
    """
    carrier: dict[str, Any] = {}
    inject(carrier)
    carrier |= meta or {}
    options = {"meta": carrier or None, "read_timeout": read_timeout}
    return {name: value for name, value in options.items() if value is not None}
