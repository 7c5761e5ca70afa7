"""The database restarts under a running worker, which goes on afterwards.

On SQLite there is no server that could restart.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from django.db import DatabaseError, connection

from elicitation import calls, inbox
from elicitation.models import Elicitation
from tests.named.conftest import Serve
from tests.processes import WAIT_SECONDS, wait_until

from .conftest import StartWorker
from .process import PATIENT
from .test_worker import ended

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

#: Which connections there are to the database of a test, and what ends one.
OTHERS = {
    "postgresql": """
        SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
    """,
    "mysql": """
        SELECT id FROM information_schema.processlist
        WHERE db = DATABASE() AND id <> CONNECTION_ID()
    """,
}
KILL = {"postgresql": "SELECT pg_terminate_backend(%s)", "mysql": "KILL %s"}

#: What a worker may say of it.
SAID = {
    "The process cannot listen to PostgreSQL; it polls instead",
    "The worker could not use the database; trying again",
    "The elicitations that are waited for could not be looked up; trying again",
}


class Gate:
    """Stands before the database of a worker, and refuses who comes while that restarts."""

    def __init__(self, host: str, port: int) -> None:
        self.database = host, port
        self.is_open = True
        self.refused = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        # Until the socket is closed.
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                if not self.is_open:
                    self.refused += 1
                    client.close()
                    continue
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.database) as database:
            back = threading.Thread(target=_pass_on, args=(database, client), daemon=True)
            back.start()
            _pass_on(client, database)
            back.join()

    def restart(self) -> None:
        """Refuse everybody, and end all connections but the one of this test."""
        self.is_open = False
        with connection.cursor() as cursor:
            cursor.execute(OTHERS[connection.vendor])
            pids = [row[0] for row in cursor.fetchall()]
            assert pids
            for pid in pids:
                # It may have ended by itself.
                with suppress(DatabaseError):
                    cursor.execute(KILL[connection.vendor], [pid])


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    # The other direction has nothing more to say, either.
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    url = urlsplit(os.environ["DATABASE_URL"])
    assert url.hostname
    assert url.port
    gate = Gate(url.hostname, url.port)
    there = url.netloc.rpartition("@")[0] + f"@127.0.0.1:{gate.port}"
    # A connection that is kept, and broken, is what Django itself does not notice.
    url = url._replace(netloc=there, query="CONN_MAX_AGE=600")
    monkeypatch.setenv("DATABASE_URL", url.geturl())
    # The restart takes longer than a worker of the other tests may be silent.
    monkeypatch.setenv(PATIENT, "30")
    yield gate
    gate.listening.close()


def answer(user: User, **which: bool) -> None:
    for asked in Elicitation.objects.pending().filter(respondent=user, **which):
        inbox.answer(asked.pk, asked.schema.answers_from_content({"note": "blue"}), by=user)


if connection.vendor != "sqlite":

    @pytest.mark.parametrize("answered", ["while", "after"])
    def test_a_worker_goes_on_after_a_restart(
        answered: str, serve: Serve, user: User, worker: StartWorker, gate: Gate
    ) -> None:
        servers = {"shop": serve("shop", "http"), "old": serve("old", "http", "legacy")}
        process = worker()
        keys = [
            calls.start_sync(server, "ask", scope="chat", user=user, call="1")
            for server in servers
        ]
        pending = Elicitation.objects.pending()
        wait_until(lambda: pending.count() == 2, "the questions")
        gate.restart()
        wait_until(lambda: gate.refused >= 3, "tries to connect")
        if answered == "while":
            # What is waited for in the middle of a call is taken at once, which fails just now.
            answer(user, in_call=False)
        keys.append(calls.start_sync("shop", "say", scope="chat", user=user, call="2"))
        gate.is_open = True
        answer(user)
        outcomes = [ended(key) for key in keys]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT_SECONDS)
        assert [outcome.code for outcome in outcomes] == ["finished"] * 3, err
        lines = err.splitlines()
        # Each trouble is said once, however often it was met.
        assert len(lines) == len(set(lines)), err
        assert set(lines) <= SAID
        assert "The worker could not use the database; trying again" in lines
