"""What a host needs, in one place: calls by the names of servers, and how they ended.

``call`` and ``resume`` have plain twins for code that has no event loop: views under WSGI, Celery
tasks, commands. The MCP SDK is imported when the first of them is called, and not before.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from asgiref.sync import sync_to_async

from . import background, sdk, starting
from .ended import Outcome
from .outcomes import (
    CallNotEndedError,
    Cancelled,
    aacknowledge,
    acancel,
    acancel_scope,
    acknowledge,
    aoutcome,
    cancel,
    cancel_scope,
    outcome,
    receive_outcomes,
)
from .values import PROMPT, RESOURCE, TOOL

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import CallToolResult, GetPromptResult, ReadResourceResult

__all__ = [
    "CallNotEndedError",
    "Cancelled",
    "Outcome",
    "aacknowledge",
    "acancel",
    "acancel_scope",
    "acknowledge",
    "aoutcome",
    "call",
    "call_sync",
    "cancel",
    "cancel_scope",
    "get_prompt",
    "get_prompt_sync",
    "outcome",
    "read_resource",
    "read_resource_sync",
    "receive_outcomes",
    "resume",
    "resume_sync",
    "start",
    "start_sync",
]


async def call(
    server: str,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    scope: str | int | uuid.UUID,
    user: AbstractBaseUser | None,
    call: str | int | uuid.UUID = "",
    scope_label: str = "",
    meta: Mapping[str, Any] | None = None,
    read_timeout: float | None = None,
    progress: ProgressFnT | None = None,
) -> CallToolResult:
    """Call a tool of a server by its name; where it asks a person something, park the call.

    The connection is kept for the calls that follow, and shared where the owner is the same. A
    server of a revision before 2026-07-28 asks in the middle of the call: then this waits, for at
    most five minutes, while the person is asked.

    Args:
        server: The name of the server in ``ELICITATION_SERVERS``.
        tool: The tool's name.
        arguments: A JSON object.
        scope: The host's id of the conversation or run.
        user: Whose call it is, and who is asked; ``None`` where nobody can be: every elicitation
            is declined.
        call: The host's id of this tool call, unique in the scope. Without it, the arguments
            tell two calls of one tool apart.
        scope_label: What people see as the name of the conversation.
        meta: The ``_meta`` of the request, a JSON object.
        read_timeout: How long each request may take, in seconds.
        progress: Called with the progress that the server reports, as by
            ``ClientSession.call_tool`` of the SDK.

    Returns:
        The tool's result, an ``isError`` result included.

    Raises:
        ImproperlyConfigured: There is no such server, its entry is wrong, or the MCP SDK is not
            installed.
        NotSentError: There is no connection, or the request did not reach the server. The tool
            has not run.
        ElicitationPending, ElicitationError, MCPError: As ``elicitation.mcp.client.call_tool``.
    """
    result: CallToolResult = await _request(
        server,
        TOOL,
        tool,
        arguments,
        scope=scope,
        user=user,
        call=call,
        scope_label=scope_label,
        meta=meta,
        read_timeout=read_timeout,
        progress=progress,
    )
    return result


class Options(TypedDict, total=False):
    """What ``call`` takes besides, in its words."""

    call: str | int | uuid.UUID
    scope_label: str
    meta: Mapping[str, Any] | None
    read_timeout: float | None
    progress: ProgressFnT | None


async def get_prompt(
    server: str,
    prompt: str,
    arguments: Mapping[str, str] | None = None,
    *,
    scope: str | int | uuid.UUID,
    user: AbstractBaseUser | None,
    **options: Unpack[Options],
) -> GetPromptResult:
    """Get a prompt of a server; where that asks a person something, park it as ``call`` does.

    Args:
        server, scope, user: As for ``call``.
        prompt: The prompt's name.
        arguments: Strings by their names.
        options: The others of ``call``.

    Raises:
        Exception: As ``call``.
    """
    result: GetPromptResult = await _request(
        server, PROMPT, prompt, arguments, scope=scope, user=user, **options
    )
    return result


async def read_resource(
    server: str,
    uri: str,
    *,
    scope: str | int | uuid.UUID,
    user: AbstractBaseUser | None,
    **options: Unpack[Options],
) -> ReadResourceResult:
    """Read a resource of a server; where that asks a person something, park it as ``call`` does.

    Args:
        server, scope, user: As for ``call``.
        uri: The resource's URI.
        options: The others of ``call``.

    Raises:
        Exception: As ``call``.
    """
    result: ReadResourceResult = await _request(
        server, RESOURCE, uri, None, scope=scope, user=user, **options
    )
    return result


async def _request(
    server: str,
    method: str,
    name: str,
    arguments: Mapping[str, Any] | None,
    *,
    scope: str | int | uuid.UUID,
    user: AbstractBaseUser | None,
    call: str | int | uuid.UUID = "",
    scope_label: str = "",
    meta: Mapping[str, Any] | None = None,
    read_timeout: float | None = None,
    progress: ProgressFnT | None = None,
) -> Any:
    return await sdk.servers().call(
        server,
        method,
        name,
        arguments,
        scope=_text(scope),
        user=user,
        call=_text(call),
        scope_label=scope_label,
        meta=meta,
        read_timeout=read_timeout,
        progress=progress,
    )


async def resume(parked_call_id: uuid.UUID | str, *, progress: ProgressFnT | None = None) -> Any:
    """Go on with a parked call, at its own server and with its own respondent's credentials.

    Args:
        parked_call_id: The call's id, which the signals carry.
        progress: As for ``call``.

    Returns:
        The tool's result, an ``isError`` result included; or that of the prompt or resource.

    Raises:
        ParkedCall.DoesNotExist: There is no such call, or its outcome was acknowledged.
        ImproperlyConfigured, NotSentError: As ``call``.
        ElicitationPending, ElicitationError, MCPError: As ``elicitation.mcp.client.resume``.
    """
    return await sdk.servers().resume(parked_call_id, progress=progress)


def start_sync(
    server: str,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    scope: str | int | uuid.UUID,
    user: AbstractBaseUser,
    call: str | int | uuid.UUID = "",
    scope_label: str = "",
    meta: Mapping[str, Any] | None = None,
    read_timeout: float | None = None,
    method: str = TOOL,
) -> uuid.UUID:
    """Have a worker make a call, and return its id at once; ``call_finished`` says how it ended.

    Inside a transaction the call is made once that has committed, and not where it was rolled
    back. The same call started twice is one call. If the worker dies before it has sent the
    request, another one sends it; if it dies later, the call is ``lost``, and the tool is not run
    again. Servers that ask in the middle of a call are waited for as long as an elicitation can be
    answered.

    Args:
        server, tool, arguments, scope, call, scope_label, meta, read_timeout: As for ``call``.
        user: Whose call it is, and who is asked.
        method: What ``tool`` is: the name of a tool (``tools/call``), the name of a prompt
            (``prompts/get``), or the URI of a resource (``resources/read``).

    Returns:
        The call's id, as ``resume``, ``outcome`` and the signals have it.

    Raises:
        ImproperlyConfigured: There is no such server, or its entry is wrong.
        AnotherRespondentError: The same call was made for somebody else.
        InvalidNameError, TooLargeError: A name, the user or the arguments cannot be stored.
    """
    return starting.start(
        server,
        tool,
        arguments,
        scope=_text(scope),
        user=user,
        call=_text(call),
        scope_label=scope_label,
        meta=meta,
        read_timeout=read_timeout,
        method=method,
    )


#: The same for coroutines.
start = sync_to_async(start_sync)


def call_sync(
    server: str,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    scope: str | int | uuid.UUID,
    user: AbstractBaseUser | None,
    call: str | int | uuid.UUID = "",
    scope_label: str = "",
    meta: Mapping[str, Any] | None = None,
    read_timeout: float | None = None,
    progress: ProgressFnT | None = None,
) -> CallToolResult:
    """Do the same as ``call`` from code that has no event loop.

    Raises:
        RuntimeError: An event loop runs in this thread. Await ``call`` there.
        Exception: As ``call``.
    """
    return background.run(
        partial(
            _call,
            server,
            tool,
            arguments,
            scope=scope,
            user=user,
            call=call,
            scope_label=scope_label,
            meta=meta,
            read_timeout=read_timeout,
            progress=progress,
        )
    )


# In ``call_sync`` the name is that of an argument.
_call = call


def get_prompt_sync(
    server: str,
    prompt: str,
    arguments: Mapping[str, str] | None = None,
    *,
    scope: str | int | uuid.UUID,
    user: AbstractBaseUser | None,
    **options: Unpack[Options],
) -> GetPromptResult:
    """Do the same as ``get_prompt`` from code that has no event loop.

    Raises:
        RuntimeError: As ``call_sync``.
        Exception: As ``call``.
    """
    get = partial(get_prompt, server, prompt, arguments, scope=scope, user=user, **options)
    return background.run(get)


def read_resource_sync(
    server: str,
    uri: str,
    *,
    scope: str | int | uuid.UUID,
    user: AbstractBaseUser | None,
    **options: Unpack[Options],
) -> ReadResourceResult:
    """Do the same as ``read_resource`` from code that has no event loop.

    Raises:
        RuntimeError: As ``call_sync``.
        Exception: As ``call``.
    """
    return background.run(partial(read_resource, server, uri, scope=scope, user=user, **options))


def resume_sync(parked_call_id: uuid.UUID | str, *, progress: ProgressFnT | None = None) -> Any:
    """Do the same as ``resume`` from code that has no event loop.

    Raises:
        RuntimeError: An event loop runs in this thread. Await ``resume`` there.
        Exception: As ``resume``.
    """
    return background.run(partial(resume, parked_call_id, progress=progress))


def _text(value: Any) -> Any:
    """Return an id of the host as rows hold it; what is no id is refused there."""
    is_id = isinstance(value, int | uuid.UUID) and not isinstance(value, bool)
    return str(value) if is_id else value
