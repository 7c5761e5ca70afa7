"""An event loop in the background, for callers that have none: WSGI views, Celery tasks, commands.

``async_to_sync`` by itself makes an event loop for each call, and a connection with a server ends
with its loop. The loop here stays, and so do the connections of its calls. The work on the
database is done in the caller's own thread all the same, by the caller's own connection: that is
what ``async_to_sync`` is for. Under ASGI a synchronous view has a loop already, that of its
server, and its calls are made there.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar

from asgiref.sync import SyncToAsync, async_to_sync

T = TypeVar("T")

#: Seconds that the connections may take to close when the process ends.
PATIENCE = 10.0

#: What asgiref knows in each thread of the loop that the thread belongs to. The names are not
#: documented: where a later release has others, each call gets a loop of its own.
_NAMES = ("main_event_loop", "main_event_loop_pid", "task_context")


class _Thread(threading.Thread):
    """Runs an event loop until it is stopped, or the process ends."""

    def __init__(self) -> None:
        super().__init__(name="elicitation-calls", daemon=True)
        self.is_up = threading.Event()

    def run(self) -> None:
        # It cancels every task at the end, and waits for them: connections are closed by that.
        asyncio.run(self._stay())

    async def _stay(self) -> None:
        self.loop, self.stopped = asyncio.get_running_loop(), asyncio.Event()
        self.begun: set[asyncio.Task[None]] = set()
        self.is_up.set()
        await self.stopped.wait()
        if self.begun:
            await asyncio.wait(self.begun, timeout=PATIENCE / 2)

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do work that nobody waits for; called in the loop."""
        # A loop holds none of its tasks itself.
        task = self.loop.create_task(work())
        self.begun.add(task)
        task.add_done_callback(self.begun.discard)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.stopped.set)
        self.join(PATIENCE)


_lock = threading.Lock()
_thread: _Thread | None = None


def _forget() -> None:
    """Begin anew in a process that was forked: it has none of the threads of its parent."""
    global _lock, _thread
    _lock, _thread = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@atexit.register
def stop() -> None:
    """Close the connections of the loop, and end it; the next call begins another one."""
    global _thread
    with _lock:
        thread, _thread = _thread, None
    if thread is not None:
        thread.stop()


def _running() -> _Thread:
    global _thread
    with _lock:
        if _thread is None:
            _thread = _Thread()
            _thread.start()
            _thread.is_up.wait()
        return _thread


def begin(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do the work of a coroutine function without waiting for it, in the loop that stays.

    A process that ends gives it a few seconds to come to its end. The work must not raise.
    """
    thread = _running()
    # In a context of its own: it outlives the request that happens to begin it.
    thread.loop.call_soon_threadsafe(thread.begin, work, context=Context())


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Do the work of a coroutine function, and return its result.

    If the caller is interrupted, as by a time limit of Celery, the work is cancelled.

    Raises:
        RuntimeError: Called in the thread of a running event loop, which it would stop.
        Exception: What the work raises.
    """
    task: asyncio.Task[Any] | None = None

    async def noted() -> T:
        nonlocal task
        task = asyncio.current_task()
        return await work()

    try:
        with _in_a_loop_that_stays():
            return async_to_sync(noted)()
    except BaseException:
        if task is not None and not task.done():
            task.get_loop().call_soon_threadsafe(task.cancel)
        raise


@contextmanager
def _in_a_loop_that_stays() -> Iterator[None]:
    """Let ``async_to_sync`` use the loop in the background, unless this thread belongs to one."""
    here = vars(SyncToAsync.threadlocal)
    of_server = here.get("main_event_loop")
    if here.get("main_event_loop_pid") == os.getpid() and of_server and of_server.is_running():
        yield
        return
    before = {name: here[name] for name in _NAMES if name in here}
    here |= {
        "main_event_loop": _running().loop,
        "main_event_loop_pid": os.getpid(),
        "task_context": None,
    }
    try:
        yield
    finally:
        # Other code of this thread that uses async_to_sync gets what it would get without us.
        for name in _NAMES:
            here.pop(name, None)
        here |= before
