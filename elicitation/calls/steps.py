"""Steps of a call that are done to their end, whatever is cancelled meanwhile.

A step is a function that works on the database: one hop into a thread, one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TypeVar

from asgiref.sync import sync_to_async

try:
    from anyio import CancelScope
except ImportError:  # pragma: no cover  # the MCP SDK brings it along, and a host may have no SDK
    CancelScope = None  # type: ignore[assignment,misc]

T = TypeVar("T")


async def step(work: Callable[[], T], note: Callable[[T], None] | None = None) -> T:
    """Do the work of one step in a thread, in one hop, to its end.

    If the caller is cancelled, the thread still finishes and commits. ``note`` gets what came of
    it, and only then the cancellation goes on.
    """
    task = asyncio.ensure_future(sync_to_async(work)())
    try:
        result = await asyncio.shield(task)
    except asyncio.CancelledError:
        # What went wrong in the thread has changed nothing: its transaction was rolled back.
        with suppress(Exception):
            late = await to_the_end(task)
            if note is not None:
                note(late)
        raise
    if note is not None:
        note(result)
    return result


async def to_the_end(work: Awaitable[T]) -> T:
    """Do the work to its end, though the caller is being cancelled."""
    with _shield():
        task = asyncio.ensure_future(work)
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
    return task.result()


def _shield() -> AbstractContextManager[object]:
    """Keep anyio, and so the SDK, from cancelling again at every turn of the loop."""
    return nullcontext() if CancelScope is None else CancelScope(shield=True)
