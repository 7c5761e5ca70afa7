"""What SEP-2663 demands of a client, by its sections; the rest of that is in ``test_tasks``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from elicitation import calls
from elicitation.calls import background
from elicitation.calls.jobs import go_on_sync
from elicitation.calls.replies import ServerWorkingPending
from elicitation.core import ElicitationPending, SchemaRefusal
from elicitation.models import ParkedCall

from .server import CAPABILITIES, WORKING, TaskServer, asks, completed
from .test_tasks import answer, begun, go_on, resume, server

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

__all__ = ["server"]

pytestmark = pytest.mark.django_db(transaction=True)


def test_capability_negotiation_a_task_is_no_reply_to_a_prompt(
    server: TaskServer, user: User
) -> None:
    with pytest.raises(SchemaRefusal):
        calls.get_prompt_sync("shop", "review", scope="chat", user=user)
    assert not ParkedCall.objects.exists()
    assert server.of("tasks/get") == []


def test_every_request_about_a_task_declares_the_extension_and_names_the_task(
    server: TaskServer, user: User
) -> None:
    """Sections Capability Negotiation, and Streamable HTTP: Routing Headers."""
    key = begun(user).parked_call_id
    server.states = [asks(a="Which?")]
    with pytest.raises(ElicitationPending):
        resume(key)
    answer(user, a="blue")
    with pytest.raises(ServerWorkingPending):
        resume(key)
    calls.cancel(key)
    background.stop()
    about = [
        (each["method"], each["params"]["_meta"][CAPABILITIES]["extensions"], headers["mcp-name"])
        for each, headers in zip(server.requests, server.headers, strict=True)
        if each["method"].startswith("tasks/")
    ]
    assert {method for method, _, _ in about} == {"tasks/get", "tasks/update", "tasks/cancel"}
    for _, extensions, name in about:
        assert extensions == {"io.modelcontextprotocol/tasks": {}}
        assert name == "task-1"


@pytest.mark.parametrize("kind", ["task", None])
def test_task_polling_the_type_of_a_reply_is_read_leniently(
    kind: str | None, server: TaskServer, user: User
) -> None:
    key = begun(user).parked_call_id
    state: dict[str, Any] = completed("bought") | {"resultType": kind}
    server.states = [state]
    assert resume(key).content[0].text == "bought"


def test_task_polling_the_interval_may_change(server: TaskServer, user: User) -> None:
    key = begun(user).parked_call_id
    server.states = [WORKING | {"pollIntervalMs": 60_000}]
    before = timezone.now()
    with pytest.raises(ServerWorkingPending) as caught:
        resume(key)
    assert caught.value.look_at is not None
    assert caught.value.look_at - before >= timedelta(seconds=60)


def test_task_cancellation_nothing_else_is_sent_after_it(server: TaskServer, user: User) -> None:
    key = begun(user).parked_call_id
    calls.cancel(key)
    background.stop()
    go_on_sync(key)
    # No notifications/cancelled, and nobody reads the task any more.
    assert [each["method"] for each in server.requests] == ["tools/call", "tasks/cancel"]


def test_protocol_errors_one_inside_the_server_ends_no_task(
    server: TaskServer, user: User, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_RESUME_AFTER = timedelta(seconds=1)
    key = begun(user).parked_call_id
    server.breaks_down = True
    go_on(key)
    assert ParkedCall.objects.parked().exists()
    server.breaks_down = False
    server.states = [completed("bought")]
    go_on(key)
    assert calls.outcome(key).as_tool_result() == "bought"
