"""The two tables of the engine, and a call that is driven through them at random.

Nothing here needs a database or the SDK: the world below is a store, a server and processes that
die, each a few lines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elicitation.calls.rounds import (
    ANSWER_MOVES,
    ENDS,
    MOVES,
    SETTLED_BY,
    Answer,
    Event,
    IllegalMoveError,
    Ledger,
    Rounds,
    State,
)

#: What a reply is, for a request that has answers on its way.
REPLIES = list(SETTLED_BY)
#: More events than this no pass needs: what never ends is bounded by whoever drives it.
MOST_EVENTS = 200


def test_every_state_can_be_reached_and_left_or_is_an_end() -> None:
    # A host begins a call, or leaves it to a worker.
    reached = {State.CALLING, State.STARTED}
    while (
        more := {target for state in reached for target in MOVES.get(state, {}).values()} - reached
    ):
        reached |= more
    assert reached == set(State)
    finished = {State.FINISHED, State.REFUSED, State.LOST, State.ENDED}
    assert set(MOVES) == set(State) - finished
    assert finished < ENDS


def test_a_move_that_the_table_lacks_is_refused_and_changes_nothing() -> None:
    for state in State:
        for event in Event:
            rounds = Rounds(state)
            if event in MOVES.get(state, {}):
                assert rounds.feed(event) is MOVES[state][event]
                continue
            with pytest.raises(IllegalMoveError, match=f"{state.value} has no {event.value}"):
                rounds.feed(event)
            assert rounds.state is state


def test_an_answer_moves_as_the_table_says_and_no_other_way() -> None:
    for place in Answer:
        for target in Answer:
            ledger: Ledger[str] = Ledger()
            ledger._places["a"] = place
            if target in ANSWER_MOVES[place]:
                ledger.move(["a"], target)
                assert ledger.among(target) == ["a"]
                continue
            with pytest.raises(IllegalMoveError):
                ledger.move(["a"], target)
            assert ledger.among(place) == ["a"]


def test_what_may_have_been_read_is_never_in_hand_again() -> None:
    """Specification, section 6: only what was refused unread, or never left, comes back."""
    back = {event for event, place in SETTLED_BY.items() if place is Answer.TAKEN}
    assert back == {Event.UNREAD, Event.NOT_SENT}
    assert ANSWER_MOVES[Answer.LOST] == frozenset()


@dataclass
class World:
    """A store, an audit and a server, which outlive every process."""

    recorded: set[str] = field(default_factory=set)
    #: What the audit says of answers that are gone.
    audit: dict[str, Answer] = field(default_factory=dict)
    #: How often the server got each answer, and how often it said that it had not read it.
    got: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    #: What a process has taken that died since.
    orphans: set[str] = field(default_factory=set)
    number: int = 0

    def record(self) -> str:
        self.number += 1
        answer = f"answer-{self.number}"
        self.recorded.add(answer)
        return answer


class Process:
    """Drives a call as ``mcp.drive`` does: it does what the state says, and reports an event."""

    def __init__(self, world: World, state: State, data: st.DataObject) -> None:
        self.world = world
        self.data = data
        self.rounds = Rounds(state)
        self.ledger: Ledger[str] = Ledger()
        self.fresh = False
        if state in (State.PARKED, State.NOT_SENT):
            # Another process may have died: what it had taken is written off.
            for orphan in world.orphans:
                world.audit[orphan] = Answer.LOST
            world.orphans.clear()
        if state in ENDS:
            self.rounds.feed(Event.RESUMED)

    def in_memory(self) -> set[str]:
        return set(self.ledger.among(Answer.TAKEN, Answer.SENT))

    def check(self) -> None:
        """Every answer is in exactly one place."""
        places = [self.world.recorded, set(self.world.audit), self.in_memory(), self.world.orphans]
        assert sum(map(len, places)) == len(set().union(*places)) == self.world.number
        for answer, times in self.world.got.items():
            assert times <= 1 + self.world.unread[answer]

    def step(self) -> None:
        state = self.rounds.state
        if state is State.ASKED:
            event = self.ask()
        elif state is State.ANSWERED:
            taken = set(self.world.recorded)
            self.world.recorded -= taken
            self.ledger.move(taken, Answer.TAKEN)
            event = Event.TAKEN if taken else Event.GONE
        elif state is State.WAITING:
            event = Event.WAITS
        else:
            event = self.send(state)
        self.rounds.feed(event)
        self.write()

    def ask(self) -> Event:
        # What is in hand goes back to the store with the round, in one transaction.
        self.put_back()
        if self.world.recorded:
            return Event.COMPLETE
        return self.data.draw(st.sampled_from([Event.WAITS, Event.FORBIDDEN, Event.NOBODY]))

    def send(self, state: State) -> Event:
        event = self.data.draw(st.sampled_from([one for one in REPLIES if one in MOVES[state]]))
        on_their_way = self.ledger.among(Answer.TAKEN) if state is State.SENDING else []
        self.ledger.move(on_their_way, Answer.SENT)
        self.world.got.update(on_their_way)
        if self.data.draw(st.integers(0, 9)) == 0:
            raise KeyboardInterrupt
        if event is Event.UNREAD and self.fresh:
            event = Event.UNREAD_AGAIN if Event.UNREAD_AGAIN in MOVES[state] else Event.UNKNOWN
        if event is Event.UNREAD:
            self.fresh = True
        if event in (Event.UNREAD, Event.NOT_SENT):
            self.world.unread.update(on_their_way)
        self.ledger.settle(event)
        return event

    def put_back(self) -> None:
        back = self.ledger.among(Answer.TAKEN)
        self.ledger.move(back, Answer.RECORDED)
        self.world.recorded |= set(back)

    def write(self) -> None:
        """Note in the audit what became of answers, as each transaction does."""
        for place in (Answer.DELIVERED, Answer.LOST):
            for answer in self.ledger.among(place):
                self.world.audit[answer] = place
        gone = set(self.world.audit)
        kept = {one: self.ledger._places[one] for one in self.in_memory()}
        self.ledger.forget()
        self.ledger._places.update({one: place for one, place in kept.items() if one not in gone})
        if self.rounds.state in (State.NOT_SENT, State.PARKED):
            self.put_back()
            self.ledger.forget()
        elif self.rounds.has_ended:
            # What is in hand, or recorded, is asked for by nobody now.
            dropped = self.ledger.among(Answer.TAKEN)
            self.ledger.move(dropped, Answer.DROPPED)
            if self.rounds.state is not State.LEFT_WORKING:
                dropped += self.world.recorded
                self.world.recorded.clear()
            self.world.audit.update(dict.fromkeys(dropped, Answer.DROPPED))
            self.ledger.forget()

    def cancel(self) -> None:
        """The host cancels: what may have been read is lost, the rest goes back."""
        sent = self.ledger.among(Answer.SENT)
        self.ledger.move(sent, Answer.LOST)
        for answer in sent:
            self.world.audit[answer] = Answer.LOST
        self.put_back()
        self.ledger.forget()

    def die(self) -> None:
        self.world.orphans |= self.in_memory()


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_no_answer_is_in_two_places_and_none_vanishes(data: st.DataObject) -> None:
    world = World()
    state = State.CALLING
    for _ in range(data.draw(st.integers(1, 6), label="processes")):
        process = Process(world, state, data)
        for _ in range(MOST_EVENTS):
            process.check()
            if process.rounds.has_ended:
                break
            what = data.draw(st.sampled_from(["step"] * 8 + ["cancel", "die"]))
            if what == "die":
                process.die()
                break
            if what == "cancel":
                process.cancel()
                break
            try:
                process.step()
            except KeyboardInterrupt:
                # Cancelled while the request was on its way.
                process.cancel()
                break
        else:
            pytest.fail("the pass does not end")
        if process.rounds.has_ended:
            process.ledger.forget()
        ended = process.rounds.state
        if ended in (State.FINISHED, State.REFUSED, State.LOST, State.ENDED):
            break
        state = ended if ended in (State.PARKED, State.LEFT_WORKING) else State.NOT_SENT
        if state is State.PARKED and data.draw(st.booleans()):
            world.record()
    world_places = [world.recorded, set(world.audit), world.orphans]
    memory = process.in_memory() - world.orphans
    assert len(set().union(*world_places, memory)) == world.number
