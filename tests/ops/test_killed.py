"""A process that is killed (``SIGKILL``) loses nothing, and nothing that was sent is repeated.

What is killed is a process of its own, the server is another, and this one goes on with the call
afterwards as any process may: nothing but the database connects them. The database is that of
this run; CI runs these tests on PostgreSQL, on MariaDB and on SQLite.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from tests import processes
from tests.integration.test_processes import HttpServer

from . import process
from .conftest import age, answer

pytestmark = pytest.mark.django_db(transaction=True)


class Site:
    """A server and a host, each process of which may be killed."""

    def __init__(self, server: HttpServer, user: User) -> None:
        self.server = server
        self.user = user
        self.server.log.write_text("")

    def killed(self, point: str, *arguments: str) -> None:
        dying = processes.start("tests.ops.process", point, *arguments)
        out, err = dying.communicate(timeout=60)
        assert dying.returncode == -signal.SIGKILL, (out, err)
        # The process held the call's lease, which runs out a few seconds after.
        ParkedCall.objects.update(leased_until=timezone.now() - timedelta(seconds=1))

    def call(self) -> dict[str, Any]:
        return process.call(self.server.url, str(self.user.pk))

    def answer(self, name: str) -> None:
        answer(Elicitation.objects.pending().get(), self.user, name)

    def outbox(self) -> dict[str, Any]:
        """Run ``elicitation_resume`` a minute later."""
        for elicitation in Elicitation.objects.undelivered():
            age(elicitation, resume_at=1)
        return process.outbox(self.server.url)

    @property
    def sent(self) -> list[Any]:
        """Every answer that the server received."""
        return [given for call in self.server.seen for given in call["answers"].values()]

    def assert_finished(self, *names: str) -> None:
        assert self.sent == [["accept", {"name": name}] for name in names]
        assert not ParkedCall.objects.parked().exists()
        assert not StoredFormAnswer.objects.exists()
        assert not Elicitation.objects.undelivered().exists()


def line(sent: int) -> str:
    return f"elicitation_resume: sent again {sent}, given up 0\n"


def result(name: str) -> dict[str, str]:
    return {"result": json.dumps([["accept", {"name": name}]])}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    server = HttpServer(tmp_path_factory.mktemp("server") / "seen.jsonl")
    yield server
    server.stop()


@pytest.fixture
def site(transactional_db: None, server: HttpServer, user: User) -> Site:
    ServerPolicy.objects.create(server="shop", policy="url_and_form")
    return Site(server, user)


def test_after_the_commit_of_the_ask(site: Site) -> None:
    site.killed("after the ask's commit", "call", site.server.url, str(site.user.pk))
    # The host never heard that it waits; the person sees the question, and the call joins it.
    waiting = Elicitation.objects.pending().get()
    assert site.call() == {"pending": [str(waiting.pk)]}
    site.answer("Ada")
    assert site.call() == result("Ada")
    assert Elicitation.objects.get().delivery == "delivered"
    site.assert_finished("Ada")


def test_after_the_commit_of_the_ask_when_the_host_never_calls_again(site: Site) -> None:
    site.killed("after the ask's commit", "call", site.server.url, str(site.user.pk))
    site.answer("Ada")
    assert site.outbox() == {"line": line(1), "outcomes": [result("Ada")]}
    site.assert_finished("Ada")


def test_after_the_commit_of_the_answer_and_before_the_signal(site: Site) -> None:
    (key,) = site.call()["pending"]
    site.killed("before the signal", "answer", key, str(site.user.pk), "Ada")
    assert Elicitation.objects.get().state == "answered"
    assert site.sent == []
    assert site.outbox() == {"line": line(1), "outcomes": [result("Ada")]}
    assert Elicitation.objects.get().delivery == "delivered"
    site.assert_finished("Ada")


@pytest.mark.parametrize("how", ["called again", "told by the outbox"])
def test_after_the_commit_of_the_take_and_before_the_retry(site: Site, how: str) -> None:
    (key,) = site.call()["pending"]
    site.answer("Ada")
    site.killed("before the retry", "call", site.server.url, str(site.user.pk))
    assert site.sent == []
    assert not StoredFormAnswer.objects.exists()
    # Whether the answer was sent cannot be known, so it is not sent: the person is asked again.
    if how == "called again":
        (again,) = site.call()["pending"]
    else:
        told = site.outbox()
        assert told["line"] == line(1)
        ((again,),) = (outcome["pending"] for outcome in told["outcomes"])
    assert again != key
    lost = Elicitation.objects.get(pk=key)
    assert (lost.state, lost.delivery) == ("answered", "round_lost")
    site.answer("Grace")
    assert site.call() == result("Grace")
    assert Elicitation.objects.get(pk=again).delivery == "delivered"
    site.assert_finished("Grace")


def test_after_the_retry_and_before_the_close(site: Site) -> None:
    (key,) = site.call()["pending"]
    site.answer("Ada")
    site.killed("before the close", "call", site.server.url, str(site.user.pk))
    assert site.sent == [["accept", {"name": "Ada"}]]
    told = site.outbox()
    ((again,),) = (outcome["pending"] for outcome in told["outcomes"])
    # The answer was sent once and is not sent again; what came of it nobody knows any more.
    assert site.sent == [["accept", {"name": "Ada"}]]
    lost = Elicitation.objects.get(pk=key)
    assert (lost.state, lost.delivery) == ("answered", "round_lost")
    assert again != key
    site.answer("Grace")
    assert site.call() == result("Grace")
    site.assert_finished("Ada", "Grace")


def test_a_copy_of_the_outbox_that_dies_leaves_the_call_to_the_next(site: Site) -> None:
    site.call()
    site.answer("Ada")
    Elicitation.objects.update(resume_at=timezone.now())
    site.killed("before the signal", "outbox", site.server.url)
    assert Elicitation.objects.get().resent == 1
    assert site.outbox() == {"line": line(1), "outcomes": [result("Ada")]}
    site.assert_finished("Ada")
