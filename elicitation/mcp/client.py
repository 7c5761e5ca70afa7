"""Call tools with the official MCP SDK (``mcp`` 2.x), and let people answer in between.

Nothing of a call is kept in this process: what it waits for is in the database, and any process
can go on with it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from asgiref.sync import sync_to_async
from django.views.decorators.debug import sensitive_variables
from mcp import ClientSession
from mcp.client.session import (
    ClientRequestContext,
    ElicitationFnT,
    IncomingMessage,
    ListRootsFnT,
    MessageHandlerFnT,
    SamplingFnT,
)
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import (
    CallToolResult,
    ElicitCompleteNotification,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    GetPromptResult,
    ReadResourceResult,
)

from .. import inbox
from ..calls import parking, refusals, requests
from ..calls.ended import AlreadyEnded, Outcome
from ..calls.lease import CallInProgressError
from ..calls.parking import AnotherRespondentError, WrongServerError
from ..calls.replies import (
    CallEndedError,
    NotSentError,
    RoundLostError,
    ServerWorkingPending,
    TooManyRoundsError,
    URLDeclinedError,
)
from ..calls.steps import step, to_the_end
from ..calls.values import PROMPT, RESOURCE, TOOL, Call, named
from ..core import ElicitationRefusal
from ..inbox.listening import between_requests
from ..models import ServerPolicy
from . import replies
from .callbacks import elicitation_callback
from .capabilities import URLModeOnly
from .drive import Drive
from .host import Host, InputNotSupportedError, request_options

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

__all__ = [
    "AnotherRespondentError",
    "CallEndedError",
    "CallInProgressError",
    "InputNotSupportedError",
    "NotSentError",
    "RoundLostError",
    "ServerWorkingPending",
    "TooManyRoundsError",
    "URLDeclinedError",
    "WrongServerError",
    "aclient_options",
    "call_tool",
    "client_options",
    "elicitation_callback",
    "get_prompt",
    "read_resource",
    "resume",
]

logger = logging.getLogger("elicitation")


async def call_tool(
    session: ClientSession,
    *,
    server: str,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    scope: str,
    respondent: AbstractBaseUser | None,
    call: str = "",
    scope_label: str = "",
    sampling: SamplingFnT | None = None,
    roots: ListRootsFnT | None = None,
    meta: Mapping[str, Any] | None = None,
    read_timeout: float | None = None,
    progress: ProgressFnT | None = None,
) -> CallToolResult:
    """Call a tool; where its server asks a person something, park the call.

    The same call made again goes on where it stopped, in any process: it sends what was
    answered meanwhile, or says what still waits for an answer. Once it has ended, it returns the
    stored result, or raises what it ended with, and the tool does not run again until
    ``elicitation.calls.acknowledge`` has deleted that.

    Args:
        session: A connected session, such as ``client.session``.
        server: The name under which this site configured the server.
        tool: The tool's name.
        arguments: A JSON object. A call that is parked keeps those of its first time.
        scope: The host's id of the conversation or run.
        respondent: Who is asked; ``None`` where nobody can be: every elicitation is declined.
        call: The host's id of this tool call, unique in the scope. Without it, the arguments
            tell two calls of one tool apart.
        scope_label: What people see as the name of the conversation.
        sampling: Answers sampling requests, as ``sampling_callback`` of ``mcp.Client`` does.
        roots: Answers roots requests, likewise.
        meta: The ``_meta`` of the request, a JSON object. A retry repeats it; so it does with the
            trace that OpenTelemetry has for the first request.
        read_timeout: How long each request may take, in seconds; a retry keeps it.
        progress: Called with the progress that the server reports, as by
            ``ClientSession.call_tool``.

    Returns:
        The tool's result, an ``isError`` result included.

    Raises:
        ElicitationPending: The call is parked until people have answered.
        ElicitationRefusal: The server asks what cannot be put to a person. It was told
            ``decline``; where it ran the tool all the same, ``result`` has what that returned.
        ServerWorkingPending: The server is at work; a kind of ``ElicitationPending``.
        NotSentError: The answers did not reach the server. They are kept, and the tool has not
            run, unless ``may_have_run`` is true.
        RoundLostError: Nobody can know whether the server acted on the answers.
        OuterTransactionError: Called inside a transaction.
        CallInProgressError: Another process is resuming this call.
        CallEndedError: The call has ended before, and there is no result to return.
        ParkedCall.DoesNotExist: It has ended, and was acknowledged just now.
        AnotherRespondentError: The call waits for somebody else.
        InputNotSupportedError: The server asks for sampling or roots, and there are none.
        URLDeclinedError: The server wants a URL to be opened first, and nobody agreed to.
        TooManyRoundsError: The server asks without end.
        InvalidNameError, TooLargeError: A name, the respondent or the arguments cannot be stored.
        MCPError: The server refused the first call.
    """
    result: CallToolResult = await request(
        session,
        TOOL,
        tool,
        arguments,
        server=server,
        scope=scope,
        respondent=respondent,
        call=call,
        scope_label=scope_label,
        sampling=sampling,
        roots=roots,
        meta=meta,
        read_timeout=read_timeout,
        progress=progress,
    )
    return result


async def get_prompt(
    session: ClientSession,
    *,
    server: str,
    prompt: str,
    arguments: Mapping[str, str] | None = None,
    scope: str,
    respondent: AbstractBaseUser | None,
    **options: Unpack[Options],
) -> GetPromptResult:
    """Get a prompt; where its server asks a person something, park that as ``call_tool`` does.

    Args:
        session: As for ``call_tool``.
        server: As for ``call_tool``.
        prompt: The prompt's name.
        arguments: Strings by their names.
        scope: As for ``call_tool``.
        respondent: As for ``call_tool``.
        options: The others of ``call_tool``.

    Raises:
        Exception: As ``call_tool``.
    """
    result: GetPromptResult = await request(
        session,
        PROMPT,
        prompt,
        arguments,
        server=server,
        scope=scope,
        respondent=respondent,
        **options,
    )
    return result


async def read_resource(
    session: ClientSession,
    *,
    server: str,
    uri: str,
    scope: str,
    respondent: AbstractBaseUser | None,
    **options: Unpack[Options],
) -> ReadResourceResult:
    """Read a resource; where its server asks a person something, park that as ``call_tool`` does.

    Args:
        session: As for ``call_tool``.
        server: As for ``call_tool``.
        uri: The resource's URI. Rows show one that is longer than 200 characters cut, with a
            digest at its end.
        scope: As for ``call_tool``.
        respondent: As for ``call_tool``.
        options: The others of ``call_tool``.

    Raises:
        Exception: As ``call_tool``.
    """
    result: ReadResourceResult = await request(
        session, RESOURCE, uri, None, server=server, scope=scope, respondent=respondent, **options
    )
    return result


class Options(TypedDict, total=False):
    """What ``call_tool`` takes besides, in its words."""

    call: str
    scope_label: str
    sampling: SamplingFnT | None
    roots: ListRootsFnT | None
    meta: Mapping[str, Any] | None
    read_timeout: float | None
    progress: ProgressFnT | None


async def request(
    session: ClientSession,
    method: str,
    name: str,
    arguments: Mapping[str, Any] | None,
    *,
    server: str,
    scope: str,
    respondent: AbstractBaseUser | None,
    call: str = "",
    scope_label: str = "",
    sampling: SamplingFnT | None = None,
    roots: ListRootsFnT | None = None,
    meta: Mapping[str, Any] | None = None,
    read_timeout: float | None = None,
    progress: ProgressFnT | None = None,
) -> Any:
    """Call a tool, get a prompt or read a resource, by its method, as ``call_tool`` says."""
    host = Host(session, sampling, roots, progress)
    options = request_options(meta, read_timeout)
    name, arguments = named(method, name, arguments)
    drive = partial(Drive, host, server, name, arguments, method=method, options=options)
    if respondent is None:
        return await drive().run()
    made = Call(
        scope=scope,
        server=server,
        tool=name,
        arguments=arguments,
        respondent_id=respondent.pk,
        call=call,
        scope_label=scope_label,
        method=method,
        options=options,
    )
    if not await sync_to_async(parking.find)(made):
        with suppress(parking.AlreadyParked):
            return await drive(call=made).run()
    return await _go_on(host, made.parked_call_id, server)


async def resume(
    session: ClientSession,
    parked_call_id: uuid.UUID | str,
    *,
    server: str,
    sampling: SamplingFnT | None = None,
    roots: ListRootsFnT | None = None,
    progress: ProgressFnT | None = None,
) -> Any:
    """Go on with a parked call: ``call_tool`` by the call's id, which the signals carry.

    So it is for prompts and resources: the result is of the kind that the call has.

    Args:
        session: A connected session with the call's own server.
        parked_call_id: The call.
        server: The name under which this site configured the server of the session. The answers
            of a call that was parked for another server stay where they are.
        sampling: As for ``call_tool``.
        roots: As for ``call_tool``.
        progress: As for ``call_tool``.

    Raises:
        ParkedCall.DoesNotExist: There is no such call, or its outcome was acknowledged.
        WrongServerError: The call was parked for another server.
        ElicitationPending, ElicitationRefusal, NotSentError, RoundLostError, CallInProgressError,
        InputNotSupportedError, URLDeclinedError, TooManyRoundsError, CallEndedError, MCPError: As
        ``call_tool``.
    """
    host = Host(session, sampling, roots, progress)
    return await _go_on(host, parked_call_id, server)


def client_options(
    server: str,
    attended: bool = True,
    *,
    callback: ElicitationFnT | None = None,
    message_handler: MessageHandlerFnT | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments for ``mcp.Client`` that declare what may be asked.

    What is declared is what the operator's policy allows: URL mode alone, or forms as well.
    Nothing is declared where nobody can be asked, or the policy is ``none``. A server's word that
    a person has finished at a URL wakes the call that waits for it.

    Args:
        server: The name under which this site configured the server.
        attended: Whether somebody can be asked.
        callback: What answers a server that asks in the middle of a call, such as one from
            ``elicitation_callback``; by default such elicitations are declined.
        message_handler: What else hears of the server's notifications.
    """
    policy = ServerPolicy.objects.for_server(server) if attended else None
    return declared(policy, callback=callback, message_handler=message_handler)


def declared(
    policy: ServerPolicy | None,
    *,
    callback: ElicitationFnT | None = None,
    message_handler: MessageHandlerFnT | None = None,
) -> dict[str, Any]:
    """Return the same under a policy that was read; ``None`` where nobody can be asked."""
    if policy is None or not policy.allows_asking:
        return {} if message_handler is None else {"message_handler": message_handler}
    server = policy.server

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, ElicitCompleteNotification):
            # The connection may have outlived the request that made it.
            complete = partial(inbox.complete, server, message.params.elicitation_id)
            await between_requests(complete)
        if message_handler is not None:
            await message_handler(message)

    answer: ElicitationFnT = callback or partial(_decline_in_call, server)
    if not policy.allows_forms:
        answer = URLModeOnly(answer)
    return {"elicitation_callback": answer, "message_handler": hear}


aclient_options = sync_to_async(client_options)


async def _decline_in_call(
    server: str, context: ClientRequestContext, params: ElicitRequestParams
) -> ElicitResult | ErrorData:
    """Answer a server that asks in the middle of a call, where nobody was named to be asked."""
    await refusals.note_refusal(
        server,
        "no_callback",
        "it asks in the middle of a call, which cannot be parked. Pass "
        "callback=elicitation_callback(...) to client_options() to have the person asked",
    )
    action: Any = requests.unanswered_action()
    return ElicitResult(action=action)


async def _go_on(host: Host, parked_call_id: uuid.UUID | str, server: str) -> Any:
    """Go on with a parked call, unless people still have to answer."""
    resume = partial(parking.resume, parked_call_id, server=server, is_modern=host.is_modern)
    late: list[parking.Resumed] = []
    try:
        resumed = await step(resume, late.append)
    except AlreadyEnded as ended:
        return handed_out(ended.outcome)
    except asyncio.CancelledError:
        # The thread has claimed the call. Give it back, or nobody could resume it until the
        # lease expires.
        for one in late:
            answers = one.taken.answers if one.taken else ()
            back = partial(parking.put_back, answers, lease=one.lease)
            await to_the_end(sync_to_async(back)())
        raise
    call = resumed.call
    drive = Drive(
        host,
        call.server,
        call.tool,
        call.arguments,
        call=call,
        method=call.method,
        options=call.options,
        resumed=resumed,
    )
    return await drive.run()


@sensitive_variables()
def handed_out(outcome: Outcome) -> Any:
    """Return the stored result of a call that has ended, or raise what it ended with."""
    result = None
    if outcome.result is not None:
        result = replies.read_reply(outcome.result, outcome.method)[1]
    error = outcome.error()
    if error is None:
        return result
    if isinstance(error, ElicitationRefusal):
        error.result = result
    raise error from None
