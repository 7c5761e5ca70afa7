"""What the demo site does when a call has ended."""

from elicitation import calls
from elicitation.core import ElicitationRefusal
from project.demo.models import DemoRun

State = DemoRun.State


def is_ours(outcome: calls.Outcome) -> bool:
    """Whether the demo's agent made the call; in the tests other hosts make calls, too."""
    return DemoRun.of_scope(outcome.scope) is not None


@calls.receive_outcomes(only=is_ours)
def save(outcome: calls.Outcome) -> None:
    """Keep how the call of a run ended."""
    run = DemoRun.of_scope(outcome.scope)
    if run is not None:
        run.close(_state(outcome), outcome.as_tool_result())


def _state(outcome: calls.Outcome) -> State:
    error = outcome.error()
    if error is None:
        has_failed = (outcome.result or {}).get("isError", False)
        return State.FAILED if has_failed else State.FINISHED
    return State.REFUSED if isinstance(error, ElicitationRefusal) else State.FAILED
