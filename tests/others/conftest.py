from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from asgiref.sync import async_to_sync
from mcp.types import CallToolResult, TextContent

from elicitation import calls
from elicitation.models import ParkedCall, ServerPolicy, StoredFormAnswer
from tests.asking import allow
from tests.host import SERVER, Host
from tests.person import Person, Typed
from tests.processes import BASE_DIR, WAIT_SECONDS, answers, free_port, wait_until

if TYPE_CHECKING:
    from django.contrib.auth.models import User

T = TypeVar("T")
#: What the person does with one question: what is typed, by its title, or the buttons that are
#: pressed on its page; ``None`` declines.
Answer = Mapping[str, Typed] | Sequence[str] | None


@contextmanager
def serving(*command: str, **environment: str) -> Iterator[str]:
    """Run a server that takes its port where ``PORT`` stands; give its address."""
    port = str(free_port())
    server = subprocess.Popen(
        [part.replace("PORT", port) for part in command],
        cwd=BASE_DIR,
        env=os.environ
        | {name: value.replace("PORT", port) for name, value in environment.items()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: server.poll() is not None or answers(int(port)), command[-1])
        assert server.poll() is None, f"{command} has stopped"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait(WAIT_SECONDS)


class Driver:
    """Calls tools of somebody else's server while a person answers on the pages."""

    def __init__(self, person: Person, user: User) -> None:
        self.person = person
        self.user = user

    def __call__(
        self,
        target: Any,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        does: Sequence[Answer],
        **options: Any,
    ) -> CallToolResult:
        """Call a tool whose questions are answered in turn; return its result.

        ``options`` are those of the host.
        """
        host = Host(target, self.user, **options)
        return self.meanwhile(host.through(tool, arguments), does=does)

    def meanwhile(self, work: Coroutine[Any, Any, T], *, does: Sequence[Answer]) -> T:
        """Answer in turn what is asked while a host works; return what that comes to."""

        async def both() -> T:
            task = asyncio.create_task(work)
            await asyncio.gather(task, asyncio.to_thread(self.act, does, task))
            return task.result()

        result = async_to_sync(both)()
        assert self.person.waiting() == []
        assert not ParkedCall.objects.parked().exists()
        assert not StoredFormAnswer.objects.exists()
        # As a host that has saved the result does: the same call is another one from now on.
        for key in ParkedCall.objects.ended().values_list("pk", flat=True):
            calls.acknowledge(key)
        return result

    def act(self, does: Sequence[Answer], work: asyncio.Task[Any]) -> None:
        """Answer what is asked, one question after the other."""
        for answer in does:
            wait_until(lambda: work.done() or self.person.waiting(), "a question")
            assert not work.done(), f"nothing was asked, but {work.result()}"
            (address,) = self.person.waiting()
            if answer is None:
                self.person.decline(address)
            elif isinstance(answer, Mapping):
                self.person.answer(address, answer)
            else:
                for button in answer:
                    self.person.press(address, button)


@pytest.fixture
def policy(transactional_db: None) -> ServerPolicy:
    return allow(SERVER)


@pytest.fixture
def drive(
    person: Person,
    policy: ServerPolicy,
    user: User,
    settings: Any,
) -> Driver:
    settings.ELICITATION_POLL_INTERVAL = timedelta(milliseconds=50)
    return Driver(person, user)


def texts(result: CallToolResult) -> list[str]:
    """Return the texts of a result."""
    assert not result.is_error
    return [block.text for block in result.content if isinstance(block, TextContent)]
