"""Switch servers off: withdraw what they ask people, and end the calls that ask."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Count, Min

from .. import inbox
from ..conf import settings
from ..models import (
    Elicitation,
    ElicitationQuerySet,
    ParkedCall,
    ParkedCallQuerySet,
    ServerPolicy,
    check_name,
    row_key,
)
from ..transactions import in_transaction, write_alias
from . import parking
from .ended import SERVER_AT_WORK, Code, Ended
from .lease import Lease
from .requests import refusal_by
from .values import STARTED

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

Via = Elicitation.Via


class UnderWay(NamedTuple):
    """How much a server has under way."""

    #: Elicitations that wait for people.
    waiting: int = 0
    #: Calls that have asked, and have not ended.
    calls: int = 0


class SwitchedOff(NamedTuple):
    """What ``switch_off`` did, in numbers."""

    #: Elicitations that were withdrawn.
    withdrawn: int
    #: Calls that were ended.
    ended: int
    #: Calls that another process is resuming. They end when it looks at the policy.
    in_progress: int


def under_way() -> dict[str, UnderWay]:
    """Return how much each server that this site knows has under way, by their names.

    Known are servers with a policy, those of ``ELICITATION_SERVERS``, and those with something
    under way. A server that asks for the first time later is none of them.
    """
    alias = write_alias()
    names = {*ServerPolicy.objects.using(alias).values_list("server", flat=True)}
    names |= set(settings.SERVERS)
    waiting = _count(Elicitation.objects.using(alias).pending())
    calls = _count(_asking())
    names |= {*waiting, *calls}
    return {name: UnderWay(waiting.get(name, 0), calls.get(name, 0)) for name in sorted(names)}


def _count(rows: ElicitationQuerySet | ParkedCallQuerySet) -> dict[str, int]:
    # By key: MariaDB's collations call `Shop` and `shop` equal.
    found = rows.order_by().values("policy_id").annotate(name=Min("server"), number=Count("pk"))
    return {row["name"]: row["number"] for row in found}


def _asking() -> ParkedCallQuerySet:
    """Return the calls that have asked. Others do not need their policy to go on."""
    return parking.rows().parked().filter(round__gt=STARTED)


def switch_off(
    server: str, *, by: AbstractBaseUser | None = None, via: str = Via.HOST
) -> SwitchedOff:
    """Let a server put nothing to people any more, from this moment on.

    First its policy becomes *nothing*, and is committed. No answer is taken for the server after
    that. Then what it asks is withdrawn, and the calls that ask are ended as ``switched_off``:
    their hosts receive ``call_finished``. A server that waits in the middle of a call receives
    ``decline`` (``ELICITATION_UNANSWERED``), and one that goes on with a call as a task is sent
    ``tasks/cancel``.

    Args:
        server: The name under which this site configured the server.
        by: Who does it; ``None`` for a program.
        via: The interface that was used.

    Raises:
        InvalidNameError: It is no name that a row can hold.
    """
    name = check_name("The server", server)
    in_transaction(partial(_forbid, name))
    return stop(name, by=by, via=via)


def _forbid(server: str) -> None:
    rows = ServerPolicy.objects.using(write_alias())
    if rows.filter(pk=row_key(server)).update(policy=ServerPolicy.Policy.NONE):
        return
    try:
        row = ServerPolicy.from_settings(server)
    except ImproperlyConfigured:
        row = ServerPolicy(server=server)
    row.policy = ServerPolicy.Policy.NONE
    row.save(using=write_alias())


def stop(server: str, *, by: AbstractBaseUser | None = None, via: str = Via.HOST) -> SwitchedOff:
    """Withdraw what a server asks, and end its calls, where its policy forbids them already.

    Each call is a transaction of its own. If this is cut off, call it again.
    """
    policy = ServerPolicy.objects.for_server(server)

    def forbidden(rows: ElicitationQuerySet | ParkedCallQuerySet) -> list[uuid.UUID]:
        found = rows.order_by("pk").values_list("pk", "tool")
        return [key for key, tool in found if not policy.for_tool(tool).allows_asking]

    calls = forbidden(_asking().filter(policy=row_key(server)))
    done = [in_transaction(partial(_end, key, policy, by, via)) for key in calls]
    withdrawn = sum(number for number in done if number is not None)
    # In the middle of calls, and of calls that are gone: whoever waits looks at the policy.
    asked = Elicitation.objects.using(write_alias()).of_server(server).pending()
    withdrawn += _withdraw(forbidden(asked), by, via)
    ended = sum(number is not None for number in done)
    return SwitchedOff(withdrawn, ended, len(calls) - ended)


def _end(
    key: uuid.UUID, policy: ServerPolicy, by: AbstractBaseUser | None, via: str
) -> int | None:
    """End a call, and withdraw what it asks; return how much that was.

    ``None`` if a process is resuming it: that process looks at the policy before it sends
    anything.
    """
    parked = parking.rows().parked().filter(pk=key)
    lease = Lease(parked_call_id=key)
    if not lease.hold(parked.unleased()):
        return None
    row: ParkedCall = parked.get()
    asked = Elicitation.objects.using(write_alias()).of_call(key).pending()
    withdrawn = _withdraw(asked.order_by("pk").values_list("pk", flat=True), by, via)
    refusal = refusal_by(policy, row.tool)
    reason = refusal.code if row.working_since is None else SERVER_AT_WORK
    parking.close(
        row,
        Ended(code=Code.SWITCHED_OFF, reason=reason),
        lease=lease,
        carried=parking.Carried(refusal=refusal),
    )
    return withdrawn


def _withdraw(keys: Iterable[uuid.UUID], by: AbstractBaseUser | None, via: str) -> int:
    withdrawn = 0
    for key in list(keys):
        with suppress(inbox.ElicitationClosedError, Elicitation.DoesNotExist):
            inbox.withdraw(key, by=by, via=via, reason=inbox.SWITCHED_OFF)
            withdrawn += 1
    return withdrawn
