"""Prompts and resources that ask are parked as tools are, and none is taken for another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import Client

from elicitation import calls, inbox
from elicitation.calls import background
from elicitation.calls.jobs import go_on_sync
from elicitation.core import ElicitationPending
from elicitation.inbox import audit
from elicitation.mcp.client import aclient_options, get_prompt, read_resource
from elicitation.mcp.transport import connect
from elicitation.models import Elicitation, InvalidNameError, ParkedCall
from tests import processes

from .asking import ARGUMENTS, URI, request

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = {
    "tools/call": "CallToolResult",
    "prompts/get": "GetPromptResult",
    "resources/read": "ReadResourceResult",
}
SENT = {"tools/call": ARGUMENTS, "prompts/get": ARGUMENTS, "resources/read": URI}
OTHERS = pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
METHODS = pytest.mark.parametrize("method", list(KINDS))

Serve = Callable[[str], Path]


@pytest.fixture
def serve(tmp_path: Path, settings: SettingsWrapper) -> Iterator[Serve]:
    """Run the server of an era as ``shop``, and return its log."""
    with ExitStack() as stack:

        def run(era: str) -> Path:
            port, log = processes.free_port(), tmp_path / f"{era}.log"
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.methods.server", era, str(log), str(port)],
                cwd=processes.BASE_DIR,
                env=os.environ,
                stdin=subprocess.DEVNULL,
            )
            stack.callback(process.wait, processes.WAIT_SECONDS)
            stack.callback(process.kill)
            processes.wait_until(lambda: processes.answers(port), "the server")
            settings.ELICITATION_SERVERS = {
                "shop": {"url": f"http://127.0.0.1:{port}/mcp", "policy": "url_and_form"}
            }
            return log

        yield run
        background.stop()


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def answer(user: User, note: str) -> Elicitation:
    """Answer what is asked, once it is."""
    pending = Elicitation.objects.pending().filter(respondent=user)
    processes.wait_until(pending.exists, "a question")
    asked = pending.get()
    inbox.answer(asked.pk, asked.schema.answers_from_content({"note": note}), by=user)
    return asked


def text_of(kind: str, result: dict[str, Any]) -> str:
    """Return the text of a result that was dumped in a process of its own."""
    if kind == "GetPromptResult":
        return str(result["messages"][0]["content"]["text"])
    key = "content" if kind == "CallToolResult" else "contents"
    return str(result[key][0]["text"])


def step(settings: SettingsWrapper, *arguments: str) -> Any:
    servers = json.dumps(settings.ELICITATION_SERVERS)
    return processes.start("tests.methods.step", servers, *arguments)


@METHODS
def test_what_asks_twice_finishes_in_the_third_process(
    method: str, serve: Serve, user: User, settings: SettingsWrapper
) -> None:
    log = serve("modern")
    (first,) = processes.finish([step(settings, method, str(user.pk))])
    asked = answer(user, "a.py")
    assert (asked.method, asked.message) == (method, "Which file?")
    (second,) = processes.finish([step(settings, method, str(user.pk), first["parked"])])
    assert second == first
    assert answer(user, "7").message == "Which line?"
    (third,) = processes.finish([step(settings, method, str(user.pk), first["parked"])])
    assert third["kind"] == KINDS[method]
    assert text_of(third["kind"], third["result"]) == "a.py 7"
    seen = lines(log)
    assert [line["answers"] for line in seen] == [[], ["a.py"], ["7"]]
    assert {(line["method"], json.dumps(line["what"])) for line in seen} == {
        (method, json.dumps(SENT[method]))
    }
    outcome = calls.outcome(first["parked"])
    assert (outcome.code, outcome.method) == ("finished", method)
    assert outcome.as_tool_result() == "a.py 7"
    records = list(audit.records())
    assert [(each["method"], each["delivery"]) for each in records] == [(method, "delivered")] * 2


@METHODS
def test_what_asks_twice_in_its_middle_is_waited_for(
    method: str, serve: Serve, user: User, settings: SettingsWrapper
) -> None:
    log = serve("legacy")
    process = step(settings, method, str(user.pk))
    first, second = answer(user, "a.py"), answer(user, "7")
    (result,) = processes.finish([process])
    assert text_of(result["kind"], result["result"]) == "a.py 7"
    assert [(line["method"], line["what"]) for line in lines(log)] == [(method, SENT[method])]
    assert [(each.method, each.in_call) for each in (first, second)] == [(method, True)] * 2
    assert first.parked_call_id == second.parked_call_id


def test_none_is_taken_for_another_of_the_same_name(serve: Serve, user: User) -> None:
    serve("modern")
    keys = {}
    for method in KINDS:
        with pytest.raises(ElicitationPending) as caught:
            request(method, user)
        keys[method] = caught.value.parked_call_id
    assert len(set(keys.values())) == 3
    assert Elicitation.objects.count() == 3
    # The answer for the prompt goes to the prompt.
    asked = Elicitation.objects.get(method="prompts/get")
    inbox.answer(asked.pk, asked.schema.answers_from_content({"note": "a.py"}), by=user)
    for method in ("tools/call", "resources/read"):
        with pytest.raises(ElicitationPending):
            request(method, user)
    assert sorted(ParkedCall.objects.values_list("method", "round")) == [
        (method, 1) for method in sorted(KINDS)
    ]


def test_two_long_uris_with_one_beginning_are_two(serve: Serve, user: User) -> None:
    serve("modern")
    for uri in (URI + "b", URI + "c"):
        with pytest.raises(ElicitationPending):
            calls.read_resource_sync("shop", uri, scope="chat", user=user, call="c1")
    names = set(ParkedCall.objects.values_list("tool", flat=True))
    assert len(names) == 2
    assert {len(name) for name in names} == {200}


@OTHERS
def test_a_worker_makes_them(method: str, serve: Serve, user: User) -> None:
    serve("modern")
    name = URI if method == "resources/read" else "review"
    key = calls.start_sync("shop", name, scope="chat", user=user, method=method)
    for note in ("a.py", "7"):
        go_on_sync(key)
        answer(user, note)
    go_on_sync(key)
    assert calls.outcome(key).as_tool_result() == "a.py 7"


@OTHERS
def test_a_session_of_the_hosts_own(
    method: str, serve: Serve, user: User, settings: SettingsWrapper
) -> None:
    serve("modern")
    url = settings.ELICITATION_SERVERS["shop"]["url"]

    async def go() -> Any:
        async with connect(url, **await aclient_options("shop")) as client:
            common: Any = {"server": "shop", "scope": "chat", "respondent": user}
            try:
                if method == "prompts/get":
                    return await get_prompt(
                        client.session, prompt="review", arguments=ARGUMENTS, **common
                    )
                return await read_resource(client.session, uri=URI, **common)
            except ElicitationPending:
                return None

    for note in ("a.py", "7"):
        assert async_to_sync(go)() is None
        answer(user, note)
    result = async_to_sync(go)()
    assert type(result).__name__ == KINDS[method]
    # The stored result is of the same kind.
    assert async_to_sync(go)() == result


@OTHERS
def test_nobody_is_asked_where_there_is_no_user(method: str, serve: Serve) -> None:
    log = serve("modern")
    request(method, None)  # type: ignore[arg-type]
    assert [line["answers"] for line in lines(log)] == [[], ["decline"], ["decline"]]
    assert not Elicitation.objects.exists()


@pytest.mark.parametrize(
    ("method", "label", "why", "before", "again"),
    [
        ("tools/call", "<dt>Tool</dt>", None, "before its tool 'review' can run", "call the tool"),
        (
            "prompts/get",
            "<dt>Prompt</dt>",
            "to fill in the prompt",
            "before it fills in its prompt 'review'",
            "get the prompt",
        ),
        (
            "resources/read",
            "<dt>Resource</dt>",
            "lets the AI agent read a resource",
            "before its resource 'review:",
            "read the resource",
        ),
    ],
)
def test_the_page_and_the_texts_say_what_asks(
    method: str,
    label: str,
    why: str | None,
    before: str,
    again: str,
    serve: Serve,
    user: User,
    client: Client,
) -> None:
    serve("modern")
    with pytest.raises(ElicitationPending) as caught:
        request(method, user)
    pending, row = caught.value, Elicitation.objects.get().pending()
    for text in (str(pending), str(row)):
        assert before in text
    for text in (pending.as_tool_result(), row.as_tool_result()):
        assert f"do not {again} again until they have answered" in text
    client.force_login(user)
    page = client.get(caught.value.urls[0]).content.decode()
    assert label in page
    assert "The server asks this" in page if why else "The server asks this" not in page
    assert why is None or why in page


@pytest.mark.parametrize(
    ("method", "name", "arguments"),
    [
        ("prompts/get", "review", {"tone": 1}),
        ("resources/read", URI, {"a": "b"}),
        ("resources/read", URI + "\n", None),
        ("resources/read", "", None),
        ("tools/list", "review", None),
    ],
)
def test_what_no_request_can_have_is_refused(
    method: str, name: str, arguments: Any, serve: Serve, user: User
) -> None:
    log = serve("modern")
    with pytest.raises(InvalidNameError):
        calls.start_sync("shop", name, arguments, scope="chat", user=user, method=method)
    assert not log.exists()
