"""The rounds of a call, as two tables: what happens next, and what became of each answer.

Any request that can ask goes through these states (MCP 2026-07-28, basic/patterns/mrtr):
``tools/call``, ``prompts/get`` and ``resources/read``, a call that is parked between rounds and
one whose server waits in the middle of it. There is no SDK here, no database and no clock: who
drives a call does what its state says, and reports what came of it as an event.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, Generic, TypeVar

A = TypeVar("A", bound=Hashable)


class State(Enum):
    """What a call waits for, or how this pass through its rounds ended."""

    #: The request goes to the server without answers: the first time, or afresh.
    CALLING = "calling"
    #: The same for a call that a worker makes. It is made once: nobody waits for an error here.
    STARTING = "starting"
    #: The server asks. The round is stored, and who answers it is found out.
    ASKED = "asked"
    #: Every answer that the round needs is recorded, and has to be taken.
    ANSWERED = "answered"
    #: The answers are taken, and the request goes to the server with them.
    SENDING = "sending"
    #: Nobody is asked: the request goes to the server with ``decline``.
    DECLINING = "declining"
    #: What the server asks cannot be put to a person: it gets ``decline``, and the call is over.
    REFUSING = "refusing"
    #: The server sent a state and asks nothing: it gets the state again, after a pause. Or it
    #: has made a task, which is read again.
    WORKING = "working"
    #: The server asks again for a URL that a person agreed to open: it gets the consent again.
    WAITING = "waiting"

    #: A worker is to make the call.
    STARTED = "started"
    #: People have to answer. The call goes on once they did.
    PARKED = "parked"
    #: The server is still at work, or its task is. The call is looked after.
    LEFT_WORKING = "left_working"
    #: The request did not reach the server. The call stays parked, its answers usable.
    NOT_SENT = "not_sent"
    #: The result came.
    FINISHED = "finished"
    #: What was asked was refused.
    REFUSED = "refused"
    #: Nobody can know whether the server acted on what was sent.
    LOST = "lost"
    #: The server goes on by itself no more: its task failed, was cancelled, or is forgotten.
    ENDED = "ended"


class Event(Enum):
    """What came of an action. The first nine are replies (see ``replies.REPLIES``)."""

    RESULT = "result"
    ASKS = "asks"
    WORKS = "works"
    TASK = "task"
    #: A task has ended without a result.
    TASK_ENDED = "task_ended"
    #: Nobody can know whether an answer reached a task; the task itself can still be read.
    ANSWER_LOST = "answer_lost"
    UNREAD = "unread"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"

    #: Every answer is recorded.
    COMPLETE = "complete"
    #: People have to answer first.
    WAITS = "waits"
    #: The policy or the schema forbids that a person is asked.
    FORBIDDEN = "forbidden"
    #: There is nobody to ask, or the server has asked too often.
    NOBODY = "nobody"
    #: The server asks again for nothing but URLs that a person agreed to open.
    ASKS_AGAIN = "asks_again"
    #: The answers were taken.
    TAKEN = "taken"
    #: An answer was not there any more.
    GONE = "gone"
    #: The server was called often enough in this pass, and is still at work.
    PATIENCE_OVER = "patience_over"
    #: A person has closed what the call waited for, or it is time to look after it.
    RESUMED = "resumed"
    #: The state was refused unread a second time in the same round.
    UNREAD_AGAIN = "unread_again"


_S, _E = State, Event

#: What a reply leads to, if the request had the state of a round with it.
_RETRIED: Final[Mapping[Event, State]] = MappingProxyType(
    {
        _E.RESULT: _S.FINISHED,
        _E.ASKS: _S.ASKED,
        _E.WORKS: _S.WORKING,
        _E.TASK: _S.WORKING,
        _E.TASK_ENDED: _S.ENDED,
        _E.ANSWER_LOST: _S.WORKING,
        _E.UNREAD: _S.CALLING,
        _E.UNREAD_AGAIN: _S.LOST,
        _E.NOT_SENT: _S.NOT_SENT,
        _E.UNKNOWN: _S.LOST,
    }
)

#: Every move there is. What is not in it cannot happen.
MOVES: Final[Mapping[State, Mapping[Event, State]]] = MappingProxyType(
    {
        _S.CALLING: {
            _E.RESULT: _S.FINISHED,
            _E.ASKS: _S.ASKED,
            _E.WORKS: _S.WORKING,
            _E.TASK: _S.WORKING,
            # Without an answer on its way there is nothing to lose.
            _E.UNREAD: _S.NOT_SENT,
            _E.NOT_SENT: _S.NOT_SENT,
            _E.UNKNOWN: _S.NOT_SENT,
        },
        _S.STARTING: {
            _E.RESULT: _S.FINISHED,
            _E.ASKS: _S.ASKED,
            _E.WORKS: _S.WORKING,
            _E.TASK: _S.WORKING,
            # To call again would bring the same.
            _E.UNREAD: _S.LOST,
            _E.NOT_SENT: _S.NOT_SENT,
            _E.UNKNOWN: _S.LOST,
        },
        _S.ASKED: {
            _E.COMPLETE: _S.ANSWERED,
            _E.WAITS: _S.PARKED,
            _E.FORBIDDEN: _S.REFUSING,
            _E.NOBODY: _S.DECLINING,
            _E.ASKS_AGAIN: _S.WAITING,
        },
        _S.ANSWERED: {
            _E.TAKEN: _S.SENDING,
            _E.GONE: _S.ASKED,
            # The policy of the moment decides, once more.
            _E.FORBIDDEN: _S.REFUSING,
        },
        _S.SENDING: _RETRIED,
        _S.DECLINING: _RETRIED,
        _S.REFUSING: dict.fromkeys(
            (
                _E.RESULT,
                _E.ASKS,
                _E.WORKS,
                _E.TASK,
                _E.TASK_ENDED,
                _E.ANSWER_LOST,
                _E.UNREAD,
                _E.NOT_SENT,
                _E.UNKNOWN,
            ),
            _S.REFUSED,
        ),
        _S.WORKING: {
            **_RETRIED,
            _E.PATIENCE_OVER: _S.LEFT_WORKING,
        },
        _S.WAITING: {
            _E.WAITS: _S.PARKED,
            _E.COMPLETE: _S.ANSWERED,
            _E.FORBIDDEN: _S.REFUSING,
            _E.NOBODY: _S.DECLINING,
        },
        _S.STARTED: {_E.RESUMED: _S.STARTING},
        _S.PARKED: {_E.RESUMED: _S.ASKED},
        _S.LEFT_WORKING: {_E.RESUMED: _S.WORKING},
        # A round is retried as it was stored, whatever its age.
        _S.NOT_SENT: {_E.RESUMED: _S.ASKED},
    }
)

#: Where a pass through the rounds stops.
ENDS: Final = frozenset(
    {
        _S.PARKED,
        _S.LEFT_WORKING,
        _S.NOT_SENT,
        _S.FINISHED,
        _S.REFUSED,
        _S.LOST,
        _S.ENDED,
    }
)


class Answer(Enum):
    """Where an answer is. It is in one of these places, and nowhere else."""

    #: In the store.
    RECORDED = "recorded"
    #: In the hands of the process that resumes the call, and deleted from the store.
    TAKEN = "taken"
    #: On its way to the server.
    SENT = "sent"
    #: The server has replied to it.
    DELIVERED = "delivered"
    #: Nobody can know whether the server acted on it.
    LOST = "lost"
    #: The server no longer asks for it.
    DROPPED = "dropped"


#: Every move of an answer.
ANSWER_MOVES: Final[Mapping[Answer, frozenset[Answer]]] = MappingProxyType(
    {
        Answer.RECORDED: frozenset({Answer.TAKEN, Answer.DROPPED}),
        Answer.TAKEN: frozenset({Answer.SENT, Answer.RECORDED, Answer.DROPPED}),
        Answer.SENT: frozenset({Answer.DELIVERED, Answer.LOST, Answer.TAKEN}),
        # A server asks again for a URL until the person has finished there.
        Answer.DELIVERED: frozenset({Answer.TAKEN}),
        Answer.LOST: frozenset(),
        Answer.DROPPED: frozenset(),
    }
)

#: What a reply says of the answers that were sent (specification, section 6).
SETTLED_BY: Final[Mapping[Event, Answer]] = MappingProxyType(
    {
        _E.RESULT: Answer.DELIVERED,
        _E.ASKS: Answer.DELIVERED,
        _E.WORKS: Answer.DELIVERED,
        _E.TASK: Answer.DELIVERED,
        _E.TASK_ENDED: Answer.LOST,
        _E.ANSWER_LOST: Answer.LOST,
        _E.UNREAD: Answer.TAKEN,
        _E.NOT_SENT: Answer.TAKEN,
        _E.UNREAD_AGAIN: Answer.LOST,
        _E.UNKNOWN: Answer.LOST,
    }
)


class IllegalMoveError(RuntimeError):
    """The engine was driven in a way that its tables do not have: a fault of this package."""


class Rounds:
    """One pass through the rounds of a call.

    Args:
        state: Where the pass begins: ``CALLING``, or an end of an earlier pass to go on from.
    """

    def __init__(self, state: State = State.CALLING) -> None:
        self.state = state

    @property
    def has_ended(self) -> bool:
        """Whether this pass has come to an end."""
        return self.state in ENDS

    def feed(self, event: Event) -> State:
        """Move on, and return the new state.

        Raises:
            IllegalMoveError: The table has no such move.
        """
        moves = MOVES.get(self.state, {})
        if event not in moves:
            raise IllegalMoveError(f"A call that is {self.state.value} has no {event.value}.")
        self.state = moves[event]
        return self.state


class Ledger(Generic[A]):
    """Where each answer of a call is, as far as this pass has touched it."""

    def __init__(self) -> None:
        self._places: dict[A, Answer] = {}
        self._delivered: set[A] = set()

    def move(self, answers: Iterable[A], to: Answer) -> None:
        """Note where these answers are now; one that is new here was recorded.

        Raises:
            IllegalMoveError: An answer cannot get there from where it is.
        """
        for answer in answers:
            place = self._places.get(answer, Answer.RECORDED)
            if to not in ANSWER_MOVES[place]:
                raise IllegalMoveError(f"An answer that is {place.value} cannot be {to.value}.")
            self._places[answer] = to
            if to is Answer.DELIVERED:
                self._delivered.add(answer)

    def settle(self, event: Event) -> None:
        """Note what a reply says of the answers that are on their way."""
        self.move(self.among(Answer.SENT), SETTLED_BY[event])

    def among(self, *places: Answer) -> list[A]:
        """Return the answers that are in one of these places, in the order they came."""
        return [answer for answer, place in self._places.items() if place in places]

    def was_delivered(self, answer: A) -> bool:
        """Whether the server has replied to this answer, though it may have asked for it again."""
        return answer in self._delivered

    def forget(self) -> None:
        """Forget the answers, once the database says what became of each."""
        self._places.clear()
        self._delivered.clear()
