"""Servers that ask in the middle of a call: ask the person, and wait for the answer.

Before MCP 2026-07-28 a server sends ``elicitation/create`` as a request of its own while the
tool call is under way, and most servers still do. The call cannot be parked: the answer has to
go back while the request is open. It goes through the same states (``rounds``) as a call that is
parked, in one round; only the waiting is here.

Nothing here knows an SDK: the callables that clients want are a few lines round
``answer_in_call``, which takes and returns the wire's own JSON (see ``docs/clients.md``).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import Context
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseProblem
from django.db.models import Count, Max
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from .. import inbox, store
from ..conf import settings
from ..core import ElicitationRefusal
from ..inbox.listening import Listener, between_requests, in_no_request
from ..models import Elicitation, StoredFormAnswer, is_open
from ..signals import elicitation_closed
from ..transactions import in_transaction, write_alias
from . import parking, requests
from .hand import Hand
from .refusals import note_refusal
from .rounds import Event, Rounds, State
from .steps import step, to_the_end
from .values import TOOL, Call, Round, named

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

logger = logging.getLogger("elicitation")


@sensitive_variables()
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
    counted_as: str = "",
    method: str = TOOL,
) -> dict[str, Any]:
    """Ask a person what a server asks in the middle of a call, and return what to tell it.

    Holds neither a thread nor a database connection while it waits. An answer that was
    recorded before, for the same ``call``, is taken at once.

    One call has at most sixteen elicitations open at a time, and asks in at most
    ``ELICITATION_MAX_ROUNDS`` rounds; what is open at the same time is one round. What it asks
    above that is declined, as in a call that is parked.

    Args:
        params: The parameters of the ``elicitation/create`` request, as JSON.
        server: The name under which this site configured the server.
        tool: The tool whose call is under way, or the prompt or resource.
        scope: The host's id of the conversation or run.
        respondent: Who is asked; ``None`` where nobody can be.
        timeout: How long the person has, in seconds. The server may wait less long.
        call: The host's id of the tool call. Without it no two requests are the same call.
        scope_label: What people see as the name of the conversation.
        counted_as: What stands for the call in its limits, where the host has no id of it.
        method: What ``tool`` is the name of: ``tools/call``, ``prompts/get`` or
            ``resources/read``, whose URI is the name.

    Returns:
        An ``ElicitResult`` as JSON: ``{"action": "accept", "content": {…}}``, without content
        where a person agreed to open a URL; ``{"action": "decline"}`` where they declined. Where
        no person said no, ``ELICITATION_UNANSWERED`` says whether it is ``decline`` or
        ``cancel``: timed out, withdrawn, nobody there, or not to be put to a person, in which
        case the log says why.

    Raises:
        asyncio.CancelledError: The request was cancelled; the elicitation is withdrawn.
        InvalidNameError: A name that no row can hold, or a respondent who has no row.
        OuterTransactionError: Called inside a transaction.
    """
    if respondent is None:
        return {"action": requests.unanswered_action()}
    tool, _ = named(method, tool, None)
    made = Call(
        scope=scope,
        server=server,
        tool=tool,
        arguments=None,
        respondent_id=respondent.pk,
        call=call or counted_as or f"in-call:{uuid.uuid4()}",
        scope_label=scope_label,
        method=method,
    )
    return await _Request(made, params, timeout, has_id=bool(call)).answer()


class _Asked(NamedTuple):
    """What came of a request that was read."""

    event: Event
    request: inbox.ElicitationRequest
    #: The elicitation that waits for a person now.
    elicitation: Elicitation | None = None


class _Request:
    """One request in the middle of a call: what each state of ``rounds`` does.

    Args:
        call: The call.
        params: The parameters of the request.
        timeout: How long the person has, in seconds.
        has_id: Whether the host named the call, so that it may have been made before.
    """

    # No frame of these is to show a URL or an answer in an error report.
    def __init__(
        self, call: Call, params: Mapping[str, Any], timeout: float, *, has_id: bool
    ) -> None:
        self.call = call
        self.round = Round(
            number=1,
            requests={"": {"method": requests.ELICITATION, "params": params}},
            request_state=None,
        )
        self.timeout = timeout
        self.has_id = has_id
        self.rounds = Rounds(State.ASKED)
        self.hand = Hand()
        self.key = uuid.uuid4()
        self.request: inbox.ElicitationRequest | None = None
        self.elicitation: Elicitation | None = None
        #: Whether the server asks again for a URL that it was told consent to.
        self.is_asked_again = False
        #: Whether the answer that was waited for was not there.
        self.is_gone = False
        #: Why the answer is not sent, if the policy of the moment forbids it.
        self.refusal: ElicitationRefusal | None = None

    @sensitive_variables()
    async def answer(self) -> dict[str, Any]:
        """Go through the states, and return what the server is told."""
        actions: dict[State, Callable[[], Coroutine[Any, Any, Event]]] = {
            State.ASKED: self._ask,
            State.PARKED: self._wait,
            State.WAITING: self._pause,
            State.ANSWERED: self._take,
        }
        handed_over = asyncio.Event()
        with ExitStack() as waiting:
            # Wait before the person can see it: an answer that comes at once is not missed.
            self.closed = waiting.enter_context(
                _waiters.waiting_for(self.key, self.call.parked_call_id)
            )
            try:
                while self.rounds.state in actions:
                    self.rounds.feed(await actions[self.rounds.state]())
                if self.rounds.state is not State.SENDING:
                    await step(self._leave)
                elif self.hand.keys():
                    await self._note_when(handed_over)
            except BaseException:
                # Nobody waits for the answer any more.
                await to_the_end(sync_to_async(self._leave)())
                raise
        return self._reply(handed_over)

    # --- What each state does ----------------------------------------------------------------

    async def _ask(self) -> Event:
        """Find out who answers: a person, or nobody."""
        if self.elicitation is not None:
            return Event.NOBODY if self.is_gone else Event.COMPLETE
        ask = partial(in_transaction, self._ask_now, durable=True)
        try:
            event: Event = (await step(ask, self._asked)).event
        except parking.AskedTooOften:
            await self._note_refusal("too_many_rounds", parking.ASKS_TOO_OFTEN)
            return Event.NOBODY
        except ElicitationRefusal as refusal:
            await self._note_refusal(refusal.code, refusal.reason, refusal.property)
            return Event.FORBIDDEN
        return event

    def _ask_now(self) -> _Asked:
        (request,) = parking.read(self.call, self.round)
        if self.has_id:
            number = inbox.recorded(self.call.parked_call_id, request.fingerprint)
            if number is not None:
                return _Asked(Event.COMPLETE, replace(request, number=number))
            if inbox.consented(
                self.call.parked_call_id, request, respondent_id=self.call.respondent_id
            ):
                return _Asked(Event.ASKS_AGAIN, request)
        round = _next_round(self.call)
        parking.refuse_too_many(self.call, 1)
        elicitation = inbox.ask_in_call(
            request,
            id=self.key,
            parked_call_id=self.call.parked_call_id,
            scope=self.call.scope,
            scope_label=self.call.scope_label,
            call=self.call.call,
            round=round,
            respondent_id=self.call.respondent_id,
            method=self.call.method,
            expires_at=timezone.now() + timedelta(seconds=self.timeout),
        )
        return _Asked(Event.WAITS, replace(request, number=elicitation.number), elicitation)

    def _asked(self, asked: _Asked) -> None:
        self.request, self.elicitation = asked.request, asked.elicitation
        self.is_asked_again = asked.event is Event.ASKS_AGAIN

    async def _wait(self) -> Event:
        """Wait until somebody closes the elicitation; close it where the time is up."""
        _waiters.watch()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.timeout):
                await self.closed.wait()
        if not self.closed.is_set():
            # Where somebody was quicker, this changes nothing.
            with suppress(inbox.ElicitationClosedError):
                await step(partial(inbox.expire_now, self.key))
        return Event.RESUMED

    async def _pause(self) -> Event:
        """Wait a moment: the person agreed to open the URL, and may not have finished there."""
        await asyncio.sleep(settings.POLL_INTERVAL.total_seconds())
        return Event.COMPLETE

    async def _take(self) -> Event:
        """Take the answer, under the policy of the moment."""
        take = partial(in_transaction, self._take_now, durable=True)
        try:
            taken = await step(take, self._taken)
        except ElicitationRefusal as refusal:
            self.refusal = refusal
            await self._note_refusal(refusal.code, refusal.reason, refusal.property)
            return Event.FORBIDDEN
        self.is_gone = taken is None
        return Event.GONE if taken is None else Event.TAKEN

    @sensitive_variables()
    def _take_now(self) -> list[StoredFormAnswer] | None:
        (request,) = parking.read(self.call, self.round)
        return [] if self.is_asked_again else store.take(self._wanted(request))

    def _wanted(self, request: inbox.ElicitationRequest) -> list[store.WantedAnswer]:
        assert self.request is not None
        numbered = replace(request, number=self.request.number)
        return requests.wanted_answers(self.call.answers, [numbered])

    def _taken(self, taken: Sequence[StoredFormAnswer] | None) -> None:
        self.hand.take(taken or ())

    def _leave(self) -> None:
        """Withdraw what is asked, and drop what was answered: nothing of it is sent."""
        ids = {answer.elicitation_id for answer in self.hand.in_hand()}

        def leave() -> None:
            if self.elicitation is not None:
                assert self.request is not None
                inbox.withdraw_all([self.elicitation], reason=inbox.CANCELLED)
                store.drop([wanted.key for wanted in self._wanted(self.request)])
                ids.add(self.elicitation.pk)
            dropped = parking.dropped_by(self.refusal)
            parking.note_deliveries({key: dropped for key in ids if key is not None})

        if ids or self.elicitation is not None:
            in_transaction(leave)

    # --- The reply ---------------------------------------------------------------------------

    @sensitive_variables()
    def _reply(self, handed_over: asyncio.Event) -> dict[str, Any]:
        """Return what the server is told. Nothing can come in between any more."""
        if self.rounds.state is not State.SENDING:
            return {"action": requests.unanswered_action()}
        assert self.request is not None
        keys = self.hand.keys()
        if not keys:
            # They agreed to open the URL, and the server was told before.
            return {"action": "accept"}
        self.hand.send(keys, [self.request])
        # Whoever called this has the reply by then.
        asyncio.get_running_loop().call_soon(handed_over.set)
        return requests.response(self.hand.answer(keys[0]), self.request)

    async def _note_when(self, handed_over: asyncio.Event) -> None:
        """Have it written down that the answer is delivered, once the reply is handed over.

        What a process has taken and not handed over when it dies is lost: the audit must not
        say otherwise.
        """
        # In a context of its own: it outlives the request.
        noting = asyncio.get_running_loop().create_task(
            self._note_delivery(handed_over), context=Context()
        )
        _noting.add(noting)
        noting.add_done_callback(_noting.discard)
        try:
            # It has to wait before the reply is handed over: the loop may end right then.
            await asyncio.sleep(0)
        except BaseException:
            noting.cancel()
            raise

    async def _note_delivery(self, handed_over: asyncio.Event) -> None:
        # Where the loop ends, this is cancelled.
        is_last = False
        try:
            await handed_over.wait()
        except asyncio.CancelledError:
            is_last = True
        if not handed_over.is_set():
            return
        self.hand.settle(Event.RESULT)
        self.rounds.feed(Event.RESULT)
        deliveries = self.hand.deliveries()
        note = partial(in_transaction, partial(parking.note_deliveries, deliveries))
        try:
            try:
                await sync_to_async(in_no_request)(note, is_last=is_last)
            except asyncio.CancelledError:
                # The loop ends just now. What is noted twice is the same.
                await sync_to_async(in_no_request)(note, is_last=True)
        except Exception as error:
            logger.error(
                "How a call ended could not be recorded",
                extra=self._log_fields() | {"error": type(error).__name__},
            )

    async def _note_refusal(self, code: str, reason: str, property: str | None = None) -> None:
        await note_refusal(code=code, reason=reason, property=property or "", **self._log_fields())

    def _log_fields(self) -> dict[str, str]:
        return {
            "server": self.call.server,
            "tool": self.call.tool,
            "parked_call_id": str(self.call.parked_call_id),
        }


#: Tasks that write down what was delivered; a loop holds none of its tasks itself.
_noting: set[asyncio.Task[None]] = set()


def _next_round(call: Call) -> int:
    """Return the round to which one more request of this call belongs.

    Up to sixteen that are open at the same time are one round: that is how many a server can ask
    at once. Two processes that ask for one call at the same moment may ask one more each.

    Raises:
        AskedTooOften: Sixteen are open, or the call has asked in too many rounds.
    """
    rows = Elicitation.objects.using(write_alias()).of_call(call.parked_call_id)
    asked = rows.order_by().aggregate(last=Max("round"), open=Count("pk", filter=is_open()))
    last: int = asked["last"] or 0
    most = requests.MAX_ELICITATIONS
    is_new = not asked["open"] or rows.filter(round=last).count() >= most
    round = last + 1 if is_new else last
    if asked["open"] >= most or round > settings.MAX_ROUNDS:
        raise parking.AskedTooOften
    return round


class _Waiters:
    """Wakes those who wait for an elicitation to be closed, and gives signs of life for them.

    In the process in which it is closed the signal wakes them at once. What is closed in others
    is heard of on PostgreSQL; elsewhere, and until then, one query a second looks for it, for
    however many wait. A sign of life is one statement for all of them, too.
    """

    def __init__(self) -> None:
        self.waiting: dict[uuid.UUID, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}
        #: The calls in the middle of which something is asked, by the ids of what is asked.
        self.calls: dict[uuid.UUID, uuid.UUID] = {}
        self.watchers: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        #: Whether the log already says that nothing can be looked up.
        self.complained = False
        elicitation_closed.connect(self._on_signal, dispatch_uid="elicitation.calls.in_call")

    @contextmanager
    def waiting_for(
        self, elicitation_id: uuid.UUID, parked_call_id: uuid.UUID
    ) -> Iterator[asyncio.Event]:
        """Wait for an elicitation; the event is set once it is closed."""
        event = asyncio.Event()
        self.calls[elicitation_id] = parked_call_id
        self.waiting[elicitation_id] = (asyncio.get_running_loop(), event)
        try:
            yield event
        finally:
            del self.waiting[elicitation_id], self.calls[elicitation_id]

    def watch(self) -> None:
        """See to it that those are woken who wait in this loop."""
        loop = asyncio.get_running_loop()
        if loop not in self.watchers:
            # In a context of its own: it outlives the request that happened to start it.
            self.watchers[loop] = loop.create_task(self._watch(loop), context=Context())

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
        """Hear of what is closed and look for it, until nobody waits in this loop any more."""
        listener = Listener(self._on_closed, partial(self._look, loop))
        others = [
            loop.create_task(listener.run()),
            loop.create_task(self._keep_alive(loop)),
        ]
        try:
            while self._waiting_in(loop):
                if not listener.hears:
                    await self._look(loop)
                await asyncio.sleep(settings.POLL_INTERVAL.total_seconds())
        finally:
            # A call that waits from now on starts another watcher.
            del self.watchers[loop]
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _keep_alive(self, loop: asyncio.AbstractEventLoop) -> None:
        """Say again and again that this process is there to send what is answered."""
        while True:
            await asyncio.sleep(settings.ALIVE.total_seconds() / 3)
            keys = self._waiting_in(loop)
            try:
                await between_requests(partial(inbox.keep_alive, keys))
            except DatabaseProblem as error:
                logger.warning(
                    "No sign of life could be given for the elicitations that are waited for",
                    extra={"error": type(error).__name__},
                )

    async def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        keys = self._waiting_in(loop)
        try:
            closed = await between_requests(lambda: inbox.closed_among(keys))
        except DatabaseProblem as error:
            if not self.complained:
                self.complained = True
                logger.warning(
                    "The elicitations that are waited for could not be looked up; trying again",
                    extra={"error": type(error).__name__},
                )
            return
        self.complained = False
        for key in closed:
            self._on_closed(key)


_waiters = _Waiters()


def waiting_calls() -> set[uuid.UUID]:
    """Return the calls in the middle of which this process waits for people."""
    return set(_waiters.calls.values())
