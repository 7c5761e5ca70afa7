from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from elicitation import inbox
from elicitation.core import ElicitationPending, FormAnswer
from elicitation.mcp.client import call_tool, resume
from elicitation.models import Elicitation, ServerPolicy
from tests.integration.scripted import ScriptedServer


@pytest.fixture
def policy(transactional_db: None) -> ServerPolicy:
    return ServerPolicy.objects.create(
        server="shop", policy=ServerPolicy.Policy.URL_AND_FORM, label="Shop"
    )


class Host:
    """A host that calls the scripted server's tool; each call is a connection of its own."""

    def __init__(self, server: ScriptedServer, respondent: User | None) -> None:
        self.server = server
        self.respondent = respondent

    def call(self, **options: Any) -> Any:
        arguments = {
            "server": "shop",
            "tool": "tool",
            "arguments": {"a": 1},
            "scope": "conversation-1",
            "respondent": self.respondent,
        }
        return self._connected(lambda session: call_tool(session, **arguments | options))

    def resume(self, pending: ElicitationPending, **options: Any) -> Any:
        return self._connected(
            lambda session: resume(session, pending.parked_call_id, server="shop", **options)
        )

    def _connected(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            # Caught inside: the SDK's connection wraps what passes through it in a group.
            async with self.server.connect() as session:
                try:
                    return await work(session)
                except Exception as error:
                    return error

        result = async_to_sync(run)()
        if isinstance(result, Exception):
            raise result
        return result

    def pending(
        self, run: Callable[..., Any] | None = None, *args: Any, **options: Any
    ) -> ElicitationPending:
        with pytest.raises(ElicitationPending) as caught:
            (run or self.call)(*args, **options)
        return caught.value

    def answer(
        self, pending: ElicitationPending, index: int = 0, **content: object
    ) -> Elicitation:
        """Answer one of the questions that wait, as a person would, with typed values."""
        elicitation = Elicitation.objects.get(pk=pending.elicitation_ids[index])
        answers: dict[str, FormAnswer] = elicitation.schema.answers_from_content(content)
        assert self.respondent is not None
        return inbox.answer(elicitation.pk, answers, by=self.respondent)


@pytest.fixture
def host_for(policy: ServerPolicy, user: User) -> Callable[[ScriptedServer], Host]:
    return lambda server: Host(server, user)
