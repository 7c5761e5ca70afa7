"""What the demo site does when a question is closed, and when a call has ended.

The agent is imported where it is needed: it loads MCP's SDK, which takes longer than all of
Django, and few processes go on with a call.
"""

from typing import Any
from uuid import UUID

from django.dispatch import receiver

from elicitation.signals import call_finished, elicitation_closed
from project.demo.models import SCOPE_PREFIX, DemoRun


@receiver(elicitation_closed, dispatch_uid="demo-agent")
def take_up_again(scope: str, parked_call_id: UUID, **kwargs: Any) -> None:
    """Go on with the tool call once its question is closed, however it was closed."""
    run = DemoRun.of_scope(scope)
    if run is not None:
        from project.demo import agent

        agent.start(run, parked_call_id)


@receiver(call_finished, dispatch_uid="demo-agent-fetch")
def fetch(scope: str, parked_call_id: UUID, **kwargs: Any) -> None:
    """Fetch how the tool call ended; other hosts fetch theirs."""
    if scope.startswith(SCOPE_PREFIX):
        from project.demo import agent

        agent.fetch(scope, parked_call_id)
