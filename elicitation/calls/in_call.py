"""Servers that ask in the middle of a call: ask the person, and wait for the answer.

Before MCP 2026-07-28 a server sends ``elicitation/create`` as a request of its own while the
tool call is under way, and most servers still do. The call cannot be parked: the answer has to
go back while the request is open. What the person sees and what is recorded is the same; only
the waiting is here.

Nothing here knows an SDK: the callables that clients want are a few lines round
``answer_in_call``, which takes and returns the wire's own JSON (see ``docs/clients.md``).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseProblem
from django.utils import timezone

from .. import inbox
from ..conf import settings
from ..core import Accept, Decline, ElicitationRefusal
from ..inbox.listening import Listener, between_requests, stop_if_cancelled
from ..models import Elicitation, ServerPolicy, StoredFormAnswer
from ..signals import elicitation_closed
from . import parking
from . import requests as handler
from .values import Call

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

T = TypeVar("T")

logger = logging.getLogger("elicitation")

Delivery = Elicitation.Delivery

DECLINE: Mapping[str, Any] = {"action": "decline"}


async def answer_in_call(
    params: Mapping[str, Any],
    *,
    server: str,
    tool: str,
    scope: str,
    respondent: AbstractBaseUser | None,
    timeout: float = 300,
    call: str = "",
    scope_label: str = "",
) -> dict[str, Any]:
    """Ask a person what a server asks in the middle of a call, and return what to tell it.

    Holds neither a thread nor a database connection while it waits. An answer that was
    recorded before, for the same ``call``, is taken at once.

    Args:
        params: The parameters of the ``elicitation/create`` request, as JSON.
        server: The name under which this site configured the server.
        tool: The tool whose call is under way.
        scope: The host's id of the conversation or run.
        respondent: Who is asked; ``None`` where nobody can be.
        timeout: How long the person has, in seconds. The server's own patience may be shorter.
        call: The host's id of the tool call. Without it no two requests are the same call.
        scope_label: What people see as the name of the conversation.

    Returns:
        An ``ElicitResult`` as JSON: ``{"action": "accept", "content": {…}}``, without content
        where a person agreed to open an address; or ``{"action": "decline"}``: declined, timed
        out, nobody there, or a question that cannot be put to a person, in which case the log
        says why.

    Raises:
        asyncio.CancelledError: The request was cancelled; the question is withdrawn.
        InvalidNameError: A name that no row can hold, or a respondent who has no row.
    """
    if respondent is None:
        return dict(DECLINE)
    made = Call(
        scope=scope,
        server=server,
        tool=tool,
        arguments=None,
        respondent_id=respondent.pk,
        id=call or f"in-call:{uuid.uuid4()}",
        scope_label=scope_label,
    )
    policy = await sync_to_async(ServerPolicy.objects.for_server)(server)
    try:
        (question,) = handler.read_questions(
            {"": {"method": handler.ELICITATION, "params": params}},
            server=server,
            tool=tool,
            policy=policy,
        )
    except ElicitationRefusal as refusal:
        logger.warning(
            "A question in the middle of a call was refused and declined",
            extra={"server": server, "tool": tool, "code": refusal.code},
        )
        return dict(DECLINE)
    # Without an id of the host's nothing can have been recorded for this call before.
    recorded = await inbox.arecorded(made.key, question.elicitation) if call else None
    if recorded is not None:
        answer = await _take(made, replace(question, number=recorded))
        if answer is not None:
            return _told(answer, question)
    if call and await inbox.aconsented(made.key, question.elicitation, by=respondent):
        # They may not have finished there: the server is told the same, and not too fast.
        await asyncio.sleep(settings.POLL_INTERVAL.total_seconds())
        return {"action": "accept"}
    return await _ask(made, question, timeout)


def _told(answer: StoredFormAnswer | None, question: inbox.Question) -> dict[str, Any]:
    outcome = Decline() if answer is None else handler.outcome(answer, question)
    if isinstance(outcome, Accept):
        accept: dict[str, Any] = {"action": "accept"}
        return accept if outcome.content is None else accept | {"content": outcome.content}
    return dict(DECLINE)


async def _ask(call: Call, question: inbox.Question, timeout: float) -> dict[str, Any]:
    """Ask, wait, and take what was answered; a decline where nobody did in time."""
    key = uuid.uuid4()
    # Waited for before it can be seen: however quick somebody is, nothing is missed.
    with _waiters.waiting_for(key) as closed:
        elicitation = await to_the_end(
            inbox.aask_in_call(
                question,
                id=key,
                parked_call_id=call.key,
                scope=call.scope,
                scope_label=call.scope_label,
                call=call.id,
                round=1,
                respondent_id=call.respondent_id,
                expires_at=timezone.now() + timedelta(seconds=timeout),
            )
        )
        question = replace(question, number=elicitation.number)
        try:
            stop_if_cancelled()
            with suppress(TimeoutError):
                await asyncio.wait_for(closed.wait(), timeout)
            # Where the time is up this closes it; where somebody was quicker, it changes nothing.
            with suppress(inbox.ElicitationClosedError):
                await inbox.aexpire_now(key)
        except asyncio.CancelledError:
            # Nobody waits for the answer any more.
            await to_the_end(_withdraw(elicitation, call, question))
            raise
    return _told(await _take(call, question), question)


async def _take(call: Call, question: inbox.Question) -> StoredFormAnswer | None:
    """Take an answer to be sent, and note that; a caller that is cancelled is too late."""

    async def take() -> StoredFormAnswer | None:
        taken = await sync_to_async(_take_now)(call, question)
        if not taken:
            return None
        if taken[0].elicitation_id:
            await sync_to_async(parking.note_deliveries)(
                {taken[0].elicitation_id: Delivery.DELIVERED}
            )
        return taken[0]

    return await to_the_end(take())


async def _withdraw(elicitation: Elicitation, call: Call, question: inbox.Question) -> None:
    # Answered in this very moment, it is closed; either way what was recorded is dropped.
    with suppress(inbox.ElicitationClosedError):
        await inbox.awithdraw(elicitation.pk, reason="cancelled")
    await sync_to_async(_take_now)(call, question)
    await sync_to_async(parking.note_deliveries)({elicitation.pk: Delivery.DROPPED})


def _take_now(call: Call, question: inbox.Question) -> list[StoredFormAnswer] | None:
    return call.answers.take_form_answers([question.elicitation], [question.number])


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end, though the caller is being cancelled.

    Once is not enough: anyio, and so the SDK, cancels again at every ``await``.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


class _Waiters:
    """Wakes those who wait for a question to be closed.

    In the process in which it is closed the signal wakes them at once. What is closed in others
    is heard of on PostgreSQL; elsewhere, and until then, one query a second looks for it, for
    however many wait.
    """

    def __init__(self) -> None:
        self.waiting: dict[uuid.UUID, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}
        self.watchers: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        elicitation_closed.connect(self._on_signal, dispatch_uid="elicitation.calls.in_call")

    @contextmanager
    def waiting_for(self, elicitation_id: uuid.UUID) -> Iterator[asyncio.Event]:
        """Wait for a question; the event is set once it is closed."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self.waiting[elicitation_id] = (loop, event)
        if loop not in self.watchers:
            # In a context of its own: it outlives the request that happened to start it.
            self.watchers[loop] = loop.create_task(self._watch(loop), context=Context())
        try:
            yield event
        finally:
            del self.waiting[elicitation_id]

    def _on_signal(self, elicitation_id: uuid.UUID, **kwargs: object) -> None:
        self._on_closed(elicitation_id)

    def _on_closed(self, elicitation_id: uuid.UUID) -> None:
        if found := self.waiting.get(elicitation_id):
            loop, event = found
            loop.call_soon_threadsafe(event.set)

    def _waiting_in(self, loop: asyncio.AbstractEventLoop) -> list[uuid.UUID]:
        # A copy: other loops, in other threads, add theirs meanwhile.
        return [key for key, (its, _) in list(self.waiting.items()) if its is loop]

    async def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """See to it that those who wait in this loop are woken, until nobody waits any more."""
        listener = Listener(self._on_closed, partial(self._look, loop))
        listening = loop.create_task(listener.run())
        try:
            while self._waiting_in(loop):
                if not listener.hears:
                    await self._look(loop)
                await asyncio.sleep(settings.POLL_INTERVAL.total_seconds())
        finally:
            # Whoever comes now begins anew.
            del self.watchers[loop]
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        keys = self._waiting_in(loop)
        try:
            for key in await between_requests(lambda: inbox.closed_among(keys)):
                self._on_closed(key)
        except DatabaseProblem as error:
            logger.warning(
                "The questions that are waited for could not be looked up",
                extra={"error": type(error).__name__},
            )


_waiters = _Waiters()
