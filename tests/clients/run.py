"""Every client with servers of every era: ``make clients`` runs it, in environments it makes.

The MCP server, the site, the host and the person are four processes: the host has the client's
environment and calls a tool by the code of ``docs/clients.md``, the person answers on the site's
pages, and what the server was told is compared with that. The table in the docs is made of what
came out; where it differs, the last test fails (``make clients WRITE=1`` writes it anew).
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import setup_databases, teardown_databases

from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer
from tests import asking
from tests.person import Person, site
from tests.processes import (
    BASE_DIR,
    DATABASE,
    WAIT_SECONDS,
    answers,
    free_port,
    wait_until,
)

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

ENVIRONMENTS = Path(os.environ.get("CLIENTS", BASE_DIR / ".venv-clients"))
DOCS = BASE_DIR / "docs" / "clients.md"
REPORT = BASE_DIR / "reports" / "clients.json"
ONE_BY_ONE = "".join(re.findall(r"^.*one by one.*$", DOCS.read_text(), re.MULTILINE))
BEGIN, END = "<!-- made by make clients: begin -->\n", "<!-- made by make clients: end -->"

#: For how long a person waits for all the questions that a server has sent at once, in seconds,
#: where the table says that the client takes them one by one. Elsewhere nobody gives up early.
PATIENCE = 3


@dataclass(frozen=True)
class Client:
    """One client, as a row of the table."""

    title: str
    environment: str
    package: str
    #: The code block of the docs, or the module beside this one.
    code: str
    parks: bool


CLIENTS = [
    Client("official SDK, 2.x", "mcp-2", "mcp", "mcp-2", True),
    Client("official SDK, 1.x", "mcp-1", "mcp", "mcp-1", False),
    Client("FastMCP", "fastmcp", "fastmcp-slim", "fastmcp", True),
    Client("Pydantic AI", "pydantic-ai", "pydantic-ai-slim", "pydantic-ai", True),
    Client("LangChain, `langchain.mcp`", "langchain", "langchain", "langchain", True),
    Client(
        "LangChain, `langchain-mcp-adapters`",
        "langchain-mcp-adapters",
        "langchain-mcp-adapters",
        "langchain-mcp-adapters",
        False,
    ),
    Client("OpenAI Agents SDK", "openai-agents", "openai-agents", "openai-agents", True),
    Client(
        "OpenAI Agents SDK, its own `MCPServerStreamableHttp`",
        "openai-agents",
        "openai-agents",
        "openai_agents_own",
        False,
    ),
    Client("mcp-use", "mcp-use", "mcp-use", "mcp-use", False),
]

#: The revision, the environment and the program of each server.
SERVERS = {
    "2025-06-18": ("server-2025-06-18", "server_asking_in_call.py"),
    "2025-11-25": ("mcp-1", "server_asking_in_call.py"),
    "2026-07-28": ("mcp-2", "server_asking_by_rounds.py"),
}

ADA = {"name": "Ada", "seats": 3}
GRACE = {"name": "Grace", "seats": 4}


def accepted(*contents: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"action": "accept", "content": dict(content)} for content in contents]


@dataclass(frozen=True)
class Case:
    """What a tool asks, what the person does, and what the server has to be told."""

    title: str
    tool: str
    told: list[dict[str, Any]]
    #: What is typed, by the message of the question.
    typed: Mapping[str, Mapping[str, Any]]
    does: str = "answer"
    state: str = "answered"
    timeout: float = 60
    at_once: int = 1


NUMBERS = {f"Who is number {n}?": {"name": f"Number {n}", "seats": n} for n in (1, 2, 3)}
CASES = [
    Case("accept", "one", accepted(ADA), {"Who?": ADA}),
    Case("decline", "one", [{"action": "decline"}], {"Who?": ADA}, "decline", "declined"),
    Case("time-out", "one", [{"action": "decline"}], {}, "wait", "expired", timeout=1),
    Case(
        "two rounds",
        "two",
        accepted(ADA, GRACE),
        {"Who?": ADA, "And whom does Ada know?": GRACE},
    ),
    Case("several requests", "several", accepted(*NUMBERS.values()), NUMBERS, at_once=3),
]

ROWS = [
    (client, server, way)
    for client in CLIENTS
    for server in SERVERS
    for way in ("waits", "parked")
    # Before 2026-07-28 there is nothing to park: the request is open.
    if way == "waits" or (client.parks and server == "2026-07-28")
]

#: What came out: the word of each cell, and the revision that each row spoke.
outcomes: dict[tuple[str, str, str, str], str] = {}
spoken: dict[tuple[str, str, str], str] = {}
versions: dict[str, dict[str, str]] = {}


def python(environment: str) -> str:
    found = ENVIRONMENTS / environment / "bin" / "python"
    assert found.exists(), f"{found} is missing: `make clients` makes the environments"
    return str(found)


class Host:
    """A host process in the environment of a client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.process = subprocess.Popen(
            [python(client.environment), "-m", "tests.clients.host", client.code, client.package],
            cwd=BASE_DIR,
            env=os.environ
            | {
                DATABASE: str(connection.settings_dict["NAME"]),
                "DJANGO_SETTINGS_MODULE": "tests.clients.settings",
                "MCP_USE_ANONYMIZED_TELEMETRY": "false",
                "OPENAI_AGENTS_DISABLE_TRACING": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.replies: queue.Queue[dict[str, Any]] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                # A framework may write there, too; it does not begin so.
                if line.startswith("host: "):
                    self.replies.put(json.loads(line.removeprefix("host: ")))

    def send(self, call: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()

    def reply(self) -> dict[str, Any] | None:
        try:
            return self.replies.get_nowait()
        except queue.Empty:
            assert self.process.poll() is None, "the host has stopped"
            return None

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(WAIT_SECONDS)
        finally:
            self.process.kill()
            self.reader.join(WAIT_SECONDS)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """The addresses of the servers, by revision; each is a process in its own environment."""
    started, urls = [], {}
    try:
        for revision, (environment, program) in SERVERS.items():
            port = free_port()
            command = [python(environment), str(Path(__file__).with_name(program)), str(port)]
            # They log when a client leaves before they do.
            started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            urls[revision] = f"http://127.0.0.1:{port}/mcp"
            wait_until(lambda port=port: answers(port), f"the server of {revision}")
        yield urls
    finally:
        for process in started:
            process.kill()
            process.wait(WAIT_SECONDS)


@pytest.fixture(scope="module")
def database(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A database for all cases, which four processes write to: no test rolls anything back."""
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False)
        yield
        teardown_databases(made, verbosity=0)


@pytest.fixture(scope="module")
def site_url(database: None) -> Iterator[str]:
    with site() as url:
        yield url


@pytest.fixture(scope="module")
def host_of(database: None) -> Iterator[Callable[[Client], Host]]:
    """Give the host with a client; the next one starts meanwhile, those before are stopped."""
    running: dict[Client, Host] = {}

    def give(client: Client) -> Host:
        place = CLIENTS.index(client)
        wanted = CLIENTS[place : place + 2]
        for other in running.keys() - set(wanted):
            running.pop(other).stop()
        for one in wanted:
            if one not in running:
                running[one] = Host(one)
        return running[client]

    yield give
    for host in running.values():
        host.stop()


@pytest.fixture(scope="module")
def person(site_url: str) -> Person:
    """Somebody who is signed in for all cases: each is a conversation of its own."""
    get_user_model().objects.create_user("ada", "ada@example.test", "pw")
    asking.allow()
    person = Person(site_url)
    person.sign_in("ada", "pw")
    return person


def name(client: Client, server: str, way: str, case: str) -> str:
    return f"{client.code}-{server}-{way}-{case.replace(' ', '-')}"


@pytest.mark.parametrize(
    ("client", "server", "way", "case"),
    [
        pytest.param(*row, case, id=name(*row, case.title))
        for row, case in itertools.product(ROWS, CASES)
    ],
)
def test_client(
    client: Client,
    server: str,
    way: str,
    case: Case,
    servers: dict[str, str],
    host_of: Callable[[Client], Host],
    person: Person,
) -> None:
    row = (client.title, server, way)
    scope = name(client, server, way, case.title)
    call = {
        "function": "run_tool" if way == "waits" else "park_tool",
        "url": servers[server],
        "tool": case.tool,
        "timeout": case.timeout,
        "conversation": scope,
    }
    known = f"| {client.title} | {server} " in ONE_BY_ONE
    reply = play(host_of(client), person, case, call, PATIENCE if known else WAIT_SECONDS)
    questions = list(Elicitation.objects.filter(scope=scope).order_by("asked_at", "number"))
    versions[client.title] = reply["versions"]
    text = said(reply)
    try:
        returned = json.loads(text)
    except ValueError:
        # The tool has not run; then nobody was asked, either.
        assert not questions, text
        outcomes[*row, case.title] = f"not offered: {reason(text)}"
        return
    assert returned["told"] == case.told
    assert [question.state for question in questions] == [case.state] * len(case.told)
    assert {question.delivery for question in questions} == {"delivered"}
    assert {question.in_call for question in questions} == {way == "waits"}
    assert not StoredFormAnswer.objects.exists()
    assert not ParkedCall.objects.parked().exists()
    assert spoken.setdefault(row, returned["revision"]) == returned["revision"]
    outcomes[*row, case.title] = "works" + (", one by one" if one_by_one(case, questions) else "")


def play(
    host: Host, person: Person, case: Case, call: dict[str, Any], patience: float
) -> dict[str, Any]:
    """Have the tool called, do what the person does, and return what the host says at last."""
    closed: list[str] = []
    at_once = case.at_once
    since = started = time.monotonic()
    host.send(call)
    while time.monotonic() < started + 2 * WAIT_SECONDS:
        reply = host.reply()
        if reply is not None and not reply.get("parked"):
            return reply
        waiting = [address for address in person.waiting() if address not in closed]
        if not waiting:
            since = time.monotonic()
        elif len(waiting) < at_once and time.monotonic() - since > patience:
            at_once = 1
        if case.does != "wait" and len(waiting) >= at_once:
            for address in waiting:
                act(person, case, address)
            closed += waiting
            since = time.monotonic()
        if reply is not None:
            if case.does == "wait":
                wait_until(lambda: not person.waiting(), "the question's end")
            host.send(call)
        time.sleep(0.1)
    raise AssertionError("the call did not come to its end")


def act(person: Person, case: Case, address: str) -> None:
    if case.does == "decline":
        person.decline(address)
        return
    page = person.read(address)
    # A page says what earlier rounds asked, too: what it asks itself comes last.
    *_, typed = (typed for message, typed in case.typed.items() if message in page)
    person.answer(address, {"Name": typed["name"], "Seats": typed["seats"]})


def said(reply: dict[str, Any]) -> str:
    """Return a tool's text from what the clients make of it, or why there is none."""
    if "error" in reply:
        return str(reply["error"])
    result = reply["said"]
    if isinstance(result, list):
        (result,) = result
    if isinstance(result, dict) and "text" in result:
        result = result["text"]
    return result if isinstance(result, str) else json.dumps(result)


def reason(text: str) -> str:
    """Return why a tool did not run, without the names of what differs from tool to tool."""
    (line, *_) = text.splitlines()
    return re.sub(r"^Error executing tool \w+: | required by .*|^\w+Error: ", "", line)


def one_by_one(case: Case, questions: list[Elicitation]) -> bool:
    """Whether requests that the server sent at once were put to the person one by one."""
    if case.at_once == 1:
        return False
    first, *_, last = questions
    assert first.closed_at is not None
    return last.asked_at > first.closed_at


def test_the_table_in_the_docs_is_what_came_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(outcomes) == len(ROWS) * len(CASES), "not every case has come to its end"
    REPORT.parent.mkdir(exist_ok=True)
    report = {
        "versions": versions,
        "cells": [
            {"client": client, "server": server, "way": way, "case": case, "outcome": outcome}
            for (client, server, way, case), outcome in outcomes.items()
        ],
    }
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    with capsys.disabled():
        print("", *(f"{client}: {tested}" for client, tested in versions.items()), sep="\n")  # noqa: T201
    page = DOCS.read_text()
    before, _, rest = page.partition(BEGIN)
    committed, _, after = rest.partition(END)
    made = table()
    if os.environ.get("WRITE"):
        DOCS.write_text(f"{before}{BEGIN}{made}{END}{after}")
    else:
        assert committed == made, "docs/clients.md: `make clients WRITE=1` writes its table anew"


def table() -> str:
    """Return the table, made of nothing but what came out."""
    titles = [case.title for case in CASES]
    lines = [
        f"| client | server | spoken | way | {' | '.join(titles)} |",
        "|" + "---|" * (4 + len(titles)),
    ]
    reasons: list[str] = []

    def cell(outcome: str) -> str:
        word, _, why = outcome.partition(": ")
        if not why:
            return word
        if why not in reasons:
            reasons.append(why)
        return f"{word} ({reasons.index(why) + 1})"

    for client, server, way in ROWS:
        row = (client.title, server, way)
        cells = [cell(outcomes[*row, title]) for title in titles]
        lines.append("| " + " | ".join([*row[:2], spoken.get(row, "none"), way, *cells]) + " |")
    notes = [f"{number}. The call ended with: {why}." for number, why in enumerate(reasons, 1)]
    tested = []
    for client in CLIENTS:
        found = versions[client.title]
        line = f"* {client.title}: `{client.package}` {minor(found[client.package])}"
        tested.append(
            line + ("" if client.package == "mcp" else f", on `mcp` {found['mcp'][0]}.x")
        )
    return "\n".join([*lines, "", *notes, "", "Tested:", "", *tested, ""])


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
