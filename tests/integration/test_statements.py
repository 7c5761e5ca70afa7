"""How many statements each step of a call sends to the database.

Round trips are what a flow pays for. A statement is what the database works on: the ones that
begin and end a transaction are counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer
from tests.integration.conftest import Host
from tests.integration.scripted import ScriptedServer, said
from tests.integration.test_rounds import one_round, two_rounds

HostFor = Callable[[ScriptedServer], Host]

#: What SQLite needs more: it takes its one write lock by a statement of its own.
WRITE_LOCK = 1 if connection.vendor == "sqlite" else 0


@dataclass
class Counted:
    statements: int = 0
    transactions: int = 0
    sql: str = ""


@contextmanager
def counted() -> Iterator[Counted]:
    """Count statements, and transactions that committed."""
    found = Counted()
    with CaptureQueriesContext(connection) as captured:
        yield found
    for query in captured:
        sql = query["sql"]
        if sql.startswith("COMMIT"):
            found.transactions += 1
        elif not sql.startswith(("BEGIN", "START TRANSACTION", "SAVEPOINT", "RELEASE")):
            found.statements += 1
            found.sql += f"\n{sql[:300]}"


def test_ask(host_for: HostFor) -> None:
    host = host_for(ScriptedServer(one_round))
    with counted() as found:
        host.pending()
    # The policy for the client's capabilities is read by the site before it connects.
    assert found.statements - 1 <= 8, found.sql
    assert found.transactions == 1


def test_resume_of_one_round(host_for: HostFor) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    host.answer(pending, plan="team")
    with counted() as found:
        assert said(host.resume(pending)) == "{'plan': 'team'}"
    assert found.statements - 1 <= 12 + WRITE_LOCK, found.sql
    assert found.transactions <= 3
    assert not ParkedCall.objects.parked().exists()


def test_resume_into_another_round(host_for: HostFor) -> None:
    host = host_for(ScriptedServer(two_rounds))
    pending = host.pending()
    host.answer(pending, plan="team")
    with counted() as found:
        host.pending(host.resume, pending)
    assert found.statements - 1 <= 16 + WRITE_LOCK, found.sql
    assert found.transactions <= 2


def test_the_page_records_an_answer(host_for: HostFor, user: User, client: Client) -> None:
    host = host_for(ScriptedServer(one_round))
    pending = host.pending()
    elicitation = Elicitation.objects.get()
    client.force_login(user)
    body = {"fingerprint": elicitation.fingerprint, "a-0": "1"}
    with counted() as found:
        response = client.post(pending.urls[0], body)
    assert response.status_code == 302
    assert StoredFormAnswer.objects.count() == 1
    # Two are the session's and the user's.
    assert found.statements - 2 <= 5 + WRITE_LOCK, found.sql
    assert found.transactions == 1


def test_a_miss_of_the_take_is_one_look(
    host_for: HostFor, django_assert_num_queries: Callable[[int], Any]
) -> None:
    from elicitation.calls.values import Call

    host = host_for(ScriptedServer(one_round))
    host.pending()
    store = Call.of(ParkedCall.objects.get()).answers
    elicitation = Elicitation.objects.get().form_elicitation
    with django_assert_num_queries(1):
        assert store.take_form_answer(elicitation) is None
