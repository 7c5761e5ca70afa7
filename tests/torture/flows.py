"""A call with its person, its host and its server, which can be broken off and taken up again.

What breaks it off is the matter of ``statements`` and ``cancellations``. Afterwards a process that
knows nothing of the first goes on as a host does: it makes the call again, or resumes it when the
outbox says so, until the call has ended. Then what the server was told, what the audit says and
what the tables hold are compared.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import mcp
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone
from mcp.types import ElicitRequestFormParams, ListRootsRequest, ListRootsResult

from elicitation import calls, inbox
from elicitation.calls import in_call, outbox
from elicitation.conf import settings
from elicitation.core import ElicitationError, ElicitationPending, FormAnswer
from elicitation.mcp import drive
from elicitation.mcp.callbacks import elicitation_callback
from elicitation.mcp.client import (
    CallEndedError,
    RoundLostError,
    aclient_options,
    call_tool,
    resume,
)
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from elicitation.signals import call_due, elicitation_asked, elicitation_closed
from tests.integration.scripted import ScriptedServer, ask, form, text

if TYPE_CHECKING:
    from mcp.types import CallToolRequestParams

FORM = {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"]}

#: Each of these must be 0.
FAULTS = (
    "sent twice",
    "lost in silence",
    "answer gone",
    "audit wrong",
    "result thrown away",
    "left behind",
    "never ended",
    "other errors",
)

#: What the audit says of an answer that the server may not have got.
_SAID_TO_BE_LOST = frozenset({"round_lost", "never_resumed", "dropped"})

#: How often a host tries before it is a fault that the call does not end.
TRIES = 12


class Flow:
    """One call, from its beginning to its end.

    Args:
        user: Who is asked.
        rounds: In how many rounds the server asks.
        forgets: Whether the server refuses the first state unread, as after a restart.
        roots: Whether a round asks for the host's roots as well, so that the claim of the call
            and the take of its answers are two steps.
    """

    #: What a host does, one step after the other.
    steps: tuple[Callable[[Any], None], ...]

    def __init__(
        self, user: User, *, rounds: int = 1, forgets: bool = False, roots: bool = False
    ) -> None:
        self.user = user
        self.rounds = rounds
        self.forgets = forgets
        self.roots = roots
        self.scope = f"flow-{uuid.uuid4()}"
        self.server = ScriptedServer(self._tool)
        #: What the person answers to each elicitation, and to which they were told that it is in.
        self.marks: dict[uuid.UUID, str] = {}
        self.confirmed: set[uuid.UUID] = set()
        #: What the server was told.
        self.told: list[str] = []
        #: How the call ended; empty as long as it goes on.
        self.end = ""
        self.parked_call_id: uuid.UUID | None = None
        self.results = 0
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        #: Makes a task of what the host awaits, and may cancel it.
        self.around: Callable[[Any], Any] | None = None
        self.steps = (Flow.call, Flow.answer, Flow.resume) + (Flow.answer, Flow.resume) * (
            rounds - 1
        )

    def _tool(self, params: CallToolRequestParams) -> Any:
        round = int(params.request_state or 0)
        if round and self.forgets:
            self.forgets = False
            raise mcp.MCPError(-32602, "no", {"reason": "invalid_request_state"})
        for response in (params.input_responses or {}).values():
            if getattr(response, "action", "") == "accept":
                self.told.append(response.content["mark"])
        if round == self.rounds:
            self.results += 1
            return text("done")
        others = {"r": ListRootsRequest()} if self.roots else {}
        return ask(str(round + 1), a=form(f"Mark {round}?", FORM), **others)

    # --- Steps -------------------------------------------------------------------------------

    def call(self) -> None:
        """Make the call, for the first time or again."""
        self._pass(
            lambda session: call_tool(
                session,
                server="shop",
                tool="tool",
                scope=self.scope,
                call="c",
                respondent=self.user,
                **self._callables(),
            )
        )

    def resume(self) -> None:
        """Go on with the call by its key, as the signals tell a host to."""
        key = self.parked_call_id
        if key is None:
            return self.call()
        return self._pass(lambda session: resume(session, key, server="shop", **self._callables()))

    def answer(self) -> None:
        """Answer, as the person, all that waits."""
        try:
            waiting = list(self._elicitations().pending().values_list("pk", flat=True))
        except (DatabaseError, InterfaceError):
            # This look is the test's own.
            return
        for key in waiting:
            self._answer(key)

    def _answer(self, key: uuid.UUID) -> None:
        # Whoever saw an error sends the same once more.
        mark = self.marks.setdefault(key, str(uuid.uuid4()))
        try:
            inbox.answer(key, {"mark": FormAnswer(other_text=mark)}, by=self.user)
        except (DatabaseError, InterfaceError, inbox.ElicitationClosedError) as error:
            self.counts[f"the person saw {type(error).__name__}"] += 1
        else:
            self.confirmed.add(key)

    def _callables(self) -> dict[str, Any]:
        async def roots(context: Any) -> ListRootsResult:
            return ListRootsResult(roots=[])

        return {"roots": roots} if self.roots else {}

    def _pass(self, work: Callable[[Any], Any]) -> None:
        before = self.results

        async def run() -> object:
            try:
                options = await aclient_options("shop")
            except (DatabaseError, InterfaceError) as error:
                return error
            # Caught inside: the SDK's connection wraps what passes through it in a group.
            async with mcp.Client(self.server.server, mode="2026-07-28", **options) as client:
                try:
                    return await (self.around or _plain)(work(client.session))
                except Exception as error:
                    return error

        self._heard(async_to_sync(run)(), has_result=self.results > before)

    def _heard(self, outcome: object, *, has_result: bool) -> None:
        """Note what a pass came to."""
        if outcome is CANCELLED:
            self.counts["passes cancelled"] += 1
        elif not isinstance(outcome, Exception):
            self.end = "result"
        elif isinstance(outcome, ElicitationPending):
            self.parked_call_id = outcome.parked_call_id
        else:
            self.counts[f"the host saw {type(outcome).__name__}"] += 1
            if has_result:
                self.blame("result thrown away", repr(outcome))
            elif isinstance(outcome, RoundLostError):
                self.end = "round lost"
            elif isinstance(outcome, CallEndedError):
                # It broke off after an answer was sent, so that nothing can go on from there.
                self.end = f"{outcome.outcome}: {outcome.reason}"
            elif not isinstance(outcome, _EXPECTED):
                self.blame("other errors", repr(outcome))

    # --- Afterwards --------------------------------------------------------------------------

    def finish(self) -> None:
        """Go on with the call in other processes until it has ended, and judge what came of it."""
        self.around = None
        for _ in range(TRIES):
            if self.end:
                break
            self.another_process()
            self.answer()
            if self.is_told_by_the_outbox():
                self.resume()
            else:
                self.call()
        else:
            self.blame("never ended", self.scope)
        self.another_process()
        self._give_up_the_rest()
        self._judge()

    def another_process(self) -> None:
        """Be a process that knows nothing of the last one, after every lease has run out."""
        connections.close_all()
        past = timezone.now() - timedelta(days=1)
        ParkedCall.objects.filter(leased_until__isnull=False).update(leased_until=past)
        self._elicitations().filter(alive_until__isnull=False).update(alive_until=past)

    def is_told_by_the_outbox(self) -> bool:
        """Whether the outbox says after a while that there is something to go on with."""
        keys: list[uuid.UUID] = []

        def hear(parked_call_id: uuid.UUID, **fields: Any) -> None:
            keys.append(parked_call_id)

        for signal in (elicitation_closed, call_due):
            signal.connect(hear, weak=False)
        try:
            outbox.resend_due(now=timezone.now() + 2 * settings.RESUME_AFTER)
        finally:
            for signal in (elicitation_closed, call_due):
                signal.disconnect(hear)
        if keys and ParkedCall.objects.parked().filter(pk=keys[0]).exists():
            self.parked_call_id = keys[0]
            return True
        return False

    def _give_up_the_rest(self) -> None:
        """Let so much time pass that the outbox gives up what nobody goes on with."""
        now = timezone.now()
        for _ in range(settings.RESUME_ATTEMPTS + 1):
            if not self._elicitations().filter(delivered_at=None).exists():
                break
            now += timedelta(days=2)
            inbox.expire_due(now=now)
            outbox.resend_due(now=now)
        now += timedelta(days=2)
        outbox.close_abandoned(now)
        outbox.delete_expired(now=now)

    def _judge(self) -> None:
        told = Counter(self.told)
        for elicitation in self._elicitations():
            mark = self.marks.get(elicitation.pk)
            state, delivery = elicitation.state, elicitation.delivery
            what = f"{state}, {delivery or 'undelivered'}"
            if not delivery:
                self.blame("audit wrong", f"{what}: nothing is said of it")
            if mark is None:
                continue
            times = told.pop(mark, 0)
            if times > 1:
                self.blame("sent twice", what)
            if state != "answered":
                if times or elicitation.pk in self.confirmed:
                    self.blame("answer gone", what)
                continue
            if times:
                self.counts["delivered"] += 1
                if delivery not in ("delivered", "round_lost"):
                    self.blame("audit wrong", f"{what}, and the server has it")
                elif delivery == "round_lost":
                    self.counts["delivered, and the audit says that nobody can know"] += 1
            elif delivery in _SAID_TO_BE_LOST:
                self.counts[f"not delivered, as the audit says: {delivery}"] += 1
            else:
                self.blame("lost in silence", what)
        for mark in told:
            self.blame("audit wrong", f"the server has {mark}, which is in no row")
        answers = StoredFormAnswer.objects.filter(scope=self.scope).count()
        parked = ParkedCall.objects.parked().filter(scope=self.scope).count()
        if answers or parked:
            self.blame("left behind", f"{answers} answers, {parked} calls")
        self._fetch()
        self.counts[f"ended: {self.end or 'never'}"] += 1
        # Few rows are looked through faster.
        self._elicitations().delete()

    def _fetch(self) -> None:
        """Fetch how the call ended, which says no other than what the host saw."""
        for row in ParkedCall.objects.ended().filter(scope=self.scope):
            outcome = calls.outcome(row.pk)
            if self.results and outcome.code != "finished" and self.end == "result":
                self.blame("outcome wrong", outcome.code)
            self.counts[f"outcome: {outcome.code}"] += 1
            if not calls.acknowledge(outcome):
                self.blame("outcome wrong", "it was there, and could not be acknowledged")

    def _elicitations(self) -> Any:
        return Elicitation.objects.filter(scope=self.scope)

    def blame(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        self.wrong.append(f"{kind}: {what}")


class CallbackFlow(Flow):
    """A call whose server asks in the middle of it, and whose person answers at once."""

    def __init__(self, user: User) -> None:
        super().__init__(user)
        self.steps = (Flow.call,)

    def _pass(self, work: Callable[[Any], Any]) -> None:
        callback = elicitation_callback("shop", "tool", self.scope, self.user, 20, call="c")
        params = ElicitRequestFormParams(message="Mark?", requested_schema=FORM)

        async def run() -> object:
            try:
                return await (self.around or _plain)(callback(None, params))
            except Exception as error:
                return error
            finally:
                # The host's loop goes on.
                while in_call._noting:
                    await asyncio.wait(in_call._noting)

        def answer(elicitation_id: uuid.UUID, **fields: Any) -> None:
            # The person's is another process, with a connection of its own.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(self._answer_elsewhere, elicitation_id).result()

        elicitation_asked.connect(answer, weak=False)
        try:
            outcome: Any = async_to_sync(run)()
        finally:
            elicitation_asked.disconnect(answer)
        # What is returned is what the server gets.
        if getattr(outcome, "action", "") == "accept":
            self.told.append(outcome.content["mark"])
        elif hasattr(outcome, "action"):
            self.counts[f"the server was told {outcome.action}"] += 1
        self._heard(outcome, has_result=False)

    def _answer_elsewhere(self, key: uuid.UUID) -> None:
        try:
            self._answer(key)
        finally:
            connections.close_all()

    def resume(self) -> None:
        self.call()

    def is_told_by_the_outbox(self) -> bool:
        outbox.resend_due(now=timezone.now() + 2 * settings.RESUME_AFTER)
        return False


#: What a pass comes to that was cancelled: ``CancelledError`` is no ``Exception``.
CANCELLED = object()

#: What a host is prepared for, and tries again after.
_EXPECTED = (DatabaseError, InterfaceError, ElicitationError, ParkedCall.DoesNotExist)


async def _plain(work: Any) -> Any:
    return await work


#: The kinds of flows, by their names.
KINDS: dict[str, Callable[[User], Flow]] = {
    "one round": Flow,
    "two rounds": lambda user: Flow(user, rounds=2),
    "made afresh": lambda user: Flow(user, forgets=True),
    "with the host's roots": lambda user: Flow(user, rounds=2, roots=True),
    "in the middle of a call": CallbackFlow,
}


def prepare() -> User:
    """Make what each flow needs; return who is asked."""
    ServerPolicy.objects.create(server="shop", policy="url_and_form")
    return User.objects.create_user("flows")


def without_pauses() -> Any:
    """Write down how a call ended without pauses between the tries."""
    return patch.object(drive, "RECORD_PAUSES", (0.0, 0.0, 0.0))


def add_up(flows: Iterable[Flow]) -> tuple[Counter[str], list[str]]:
    """Return the counts of all these flows, each fault among them, and what was wrong."""
    counts: Counter[str] = Counter(dict.fromkeys(FAULTS, 0))
    wrong: list[str] = []
    for flow in flows:
        counts["runs"] += 1
        counts.update(flow.counts)
        wrong += flow.wrong
    return counts, wrong
