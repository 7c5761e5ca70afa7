"""A checker that finds nothing has to be shown that it finds something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.torture.check import History, Left, Verdict, check
from tests.torture.log import GRACE, Log, Operation, Story, read

END = 100.0


def record(token: str, begin: float, end: float | None = None, **details: Any) -> Operation:
    details = {"slot": "s", "token": token, "ttl": 1000.0, **details}
    if end is None:
        return Operation(kind="record", begin=begin, details=details)
    return Operation(kind="record", begin=begin, end=end, details=details, outcome="recorded")


def killed(token: str, begin: float, end: float) -> Operation:
    details = {"slot": "s", "token": token, "ttl": 1000.0}
    return Operation(kind="record", begin=begin, end=end, details=details)


def take(
    begin: float, end: float, *tokens: str, slots: tuple[str, ...] = ("s",), **details: Any
) -> Operation:
    outcome, result = ("taken", {"tokens": list(tokens)}) if tokens else ("none", {})
    details = {"slots": list(slots), **details}
    return Operation(
        kind="take", begin=begin, end=end, details=details, outcome=outcome, result=result
    )


def cut_off(begin: float, *slots: str) -> Operation:
    return Operation(kind="take", begin=begin, details={"slots": list(slots or ("s",))})


def judge(*operations: Operation, left: dict[str, str] | None = None) -> Verdict:
    return check(Story(list(operations)), Left(left or {}, set(), {}), end=END)


@pytest.mark.parametrize(
    "operations",
    [
        [record("a", 1, 2), take(3, 4, "a")],
        [record("a", 1, 2), take(3, 4, "a"), take(5, 6)],
        # Whoever overlaps may have come first.
        [record("a", 1, 5), take(3, 4), take(6, 7, "a")],
        [record("a", 1, 3), record("b", 2, 4), take(5, 6, "a")],
        [record("a", 1, 2), take(3, 6, "a"), take(4, 5)],
        [record("a", 1, 2, ttl=1.0), take(4, 5)],
        [record("a", 1), take(3, 4, "a"), take(5, 6)],
        [record("a", 1), take(3, 4)],
        # What was cut off by a kill was over soon after it, and may never have been written.
        [record("a", 1, 2), take(3, 4, "a"), killed("b", 5, 7), take(9, 10)],
        [killed("a", 1, 3), take(5, 6), record("b", 7, 8), take(9, 10, "b"), take(11, 12)],
        # One answer is gone with a take that was cut off.
        [record("a", 1, 2), cut_off(3), take(5, 6), take(7, 8)],
        # Two are taken together or not at all: here there never was a second one.
        [record("a", 1, 2), take(3, 4, slots=("s", "t")), take(5, 6, "a")],
    ],
)
def test_what_can_have_happened_is_clean(operations: list[Operation]) -> None:
    assert judge(*operations).wrong == []


def test_what_is_left_is_clean() -> None:
    assert judge(record("a", 1, 2), left={"s": "a"}).wrong == []


@pytest.mark.parametrize(
    ("fault", "operations"),
    [
        ("delivered twice", [record("a", 1, 2), take(3, 4, "a"), take(3, 5, "a")]),
        ("delivered but never recorded", [take(3, 4, "x")]),
        ("delivered but never recorded", [take(3, 4, "a"), record("a", 5, 6)]),
        ("delivered though replaced", [record("a", 1, 2), record("b", 3, 4), take(5, 6, "a")]),
        ("delivered though expired", [record("a", 1, 2, ttl=1.0), take(4, 5, "a")]),
        ("delivered to a stranger", [record("a", 1, 2), take(3, 4, "a", stranger=True)]),
        ("lost", [record("a", 1, 2), take(3, 4)]),
        ("lost", [record("a", 1, 2)]),
        ("lost", [record("a", 1, 2), take(3, 4, "a"), record("b", 5, 6), take(7, 8)]),
        # The take that was cut off came too early, and one explains no two.
        ("lost", [Operation(kind="take", begin=0, end=0.5, details={"slots": ["s"]})]),
        ("lost", [record("a", 1, 2), cut_off(3), take(5, 6), record("b", 7, 8), take(9, 10)]),
        # Both were there all the time.
        (
            "lost",
            [record("a", 1, 2), record("b", 1, 2, slot="t"), take(3, 4, slots=("s", "t"))],
        ),
    ],
)
def test_each_fault_is_found(fault: str, operations: list[Operation]) -> None:
    if fault == "lost" and operations[0].kind == "take":
        operations = [*operations, record("a", 1, 2)]
    assert judge(*operations).counts[fault] > 0


@pytest.mark.parametrize(
    ("fault", "operations", "left"),
    [
        ("left though delivered", [record("a", 1, 2), take(3, 4, "a")], "a"),
        ("left though replaced", [record("a", 1, 2), record("b", 3, 4)], "a"),
        ("delivered but never recorded", [record("a", 1, 2)], "x"),
    ],
)
def test_each_fault_of_what_is_left_is_found(
    fault: str, operations: list[Operation], left: str
) -> None:
    assert judge(*operations, left={"s": left}).counts[fault] > 0


def answer(token: str, question: str = "q", outcome: str = "answered") -> Operation:
    details = {"token": token, "question": question, "ttl": 1000.0, "via": "page"}
    return Operation(kind="answer", begin=1, end=2, details=details, outcome=outcome)


def call(outcome: str = "finished") -> Operation:
    return Operation(kind="call", begin=3, end=4, details={}, outcome=outcome)


def judge_questions(
    *operations: Operation,
    told: tuple[str, ...] = (),
    waiting: tuple[str, ...] = (),
    state: str = "answered",
    delivery: str = "",
    missing: int = 0,
) -> Verdict:
    events = [{"at": 3.0, "event": "delivered", "token": token} for token in told]
    audit = {"q": {"state": state, "delivery": delivery}}
    left = Left({}, set(waiting), audit, missing)
    return check(Story(list(operations), events), left, end=END)


@pytest.mark.parametrize(
    ("operations", "found"),
    [
        ([answer("a"), call()], {"told": ("a",), "delivery": "delivered"}),
        ([answer("a")], {"waiting": ("q",)}),
        ([answer("a"), answer("b", outcome="closed")], {"told": ("a",)}),
        ([answer("a"), call()], {"delivery": "dropped"}),
        ([answer("a"), call("")], {"delivery": "round_lost"}),
    ],
)
def test_questions_that_went_well_are_clean(
    operations: list[Operation], found: dict[str, Any]
) -> None:
    assert judge_questions(*operations, **found).wrong == []


@pytest.mark.parametrize(
    ("fault", "operations", "found"),
    [
        ("delivered twice", [answer("a")], {"told": ("a", "a")}),
        ("delivered but never recorded", [], {"told": ("x",)}),
        ("delivered but never recorded", [answer("a", outcome="closed")], {"told": ("a",)}),
        ("answered twice", [answer("a"), answer("b")], {"told": ("a",)}),
        ("audit wrong", [answer("a")], {"told": ("a",), "state": "declined"}),
        ("audit wrong", [answer("a"), call()], {"delivery": "delivered"}),
        ("left though delivered", [answer("a")], {"told": ("a",), "waiting": ("q",)}),
        ("lost", [answer("a"), call()], {}),
        ("lost", [answer("a")], {"waiting": ("q",), "missing": 1}),
    ],
)
def test_each_fault_of_questions_is_found(
    fault: str, operations: list[Operation], found: dict[str, Any]
) -> None:
    assert judge_questions(*operations, **found).counts[fault] > 0


def test_errors_that_came_out_are_faults() -> None:
    events = [
        {"at": 1.0, "event": "error", "database": database, "text": "…"}
        for database in (True, False)
    ]
    verdict = check(Story([], events), Left({}, set(), {}), end=END)
    assert verdict.counts["database errors that came out"] == 1
    assert verdict.counts["other errors"] == 1


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = Log(tmp_path / "00001.log")
    log.end(log.begin("record", slot="s", token="a"), "recorded")
    log.begin("take", slots=["s"])
    log.write(event="retry", attempt=1)
    Log(tmp_path / "supervisor.log").write(event="kill", log="00001.log")
    story = read(tmp_path)
    done, open_take = story.operations
    assert (done.kind, done.outcome, done.is_known) == ("record", "recorded", True)
    # The server may go on for a moment with what a killed process has sent.
    assert not open_take.is_known
    [kill] = story.events_of("kill")
    assert open_take.end == kill["at"] + GRACE
    assert len(story.events_of("retry")) == 1


@given(
    st.lists(st.tuples(st.integers(0, 20), st.one_of(st.integers(1, 8), st.none())), max_size=8),
    st.integers(0, 25),
    st.integers(0, 5),
)
def test_what_can_have_been_the_last_is_found_without_comparing_each_with_each(
    spans: list[tuple[int, int | None]], begin: int, length: int
) -> None:
    records = [
        record(str(number), start, None if lasts is None else start + lasts)
        for number, (start, lasts) in enumerate(spans)
    ]
    end = begin + length
    wanted = {
        one.details["token"]
        for one in records
        if one.begin < end
        and not any(one.end < other.begin and other.end < begin for other in records)
    }
    assert {one.details["token"] for one in History(records).last(begin, end)} == wanted
