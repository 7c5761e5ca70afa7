"""Leases that are kept while their calls go on: few statements for all calls of an event loop."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context
from datetime import timedelta
from functools import partial

from ..inbox.listening import between_requests
from . import parking
from .lease import Lease

logger = logging.getLogger("elicitation")

#: What is kept together: the leases of one duration in one event loop.
Group = tuple[asyncio.AbstractEventLoop, timedelta]

_leases: dict[Group, dict[uuid.UUID, Lease]] = {}
_keepers: dict[Group, asyncio.Task[None]] = {}


@contextmanager
def kept(lease: Lease) -> Iterator[None]:
    """Renew a lease three times in its duration as long as this lasts; in an event loop."""
    group = (asyncio.get_running_loop(), lease.duration)
    leases = _leases.setdefault(group, {})
    leases[lease.token] = lease
    if group not in _keepers:
        # In a context of its own: it outlives the request that happened to start it.
        _keepers[group] = group[0].create_task(_keep(group), context=Context())
    try:
        yield
    finally:
        del leases[lease.token]
        if not leases:
            del _leases[group]
            _keepers.pop(group).cancel()


async def _keep(group: Group) -> None:
    _loop, duration = group
    while True:
        await asyncio.sleep(duration.total_seconds() / 3)
        leases = list(_leases[group].values())
        try:
            await between_requests(partial(parking.renew_all, leases, duration))
        except Exception as error:
            # A lease that runs out is looked at before anything is taken or sent.
            logger.warning(
                "The leases of calls could not be renewed",
                extra={"calls": len(leases), "error": type(error).__name__},
            )
