"""A worker in a process of its own, that dies at a named point in the life of a task.

``python -m tests.tasks.process SERVERS POINT [RECEIVED]``, as ``tests.workers.process``.
"""

from __future__ import annotations

from typing import Any

from tests.processes import use_test_database

if __name__ == "__main__":
    use_test_database()

from tests.workers.process import after, die, main

#: Where a worker dies, in the order of a task's life, and how the call may end after that.
ENDS = {
    "before the creation": {"finished"},
    # The row says that a request went out. Whether a task was made, nobody can know.
    "after the creation": {"lost"},
    "after the task was stored": {"finished"},
    "after the question was read": {"finished"},
    "after the question was stored": {"finished"},
    "after the take": {"finished"},
    "after the answer was sent": {"finished"},
    "after the answer was noted": {"finished"},
    "after the result was read": {"finished"},
    "after the outcome was stored": {"finished"},
    "after the outcome was received": {"finished"},
}


def die_at(point: str) -> None:
    """Put the process's end where it was asked for; the app knows nothing of it."""
    from elicitation.calls import parking
    from elicitation.calls.rounds import Event
    from elicitation.mcp.drive import Drive
    from elicitation.signals import call_finished

    resume, park, send, read = (
        parking.resume,
        parking.park,
        Drive._send_once,
        Drive._read_task,
    )

    def dies_with_answers(*args: Any, **kwargs: Any) -> Any:
        resumed = resume(*args, **kwargs)
        return die() if resumed.taken else resumed

    def dies_when_stored(what: str) -> Any:
        def wrapper(call: Any, round: Any, **kwargs: Any) -> Any:
            parked = park(call, round, **kwargs)
            is_it = {
                "task": not round.requests and not round.task.answered,
                "question": bool(round.requests),
                "answer": bool(round.task.answered) and not round.requests,
            }
            return die() if is_it[what] else parked

        return wrapper

    def dies_on(event: Event) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            found = read(*args, **kwargs)
            return die() if found is event else found

        return wrapper

    async def dies_when_created(*args: Any) -> Any:
        event = await send(*args)
        return die() if event is Event.TASK else event

    async def dies_when_sent(self: Drive, number: int, round: Any, responses: Any) -> Any:
        event = await send(self, number, round, responses)
        return die() if responses is not None else event

    if point == "before the creation":
        parking.resume = die
    elif point == "after the creation":
        Drive._send_once = dies_when_created  # type: ignore[assignment,method-assign]
    elif point == "after the task was stored":
        parking.park = dies_when_stored("task")
    elif point == "after the question was read":
        Drive._read_task = dies_on(Event.ASKS)  # type: ignore[method-assign]
    elif point == "after the question was stored":
        parking.park = dies_when_stored("question")
    elif point == "after the take":
        parking.resume = dies_with_answers
    elif point == "after the answer was sent":
        Drive._send_once = dies_when_sent  # type: ignore[method-assign]
    elif point == "after the answer was noted":
        parking.park = dies_when_stored("answer")
    elif point == "after the result was read":
        Drive._read_task = dies_on(Event.RESULT)  # type: ignore[method-assign]
    elif point == "after the outcome was stored":
        call_finished.send_robust = die  # type: ignore[method-assign]
    elif point == "after the outcome was received":
        call_finished.send_robust = after(call_finished.send_robust)  # type: ignore[method-assign]
    elif point:
        raise ValueError(point)


if __name__ == "__main__":
    main(die_at)
