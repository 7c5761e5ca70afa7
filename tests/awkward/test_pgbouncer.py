"""Transaction pooling by the real PgBouncer: no session state, no server-side cursors.

Nor is anything heard through it, though ``LISTEN`` succeeds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import connection

from elicitation import inbox
from elicitation.models import Elicitation, StoredFormAnswer
from elicitation.store import DatabaseFormAnswerStore
from tests import asking, processes
from tests.store.conftest import elicitation, plan

ANSWERS, TAKERS = 60, 6

CONFIGURATION = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = {mode}
default_pool_size = {size}
"""

# Only PostgreSQL has it; where the tests run on PostgreSQL it must be installed.
if connection.vendor == "postgresql":

    @pytest.fixture
    def bouncer(request: pytest.FixtureRequest) -> Iterator[int]:
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        assert Path(program).exists(), "PgBouncer is not installed (Debian: pgbouncer)."
        settings = connection.settings_dict
        port = processes.free_port()
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            # It does not run as root; whoever it runs as must read its files.
            directory.chmod(0o755)
            users, file = directory / "users", directory / "pgbouncer.ini"
            users.write_text(f'"{settings["USER"]}" "{settings["PASSWORD"]}"\n')
            file.write_text(
                CONFIGURATION.format(
                    host=settings["HOST"] or "127.0.0.1",
                    port=settings["PORT"] or 5432,
                    own_port=port,
                    users=users,
                    mode=getattr(request, "param", "transaction"),
                    # In a session's pool each connection of ours needs one of the server's.
                    size=10 if hasattr(request, "param") else 2,
                )
            )
            process = subprocess.Popen(
                [program, "--quiet", str(file)],
                stderr=subprocess.DEVNULL,
                user="nobody" if os.getuid() == 0 else None,
            )
            try:
                processes.wait_until(lambda: listens(port), "PgBouncer")
                yield port
            finally:
                process.terminate()
                process.wait(30)

    def listens(port: int) -> bool:
        import socket

        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            return False
        return True

    @pytest.fixture
    def through(bouncer: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the processes that a test starts work on its database through PgBouncer."""
        settings = connection.settings_dict
        user, password = quote(settings["USER"]), quote(settings["PASSWORD"])
        monkeypatch.setenv(
            "DATABASE_URL",
            f"postgres://{user}:{password}@127.0.0.1:{bouncer}/x?DISABLE_SERVER_SIDE_CURSORS=true",
        )

    @pytest.mark.usefixtures("through")
    @pytest.mark.django_db(transaction=True)
    def test_six_processes_over_two_connections_take_each_answer_once() -> None:
        for number in range(ANSWERS):
            store = DatabaseFormAnswerStore(scope="race", call=f"call-{number}")
            store.record_form_answer(elicitation(), "accept", plan("team"))
        takers = [processes.start("tests.store.taker", str(ANSWERS)) for _ in range(TAKERS)]
        taken = Counter(
            call
            for taker in takers
            for call in json.loads(taker.communicate("go\n", timeout=120)[0].splitlines()[-1])
        )
        assert taken == Counter({f"call-{number}": 1 for number in range(ANSWERS)})
        assert not StoredFormAnswer.objects.exists()

    @pytest.mark.usefixtures("through")
    @pytest.mark.django_db(transaction=True)
    def test_what_streams_many_rows_needs_no_cursor_of_the_server(user: User) -> None:
        for number in range(5):
            asking.ask(user, asking.schema(plan={"type": "string"}), call=f"call-{number}")
        ran = processes.start(
            "tests.awkward.command",
            *("elicitation_audit", "--since", "2020-01-01", "--format", "jsonl"),
        )
        out, err = ran.communicate(timeout=60)
        assert ran.returncode == 0, err
        assert len(out.splitlines()) == Elicitation.objects.count() == 5

    def wait(user: User, patience: int, says: str) -> None:
        asking.allow()
        waits = processes.start("tests.awkward.waiting", str(user.pk), str(patience))
        assert waits.stdout is not None
        assert waits.stdout.readline().startswith(says)
        question = Elicitation.objects.open().get()
        inbox.answer(question.pk, plan("team"), by=user)
        out, err = waits.communicate(timeout=60)
        assert waits.returncode == 0, err
        assert json.loads(out) == {"action": "accept", "content": {"plan": "team"}}

    @pytest.mark.usefixtures("through")
    @pytest.mark.django_db(transaction=True)
    def test_a_call_that_waits_notices_that_it_is_deaf_and_looks_for_the_answer(
        user: User,
    ) -> None:
        wait(user, 1, "The process cannot listen to PostgreSQL;")

    @pytest.mark.usefixtures("through")
    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("bouncer", ["session"], indirect=True)
    def test_with_a_pool_of_sessions_it_hears(user: User, bouncer: int) -> None:
        wait(user, 60, "The process listens to PostgreSQL")
