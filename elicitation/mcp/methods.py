"""The requests that can ask (MCP 2026-07-28, basic/patterns/mrtr), and the results of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mcp.client.extension import ClientExtension
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequest,
    GetPromptRequestParams,
    GetPromptResult,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    Result,
)
from mcp.types import (
    Request as AnyRequest,
)

from ..calls.tasks import TASKS
from ..calls.values import PROMPT, RESOURCE, TOOL

Request = CallToolRequest | GetPromptRequest | ReadResourceRequest


class Kind(NamedTuple):
    """The SDK's classes for one method."""

    request: Any
    params: Any
    result: type[Result]


KINDS: Final[Mapping[str, Kind]] = {
    TOOL: Kind(CallToolRequest, CallToolRequestParams, CallToolResult),
    PROMPT: Kind(GetPromptRequest, GetPromptRequestParams, GetPromptResult),
    RESOURCE: Kind(ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult),
}


def request(method: str, name: str, arguments: Mapping[str, Any] | None, **params: Any) -> Request:
    """Return the request for what is called.

    Args:
        method: One of ``KINDS``.
        name: As ``calls.values.named`` returns it.
        arguments: Likewise: those of a resource are its URI.
        params: What the request has besides: ``input_responses``, ``request_state``, ``_meta``.
    """
    kind = KINDS[method]
    what = arguments if method == RESOURCE else {"name": name, "arguments": arguments}
    made: Request = kind.request(params=kind.params(**(what or {}), **params))
    return made


class TasksExtension(ClientExtension):
    """Declares the Tasks extension. What it makes of a reply is read in ``replies``."""

    identifier = TASKS


class TaskRequest(AnyRequest[dict[str, Any], str]):
    """A request about a task: ``tasks/get``, ``tasks/update`` or ``tasks/cancel``."""

    # The header `Mcp-Name` is the id of the task (SEP-2663).
    name_param = "taskId"


def task(method: str, task_id: str, **params: Any) -> TaskRequest:
    """Return a request about a task."""
    return TaskRequest(method=method, params={"taskId": task_id, **params})
