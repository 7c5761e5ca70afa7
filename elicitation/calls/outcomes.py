"""What hosts do with calls that are theirs: read how one ended, acknowledge that, cancel one."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.db import transaction
from django.views.decorators.debug import sensitive_variables

from .. import inbox
from ..core import ElicitationError
from ..models import Elicitation, ParkedCall, check_name
from ..signals import call_finished
from ..transactions import in_transaction, lock_now, write_alias
from . import parking
from .ended import SERVER_AT_WORK, Code, Ended, Outcome
from .lease import CallInProgressError, Lease
from .tasks import Task

logger = logging.getLogger("elicitation")

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

Receiver = TypeVar("Receiver", bound=Callable[[Outcome], object])


class CallNotEndedError(ElicitationError):
    """The call has not ended yet: there is no outcome to read or to acknowledge."""

    def __init__(self) -> None:
        super().__init__(
            "This call has not ended yet. The signal call_finished says when it has.",
            code="not_ended",
        )


def outcome(parked_call_id: uuid.UUID | str) -> Outcome:
    """Return how a call ended. It stays readable until it is acknowledged.

    Args:
        parked_call_id: The call, as ``call_finished`` and ``ElicitationPending`` name it.

    Raises:
        CallNotEndedError: It has not ended yet.
        ParkedCall.DoesNotExist: There is no such call, its outcome was acknowledged, or it was
            deleted after ``ELICITATION_RESULT_TTL``.
    """
    row = parking.rows().get(pk=parking.as_uuid(parked_call_id))
    if row.ended_at is None:
        raise CallNotEndedError
    return Outcome.of(row)


class Progress(NamedTuple):
    """How far a call is, for the people who are asked: a state and codes, and no result."""

    #: ``waiting``: somebody is asked; ``going_on``: nobody is; ``ended``.
    state: str
    #: How it ended, a value of ``ParkedCall.Outcome``; ``None`` before, and once acknowledged.
    outcome: str | None


def progress(elicitation: Elicitation) -> Progress:
    """Return how far the call is to which an elicitation belongs; in two queries at most.

    Args:
        elicitation: One that its person may see, as ``inbox.get`` returned it.
    """
    call = parking.rows().filter(pk=elicitation.parked_call_id).only("ended_at", "outcome").first()
    if call is not None and call.ended_at is not None:
        return Progress("ended", call.outcome)
    asked = Elicitation.objects.using(write_alias()).of_call(elicitation.parked_call_id)
    if asked.open().exists():
        return Progress("waiting", None)
    # A call in the middle of which something is asked has no row, nor has one that was fetched.
    has_ended = call is None and elicitation.delivered_at is not None
    return Progress("ended" if has_ended else "going_on", None)


class TaskSeen(NamedTuple):
    """What people who were asked see of a call that its server goes on with as a task."""

    #: Whether the server is at work; not once the call was cancelled here.
    is_at_work: bool
    #: What the server says of it: untrusted text, of at most ``tasks.MAX_STATUS_CHARS``.
    said: str


def task_seen(elicitation: Elicitation) -> TaskSeen | None:
    """Return what is to be seen of the task that an answer has gone to; in one query at most.

    Args:
        elicitation: One that its person may see, as ``inbox.get`` returned it.

    Returns:
        ``None`` where there is no task at work, nor one that was cancelled.
    """
    if elicitation.delivered_at is None:
        return None
    columns = ("task", "working_since", "outcome", "outcome_reason")
    call = parking.rows().filter(pk=elicitation.parked_call_id).only(*columns).first()
    if call is None:
        return None
    if (call.outcome, call.outcome_reason) == (Code.CANCELLED, SERVER_AT_WORK):
        return TaskSeen(False, "")
    task = Task.from_json(call.task)
    if task is None or call.working_since is None:
        return None
    return TaskSeen(True, task.status_message)


def stop(elicitation: Elicitation, *, by: AbstractBaseUser) -> bool:
    """Cancel the task that an answer has gone to, because a person wants it stopped.

    Args:
        elicitation: One that this person may see, as ``inbox.get`` returned it.
        by: The person.

    Returns:
        Whether it was cancelled. Not where the server's policy has not ``people_may_stop``, or no
        task is at work.

    Raises:
        CallInProgressError: A process goes on with it just now, as for ``cancel``.
    """
    seen = task_seen(elicitation)
    if not (seen and seen.is_at_work and elicitation.server_policy.people_may_stop):
        return False
    stopped = cancel(elicitation.parked_call_id)
    if stopped:
        logger.info(
            "A person has stopped a call",
            extra={
                "parked_call_id": str(elicitation.parked_call_id),
                "elicitation_id": str(elicitation.pk),
                "user_id": str(by.pk),
            },
        )
    return stopped


def acknowledge(ended: Outcome | uuid.UUID | str) -> bool:
    """Delete the outcome of a call: the host has it, and is told no more.

    Of several who do this one gets ``True``. It may be called inside a transaction of the host's
    own, unlike the take of an answer: nothing is sent to anybody by it. What the host saves in
    the same transaction, on ``True``, is saved exactly once.

    Args:
        ended: What ``outcome`` returned, or the call's id. With an id, what is deleted may be the
            outcome of the same call made again, if somebody else has acknowledged the first.

    Returns:
        Whether this deleted it. Not where there is none (any more).

    Raises:
        CallNotEndedError: The call has not ended yet.
    """
    key = ended.parked_call_id if isinstance(ended, Outcome) else parking.as_uuid(ended)

    def acknowledge() -> bool:
        row = parking.rows().filter(pk=key)
        # A look without a lock: to lock a missing row blocks MariaDB's inserters.
        if not row.exists():
            return False
        lock_now(row)
        # Locked first: with a receiver of its delete signals Django deletes by key alone.
        there = row.only("ended_at").select_for_update().first()
        if there is None or (isinstance(ended, Outcome) and there.ended_at != ended.ended_at):
            return False
        if there.ended_at is None:
            raise CallNotEndedError
        # Counted as well, as by an answer's take: one of several gets it even without the lock.
        return row.ended().delete()[0] == 1

    return in_transaction(acknowledge)


@overload
def receive_outcomes(function: Receiver) -> Receiver: ...
@overload
def receive_outcomes(*, only: Callable[[Outcome], bool]) -> Callable[[Receiver], Receiver]: ...
def receive_outcomes(
    function: Receiver | None = None, *, only: Callable[[Outcome], bool] = lambda outcome: True
) -> Receiver | Callable[[Receiver], Receiver]:
    """Let a function receive the outcome of each call: ``@receive_outcomes``.

    It runs in the process that ended the call, after that was committed, in a transaction that
    acknowledges the outcome. So what it writes to the same database is written exactly once. If it
    raises an exception, nothing is acknowledged, and it gets the outcome again, after pauses that
    grow to an hour.

    Args:
        function: Gets the ``Outcome``. It is known by its module and name, so it receives once
            though its module is loaded twice. Decorate it where every process loads it: in
            ``models.py``, or in a module that ``AppConfig.ready`` imports.
        only: Which outcomes it receives, where not all are its own. The others stay.

    Raises:
        TypeError: It is a coroutine function, which cannot run in a transaction.
    """
    if function is None:
        return partial(receive_outcomes, only=only)
    if iscoroutinefunction(function):
        raise TypeError(
            "receive_outcomes needs a plain function: it runs in a transaction of the database."
        )

    @sensitive_variables()
    def receive(parked_call_id: uuid.UUID, **kwargs: Any) -> None:
        try:
            ended = outcome(parked_call_id)
        except (ParkedCall.DoesNotExist, CallNotEndedError):
            return  # acknowledged, and perhaps made again: the signal can come twice
        if not only(ended):
            return
        # Not by in_transaction: the function may do more than touch rows, and must not run again
        # where the database reports a passing conflict. The outbox tells it again.
        with transaction.atomic(using=write_alias()):
            if acknowledge(ended):
                function(ended)

    uid = f"{function.__module__}.{function.__qualname__}"
    call_finished.connect(receive, weak=False, dispatch_uid=("elicitation.outcomes", uid))
    return function


class Cancelled(NamedTuple):
    """What ``cancel_scope`` did, by the ids of calls."""

    #: They were cancelled.
    cancelled: list[uuid.UUID]
    #: A process was resuming them just then: they go on, and end by themselves.
    in_progress: list[uuid.UUID]


def cancel(parked_call_id: uuid.UUID | str) -> bool:
    """Cancel a call: withdraw what it asks, drop what was answered, end it as ``cancelled``.

    Between two requests of a call its server holds nothing that could be cancelled (MCP
    2026-07-28, basic/patterns/mrtr): it is told nothing, and gets no answer. A server of
    ``ELICITATION_SERVERS`` that goes on with the call as a task is sent ``tasks/cancel``
    (SEP-2663), after the commit; nobody waits for that. A server that waits in the middle of a
    call receives ``decline`` (``ELICITATION_UNANSWERED``) from the process that waits. A server
    that was at work may run the tool all the same; the outcome's reason is ``server_at_work``
    then.

    Args:
        parked_call_id: The call.

    Returns:
        Whether there was anything to cancel. Not where the call is unknown or has ended.

    Raises:
        CallInProgressError: A process is resuming it just now, so that its answers may be on
            their way. The call goes on; ``call_finished`` says how it ends.
    """
    key = parking.as_uuid(parked_call_id)

    def cancel() -> bool:
        parked = parking.rows().parked().filter(pk=key)
        lease = Lease(parked_call_id=key)
        if lease.hold(parked.unleased()):
            row = parked.get()
            reason = "" if row.working_since is None else SERVER_AT_WORK
            parking.close(row, Ended(code=Code.CANCELLED, reason=reason), lease=lease)
            return True
        if parked.exists():
            raise CallInProgressError
        return False

    # Each alone: what waits in the middle of a call is closed whatever becomes of the rest.
    return any([in_transaction(cancel), _withdraw_in_call(key)])


def _withdraw_in_call(parked_call_id: uuid.UUID) -> bool:
    """Withdraw what is asked in the middle of a call; its process tells the server."""
    rows = Elicitation.objects.using(write_alias()).of_call(parked_call_id)
    keys = list(rows.pending().filter(in_call=True).order_by("pk").values_list("pk", flat=True))
    for key in keys:
        with suppress(inbox.ElicitationClosedError):
            inbox.withdraw(key, reason=inbox.CANCELLED)
    return bool(keys)


def cancel_scope(scope: str | int | uuid.UUID) -> Cancelled:
    """Cancel every call of a scope that waits, as ``cancel`` does.

    A call whose first request is still under way has no row yet, and is not found.

    Args:
        scope: The host's id of the conversation or run.

    Raises:
        InvalidNameError: It is no id that a row can hold.
    """
    is_number = isinstance(scope, int | uuid.UUID) and not isinstance(scope, bool)
    name = check_name("The scope", str(scope) if is_number else scope)
    asked = Elicitation.objects.using(write_alias()).in_scope(name).pending()
    keys = set(parking.rows().parked().in_scope(name).values_list("pk", flat=True))
    keys |= set(asked.filter(in_call=True).values_list("parked_call_id", flat=True))
    done = Cancelled([], [])
    for key in sorted(keys):
        try:
            if cancel(key):
                done.cancelled.append(key)
        except CallInProgressError:
            done.in_progress.append(key)
    return done


aoutcome = sync_to_async(outcome)
aacknowledge = sync_to_async(acknowledge)
acancel = sync_to_async(cancel)
acancel_scope = sync_to_async(cancel_scope)
