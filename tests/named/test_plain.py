"""The plain twins, for code that has no event loop; and the app without the SDK."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from asgiref.sync import SyncToAsync, async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.db import connection, transaction

from elicitation import calls, inbox
from elicitation.calls import background
from elicitation.core import ElicitationPending
from elicitation.mcp import connections
from elicitation.models import Elicitation
from elicitation.transactions import OuterTransactionError
from tests import processes
from tests.integration.scripted import said

from .conftest import Serve, in_a_loop, kept
from .running import bearer

if TYPE_CHECKING:
    from types import FrameType

pytestmark = pytest.mark.django_db(transaction=True)


def say(user: User | None) -> str:
    return said(calls.call_sync("shop", "say", scope="chat", user=user))


@pytest.mark.parametrize("way", ["http", "stdio"])
def test_a_call_is_parked_and_goes_on_over_a_connection_that_is_kept(
    way: str, serve: Serve, user: User
) -> None:
    shop = serve("shop", way)
    for number in range(2):
        with pytest.raises(ElicitationPending) as caught:
            calls.call_sync("shop", "ask", scope=number, user=user)
        asked = Elicitation.objects.pending().get()
        inbox.answer(asked.pk, asked.schema.answers_from_content({"note": "blue"}), by=user)
        assert said(calls.resume_sync(caught.value.parked_call_id)) == "blue"
    assert len(shop.connections) == 1


def test_threads_share_the_connection(serve: Serve, user: User) -> None:
    shop = serve("shop", "http")

    def work(_: int) -> str:
        try:
            return say(user)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(8))) == ["said"] * 8
    assert (len(shop.connections), len(shop.said)) == (1, 8)


def test_a_view_under_asgi_uses_the_loop_of_its_server(serve: Serve, user: User) -> None:
    shop = serve("shop", "http")

    async def served() -> int:
        await sync_to_async(say)(user)
        await calls.call("shop", "say", scope="chat", user=user)
        return len(kept())

    assert async_to_sync(served)() == 1
    assert len(shop.connections) == 1
    assert background._thread is None


def test_the_database_is_used_in_the_thread_of_the_caller(serve: Serve, user: User) -> None:
    threads = []

    def auth(user: User | None) -> dict[str, str]:
        threads.append(threading.current_thread())
        return bearer(user)

    serve("shop", "http", auth=auth)
    say(user)
    assert threads == [threading.current_thread()]


def test_it_is_refused_inside_a_transaction(serve: Serve, user: User) -> None:
    serve("shop", "http")
    with transaction.atomic(), pytest.raises(OuterTransactionError):
        calls.call_sync("shop", "ask", scope="chat", user=user)


@in_a_loop
async def test_it_is_refused_where_a_loop_runs() -> None:
    with pytest.raises(RuntimeError, match="await"):
        calls.call_sync("shop", "say", scope="chat", user=None)


def test_other_code_of_the_thread_has_the_loops_it_would_have_without() -> None:
    before = dict(vars(SyncToAsync.threadlocal))

    async def loop() -> asyncio.AbstractEventLoop:
        await sync_to_async(int)()
        return asyncio.get_running_loop()

    assert background.run(loop) is background.run(loop)
    assert vars(SyncToAsync.threadlocal) == before
    assert async_to_sync(loop)() is not background.run(loop)


class TimeLimit(Exception):
    """What Celery raises in a task that takes too long."""


def test_a_caller_that_is_interrupted_cancels_the_call() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise TimeLimit

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.main_thread().ident
    assert main is not None

    def limit() -> None:
        begun.wait(processes.WAIT_SECONDS)
        signal.pthread_kill(main, signal.SIGUSR1)

    thread = threading.Thread(target=limit)
    thread.start()
    try:
        with pytest.raises(TimeLimit):
            background.run(work)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert cancelled.wait(processes.WAIT_SECONDS)


def run_python(code: str) -> str:
    """Run a program of its own, in which warnings are errors, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=processes.BASE_DIR,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=2 * processes.WAIT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_process_that_was_forked_has_a_loop_of_its_own() -> None:
    """As the workers of Gunicorn and Celery are."""
    code = """
import asyncio, os, warnings
import django
django.setup()
from elicitation.calls import background

# Python 3.12 warns of every fork of a process that has threads.
warnings.simplefilter("ignore")

async def loop():
    return id(asyncio.get_running_loop())

background.run(loop)
child = os.fork()
if not child:
    assert background.run(loop) == background.run(loop)
    background.stop()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_python(code) == "7\n"


def test_what_is_open_at_the_end_of_a_process_is_closed() -> None:
    code = """
import asyncio
import django
django.setup()
from elicitation.calls import background

async def begin():
    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            print("closed")
    global task
    task = asyncio.create_task(work())
    await asyncio.sleep(0)

background.run(begin)
"""
    assert run_python(code) == "closed\n"


def test_without_the_sdk_the_calls_load_and_say_what_to_install() -> None:
    code = """
import asyncio, sys
sys.modules["mcp"] = None
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "elicitation"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()
from django.core.exceptions import ImproperlyConfigured
from elicitation import calls
for work in (
    lambda: calls.call_sync("shop", "say", scope="chat", user=None),
    lambda: calls.resume_sync("7"),
    lambda: asyncio.run(calls.call("shop", "say", scope="chat", user=None)),
):
    try:
        work()
    except ImproperlyConfigured as error:
        print(error)
"""
    lines = run_python(code).splitlines()
    assert len(lines) == 3
    assert all("pip install 'django-mcp-elicitation[mcp]'" in line for line in lines)


def test_no_connection_is_kept_for_a_loop_that_has_ended(serve: Serve, user: User) -> None:
    shop = serve("shop", "http")
    for _ in range(2):
        async_to_sync(calls.call)("shop", "say", scope="chat", user=user)
    assert connections._connections == {}
    assert len(shop.connections) == 2
