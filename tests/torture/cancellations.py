"""A call is cancelled at each turn of the event loop: ``python -m tests.torture.cancellations``.

In run N the task is cancelled at the Nth turn of its loop, once by asyncio and once by anyio,
which cancels again at every turn that follows. Where the work ends before that, it begins anew at
the first turn. Afterwards the flow is taken up again (``flows``). Makes a database of its own and
removes it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import anyio

from .command import in_own_database, report

if TYPE_CHECKING:
    from .flows import Flow


class Cancelled:
    """Awaits something, and cancels it at one turn of the loop.

    Args:
        turn: Which one, from 1.
        by_anyio: Whether a cancel scope does it.
    """

    def __init__(self, turn: int, *, by_anyio: bool) -> None:
        self.turn = turn
        self.by_anyio = by_anyio
        self.turns = 0

    @property
    def happened(self) -> bool:
        """Whether there was such a turn."""
        return self.turns >= self.turn

    async def __call__(self, work: Any) -> Any:
        from .flows import CANCELLED

        loop: Any = asyncio.get_running_loop()
        scope = anyio.CancelScope()
        task = loop.create_task(_scoped(scope, work) if self.by_anyio else work)
        run_once = loop._run_once

        def counted() -> None:
            if not task.done() and not self.happened:
                self.turns += 1
                if self.happened:
                    (scope if self.by_anyio else task).cancel()
            run_once()

        loop._run_once = counted
        try:
            await asyncio.wait([task])
        finally:
            del loop._run_once
        return CANCELLED if task.cancelled() else task.result()


async def _scoped(scope: anyio.CancelScope, work: Any) -> Any:
    from .flows import CANCELLED

    with scope:
        return await work
    return CANCELLED


def cancel_each(
    new_flow: Callable[[], Flow], steps: tuple[Callable[[Flow], None], ...], *, every: int = 1
) -> Iterator[tuple[str, Flow]]:
    """Run a flow again and again, and cancel the last of its steps at one turn after the other.

    It goes on without end; each flow is yielded with what was done to it.

    Args:
        new_flow: Makes a flow.
        steps: What is done.
        every: Which turns: each, or every second, ….
    """
    turn, by_anyio = 1, False
    while True:
        cancelled, flow = Cancelled(turn, by_anyio=by_anyio), new_flow()
        *before, last = steps
        for step in before:
            step(flow)
        flow.around = cancelled
        last(flow)
        flow.finish()
        yield f"turn {turn}{', by anyio' if by_anyio else ''}", flow
        if by_anyio:
            # The next time round other turns are left out, if any are.
            turn = turn + every if cancelled.happened else turn % every + 1
        by_anyio = not by_anyio


def kinds() -> dict[str, Callable[..., Iterator[tuple[str, Flow]]]]:
    """Return what is cancelled, by its name; called when Django is set up."""
    from .flows import CallbackFlow, Flow

    def kind(last: Callable[[Any], None], *before: Callable[[Any], None], **options: Any) -> Any:
        return lambda user, **every: cancel_each(
            lambda: Flow(user, **options), (*before, last), **every
        )

    answered = Flow.call, Flow.answer
    return {
        "call_tool": kind(Flow.call),
        "call_tool, once more": kind(Flow.call, *answered, rounds=2),
        "resume": kind(Flow.resume, *answered),
        "resume, with the host's roots": kind(Flow.resume, *answered, rounds=2, roots=True),
        "resume, made afresh": kind(Flow.resume, *answered, forgets=True),
        "callback": lambda user, **every: cancel_each(
            lambda: CallbackFlow(user), (CallbackFlow.call,), **every
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.cancellations")
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--runs", type=int, default=1000, help="of each kind")
    options = parser.parse_args()
    with in_own_database(options.database_url):
        from .flows import add_up, prepare, without_pauses

        user = prepare()
        is_clean = True
        for name, run in kinds().items():
            flows = []
            with without_pauses():
                for _, (what, flow) in zip(range(options.runs), run(user), strict=False):
                    flow.wrong = [f"{what}: {line}" for line in flow.wrong]
                    flows.append(flow)
            is_clean &= report(name, *add_up(flows))
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
