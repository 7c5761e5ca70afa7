"""Calls by the names of servers: what ``elicitation.calls`` does with the SDK.

The connection is found or made here (``connections``); what is called over it, and what that
raises, is ``client``.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from mcp import ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import Result

from ..calls import parking
from ..calls.ended import Outcome
from ..calls.replies import NotSentError
from ..calls.values import STARTED, Call, named
from ..conf import settings
from ..inbox.listening import between_requests
from ..models import ParkedCall, ServerPolicy
from ..transactions import write_alias
from . import client, methods
from .callbacks import elicitation_callback
from .connections import ConnectionFailed, connected

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser


async def call(
    server: str,
    method: str,
    name: str,
    arguments: Mapping[str, Any] | None,
    *,
    scope: str,
    user: AbstractBaseUser | None,
    call: str,
    scope_label: str,
    meta: Mapping[str, Any] | None,
    read_timeout: float | None,
    progress: ProgressFnT | None,
) -> Any:
    """Call a tool, get a prompt or read a resource, as ``elicitation.calls`` says."""
    entry = settings.named_server(server)
    tool, stored = named(method, name, arguments)
    if user is not None:
        # What no row can hold is refused before anything is connected to.
        Call(
            scope=scope,
            server=server,
            tool=tool,
            arguments=stored,
            respondent_id=user.pk,
            call=call,
            scope_label=scope_label,
            method=method,
        )
    policy = await sync_to_async(ServerPolicy.objects.for_server)(server)
    work = partial(
        client.request,
        method=method,
        name=name,
        arguments=arguments,
        server=server,
        scope=scope,
        respondent=user,
        call=call,
        scope_label=scope_label,
        meta=meta,
        read_timeout=read_timeout,
        progress=progress,
    )
    asking = elicitation_callback(
        server, name, scope, user, call=call, scope_label=scope_label, method=method
    )
    connection = partial(connected, entry, policy, user, asking)
    return await _over(connection, work, partial(NotSentError, server, tool))


async def resume(parked_call_id: uuid.UUID | str, *, progress: ProgressFnT | None) -> Any:
    """Go on with a parked call, as ``elicitation.calls.resume`` says."""
    row = await sync_to_async(_row)(parked_call_id)
    if row.ended_at is not None:
        # For this no server has to be there.
        return client.handed_out(Outcome.of(row))
    entry = settings.named_server(row.server)
    asking = elicitation_callback(
        row.server,
        row.tool,
        row.scope,
        row.respondent,
        # Workers resume calls, and can wait for people as long as these can answer.
        settings.QUESTION_TTL.total_seconds(),
        call=row.call,
        scope_label=row.scope_label,
        method=row.method,
    )
    connection = partial(
        connected,
        entry,
        row.server_policy,
        row.respondent,
        asking,
        needs_modern=not (row.plain or row.round == STARTED),
    )
    work = partial(client.resume, parked_call_id=row.pk, server=row.server, progress=progress)
    not_sent = partial(NotSentError, row.server, row.tool, parked_call_id=row.pk)
    return await _over(connection, work, not_sent)


async def cancel_task(server: str, respondent_id: Any, task_id: str) -> None:
    """Tell a server that nobody waits for a task any more (SEP-2663, ``tasks/cancel``).

    Args:
        server: Its name in ``ELICITATION_SERVERS``.
        respondent_id: The key of the person with whose credentials the task was made.
        task_id: The task.

    Raises:
        ConnectionFailed: There is no connection.
        MCPError: The server refuses.
    """
    entry = settings.named_server(server)
    policy, user = await between_requests(partial(_terms, server, respondent_id))
    async with connected(entry, policy, user, None, needs_modern=True) as connection:
        await connection.session.send_request(methods.task("tasks/cancel", task_id), Result)


def _terms(server: str, respondent_id: Any) -> tuple[ServerPolicy, AbstractBaseUser | None]:
    users = get_user_model()._default_manager.using(write_alias())
    user = users.filter(pk=respondent_id).first() if respondent_id is not None else None
    return ServerPolicy.objects.for_server(server), user


def _row(parked_call_id: uuid.UUID | str) -> ParkedCall:
    """Return a call's row with its policy and its respondent, in one query."""
    rows = parking.rows().select_related("policy", "respondent")
    # The rest is read with the claim.
    rows = rows.defer("arguments", "requests", "request_state", "options")
    return rows.get(pk=parking.as_uuid(parked_call_id))


async def _over(
    connection: Callable[[], Any],
    work: Callable[[ClientSession], Awaitable[Any]],
    not_sent: Callable[[str], NotSentError],
) -> Any:
    """Do the work of a call over a connection, and over another if that had been kept too long."""
    while True:
        try:
            async with connection() as used:
                try:
                    return await work(used.session)
                except BaseException as error:
                    # Each is retired, and a new one was not kept: this ends.
                    if not used.judge(error):
                        raise
        except ConnectionFailed as failed:
            raise not_sent(failed.reason) from None
