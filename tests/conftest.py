"""Fixtures that every part of the tests may use; nothing here imports Django."""

import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import fast
from tests.person import Person, site
from tests.processes import BASE_DIR, WAIT_SECONDS, answers, free_port, wait_until

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client
    from pytest_django.live_server_helper import LiveServer

# No test speaks TLS. With the certificates of all authorities each HTTP client reads them when it
# is made, here and in the processes that are started: that takes longer than most calls.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(BASE_DIR / "tests")


guard = fast.Guard()


def pytest_configure(config: pytest.Config) -> None:
    """Let nothing slow into a fast run."""
    if config.option.markexpr == fast.EXPRESSION:
        sys.addaudithook(guard)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import in a fast run what has only slow tests."""
    is_fast = config.option.markexpr == fast.EXPRESSION
    return True if is_fast and fast.is_slow_place(collection_path) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what is slow by its place or by its fixtures."""
    fixtures = getattr(item, "fixturenames", ())
    if fast.is_slow_place(item.path) or not fast.FIXTURES.isdisjoint(fixtures):
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Guard the test itself, not what runs the tests."""
    guard.is_on = True
    try:
        return (yield)
    finally:
        guard.is_on = False


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Keep what migrating wrote, the content types and the permissions, for the whole run.

    After each test that has transactions of its own Django deletes the rows of all tables, and
    lets every app write these again. That took longer than most such tests.
    """
    from django.contrib.auth.models import Permission
    from django.contrib.contenttypes.models import ContentType
    from django.core.management.commands import flush

    kept = {model._meta.db_table for model in (ContentType, Permission)}

    def sql_flush(style: Any, connection: Any, **options: Any) -> Any:
        tables = connection.introspection.django_table_names(
            only_existing=True, include_views=False
        )
        return connection.ops.sql_flush(style, sorted({*tables} - kept), **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "sql_flush", sql_flush)
        patch.setattr(flush, "emit_post_migrate_signal", lambda *args, **options: None)
        yield


@pytest.fixture(scope="session")
def live_server(django_db_setup: None, live_server: "LiveServer") -> Iterator["LiveServer"]:
    """The site in a thread of this process, with connections of its own.

    It begins when the test's database is there: until then the settings name one in memory, whose
    one connection all its threads would share.
    """
    from django.core.servers.basehttp import WSGIRequestHandler

    with pytest.MonkeyPatch.context() as patch:
        # Django sends head and body apart, and the body would wait until the head has arrived.
        patch.setattr(WSGIRequestHandler, "disable_nagle_algorithm", True)
        yield live_server


@pytest.fixture
def user(db: None, django_user_model: "type[User]") -> "User":
    return django_user_model.objects.create_user("ada", "ada@example.test", "pw")


@pytest.fixture
def other_user(db: None, django_user_model: "type[User]") -> "User":
    return django_user_model.objects.create_user("grace", "grace@example.test", "pw")


@pytest.fixture
def ada(client: "Client", user: "User") -> "Client":
    """A browser in which the first of them has signed in."""
    client.force_login(user)
    return client


@pytest.fixture(scope="session")
def mcp_url() -> Iterator[str]:
    """Where the demo MCP server answers: a process of its own, spoken to over HTTP."""
    port = free_port()
    command = [sys.executable, "-m", "project.demo_server"]
    process = subprocess.Popen(
        command, cwd=BASE_DIR, env=os.environ | {"MCP_PORT": str(port)}, stdin=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: process.poll() is not None or answers(port), "the demo MCP server")
        assert process.poll() is None, "the demo MCP server has stopped"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


@pytest.fixture(scope="session")
def site_address(django_db_setup: None) -> Iterator[str]:
    """Where the site is: a process of its own, on the database of the tests."""
    with site() as address:
        yield address


@pytest.fixture
def person(transactional_db: None, user: "User", site_address: str) -> Person:
    """Ada, who has signed in."""
    person = Person(site_address)
    person.sign_in("ada", "pw")
    return person


@pytest.fixture(autouse=True)
def own_language() -> Iterator[None]:
    """Leave no language active: a request in one leaves it to whatever runs after it."""
    yield
    if (translation := sys.modules.get("django.utils.translation")) is not None:
        translation.deactivate()


@pytest.fixture(autouse=True)
def own_refusals() -> None:
    """Let each test find the log lines that another one would have left out."""
    if (refusals := sys.modules.get("elicitation.calls.refusals")) is not None:
        refusals.forget()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Run the browser tests last.

    Playwright's synchronous interface leaves an event loop running in the main thread until the
    session ends; tests that start one of their own must have run before.
    """
    items.sort(key=lambda item: "browser" in getattr(item, "fixturenames", ()))
