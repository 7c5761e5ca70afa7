"""Leases are kept while calls go on: few statements for all of them, and each for itself."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from elicitation.calls import keeping, parking
from elicitation.calls.lease import Lease
from elicitation.models import ParkedCall
from tests.ops.conftest import park

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

LONG = timedelta(minutes=5)


def claimed(user: User, count: int) -> list[Lease]:
    """Leases of so many calls, renewed a while ago."""
    found = []
    for number in range(count):
        (asked,) = park(user, call=f"call-{number}")
        lease = Lease(parked_call_id=asked.parked_call_id)
        with transaction.atomic():
            assert lease.claim()
        lease.renewed_at -= 20
        found.append(lease)
    return found


def seconds_ago(lease: Lease) -> float:
    return time.monotonic() - lease.renewed_at


def test_all_are_renewed_in_as_many_statements_as_one(user: User) -> None:
    counts = []
    leases = claimed(user, 30)
    for some in (leases[:1], leases):
        with CaptureQueriesContext(connection) as captured:
            parking.renew_all(some, LONG)
        counts.append(len(captured))
    assert counts[0] == counts[1]
    assert all(seconds_ago(lease) < 10 for lease in leases)
    # The rows say so, too: nobody else can claim one.
    for lease in leases:
        with transaction.atomic():
            assert not Lease(parked_call_id=lease.parked_call_id).claim()


def test_a_lease_that_another_process_took_over_is_not_renewed(user: User) -> None:
    kept, lost = claimed(user, 2)
    ParkedCall.objects.filter(pk=lost.parked_call_id).update(
        lease=Lease(parked_call_id=lost.parked_call_id).token
    )
    before = ParkedCall.objects.get(pk=lost.parked_call_id).leased_until
    parking.renew_all([kept, lost], LONG)
    assert seconds_ago(kept) < 10 < seconds_ago(lost)
    assert ParkedCall.objects.get(pk=lost.parked_call_id).leased_until == before


def test_a_row_that_is_locked_holds_up_no_other(user: User) -> None:
    if not connection.features.has_select_for_update_skip_locked:
        # SQLite locks the whole database, and no row.
        return
    free, locked = claimed(user, 2)
    has_locked, may_end = threading.Event(), threading.Event()

    def lock() -> None:
        try:
            with transaction.atomic():
                row = ParkedCall.objects.select_for_update().filter(pk=locked.parked_call_id)
                assert list(row)
                has_locked.set()
                assert may_end.wait(30)
        finally:
            connection.close()

    holder = threading.Thread(target=lock)
    holder.start()
    try:
        assert has_locked.wait(30)
        parking.renew_all([free, locked], LONG)
        assert seconds_ago(free) < 10 < seconds_ago(locked)
    finally:
        may_end.set()
        holder.join()
    parking.renew_all([free, locked], LONG)
    assert seconds_ago(locked) < 10


def test_a_lease_is_kept_as_long_as_its_call_goes_on(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = timedelta(seconds=0.3)
    leases = claimed(user, 3)
    for lease in leases:
        lease.duration = short
    renewed: list[int] = []
    renew_all = parking.renew_all

    def counting(some: list[Lease], duration: timedelta) -> None:
        renewed.append(len(some))
        renew_all(some, duration)

    monkeypatch.setattr(parking, "renew_all", counting)

    async def go_on() -> None:
        async with asyncio.timeout(10):
            with keeping.kept(leases[0]), keeping.kept(leases[1]):
                with keeping.kept(leases[2]):
                    while 3 not in renewed:
                        await asyncio.sleep(0.01)
                renewed.clear()
                while not renewed:
                    await asyncio.sleep(0.01)
                assert set(renewed) == {2}
        assert not keeping._keepers
        assert not keeping._leases

    async_to_sync(go_on)()
