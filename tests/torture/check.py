"""Judge what the processes of the torture test wrote down, and what the tables hold in the end.

Two kinds of work are judged. *Slots* are keys of recorded answers, into which recorders write and
from which takers take, at the store: each is a register whose history must be one that could have
happened one operation after the other (what began after something else had ended came after it).
*Questions* go all the way: a call is parked, people answer through every face, a server is told.

A process that was killed between its commit and its line in the log leaves its operation open: it
may have happened or not, at any time from its beginning on. Where such an open take is the only
explanation for an answer that is gone, the answer is counted as *taken in silence*, and there can
be no more of those than takes that were left open.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from .log import Operation, Story

#: How much later than the monotonic clock says the wall clock may see an answer expire, seconds.
CLOCK = 0.1


@dataclass
class Left:
    """What the tables hold when all processes have ended.

    ``slots``: the token in each slot that is not empty. ``answers``: the ids of the questions
    whose answers wait to be taken. ``questions``: by id, what the audit says of each.
    ``bystanders_missing``: how many rows are gone that nobody had anything to do with.
    """

    slots: Mapping[str, str]
    answers: set[str]
    questions: Mapping[str, Mapping[str, Any]]
    bystanders_missing: int = 0


@dataclass
class Verdict:
    """Counts, and what was wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def blame(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        self.wrong.append(f"{kind}: {what}")


#: Each of these must be 0.
FAULTS = (
    "delivered twice",
    "delivered but never recorded",
    "delivered though replaced",
    "delivered though expired",
    "delivered to a stranger",
    "delivered torn",
    "lost",
    "left though delivered",
    "left though replaced",
    "answered twice",
    "audit wrong",
    "database errors that came out",
    "other errors",
)


def check(story: Story, left: Left, *, end: float) -> Verdict:
    """Return what is to be said of this run; ``end`` is when the tables were looked at."""
    verdict = Verdict(Counter(dict.fromkeys(FAULTS, 0)))
    _count(story, verdict)
    _check_slots(story, left, verdict, end)
    _check_questions(story, left, verdict, end)
    return verdict


def _count(story: Story, verdict: Verdict) -> None:
    counts = verdict.counts
    for operation in story.operations:
        counts[f"{operation.kind}s"] += 1
        counts["operations"] += 1
        if not operation.outcome:
            counts["operations cut off by a kill"] += 1
    counts["processes killed"] = len(story.events_of("kill"))
    counts["transient errors retried"] = len(story.events_of("retry"))
    for event in story.events_of("error"):
        verdict.blame(
            "database errors that came out" if event["database"] else "other errors",
            event["text"],
        )


def _check_slots(story: Story, left: Left, verdict: Verdict, end: float) -> None:
    records: dict[str, list[Operation]] = defaultdict(list)
    by_token: dict[str, Operation] = {}
    for record in story.of("record"):
        records[record.details["slot"]].append(record)
        by_token[record.details["token"]] = record

    takes = list(story.of("take"))
    delivered: dict[str, list[Operation]] = defaultdict(list)
    for take in takes:
        for slot, token in zip(take.details["slots"], take.result.get("tokens", ()), strict=False):
            delivered[token].append(take)
            verdict.counts["answers delivered"] += 1
            if take.details.get("stranger"):
                verdict.blame("delivered to a stranger", token)
            if take.result.get("torn"):
                verdict.blame("delivered torn", token)
            record = by_token.get(token)
            if record is None or record.details["slot"] != slot or record.begin > take.end:
                verdict.blame("delivered but never recorded", token)
                continue
            # What was delivered was recorded by then, whatever its recorder lived to say.
            record.end = min(record.end, take.end)
            if record.end + record.details["ttl"] + CLOCK < take.begin:
                verdict.blame("delivered though expired", token)
    for token, its_takes in delivered.items():
        if len(its_takes) > 1:
            verdict.blame("delivered twice", token)

    # From here on no record's end changes any more.
    histories = {slot: History(of_slot, delivered) for slot, of_slot in records.items()}
    for token, (take, *_more) in delivered.items():
        if token not in by_token:
            continue
        history = histories[by_token[token].details["slot"]]
        if history.replaced_at(by_token[token]) < take.begin:
            verdict.blame("delivered though replaced", token)

    slots = _Slots(histories, delivered, takes)
    for slot, token in left.slots.items():
        if token in delivered:
            verdict.blame("left though delivered", token)
        elif token not in by_token:
            verdict.blame("delivered but never recorded", f"{token} is in the table")
        elif histories[slot].replaced_at(by_token[token]) < end:
            verdict.blame("left though replaced", token)
    for miss in takes:
        # A stranger, and a take that was cut off, say nothing of what is there.
        if miss.outcome != "none" or miss.details.get("stranger"):
            continue
        if not slots.explain(miss.details["slots"], miss.begin, miss.end):
            verdict.blame("lost", f"a take found nothing in {miss.details['slots']}")
    for slot in records:
        if slot not in left.slots and not slots.explain([slot], end, end):
            verdict.blame("lost", f"nothing is left in {slot}")
    verdict.counts["answers recorded"] = sum(len(of_slot) for of_slot in records.values())
    _bound_silence(slots, takes, verdict)


def _bound_silence(slots: _Slots, takes: Iterable[Operation], verdict: Verdict) -> None:
    """An open take can explain one missing answer a slot, not two."""
    open_takes = Counter(
        slot for take in takes if not take.is_known for slot in take.details["slots"]
    )
    for slot, tokens in slots.silent.items():
        verdict.counts["answers taken in silence by a killed process"] += len(tokens)
        if len(tokens) > open_takes[slot]:
            verdict.blame("lost", f"{slot}: more answers are gone than takes were cut off")


class History:
    """What was recorded in one slot, in order: a run of ten minutes has thousands of each."""

    def __init__(self, records: Iterable[Operation], delivered: Collection[str] = ()) -> None:
        self.records = sorted(records, key=lambda record: record.begin)
        self._begins = [record.begin for record in self.records]
        #: The first end of the records from each one on that surely were written, and of none.
        self._first_ends = [math.inf]
        for record in reversed(self.records):
            # What was cut off by a kill may never have been written, unless it was delivered.
            is_sure = record.is_known or record.details["token"] in delivered
            end = record.end if is_sure else math.inf
            self._first_ends.append(min(end, self._first_ends[-1]))
        self._first_ends.reverse()
        self._open = [record for record in self.records if record.end == math.inf]
        #: When the last of the records up to each one was replaced, the open ones left out.
        self._replaced = [
            -math.inf if record.end == math.inf else self.replaced_at(record)
            for record in self.records
        ]
        self._last_replaced = list(accumulate(self._replaced, max))

    def replaced_at(self, record: Operation) -> float:
        """Return by when another answer surely stood in the place of this one."""
        return self._first_ends[bisect_right(self._begins, record.end)]

    def is_begun(self, at: float) -> bool:
        """Whether anything was surely recorded before."""
        return self._first_ends[0] < at

    def last(self, begin: float, end: float) -> Iterator[Operation]:
        """Yield each that can have been the last when a take looked from ``begin`` to ``end``."""
        for position in range(bisect_left(self._begins, end) - 1, -1, -1):
            if self._last_replaced[position] < begin:
                break
            if self._replaced[position] >= begin:
                yield self.records[position]
        yield from (record for record in self._open if record.begin < end)


class _Slots:
    """Why a slot can be empty."""

    def __init__(
        self,
        histories: Mapping[str, History],
        delivered: Mapping[str, list[Operation]],
        takes: Iterable[Operation],
    ) -> None:
        self.histories = histories
        self.delivered = delivered
        self.open_takes: dict[str, list[Operation]] = defaultdict(list)
        #: Tokens by slot that nothing but an open take explains.
        self.silent: dict[str, set[str]] = defaultdict(set)
        for take in takes:
            if not take.is_known:
                for slot in take.details["slots"]:
                    self.open_takes[slot].append(take)

    def explain(self, slots: Iterable[str], begin: float, end: float) -> bool:
        """Whether a take from ``begin`` to ``end`` could find one of these slots empty."""
        by_slot = {slot: self._silent(slot, begin, end) for slot in slots}
        if None in by_slot.values():
            return True
        for slot, records in by_slot.items():
            tokens = [record.details["token"] for record in records or ()]
            if tokens:
                if not self.silent[slot].intersection(tokens):
                    self.silent[slot].add(tokens[0])
                return True
        return False

    def _silent(self, slot: str, begin: float, end: float) -> list[Operation] | None:
        """Return the answers that an open take can have taken from a slot, so that it was empty.

        ``None`` where it can have been empty without that.
        """
        history = self.histories.get(slot)
        if history is None or not history.is_begun(begin):
            return None
        silent = []
        for record in history.last(begin, end):
            token = record.details["token"]
            if any(take.begin < end for take in self.delivered.get(token, ())):
                return None
            if record.begin + record.details["ttl"] - CLOCK < end:
                return None
            if token not in self.delivered and any(
                take.begin < end and record.begin < take.end for take in self.open_takes[slot]
            ):
                silent.append(record)
        # One that certainly was recorded explains more than one that may have been.
        return sorted(silent, key=lambda record: not record.is_known)


def _check_questions(story: Story, left: Left, verdict: Verdict, end: float) -> None:
    counts = verdict.counts
    answers = {answer.details["token"]: answer for answer in story.of("answer")}
    told = Counter(event["token"] for event in story.events_of("delivered"))
    counts["questions asked"] = len(left.questions)
    counts["questions answered"] = sum(one.outcome == "answered" for one in answers.values())
    counts["questions' answers delivered"] = sum(told.values())
    for state in ("pending", "declined", "withdrawn", "expired"):
        counts[f"questions {state}"] = sum(
            one["state"] == state for one in left.questions.values()
        )
    for token, times in told.items():
        if times > 1:
            verdict.blame("delivered twice", f"the answer {token} of a question")
        answer = answers.get(token)
        if answer is None or (answer.is_known and answer.outcome != "answered"):
            verdict.blame("delivered but never recorded", f"the answer {token} of a question")
    winners = Counter(
        one.details["question"] for one in answers.values() if one.outcome == "answered"
    )
    for question, times in winners.items():
        if times > 1:
            verdict.blame("answered twice", question)

    cut_off = sum(not call.is_known for call in story.of("call"))
    for token, answer in answers.items():
        key = answer.details["question"]
        audit = left.questions[key]
        if answer.outcome != "answered":
            continue
        if audit["state"] != "answered":
            verdict.blame("audit wrong", f"{key} was answered and is {audit['state']}")
        if token in told:
            if key in left.answers:
                verdict.blame("left though delivered", f"the answer to {key}")
            # A call that was cut off after the server read its answer cannot know that.
            continue
        if key in left.answers:
            counts["questions' answers waiting"] += 1
        elif audit["delivery"] in ("delivered", "server_error"):
            verdict.blame("audit wrong", f"{key} is {audit['delivery']}; the server saw nothing")
        elif audit["delivery"] == "dropped":
            counts["questions' answers dropped, as the audit says"] += 1
        elif answer.begin + answer.details["ttl"] - CLOCK < end:
            counts["questions' answers expired"] += 1
        else:
            # Taken, and its process was killed before the server had it.
            counts["questions' answers lost with a killed process"] += 1
    if left.bystanders_missing:
        verdict.blame("lost", f"{left.bystanders_missing} rows that nobody asked for")
    if counts["questions' answers lost with a killed process"] > cut_off:
        verdict.blame("lost", "more answers are gone than calls were cut off")
