"""The code and the tables of the pages for operators, held to what the app does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import mcp
import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import RequestFactory

from elicitation import checks, conf, inbox
from elicitation.calls import background
from elicitation.core import FormAnswer
from elicitation.mcp import connections
from elicitation.models import Elicitation, ParkedCall
from elicitation.signals import call_due, call_finished, elicitation_closed
from tests.asking import allow
from tests.integration.conftest import Host
from tests.integration.scripted import ScriptedServer, accepted, ask, form, text
from tests.ops.conftest import NAME, park
from tests.processes import BASE_DIR

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

PAGES = ("hosts", "hosts-recipes", "notifications", "operations", "signals")


def blocks_of(page: str) -> dict[str, str]:
    found = (BASE_DIR / "docs" / f"{page}.md").read_text()
    return dict(re.findall(r"<!-- test: (\w+) -->\n```python\n(.*?)```", found, re.DOTALL))


BLOCKS = {name: code for page in PAGES for name, code in blocks_of(page).items()}


def run(*blocks: str, **names: Any) -> dict[str, Any]:
    """Run blocks one after the other, as one module."""
    # Tasks are found again by the name of their module.
    names["__name__"] = __name__
    for block in blocks:
        exec(BLOCKS[block], names)  # noqa: S102
    return names


@pytest.fixture
def disconnect() -> Iterator[None]:
    yield
    background.stop()
    for uid in ("go-on", "resume-with-celery", "resume-with-tasks"):
        elicitation_closed.disconnect(dispatch_uid=uid)
        call_due.disconnect(dispatch_uid=uid)
    call_finished.disconnect(dispatch_uid="fetch")


@pytest.mark.parametrize("page", PAGES)
def test_every_python_block_is_named(page: str) -> None:
    written = (BASE_DIR / "docs" / f"{page}.md").read_text()
    assert written.count("```python") == len(blocks_of(page))


# --- Settings --------------------------------------------------------------------------------


def test_the_table_of_settings_has_each_with_its_default() -> None:
    page = (BASE_DIR / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `ELICITATION_(\w+)` \| ([^|]+) \| `([^`]+)` \| (.+) \|$", page, re.M)
    assert len(rows) == page.count("\n| `ELICITATION_")
    assert {row[0] for row in rows} == set(conf.NAMES)
    for name, kind, default, why in rows:
        value = eval(default, {"timedelta": timedelta})  # noqa: S307
        assert value == getattr(conf.settings, name), name
        assert kind.strip()
        assert len(why) > 40, name


def test_every_check_is_in_the_table() -> None:
    page = (BASE_DIR / "docs" / "operations.md").read_text()
    source = (BASE_DIR / "elicitation" / "checks.py").read_text()
    written = set(re.findall(r"^\| `elicitation\.([EW]\d+)` \|", page, re.M))
    made = set(re.findall(r'id="elicitation\.([EW]\d+)"', source))
    made |= {f"W{number}" for number in re.findall(r"insecure\(\s+(\d+),", source)}
    assert checks.__doc__
    assert written == made


def test_every_way_in_which_a_call_ends_is_explained() -> None:
    page = (BASE_DIR / "docs" / "hosts.md").read_text()
    for code in ParkedCall.Outcome.values:
        assert f"\n| `{code}` |" in page


def test_every_way_in_which_a_delivery_ends_is_explained() -> None:
    page = (BASE_DIR / "docs" / "operations.md").read_text()
    for delivery in Elicitation.Delivery.values:
        assert f"| `{delivery}` |" in page


def test_every_setting_has_a_page_that_reads_it() -> None:
    app = "".join(path.read_text() for path in (BASE_DIR / "elicitation").rglob("*.py"))
    for name in conf.NAMES:
        assert re.search(rf"settings\.{name}\b", app), name


# --- Signals and notifications ---------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("disconnect")
def test_the_receiver(user: User) -> None:
    enqueued: list[tuple[str, str]] = []
    # Kept, as a module keeps what it defines: the signal holds its receivers weakly.
    module = run(
        "receiver", enqueue=lambda name, parked_call_id: enqueued.append((name, parked_call_id))
    )
    (asked,) = park(user)
    inbox.decline(asked.pk, by=user)
    assert enqueued == [("resume", str(asked.parked_call_id))]
    assert module


@pytest.mark.django_db(transaction=True)
def test_the_settings_for_e_mail(user: User, settings: SettingsWrapper) -> None:
    for name, value in run("email").items():
        if name.startswith("ELICITATION_"):
            setattr(settings, name, value)
    park(user)
    (message,) = mail.outbox
    assert "https://example.com/elicitation/" in message.body


sent: list[tuple[Any, str]] = []


def asked(elicitation_id: UUID) -> None:
    """What ``myproject.notifications.asked`` is in the page."""
    run("chat", send_to_chat=lambda who, what: sent.append((who, what)))["asked"](elicitation_id)


@pytest.mark.django_db(transaction=True)
def test_the_hook_for_chat(user: User, settings: SettingsWrapper) -> None:
    path = run("hook")["ELICITATION_NOTIFY"]
    settings.ELICITATION_NOTIFY = path.replace("myproject.notifications", __name__)
    allow(label="Corner Shop")
    (question,) = park(user, "What the server wrote")
    address = f"https://example.com{question.get_absolute_url()}"
    assert sent == [(user, f"Corner Shop asks you something: {address}")]


@pytest.mark.django_db
def test_the_view_for_a_scraper(user: User, settings: SettingsWrapper) -> None:
    park(user)
    settings.METRICS_TOKEN = "t0ken"
    scrape: Callable[..., Any] = run("metrics")["scrape"]
    requests = RequestFactory()
    assert scrape(requests.get("/scrape")).status_code == 403
    response = scrape(requests.get("/scrape", headers={"authorization": "Bearer t0ken"}))
    assert b'elicitation_parked_calls{server="shop"} 1' in response.content


# --- Recipes ---------------------------------------------------------------------------------


def buy(params: Any) -> Any:
    content = accepted(params, "k")
    return ask(k=form("Who?", NAME)) if content is None else text(f"for {content['name']}")


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("disconnect")
@pytest.mark.parametrize("queue", ["celery", "tasks"])
def test_a_run_goes_on_in_a_task(
    queue: str, user: User, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://shop.example/mcp"
    settings.ELICITATION_SERVERS = {"shop": {"url": url, "policy": "url_and_form"}}
    server = ScriptedServer(buy)

    def connect(to: str, http: object, **options: Any) -> mcp.Client:
        assert to == url
        return mcp.Client(server.server, **options)

    monkeypatch.setattr(connections, "connect", connect)
    saved: list[tuple[str, str, str, Any]] = []
    if queue == "celery":
        from celery import Celery

        app = Celery("recipes", broker="memory://", set_as_current=True)
        app.conf.task_always_eager = True
        app.conf.task_eager_propagates = True
        names = run("go_on", "celery")
    else:
        names = run("go_on", "tasks")
        # The backend that runs a task at once imports it by its path.
        globals()["resume_call"] = names["resume_call"]
    fetching = run("fetch", save_message=lambda *message: saved.append(message))
    host = Host(server, user)
    pending = host.pending()
    (key,) = pending.elicitation_ids
    question = Elicitation.objects.get(pk=key)

    def tell() -> None:
        elicitation_closed.send(
            Elicitation,
            elicitation_id=key,
            parked_call_id=pending.parked_call_id,
            scope=question.scope,
            state="answered",
        )

    # Told too early, and by mistake: it still waits, and nothing happens.
    tell()
    assert saved == []
    inbox.answer(key, {"name": FormAnswer(other_text="Ada")}, by=user)
    ((scope, _call, code, result),) = saved
    assert (scope, code) == (question.scope, "finished")
    assert result["content"] == [{"type": "text", "text": "for Ada"}]
    assert not ParkedCall.objects.exists()
    assert Elicitation.objects.get().delivery == "delivered"
    # Told once more by the outbox: the call has ended, and its outcome was fetched.
    tell()
    fetching["fetch"](parked_call_id=pending.parked_call_id)
    assert len(saved) == 1
