"""Calls that a worker makes: the row of one, before anything was sent."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from ..conf import settings
from ..models import ParkedCall, encode_json, row_key
from ..transactions import in_transaction, write_alias
from . import parking, queues
from .values import STARTED, Call, named

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser


@sensitive_variables()
def start(
    server: str,
    tool: str,
    arguments: Mapping[str, Any] | None,
    *,
    scope: str,
    user: AbstractBaseUser,
    call: str,
    scope_label: str,
    meta: Mapping[str, Any] | None,
    read_timeout: float | None,
    method: str,
) -> uuid.UUID:
    """Store a call that a worker is to make, as ``elicitation.calls.start`` says."""
    settings.named_server(server)
    tool, arguments = named(method, tool, arguments)
    options = {"meta": meta, "read_timeout": read_timeout}
    made = Call(
        scope=scope,
        server=server,
        tool=tool,
        arguments=arguments,
        respondent_id=user.pk,
        call=call,
        scope_label=scope_label,
        method=method,
        options={name: value for name, value in options.items() if value is not None},
    )
    now = timezone.now()
    row = ParkedCall(
        id=made.parked_call_id,
        scope=made.scope,
        scope_key=row_key(made.scope),
        scope_label=made.scope_label,
        call=made.call,
        server=made.server,
        policy_id=row_key(made.server),
        tool=made.tool,
        method=made.method,
        respondent_id=made.respondent_id,
        arguments=made.arguments_json,
        options=encode_json("options", dict(made.options), settings.MAX_CALL_BYTES),
        round=STARTED,
        requests="{}",
        request_state="null",
        received_at=now,
        # From then on the outbox says again that the call is to be made.
        look_at=now + settings.RESUME_AFTER,
    )

    def store() -> None:
        there = parking.rows().filter(pk=row.pk)
        if not there.exists():
            # The same call may be started by another process just now: that one is as good.
            parking.rows().bulk_create([row], ignore_conflicts=True)
            enqueue = partial(queues.enqueue, row.pk)
            transaction.on_commit(enqueue, using=write_alias(), robust=True)
        if there.values_list("respondent_id", flat=True).get() != made.respondent_id:
            raise parking.AnotherRespondentError

    in_transaction(store)
    return made.parked_call_id
