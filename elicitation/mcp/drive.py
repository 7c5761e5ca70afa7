"""One pass through the rounds of a call: what each state of ``calls.rounds`` does."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, InterfaceError, close_old_connections
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables
from mcp import MCPError
from mcp.types import (
    CallToolResult,
    ElicitResult,
    InputResponse,
    Result,
)
from pydantic import ValidationError

from .. import backoff, inbox
from ..calls import abandoned, parking, tasks
from ..calls.ended import BROKEN_OFF, Code, Ended
from ..calls.hand import Hand, is_decline
from ..calls.keeping import kept
from ..calls.lease import CallInProgressError, Lease
from ..calls.refusals import note_refusal, say_where
from ..calls.replies import (
    CONSENT,
    NOT_STORED,
    REPLIES,
    WORKING_TOO_LONG,
    CallEndedError,
    NotSentError,
    RoundLostError,
    ServerWorkingPending,
    TooManyRoundsError,
    URLDeclinedError,
)
from ..calls.requests import (
    ELICITATION,
    PolicyRefusal,
    unanswered_action,
    wanted_answers,
)
from ..calls.rounds import SETTLED_BY, Event, Rounds, State
from ..calls.steps import step, to_the_end
from ..calls.tasks import Task
from ..calls.values import STARTED, TOOL, Call, Round
from ..conf import settings
from ..core import ElicitationError, ElicitationRefusal, SchemaRefusal
from ..models import Elicitation, TooLargeError
from . import methods, replies
from .dispatcher import Exchange, noted

if TYPE_CHECKING:
    from .host import Host

logger = logging.getLogger("elicitation")

#: A server that sends a state and asks nothing wants to be called again; first pause and
#: longest pause in seconds, and how often in all before the call is left to be looked after:
#: half a minute.
FIRST_PAUSE, LONGEST_PAUSE, MAX_PAUSES = 0.05, 5.0, 12

#: The same for a server that asks again for a URL that a person has agreed to open: they may be
#: about to finish there. Then the call is parked until they say so.
FIRST_WAIT, LONGEST_WAIT, MAX_WAITS = 0.5, 4.0, 5

#: First and longest pause before a server that is at work is looked after again.
FIRST_LOOK, LONGEST_LOOK = timedelta(seconds=30), timedelta(hours=1)

#: Pauses in seconds before it is tried again to store a round, or how a call ended: a database
#: restarts.
RECORD_PAUSES = 0.2, 1.0, 5.0

#: The longest ``Retry-After`` that is kept, in seconds.
LONGEST_RETRY_AFTER = 86_400.0


#: In these states a request may be on its way.
IN_FLIGHT = frozenset(
    {State.STARTING, State.SENDING, State.DECLINING, State.REFUSING, State.WORKING}
)


#: The call ends here, whatever its server does.
_GIVEN_UP = (URLDeclinedError, TooManyRoundsError)


class _AnyResult(Result, extra="allow"):
    """A result of any kind, as it came: it is read in ``replies``."""


class Drive:
    """One pass through the rounds of a call, until it ends or is parked.

    Args:
        host: The host's side of it.
        server: The configured name of the server.
        tool: The name of what is called (``calls.values.named``).
        arguments: Its arguments.
        call: What is called, and for whom; ``None`` where nobody is asked.
        options: What each request repeats of the first one (``host.request_options``).
        resumed: The parked call to go on with.
        method: What is called: a tool, a prompt or a resource.
    """

    def __init__(
        self,
        host: Host,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None,
        *,
        call: Call | None = None,
        options: Mapping[str, Any] | None = None,
        resumed: parking.Resumed | None = None,
        method: str = TOOL,
    ) -> None:
        self.host = host
        self.server = server
        self.tool = tool
        self.method = method
        self.arguments = None if arguments is None else dict(arguments)
        self.call = call
        self.options = dict(options or {})
        self.resumed = resumed
        self.rounds = Rounds()
        self.hand = Hand()
        self.lease: Lease | None = None
        self.round: Round | None = None
        #: Whether the call's row has this round.
        self.is_stored = False
        #: Whether a request went out for the stored round, so that nothing can go on from it.
        self.is_over = False
        self.taken: parking.Taken | None = None
        self.others: Mapping[str, InputResponse] = {}
        self.waiting: Sequence[Elicitation] = ()
        #: Whether the stored round is put to nobody, because the call has asked too often.
        self.is_declined = False
        #: The rounds after which the call was made afresh, and the one whose state was refused
        #: unread just now.
        self.fresh_after: set[int] = set()
        self.unread_round: int | None = None
        self.working_since: datetime | None = None
        #: The last *Continue* that skipped a pause.
        self.continued_at: datetime | None = None
        self.answered = self.declined = self.pauses = self.waits = 0
        # What came back last, or why nobody was asked.
        self.result: Any = None
        # The same as it arrived.
        self.reply: Mapping[str, Any] | None = None
        self.error: Exception | None = None
        self.reason = ""
        self.retry_after: float | None = None
        self.task_ended: Ended | None = None
        self.refusal: ElicitationRefusal | TooLargeError | None = None
        if resumed is not None:
            self._go_on(resumed)

    def _go_on(self, resumed: parking.Resumed) -> None:
        """Begin where the call was parked."""
        self.lease, self.round, self.is_stored = resumed.lease, resumed.round, True
        self.fresh_after = set(resumed.row.fresh_after_rounds)
        self.working_since = resumed.row.working_since
        begin = State.PARKED
        if self.working_since is not None:
            begin = State.LEFT_WORKING
        elif resumed.round.number == STARTED:
            begin = State.STARTED
        elif resumed.round.task and not (resumed.taken or resumed.is_complete or resumed.refusal):
            # A process may have died with the answer: first see whether the task still asks.
            begin = State.LEFT_WORKING
        self.rounds = Rounds(begin)
        self.rounds.feed(Event.RESUMED)
        if resumed.refusal is not None:
            self.refusal = resumed.refusal
            self.rounds.feed(Event.FORBIDDEN)
        elif resumed.taken is not None:
            self._taken(resumed.taken)
            self.rounds.feed(Event.COMPLETE)
            self.rounds.feed(Event.TAKEN)
        elif resumed.is_complete:
            self.rounds.feed(Event.COMPLETE)

    async def run(self) -> Any:
        """Go through the rounds, and return the result.

        Raises:
            Exception: As ``client.call_tool`` says.
        """
        actions: dict[State, Callable[[], Coroutine[Any, Any, Event]]] = {
            State.CALLING: self._call,
            State.STARTING: self._start,
            State.ASKED: self._ask,
            State.ANSWERED: self._take,
            State.SENDING: self._send_answers,
            State.DECLINING: self._decline,
            State.REFUSING: self._refuse,
            State.WORKING: self._work,
            State.WAITING: self._wait_for_completion,
        }
        keeping = ExitStack()
        lease: Lease | None = None
        try:
            while not self.rounds.has_ended:
                if lease is None and self.lease is not None:
                    lease = self.lease
                    keeping.enter_context(kept(lease))
                event = await actions[self.rounds.state]()
                if event in SETTLED_BY:
                    self.hand.settle(event)
                self.rounds.feed(event)
        except BaseException as error:
            await self._recorded(self._break_off, error)
            if isinstance(error, _GIVEN_UP):
                await self._cancel_task()
            raise
        finally:
            keeping.close()
        return await self._end()

    # --- What each state does ----------------------------------------------------------------

    async def _call(self) -> Event:
        """Make the call from the start, with the arguments of its first time."""
        event = await self._send(1)
        if self.unread_round is not None and event is not Event.NOT_SENT:
            self.fresh_after.add(self.unread_round)
            self.hand.mark_unread()
        return event

    async def _start(self) -> Event:
        """Make a call that was left to a worker; its row says already that it is being made."""
        await self._check_lease()
        self.is_over = True
        event = await self._send(1)
        # Without an answer on its way there is nothing to lose, and what asks has not run.
        self.is_over = event not in (Event.NOT_SENT, Event.ASKS)
        return event

    async def _ask(self) -> Event:
        """Store the round, and find out who answers it."""
        assert self.round is not None
        self.host.check_supported(self.round, self.server)
        if self.answered > settings.MAX_ROUNDS:
            raise TooManyRoundsError(self.server, self.tool)
        if self.call is None:
            return Event.NOBODY
        if await self._asks_again(self.call, self.round):
            return Event.ASKS_AGAIN
        return await self._park(self.call)

    async def _park(self, call: Call) -> Event:
        try:
            await self._store(call)
        except (ElicitationRefusal, TooLargeError) as refusal:
            self.refusal = refusal
            return Event.FORBIDDEN
        if self.is_declined:
            return Event.NOBODY
        return Event.WAITS if self.waiting else Event.COMPLETE

    async def _store(self, call: Call) -> None:
        """Write the round into the call's row, with all that became of the answers so far.

        Raises:
            RoundLostError: The database failed for good, and the server has read what the call
                could go on from.
        """
        assert self.round is not None
        carried = self._carried()
        park = partial(parking.park, call, self.round, lease=self.lease, carried=carried)
        tries = itertools.count(1)

        async def store() -> None:
            is_first = next(tries) == 1
            try:
                await step(park, self._stored)
            except CallInProgressError:
                if is_first:
                    raise
                # It was committed the time before, and the connection broke after that.
                waiting = await step(partial(parking.waiting_for, call.parked_call_id))
                if not waiting:
                    raise
                self._stored(parking.Parked(waiting=waiting, lease=None))

        try:
            await self._again(store, "A round could not be stored yet", asyncio.sleep)
        except (DatabaseError, InterfaceError) as error:
            if not (self.is_over or self.hand.is_answered()):
                raise
            fields = self._log_fields() | {"error": type(error).__name__}
            logger.error("A round could not be stored, and its call is over", extra=fields)
            # Without the error: its text may have what was to be stored.
            raise RoundLostError(self.server, self.tool, NOT_STORED) from None

    def _stored(self, parked: parking.Parked) -> None:
        self.is_stored, self.is_over = True, False
        self.lease, self.waiting = parked.lease, parked.waiting
        self.is_declined = parked.is_declined
        self.hand.clear()

    def _carried(self) -> parking.Carried:
        return parking.Carried(
            deliveries=self.hand.deliveries(),
            in_hand=self.hand.in_hand(),
            fresh_after=self.fresh_after,
            working_since=self.working_since,
            refusal=self.refusal,
        )

    async def _take(self) -> Event:
        """Take the answers of the stored round, once everything else is at hand."""
        assert self.call is not None
        assert self.round is not None
        assert self.lease is not None
        # Before the take: whatever goes wrong in the host's own callables loses no answer.
        self.others = await self.host.fulfil(self.round)
        taking = partial(parking.take, self.call, self.round, self.lease)
        try:
            taken = await step(taking, self._taken)
        except ElicitationRefusal as refusal:
            self.refusal = refusal
            return Event.FORBIDDEN
        return Event.GONE if taken is None else Event.TAKEN

    def _taken(self, taken: parking.Taken | None) -> None:
        self.taken = taken
        if taken is not None:
            self.hand.take(taken.answers)

    @sensitive_variables()
    async def _send_answers(self) -> Event:
        """Send the answers that were taken, if the call still belongs to this process."""
        assert self.round is not None
        assert self.taken is not None
        if self.round.plain and any(is_decline(answer) for answer in self.taken.answers):
            raise URLDeclinedError(self.server, self.tool)
        responses = {**self.others} | {
            key: ElicitResult(**response) for key, response in self.taken.responses.items()
        }
        await self._check_lease()
        self.hand.send(self.hand.keys(), self.taken.requests)
        return await self._retry(responses)

    async def _check_lease(self) -> None:
        """Look at the lease once more: another process may have gone on with the call.

        Raises:
            CallInProgressError: It may.
        """
        lease = self.lease
        if lease is None or lease.is_live():
            return
        if not await step(partial(parking.renew, lease)) or not lease.is_live():
            raise CallInProgressError

    async def _retry(self, responses: Mapping[str, InputResponse]) -> Event:
        """Send the responses to a round, and judge what comes back."""
        assert self.round is not None
        self.answered += 1
        event = await self._send_state(self.round, self.round.number + 1, responses)
        if (
            event is Event.UNKNOWN
            and self.hand.are_consents_alone_on_their_way()
            and not replies.is_refusal(self.error)
        ):
            # Only consents were sent, and those can be sent again.
            self.reason = CONSENT
            return REPLIES[CONSENT].event
        return event

    async def _send_state(
        self, round: Round, number: int, responses: Mapping[str, InputResponse] | None = None
    ) -> Event:
        """Send a round's state back, with responses or without; once afresh for each round."""
        event = await self._send(number, round, responses)
        if event is not Event.UNREAD:
            return event
        if round.number in self.fresh_after or self.hand.was_unread_before():
            return Event.UNREAD_AGAIN
        self.unread_round = round.number
        self.declined = 0
        self.is_over = False
        return event

    async def _decline(self) -> Event:
        """Answer a round that is put to nobody: the call is unattended, or asked too often."""
        assert self.round is not None
        if self.declined == (settings.MAX_ROUNDS if self.call is None else 1):
            raise TooManyRoundsError(self.server, self.tool)
        if self.round.plain:
            raise URLDeclinedError(self.server, self.tool)
        self.declined += 1
        if self.call is None:
            await self._note_refusal("unattended", "nobody was named who could be asked")
        else:
            await self._note_refusal("too_many_rounds", parking.ASKS_TOO_OFTEN)
        others = await self.host.fulfil(self.round)
        self.is_over = True
        event = await self._retry(_declines(self.round) | others)
        self.is_over = event is not Event.NOT_SENT
        return event

    async def _refuse(self) -> Event:
        """Tell the server ``decline`` to a round that cannot be put to a person."""
        assert self.round is not None
        assert self.refusal is not None
        await self._note_refusal(
            self.refusal.code,
            getattr(self.refusal, "reason", "it is too large to be stored"),
            property=self.refusal.property or "",
        )
        say_where(self.refusal)
        self.is_over = True
        if self.round.plain:
            return Event.RESULT
        event = await self._send(self.round.number + 1, self.round, _declines(self.round))
        if event is not Event.RESULT:
            # The host gets the refusal, however the server ended.
            logger.info("A server did not take a decline", extra=self._log_fields())
        elif isinstance(self.refusal, ElicitationRefusal):
            # The server ran the tool all the same.
            self.refusal.result = self.result
        return event

    async def _work(self) -> Event:
        """Call again after a pause, for a server that sent a state and asks nothing."""
        assert self.round is not None
        self.working_since = self.working_since or timezone.now()
        if self.round.task is not None:
            return await self._look_at(self.round, self.round.task)
        is_looked_after = self.pauses == 0 and self.is_stored
        is_started = self.resumed is not None and self.resumed.round.number == STARTED
        is_news = bool(self.hand.deliveries()) or is_started or self.pauses == MAX_PAUSES
        if self.call is not None and not self.is_stored and is_news:
            # What the stored round asked is answered: nothing may go on from there.
            await self._store(self.call)
        if self.pauses == MAX_PAUSES:
            if self.call is None:
                raise TooManyRoundsError(self.server, self.tool)
            return Event.PATIENCE_OVER
        if not is_looked_after:
            await asyncio.sleep(backoff.pause(self.pauses, FIRST_PAUSE, LONGEST_PAUSE))
        self.pauses += 1
        await self._check_lease()
        self.is_over = True
        event = await self._send_state(self.round, self.round.number)
        if event in (Event.WORKS, Event.NOT_SENT):
            self.is_over = False
        else:
            self.working_since = None
        if event is Event.NOT_SENT and self.call is not None and not self.is_stored:
            # Else what the server has begun would be lost with its state.
            await self._store(self.call)
        return event

    async def _look_at(self, round: Round, task: Task) -> Event:
        """Read a task once, if it is time; else leave it to be looked after."""
        now = timezone.now()
        if self.call is None:
            await asyncio.sleep(task.poll.total_seconds())
        elif not self.is_stored:
            # What was delivered is noted with it, in one transaction.
            await self._store(self.call)
            return Event.PATIENCE_OVER
        elif self.resumed is None or self.pauses or task.next_read(now) > now:
            return Event.PATIENCE_OVER
        self.pauses += 1
        await self._check_lease()
        event = await self._send(round.number, round)
        if event not in (Event.WORKS, Event.NOT_SENT):
            self.working_since = None
        return event

    # --- URLs that a server asks for again ---------------------------------------------------

    async def _asks_again(self, call: Call, round: Round) -> bool:
        """Whether the round asks for nothing but URLs whose consent the server has received."""
        told = self.hand.told()
        if not told:
            return False
        try:
            requests = await step(partial(parking.read, call, round))
        except ElicitationRefusal:
            # Refused again, and said so, when the round is parked.
            return False
        keys = {each.key for each in wanted_answers(call.answers, requests)}
        self.hand.take_again(told & keys)
        return keys <= told

    async def _wait_for_completion(self) -> Event:
        """Tell a server again, after a pause, that a person agreed to open its URL.

        That they agreed does not mean that they have finished there, and a server that has to
        know asks again. The round is parked first, with the consent, so that whatever breaks
        off here, the call can go on; after a few times it stays parked until the person, or the
        server, says that they have finished.
        """
        assert self.call is not None
        assert self.round is not None
        # No person was asked anything: it is the same round.
        self.answered -= 1
        self.round = replace(self.round, number=self.round.number - 1)
        ids = [answer.elicitation_id for answer in self.hand.in_hand() if answer.elicitation_id]
        event = await self._park(self.call)
        if event is not Event.COMPLETE:
            return event
        said = await step(partial(inbox.continued, ids, self.round.received_at))
        # Each *Continue* skips one pause. Compare with the last one used: a web server's clock
        # may be ahead.
        if said is None or said == self.continued_at:
            if self.waits == MAX_WAITS:
                self.waiting = await step(partial(parking.elicitations, ids))
                assert self.lease is not None
                await step(partial(parking.release, self.lease))
                return Event.WAITS
            await asyncio.sleep(backoff.pause(self.waits, FIRST_WAIT, LONGEST_WAIT))
            self.waits += 1
        self.continued_at = said
        return Event.COMPLETE

    # --- The wire ----------------------------------------------------------------------------

    # An error goes up to the host, whose reports have the variables of frames.
    @sensitive_variables()
    async def _send(
        self,
        number: int,
        round: Round | None = None,
        responses: Mapping[str, InputResponse] | None = None,
    ) -> Event:
        """Send the request, and say what came back; twice if its headers were refused.

        Args:
            number: The number of the round that the reply may begin.
            round: The round whose state is sent back.
            responses: What its requests are answered with.
        """
        event = await self._send_once(number, round, responses)
        if self.reason == "header_mismatch":
            # A new session knows the headers of a tool only once it has listed the tools.
            if self.method == TOOL:
                with suppress(Exception):
                    await self.host.session.list_tools()
            event = await self._send_once(number, round, responses)
        return event

    @sensitive_variables()
    async def _send_once(
        self,
        number: int,
        round: Round | None,
        responses: Mapping[str, InputResponse] | None,
    ) -> Event:
        sent_at = timezone.now()
        if round is not None and round.task is not None:
            return await self._send_to_task(round, round.task, number, responses, sent_at)
        if round is not None and round.plain:
            round = responses = None
        request = methods.request(
            self.method,
            self.tool,
            self.arguments,
            input_responses=None if responses is None else dict(responses),
            # "" is a state; only None is none.
            request_state=None if round is None else round.request_state,
            _meta=self.options.get("meta"),
        )
        error, exchange = await self._exchanged(request)
        try:
            return self._read(error, exchange, number, sent_at)
        except SchemaRefusal as refusal:
            return self._judge(refusal, exchange)

    @sensitive_variables()
    async def _exchanged(self, request: Any) -> tuple[Exception | None, Exchange]:
        """Send one request, and return what is known of it."""
        error: Exception | None = None
        with noted() as exchange:
            try:
                result = await self.host.session.send_request(
                    request,
                    _AnyResult,
                    request_read_timeout_seconds=self.options.get("read_timeout"),
                    progress_callback=self.host.progress,
                )
                exchange.reply = exchange.reply or result.model_dump(by_alias=True)
            except Exception as caught:
                # The SDK's frames have the answers that were sent, and its texts may quote them.
                error = caught.with_traceback(None)
        return error, exchange

    @sensitive_variables()
    async def _send_to_task(
        self,
        round: Round,
        task: Task,
        number: int,
        responses: Mapping[str, InputResponse] | None,
        sent_at: datetime,
    ) -> Event:
        """Read a task, or answer what it asks, and say what came back (SEP-2663)."""
        if responses is None:
            request = methods.task("tasks/get", task.id)
        else:
            answers = {
                key: response.model_dump(by_alias=True, mode="json", exclude_none=True)
                for key, response in responses.items()
            }
            request = methods.task("tasks/update", task.id, inputResponses=answers)
        error, exchange = await self._exchanged(request)
        if exchange.reply is None and responses is None:
            assert error is not None
            self._judge(error, exchange)
            if isinstance(error, MCPError) and error.code == replies.INVALID_PARAMS:
                return self._task_ended(Code.LOST, tasks.UNKNOWN)
            self.reason = "task_not_read"
            return Event.NOT_SENT
        if exchange.reply is None:
            assert error is not None
            event = self._judge(error, exchange)
            if isinstance(error, MCPError) and error.code == replies.INVALID_PARAMS:
                return self._task_ended(Code.LOST, tasks.UNKNOWN)
            if event is Event.NOT_SENT:
                return event
            # The task goes on. If it still asks when it is read again, the person is asked again.
            self._begin(replace(round, requests={}, received_at=sent_at))
            return Event.ANSWER_LOST
        if responses is not None:
            task = task.answering(list(responses))
            self._begin(replace(round, requests={}, task=task, received_at=sent_at))
            return Event.WORKS
        return self._read_task(exchange.reply, round, task, sent_at)

    @sensitive_variables()
    def _read_task(
        self, reply: Mapping[str, Any], round: Round, before: Task, sent_at: datetime
    ) -> Event:
        """Say what a task is doing, as ``tasks/get`` returned it."""
        task, status = before.read(reply), reply.get("status")
        if status == "completed" and isinstance(reply.get("result"), Mapping):
            result = {"resultType": "complete"} | reply["result"]
            try:
                self.reason, self.result = replies.read_reply(result, self.method)
            except SchemaRefusal:
                return self._task_ended(Code.LOST, tasks.FAILED)
            self.reply = result
            return Event.RESULT if self.reason == "result" else Event.UNKNOWN
        if status == "failed":
            return self._task_ended(Code.GIVEN_UP, tasks.FAILED)
        if status == "cancelled":
            return self._task_ended(Code.CANCELLED, tasks.CANCELLED)
        if status == "input_required":
            asked = reply.get("inputRequests")
            new = {
                key: request
                for key, request in (asked.items() if isinstance(asked, Mapping) else ())
                if key not in before.answered
            }
            if new and all(
                isinstance(each, Mapping) and isinstance(each.get("method"), str)
                for each in new.values()
            ):
                self._begin(
                    replace(
                        round,
                        number=round.number + 1,
                        requests=new,
                        task=task,
                        received_at=sent_at,
                    )
                )
                return Event.ASKS
        if task.has_expired(timezone.now()):
            return self._task_ended(Code.EXPIRED, tasks.EXPIRED)
        if task != before or round.requests:
            self._begin(replace(round, requests={}, task=task))
        return Event.WORKS

    def _task_ended(self, code: str, reason: str) -> Event:
        self.task_ended = Ended(code=code, reason=reason)
        return Event.TASK_ENDED

    @sensitive_variables()
    def _read(
        self, error: Exception | None, exchange: Exchange, number: int, sent_at: datetime
    ) -> Event:
        """Say what came back (specification, section 6).

        Raises:
            SchemaRefusal: It is no reply that MCP has.
        """
        if exchange.reply is not None:
            # It arrived: whatever happened to it afterwards, this is what the server said.
            self.reason, reply = replies.read_reply(exchange.reply, self.method)
            event = REPLIES[self.reason].event
            if event is Event.TASK:
                task = Task.of(reply, sent_at)
                self._begin(
                    Round(
                        number=number,
                        requests={},
                        request_state=None,
                        received_at=sent_at,
                        task=task,
                    )
                )
            elif event in (Event.ASKS, Event.WORKS):
                self._begin(replies.round_of(reply, number, sent_at))
            else:
                self.result, self.reply = reply, exchange.reply
            return event
        if isinstance(error, MCPError):
            round = replies.round_of_error(error, number, sent_at)
            if round is not None:
                self._begin(round)
                return Event.ASKS
        if isinstance(error, ValidationError):
            # Its text quotes what the server sent.
            raise SchemaRefusal("the server's reply is not one that MCP has")
        assert error is not None
        return self._judge(error, exchange)

    def _begin(self, round: Round) -> None:
        self.round, self.is_stored = round, False

    def _judge(self, error: Exception, exchange: Exchange) -> Event:
        self.error, self.retry_after = error, exchange.retry_after
        event, self.reason = replies.judge(error, exchange)
        return event

    # --- The end -----------------------------------------------------------------------------

    async def _end(self) -> Any:
        """Write down how the pass ended, and return the result or raise what the host gets."""
        state = self.rounds.state
        if state is State.PARKED:
            raise parking.pending(self.waiting)
        if state is State.LEFT_WORKING:
            raise await self._leave_working()
        if state is State.NOT_SENT:
            raise await self._not_sent()
        await self._recorded(self._close, self._ended())
        if state is State.REFUSED:
            await self._cancel_task()
        if state is State.LOST:
            logger.warning("A round was lost", extra=self._log_fields() | {"reason": self.reason})
            raise RoundLostError(self.server, self.tool, self.reason)
        if state is State.ENDED:
            ended = self._ended()
            if ended.code == Code.LOST:
                raise RoundLostError(self.server, self.tool, ended.reason)
            raise CallEndedError(self.server, self.tool, ended.code, ended.reason)
        if state is State.REFUSED:
            assert self.refusal is not None
            raise self.refusal
        if isinstance(self.result, CallToolResult) and not await self.host.fits(
            self.tool, self.result
        ):
            logger.warning(
                "A result does not fit its tool's output schema", extra=self._log_fields()
            )
        return self.result

    @sensitive_variables()
    def _ended(self) -> Ended:
        """Return how the call ended, as its row keeps it."""
        if self.rounds.state is State.FINISHED:
            return Ended(code=Code.FINISHED, result=self.reply)
        if self.rounds.state is State.LOST:
            return Ended(code=Code.LOST, reason=self.reason)
        if self.rounds.state is State.ENDED:
            assert self.task_ended is not None
            return self.task_ended
        refusal = self.refusal
        assert refusal is not None
        return Ended(
            code=Code.SWITCHED_OFF if isinstance(refusal, PolicyRefusal) else Code.REFUSED,
            reason=refusal.code,
            # The server may have run the tool all the same.
            result=self.reply if getattr(refusal, "result", None) is not None else None,
        )

    async def _leave_working(self) -> Exception:
        """Leave a call whose server is at work, to be looked after again."""
        assert self.lease is not None
        assert self.working_since is not None
        if timezone.now() - self.working_since > settings.WORKING_TTL:
            await self._recorded(self._close, Ended(code=Code.LOST, reason=WORKING_TOO_LONG))
            await self._cancel_task()
            return RoundLostError(self.server, self.tool, WORKING_TOO_LONG)
        look_at = await step(self._look_again)
        return ServerWorkingPending(
            self.server,
            self.tool,
            parked_call_id=self.lease.parked_call_id,
            look_at=look_at,
        )

    def _look_again(self) -> datetime:
        """Give the call back, to be looked after again; return when."""
        assert self.lease is not None
        looked = 0 if self.resumed is None else self.resumed.row.looked
        if self.round is not None and self.round.task is not None:
            # No more often than its server says, and no less.
            task, now = self.round.task, timezone.now()
            again: datetime = task.next_read(now)
            if again == now:
                again = now + task.poll
            parking.leave_working(self.lease, looked=0, look_at=again, task=task)
            return again
        look_at: datetime = timezone.now() + backoff.pause(looked, FIRST_LOOK, LONGEST_LOOK)
        parking.leave_working(self.lease, looked=looked + 1, look_at=look_at)
        return look_at

    async def _not_sent(self) -> Exception:
        """Put back what the server has not read, and return what the host gets."""
        retry_at = None
        if self.lease is not None:
            retry_at = parking.next_try(0 if self.resumed is None else self.resumed.row.looked)
            if self.retry_after is not None:
                seconds = min(self.retry_after, LONGEST_RETRY_AFTER)
                retry_at = max(retry_at, timezone.now() + timedelta(seconds=seconds))
        await self._recorded(self._put_back, retry_at)
        assert self.error is not None
        proof = REPLIES.get(self.reason)
        if proof is None or proof.event is not Event.NOT_SENT:
            # No answer was on its way. The host gets the error as it came: the tool may have run.
            return self.error
        return NotSentError(
            self.server,
            self.tool,
            self.reason,
            parked_call_id=None if self.lease is None else self.lease.parked_call_id,
            retry_at=retry_at,
        )

    async def _put_back(self, retry_at: datetime | None = None) -> None:
        """Put back what was taken and not sent, and give the lease back."""
        in_hand = self.hand.in_hand()
        if self.lease is None and not in_hand:
            return
        put = partial(
            parking.put_back,
            in_hand,
            lease=self.lease,
            deliveries=self.hand.deliveries(),
            fresh_after=self.fresh_after,
            unsent_reason=self.reason[:64] if retry_at else "",
            retry_at=retry_at,
        )
        await to_the_end(sync_to_async(put)())

    async def _close(self, ended: Ended) -> None:
        """Write down how the call ended, in its row and in the audit."""
        if self.call is None or not (self.lease or self.is_stored):
            return
        carried = self._carried()
        if self.rounds.state is State.FINISHED and getattr(self.result, "is_error", False):
            deliveries = dict.fromkeys(carried.deliveries, str(Elicitation.Delivery.SERVER_ERROR))
            carried = replace(carried, deliveries=deliveries)
        close = partial(
            parking.close,
            self.call,
            ended,
            lease=self.lease,
            carried=carried,
            # Nothing else of the call can be left.
            asked_once=self.resumed is not None
            and self.resumed.row.asked == self.answered == 1
            and not self.fresh_after,
        )
        await to_the_end(sync_to_async(close)())

    async def _break_off(self, error: BaseException) -> None:
        """After an exception, close the call, or put back what was taken and give it back."""
        is_sent = self.rounds.state in IN_FLIGHT
        is_answered = self.hand.break_off()
        if is_answered or self.is_over or isinstance(error, _GIVEN_UP):
            # The stored round is over: to go on from it would be to send an answer twice.
            await self._close(_broken_off(error, is_sent=is_sent))
        elif self.is_stored and self.lease and self.working_since is not None:
            await to_the_end(sync_to_async(self._look_again)())
        else:
            await self._put_back()

    async def _cancel_task(self) -> None:
        """Tell the server that nobody waits for its task; how the call ended is written down."""
        if self.round is not None and self.round.task is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(abandoned.PATIENCE):
                    await self._exchanged(methods.task("tasks/cancel", self.round.task.id))

    async def _recorded(self, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Write down how a call ended; if that fails for good, log it and go on."""
        try:
            await self._again(
                partial(work, *args),
                "How a call ended could not be recorded yet",
                lambda seconds: to_the_end(asyncio.sleep(seconds)),
            )
        except Exception as error:
            fields = self._log_fields() | {"error": type(error).__name__}
            logger.error("How a call ended could not be recorded", extra=fields)

    async def _again(
        self,
        work: Callable[[], Awaitable[None]],
        text: str,
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        """Do work in the database, again after pauses: it may be restarting.

        Args:
            work: Does the work.
            text: What is logged each time that it fails, but not the last time.
            pause: Waits for so many seconds.
        """
        for seconds in RECORD_PAUSES:
            try:
                return await work()
            except (DatabaseError, InterfaceError) as error:
                fields = self._log_fields() | {"error": type(error).__name__}
                logger.warning(text, extra=fields)
            await pause(seconds)
            # A connection that broke stays broken until it is closed.
            await to_the_end(sync_to_async(close_old_connections)())
        return await work()

    async def _note_refusal(self, code: str, reason: str, *, property: str = "") -> None:
        await note_refusal(code=code, reason=reason, property=property, **self._log_fields())

    def _log_fields(self) -> dict[str, str]:
        fields = {"server": self.server, "tool": self.tool}
        if self.call is not None:
            fields["parked_call_id"] = str(self.call.parked_call_id)
        return fields


def _broken_off(error: BaseException, *, is_sent: bool) -> Ended:
    """Return how a call ended that an exception broke off.

    Args:
        error: The exception.
        is_sent: Whether a request was on its way just then.
    """
    if isinstance(error, RoundLostError):
        return Ended(code=Code.LOST, reason=error.reason)
    if isinstance(error, ElicitationError):
        return Ended(code=Code.GIVEN_UP, reason=error.code)
    return Ended(code=Code.LOST if is_sent else Code.GIVEN_UP, reason=BROKEN_OFF)


def _declines(round: Round) -> dict[str, InputResponse]:
    action: Any = unanswered_action()
    return {
        key: ElicitResult(action=action)
        for key, request in round.requests.items()
        if request["method"] == ELICITATION
    }
