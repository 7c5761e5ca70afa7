"""Each step in a process of its own, against a server in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from elicitation import inbox
from elicitation.core import FormAnswer
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from tests import processes
from tests.processes import answers, free_port, wait_until


class HttpServer:
    """The recording server; it can be stopped and started again on its port."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self.log = log
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.integration.http_server",
                str(self.port),
                str(self.log),
            ],
            cwd=processes.BASE_DIR,
            env=os.environ,
            stdin=subprocess.DEVNULL,
        )
        wait_until(lambda: answers(self.port), "the recording server")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def seen(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def http_server(tmp_path: Path) -> Iterator[HttpServer]:
    server = HttpServer(tmp_path / "seen.jsonl")
    yield server
    server.stop()


@pytest.fixture
def step(transactional_db: None, http_server: HttpServer, user: User) -> Any:
    ServerPolicy.objects.create(server="shop", policy="url_and_form")

    def run(tool: str) -> dict[str, Any]:
        process = processes.start("tests.integration.step", http_server.url, tool, str(user.pk))
        (result,) = processes.finish([process])
        return result  # type: ignore[no-any-return]

    return run


def answer(outcome: dict[str, Any], user: User, name: str) -> None:
    (key,) = outcome["pending"]
    inbox.answer(key, {"name": FormAnswer(other_text=name)}, by=user)


def test_a_tool_of_two_rounds_finishes_in_the_third_process(
    step: Any, http_server: HttpServer, user: User
) -> None:
    first = step("two")
    answer(first, user, "Ada")
    second = step("two")
    question = Elicitation.objects.get(pk=second["pending"][0])
    assert question.message == "And whom does Ada know?"
    answer(second, user, "Grace")
    assert step("two") == {"result": "first was Ada \u2028\t\U0001f600 / Grace"}
    assert [call["state"] for call in http_server.seen] == [
        None,
        "nothing yet",
        "first was Ada \u2028\t\U0001f600",
    ]
    # A retry has another id than the request it retries, over whichever connection it comes.
    assert len({call["id"] for call in http_server.seen}) == 3
    assert not ParkedCall.objects.parked().exists()
    assert not StoredFormAnswer.objects.exists()


def test_a_server_that_was_restarted_and_mints_new_keys_gets_the_answer_once(
    step: Any, http_server: HttpServer, user: User
) -> None:
    answer(step("one"), user, "Ada")
    http_server.stop()
    http_server.start()
    assert step("one") == {"result": json.dumps([["accept", {"name": "Ada"}]])}
    sent = [call["answers"] for call in http_server.seen if call["answers"]]
    assert [list(answers.values()) for answers in sent] == [[["accept", {"name": "Ada"}]]]
