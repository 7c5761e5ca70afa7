"""Drive a tool call through its rounds with the official MCP SDK (``mcp`` 2.x).

The only module that needs ``mcp`` 2.x. It holds no state of its own: what a call waits for is
in the database, and any process can go on with it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import anyio
from asgiref.sync import sync_to_async
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables
from mcp import ClientSession, MCPError
from mcp.client.session import (
    ClientRequestContext,
    ElicitationFnT,
    IncomingMessage,
    ListRootsFnT,
    MessageHandlerFnT,
    SamplingFnT,
)
from mcp.shared.dispatcher import CallOptions
from mcp.types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    URL_ELICITATION_REQUIRED,
    CallToolResult,
    CreateMessageRequest,
    ElicitCompleteNotification,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
    InputResponse,
)
from pydantic import ValidationError

from .. import inbox
from ..calls import parking
from ..calls import requests as handler
from ..calls.parking import AnotherRespondentError, Call, CallInProgressError, Round
from ..conf import settings
from ..core import (
    Accept,
    Decline,
    ElicitationError,
    ElicitationPending,
    ElicitationRefusal,
    SchemaRefusal,
    URLElicitation,
)
from ..models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer, TooLargeError
from .callbacks import elicitation_callback

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

__all__ = [
    "AnotherRespondentError",
    "CallInProgressError",
    "InputNotSupportedError",
    "RoundLostError",
    "TooManyRoundsError",
    "URLDeclinedError",
    "aclient_options",
    "call_tool",
    "client_options",
    "elicitation_callback",
    "resume",
]

logger = logging.getLogger("elicitation")

Delivery = Elicitation.Delivery

SAMPLING, ROOTS = "sampling/createMessage", "roots/list"

#: A server that sends a state and asks nothing wants to be called again; first pause and
#: longest pause in seconds, and how often in all before the call is given up.
FIRST_PAUSE, LONGEST_PAUSE, MAX_PAUSES = 0.05, 5.0, 12

#: The same for a server that asks for an address again that a person has agreed to open: they
#: may be about to finish. Then the call is parked until they say so.
FIRST_WAIT, LONGEST_WAIT, MAX_WAITS = 0.5, 4.0, 5

#: The reason with which the SDK's servers refuse a state they cannot read (any more).
INVALID_STATE = "invalid_request_state"


class RoundLostError(ElicitationError):
    """The answers were sent, or may have been, and the call did not go on.

    They are gone and nothing is sent again: the next call asks afresh. ``reason`` is a code.
    """

    def __init__(self, server: str, tool: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"The server '{server}' did not go on with '{tool}' after it was answered "
            f"({reason}). The answers are gone and were not sent again. Calling the tool again "
            "asks the person afresh.",
            code="round_lost",
        )


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


class URLDeclinedError(ElicitationError):
    """The server runs the tool only once a person has opened an address, and nobody agreed to.

    Where it said so by an error (``URLElicitationRequiredError``), there is no way to tell it.
    """

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(
            f"The server '{server}' does not run '{tool}' before a person has opened an address, "
            "and nobody agreed to open it.",
            code="address_declined",
        )


class TooManyRoundsError(ElicitationError):
    """The server goes on asking after its last questions were declined."""

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(
            f"The server '{server}' goes on asking before it runs '{tool}'; the call was given "
            f"up. ELICITATION_MAX_ROUNDS is {settings.MAX_ROUNDS}.",
            code="too_many_rounds",
        )


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
) -> CallToolResult:
    """Call a tool; where its server asks a person something, park the call.

    The same call made again goes on where it stopped, in any process: it sends what was
    answered meanwhile, or joins the questions that still wait.

    Args:
        session: A connected session, such as ``client.session``.
        server: The name under which this site configured the server.
        tool: The tool's name.
        arguments: A JSON object. A call that is parked keeps those of its first time.
        scope: The host's id of the conversation or run.
        respondent: Who is asked; ``None`` where nobody can be: every question is declined.
        call: The host's id of this tool call, unique in the scope. Without it, the arguments
            tell two calls of one tool apart.
        scope_label: What people see as the name of the conversation.
        sampling: Answers sampling requests, as ``sampling_callback`` of ``mcp.Client`` does.
        roots: Answers roots requests, likewise.

    Returns:
        The tool's result, an ``isError`` result included.

    Raises:
        ElicitationPending: The call is parked until people have answered.
        ElicitationRefusal: The server asks what cannot be put to a person. It was told
            ``decline``; where it ran the tool all the same, ``result`` has what that returned.
        RoundLostError: The server was answered and did not go on.
        CallInProgressError: Another process is resuming this call.
        ParkedCall.DoesNotExist: Another process has finished it just now.
        AnotherRespondentError: The call waits for somebody else.
        InputNotSupportedError: The server asks for sampling or roots, and there are none.
        URLDeclinedError: The server wants an address to be opened first, and nobody agreed to.
        TooManyRoundsError: The server asks without end.
        InvalidNameError, TooLargeError: A name, the respondent or the arguments cannot be stored.
        MCPError: The server refused the first call.
    """
    if respondent is None:
        unattended = _Run(session, server, tool, arguments, sampling, roots)
        return await unattended.through(await unattended.first_round())
    made = Call(
        scope=scope,
        server=server,
        tool=tool,
        arguments=arguments,
        respondent=respondent,
        id=call,
        scope_label=scope_label,
    )
    parked = await parking.afind(made)
    if parked is not None:
        return await _go_on(session, parked, sampling, roots)
    run = _Run(session, server, tool, arguments, sampling, roots, call=made)
    return await run.through(await run.first_round())


async def resume(
    session: ClientSession,
    parked_call_id: uuid.UUID | str,
    *,
    sampling: SamplingFnT | None = None,
    roots: ListRootsFnT | None = None,
) -> CallToolResult:
    """Go on with a parked call: ``call_tool`` by the call's id, which the signals carry.

    Raises:
        ParkedCall.DoesNotExist: The call has finished.
        ElicitationPending, ElicitationRefusal, RoundLostError, CallInProgressError,
        InputNotSupportedError, URLDeclinedError, TooManyRoundsError, MCPError: As ``call_tool``.
    """
    return await _go_on(session, await parking.aget(parked_call_id), sampling, roots)


def client_options(
    server: str,
    attended: bool = True,
    *,
    callback: ElicitationFnT | None = None,
    message_handler: MessageHandlerFnT | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments for ``mcp.Client`` that declare what may be asked.

    Nothing is declared where nobody can be asked, or the operator's policy is ``none``. The
    SDK declares form and URL mode together; what the policy does not allow is declined. A
    server's word that a person has finished at an address wakes the call that waits for it.

    Args:
        server: The name under which this site configured the server.
        attended: Whether somebody can be asked.
        callback: What answers a server that asks in the middle of a call, such as one from
            ``elicitation_callback``; by default such questions are declined.
        message_handler: What else hears of the server's notifications.
    """
    if not attended or not ServerPolicy.objects.for_server(server).allows_asking:
        return {} if message_handler is None else {"message_handler": message_handler}

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, ElicitCompleteNotification):
            await inbox.acomplete(server, message.params.elicitation_id)
        if message_handler is not None:
            await message_handler(message)

    return {"elicitation_callback": callback or _decline_in_call, "message_handler": hear}


aclient_options = sync_to_async(client_options)


async def _decline_in_call(
    context: ClientRequestContext, params: ElicitRequestParams
) -> ElicitResult | ErrorData:
    """Answer a server that asks in the middle of a call, where nobody was named to be asked."""
    logger.warning(
        "A server asked in the middle of a call, which call_tool() cannot park; declined. Pass "
        "callback=elicitation_callback(...) to client_options() to have the person asked."
    )
    return ElicitResult(action="decline")


async def _go_on(
    session: ClientSession,
    parked: ParkedCall,
    sampling: SamplingFnT | None,
    roots: ListRootsFnT | None,
) -> CallToolResult:
    """Resume a parked call, unless people still have to answer."""
    await _raise_if_pending(parked)
    async with _claimed(parked.pk) as claimed:
        # Read again under the lease: another process may have gone on with it meanwhile.
        await _raise_if_pending(claimed)
        call = Call.of(claimed)
        run = _Run(
            session,
            call.server,
            call.tool,
            call.arguments,
            sampling,
            roots,
            call=call,
            lease=claimed,
        )
        stored = Round.of(claimed)
        if stored.number == 1 and stored.is_stale:
            return await run.through(await run.first_round())
        return await run.through(stored)


async def _raise_if_pending(parked: ParkedCall) -> None:
    if waiting := await parking.astill_asked(parked):
        raise parking.pending(waiting)


@asynccontextmanager
async def _claimed(parked_call_id: uuid.UUID) -> AsyncIterator[ParkedCall]:
    """Hold the call's lease while it is resumed, and give it back however that ends."""
    claiming = asyncio.ensure_future(parking.aclaim(parked_call_id))

    async def give_back() -> None:
        with suppress(CallInProgressError, ParkedCall.DoesNotExist):
            await parking.arelease(await claiming)

    try:
        claimed = await asyncio.shield(claiming)
    except asyncio.CancelledError:
        # The thread goes on and commits; nobody could resume the call until the lease runs out.
        await _to_the_end(give_back())
        raise

    async def keep() -> None:
        while True:
            await asyncio.sleep(settings.RESUME_LEASE.total_seconds() / 3)
            try:
                await parking.arenew(claimed)
            except Exception as error:
                # A lease that runs out is looked at before anything is taken.
                logger.warning(
                    "The lease of a call could not be renewed",
                    extra={"parked_call_id": str(parked_call_id), "error": type(error).__name__},
                )

    keeper = asyncio.create_task(keep())
    try:
        yield claimed
    finally:
        keeper.cancel()
        try:
            await _to_the_end(parking.arelease(claimed))
        except Exception as error:
            # It runs out by itself; what the call came to is worth more.
            logger.warning(
                "The lease of a call could not be given back",
                extra={"parked_call_id": str(parked_call_id), "error": type(error).__name__},
            )


class _Run:
    """One pass through the rounds of a call, until it ends or is parked."""

    def __init__(
        self,
        session: ClientSession,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None,
        sampling: SamplingFnT | None,
        roots: ListRootsFnT | None,
        *,
        call: Call | None = None,
        lease: ParkedCall | None = None,
    ) -> None:
        _Dispatcher.install(session)
        self.session = session
        self.server = server
        self.tool = tool
        self.arguments = None if arguments is None else dict(arguments)
        self.sampling = sampling
        self.roots = roots
        #: What is called, and for whom; ``None`` where nobody is asked.
        self.call = call
        #: The parked call that this process goes on with, if it does.
        self.lease = lease
        self.resumed = lease is not None
        self.asked = 0 if lease is None else lease.asked
        self.started_afresh = lease is not None and lease.started_afresh
        #: Answers that were taken and that the server refused unread.
        self.in_hand: dict[uuid.UUID, StoredFormAnswer] = {}
        #: How it ended with the questions whose answers were sent since the call was parked.
        self.deliveries: dict[uuid.UUID, str] = {}
        #: Whether the server was given anything since, so that its state is not the stored one.
        self.sent = False
        #: The consents that the server was told last: it may ask for the same addresses again.
        self.consents: dict[uuid.UUID, StoredFormAnswer] = {}
        #: Those that it was told since the call was parked, while it was told nothing else.
        self.told: dict[uuid.UUID, StoredFormAnswer] = {}
        self.answered = 0
        self.declined = 0
        self.pauses = 0
        self.waits = 0
        #: When somebody said that they have finished, as far as the server was asked since.
        self.continued_at: datetime | None = None

    async def first_round(self) -> CallToolResult | Round:
        """Call the tool from the start, with the arguments of its first time."""
        return await self._send(1)

    async def through(self, reply: CallToolResult | Round) -> CallToolResult:
        """Go through the rounds from this one on, with what people have answered."""
        try:
            while isinstance(reply, Round):
                reply = await (self._answer(reply) if reply.requests else self._wait(reply))
        except ElicitationPending:
            raise
        except BaseException as error:
            await self._recorded(self._break_off(error))
            if self.sent and isinstance(error, Exception) and not _is_ours(error):
                raise RoundLostError(self.server, self.tool, "broken off") from error
            raise
        if reply.is_error:
            self.deliveries = dict.fromkeys(self.deliveries, Delivery.SERVER_ERROR)
        await self._recorded(self._close())
        return reply

    async def _recorded(self, work: Coroutine[Any, Any, None]) -> None:
        """Write down how a call ended. Should that fail, what it was is worth more."""
        try:
            await _to_the_end(work)
        except Exception as error:
            logger.error(
                "How a call ended could not be recorded",
                extra={"server": self.server, "tool": self.tool, "error": type(error).__name__},
            )

    async def _break_off(self, error: BaseException) -> None:
        """Leave nothing half-done behind a call that did not come to its end or was parked."""
        if self.call is None:
            return
        over = self.sent or isinstance(
            error,
            URLDeclinedError
            | ElicitationRefusal
            | RoundLostError
            | TooLargeError
            | TooManyRoundsError,
        )
        if self.lease is not None:
            ours = await parking.arenew(self.lease)
        else:
            ours = self.resumed
        if over and ours:
            # The stored round is over: to go on from it would be to send an answer twice.
            await self._close()
            return
        # Nothing was sent but consents, which can be told again; or the row is not ours, and what
        # was sent is all there is to note.
        unsent = list((self.in_hand | self.told).values())
        await parking.aput_back(unsent, lease=self.lease, started_afresh=self.started_afresh)
        back = {answer.elicitation_id for answer in unsent}
        await parking.anote_deliveries(
            {key: how for key, how in self.deliveries.items() if key not in back}
        )

    @sensitive_variables()
    async def _answer(self, round: Round) -> CallToolResult | Round:
        """Answer a round as a whole, or park the call in it."""
        self._check_supported(round)
        if self.answered > settings.MAX_ROUNDS:
            raise TooManyRoundsError(self.server, self.tool)
        if self.call is None:
            return await self._decline(round)
        policy = await sync_to_async(ServerPolicy.objects.for_server)(self.server)
        try:
            questions = handler.read_questions(
                round.requests, server=self.server, tool=self.tool, policy=policy
            )
        except ElicitationRefusal as refusal:
            refusal.result = await self._refuse(round)
            raise
        again = self._asked_again(questions)
        if again and len(again) == len(questions):
            return await self._wait_for_completion(round, questions, again)
        missing = [question for question in questions if self._key(question) not in self.in_hand]
        if not await sync_to_async(handler.can_answer)(self.call.answers, missing):
            return await self._park(round, questions)
        # Before the take: whatever goes wrong in the host's own callables loses no answer.
        others = await self._fulfil(round)
        if self.lease is not None and not await parking.arenew(self.lease):
            raise CallInProgressError
        taken = await self._take(missing)
        if taken is None:
            return await self._park(round, questions)
        self.in_hand |= {answer.pk: answer for answer in taken}
        sent = [self.in_hand.pop(self._key(question)) for question in questions]
        if round.plain and any(_is_decline(answer) for answer in sent):
            self._note(sent, Delivery.DROPPED)
            raise URLDeclinedError(self.server, self.tool)
        self.consents = {
            answer.pk: answer
            for answer, question in zip(sent, questions, strict=True)
            if isinstance(question.elicitation, URLElicitation) and not _is_decline(answer)
        }
        responses = others | {
            question.elicitation.key: _response(handler.outcome(answer, question))
            for question, answer in zip(questions, sent, strict=True)
        }
        return await self._retry(round, responses, sent)

    def _asked_again(self, questions: Sequence[inbox.Question]) -> list[StoredFormAnswer]:
        """Take the consents in hand that the server was told, and that it asks for once more."""
        told, self.consents = self.consents, {}
        again = [
            consent
            for question in questions
            if (consent := told.get(self._key(question))) is not None
            and consent.elicitation_id is not None
            and not consent.is_expired()
        ]
        self.in_hand |= {consent.pk: consent for consent in again}
        return again

    async def _wait_for_completion(
        self,
        round: Round,
        questions: Sequence[inbox.Question],
        consents: Sequence[StoredFormAnswer],
    ) -> Round:
        """Tell a server again, after a pause, that a person agreed to open its address.

        That they agreed does not mean that they have finished there, and a server that has to
        know asks again. The round is parked first, with the consent, so that whatever breaks
        off here, the call can go on; after a few times it stays parked until the person, or the
        server, says that they have finished.

        Raises:
            ElicitationPending: It stays parked.
        """
        assert self.call is not None
        # No person was asked anything: it is the same round.
        self.answered -= 1
        round = replace(round, number=round.number - 1)
        if waiting := await self._store(round, questions):
            raise parking.pending(waiting)
        ids = [consent.elicitation_id for consent in consents if consent.elicitation_id]
        said = await inbox.acontinued(ids, round.received_at)
        # One word saves one pause, though a clock that is ahead makes it newer than every reply.
        if said is None or said == self.continued_at:
            if self.lease is None or self.waits == MAX_WAITS:
                raise parking.pending(await parking.aquestions(ids))
            await asyncio.sleep(min(FIRST_WAIT * 2**self.waits, LONGEST_WAIT))
            self.waits += 1
        self.continued_at = said
        return round

    async def _decline(self, round: Round) -> CallToolResult | Round:
        """Answer a round that is put to nobody: the call is unattended, or asked too often."""
        if self.declined == (settings.MAX_ROUNDS if self.call is None else 1):
            raise TooManyRoundsError(self.server, self.tool)
        if round.plain:
            raise URLDeclinedError(self.server, self.tool)
        self.declined += 1
        logger.warning(
            "Nobody is asked: the call is unattended, or has asked too often; declining",
            extra={"server": self.server, "tool": self.tool, "round": round.number},
        )
        others = await self._fulfil(round)
        return await self._retry(round, _declines(round) | others, [])

    async def _take(self, questions: Sequence[inbox.Question]) -> list[StoredFormAnswer] | None:
        """Take answers; a caller that is cancelled meanwhile puts them back, unsent."""
        assert self.call is not None
        task = asyncio.ensure_future(
            sync_to_async(handler.take_answers)(self.call.answers, questions)
        )

        async def put_back() -> None:
            # The thread goes on and commits; without this its answers would be nobody's.
            await parking.aput_back(await task or [])

        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await self._recorded(put_back())
            raise

    async def _park(
        self, round: Round, questions: Sequence[inbox.Question]
    ) -> CallToolResult | Round:
        """Park the call and tell the host; go on where people answered meanwhile."""
        if self.asked >= settings.MAX_ROUNDS:
            return await self._decline(round)
        if waiting := await self._store(round, questions):
            raise parking.pending(waiting)
        return round

    async def _store(self, round: Round, questions: Sequence[inbox.Question]) -> list[Elicitation]:
        """Park the call; return the questions that wait for the person."""
        assert self.call is not None
        try:
            waiting = await parking.apark(
                self.call,
                round,
                questions,
                lease=self.lease,
                resumed=self.resumed,
                deliveries=self.deliveries,
                unsent=list(self.in_hand.values()),
                started_afresh=self.started_afresh,
            )
        except TooLargeError:
            await self._refuse(round)
            raise
        self.in_hand = {}
        self.told = {}
        self.deliveries = {}
        self.sent = False
        self.resumed = True
        return waiting

    @sensitive_variables()
    async def _retry(
        self,
        round: Round,
        responses: dict[str, InputResponse],
        answers: Sequence[StoredFormAnswer],
    ) -> CallToolResult | Round:
        """Send the responses to a round, and judge what comes back."""
        self.answered += 1
        only_consents = len(self.consents) == len(answers) > 0
        if only_consents:
            self.told |= self.consents
        try:
            reply = await self._send(round.number + 1, round, responses)
        except BaseException as error:
            if round.number == 1 and _is_unread(error) and not self.started_afresh:
                self.started_afresh = True
                self.declined = 0
                self.consents = {}
                self.in_hand |= {answer.pk: answer for answer in answers}
                return await self.first_round()
            if only_consents and not _is_refusal(error):
                # Nothing of the person's but their consent, which can be told twice.
                raise
            self.sent = True
            self._note(answers, Delivery.ROUND_LOST)
            logger.warning(
                "A round was lost",
                extra={"server": self.server, "tool": self.tool, "error": type(error).__name__},
            )
            if isinstance(error, MCPError):
                raise RoundLostError(self.server, self.tool, f"error {error.code}") from error
            if isinstance(error, ElicitationRefusal):
                raise RoundLostError(self.server, self.tool, "no valid reply") from None
            raise
        # A consent can be told twice, so that the call can go on from the stored round.
        self.sent = self.sent or not only_consents
        self._note(answers, Delivery.DELIVERED)
        return reply

    async def _refuse(self, round: Round) -> CallToolResult | None:
        """Tell the server ``decline`` to a round that is put to nobody.

        Returns:
            The tool's result, where the server went on without an answer.
        """
        self.sent = True
        if round.plain:
            return None
        try:
            reply = await self._send(round.number + 1, round, _declines(round))
        except Exception as error:
            # The refusal is what the host has to know; the server's own end is its affair.
            logger.info(
                "A server did not take a decline",
                extra={"server": self.server, "tool": self.tool, "error": type(error).__name__},
            )
            return None
        return None if isinstance(reply, Round) else reply

    async def _wait(self, round: Round) -> CallToolResult | Round:
        """Call again after a pause, for a server that sent a state and asks nothing."""
        if self.pauses == MAX_PAUSES:
            raise TooManyRoundsError(self.server, self.tool)
        await asyncio.sleep(min(FIRST_PAUSE * 2**self.pauses, LONGEST_PAUSE))
        self.pauses += 1
        return await self._send(round.number, round)

    def _note(self, answers: Sequence[StoredFormAnswer], delivery: str) -> None:
        for answer in answers:
            if answer.elicitation_id:
                self.deliveries[answer.elicitation_id] = delivery

    async def _close(self) -> None:
        """Forget the call, and say in the audit how it ended."""
        if self.call is not None:
            await parking.aclose(
                self.call.key,
                self.call.respondent.pk,
                deliveries=self.deliveries,
                unsent=list(self.in_hand.values()),
            )

    # An error goes up to the host, whose reports have the variables of frames.
    @sensitive_variables()
    async def _send(
        self,
        number: int,
        round: Round | None = None,
        responses: Mapping[str, InputResponse] | None = None,
    ) -> CallToolResult | Round:
        """Call the tool, and return its result or the round that comes next.

        Raises:
            MCPError: The server refused, or the connection broke.
            SchemaRefusal: The reply is no reply that MCP has.
        """
        received_at = timezone.now()
        if round is not None and round.plain:
            round = responses = None
        try:
            reply = await self.session.call_tool(
                self.tool,
                self.arguments,
                input_responses=None if responses is None else dict(responses),
                # "" is a state; only None is none.
                request_state=None if round is None else round.request_state,
                allow_input_required=True,
            )
        except ValidationError:
            # Its text quotes what the server sent.
            raise SchemaRefusal("the server's reply is not one that MCP has") from None
        except Exception as error:
            if isinstance(error, MCPError) and error.code == URL_ELICITATION_REQUIRED:
                return _required_round(error, number, received_at)
            if responses is None:
                raise
            # The SDK's frames have the answers that were sent.
            raise error.with_traceback(None) from None
        if not isinstance(reply, InputRequiredResult):
            return reply
        return Round(
            number=number,
            requests={
                key: request.model_dump(by_alias=True, mode="json", exclude_none=True)
                for key, request in (reply.input_requests or {}).items()
            },
            request_state=reply.request_state,
            received_at=received_at,
        )

    def _check_supported(self, round: Round) -> None:
        provided = {handler.ELICITATION}
        provided |= {SAMPLING} if self.sampling else set()
        provided |= {ROOTS} if self.roots else set()
        for request in round.requests.values():
            if request["method"] not in provided:
                raise InputNotSupportedError(self.server, request["method"])

    async def _fulfil(self, round: Round) -> dict[str, InputResponse]:
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

    def _key(self, question: inbox.Question) -> uuid.UUID:
        assert self.call is not None
        return self.call.answers.key(question.elicitation, question.number)


@sensitive_variables()
def _required_round(error: MCPError, number: int, received_at: datetime) -> Round:
    """Return the round that a server of MCP 2025-11-25 asks for by an error.

    Client/elicitation, "URL Elicitation Required Error": addresses that have to be opened before
    the same request can succeed.

    Raises:
        SchemaRefusal: It does not say which.
    """
    data = error.data if isinstance(error.data, Mapping) else {}
    elicitations = data.get("elicitations")
    if not (
        isinstance(elicitations, list)
        and elicitations
        and all(isinstance(one, Mapping) and one.get("mode") == "url" for one in elicitations)
    ):
        raise SchemaRefusal(
            "the server wants addresses to be opened and does not say which"
        ) from None
    return Round(
        number=number,
        requests={
            str(index): {"method": handler.ELICITATION, "params": params}
            for index, params in enumerate(elicitations)
        },
        request_state=None,
        received_at=received_at,
        plain=True,
    )


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    # The scope keeps anyio from cancelling again at every turn of the loop.
    with anyio.CancelScope(shield=True):
        await parking.to_the_end(work)


def _declines(round: Round) -> dict[str, InputResponse]:
    return {
        key: ElicitResult(action="decline")
        for key, request in round.requests.items()
        if request["method"] == handler.ELICITATION
    }


def _response(outcome: Accept | Decline) -> ElicitResult:
    if isinstance(outcome, Accept):
        content = outcome.content
        return ElicitResult(action="accept", content=None if content is None else {**content})
    return ElicitResult(action="decline")


def _is_decline(answer: StoredFormAnswer) -> bool:
    return answer.action == StoredFormAnswer.Action.DECLINE


def _is_refusal(error: BaseException) -> bool:
    """Whether the server replied, and not what it should; else the call broke off."""
    if isinstance(error, MCPError):
        return error.code not in (CONNECTION_CLOSED, REQUEST_TIMEOUT)
    return isinstance(error, ElicitationRefusal)


def _is_unread(error: BaseException) -> bool:
    """Whether the server refused a state that it could not read (any more)."""
    data = error.data if isinstance(error, MCPError) else None
    return isinstance(data, Mapping) and data.get("reason") == INVALID_STATE


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, ElicitationError)


class _Dispatcher:
    """A session's dispatcher that keeps two rules of MCP 2026-07-28 where the SDK 2.3 does not.

    A retry MUST have another JSON-RPC id than the request it retries (basic/patterns/mrtr). That
    was sent over another connection, and in each the SDK counts from 1.

    A result that does not say its ``resultType`` MUST be read as a complete one (basic). The SDK
    refuses it: the tool has run, and its result would be lost.
    """

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    @classmethod
    def install(cls, session: ClientSession) -> None:
        """Let the requests that follow in this session keep these rules."""
        # It is private: a later SDK may have none, and then calls tools by its own rules.
        dispatcher = getattr(session, "_dispatcher", None)
        if dispatcher is not None and not isinstance(dispatcher, cls):
            session._dispatcher = cls(dispatcher)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        own: CallOptions = {"request_id": str(uuid.uuid4())}
        reply: dict[str, Any] = await self._dispatcher.send_raw_request(
            method, params, own | (opts or {})
        )
        return {"resultType": "complete"} | reply
