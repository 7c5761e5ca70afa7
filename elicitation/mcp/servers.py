"""Calls by the names of servers: what ``elicitation.calls`` does with the SDK.

The connection is found or made here (``connections``); what is called over it, and what that
raises, is ``client``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from mcp import ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import Result

from ..calls import parking
from ..calls.ended import Outcome
from ..calls.replies import NotSentError
from ..calls.tasks import Task
from ..calls.values import STARTED, Call, named
from ..conf import settings
from ..models import ParkedCall, ServerPolicy
from . import client, methods
from .callbacks import elicitation_callback
from .connections import ConnectionFailed, connected

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

logger = logging.getLogger("elicitation")

#: For how many seconds servers are asked to cancel tasks, all of them together, and how many at a
#: time.
CANCEL_PATIENCE, MOST_CANCELLED_AT_ONCE = 5.0, 20


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


async def cancel_tasks(rows: Collection[ParkedCall]) -> None:
    """Send ``tasks/cancel`` for calls that have ended here, once each; a failure is logged.

    Args:
        rows: The calls, as they were before they ended.
    """
    room = asyncio.Semaphore(MOST_CANCELLED_AT_ONCE)

    async def cancel(row: ParkedCall) -> None:
        try:
            async with room, asyncio.timeout_at(deadline):
                await _cancel_task(row)
        except Exception as error:
            # Its text may quote what a server sent.
            logger.warning(
                "A server could not be asked to cancel a task",
                extra={
                    "parked_call_id": str(row.pk),
                    "server": row.server,
                    "error": type(error).__name__,
                },
            )

    deadline = asyncio.get_running_loop().time() + CANCEL_PATIENCE
    await asyncio.gather(*map(cancel, rows))


async def _cancel_task(row: ParkedCall) -> None:
    task = Task.from_json(row.task)
    assert task is not None
    entry = settings.named_server(row.server)
    # Its policy may be another one than when the call was made: the server was switched off.
    policy = await sync_to_async(ServerPolicy.objects.for_server)(row.server)
    user = await sync_to_async(lambda: row.respondent)()
    request = methods.TaskRequest(method="tasks/cancel", params={"taskId": task.id})
    async with connected(entry, policy, user, None, needs_modern=True) as used:
        await used.session.send_request(request, Result)


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
