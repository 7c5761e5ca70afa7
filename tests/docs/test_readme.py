"""A project made of the README's blocks alone, in processes of its own, answered in a browser.

It is on the server of the database that the tests run on, in a database of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from tests import processes
from tests.browser.conftest import _chromium_is_there, browser_type_launch_args
from tests.processes import BASE_DIR, WAIT_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Page
    from pytest_django import DjangoDbBlocker

__all__ = ["_chromium_is_there", "browser_type_launch_args"]

#: By the names in the comments before them: the settings, the URLs, and files.
BLOCKS: dict[str, str] = dict(
    re.findall(
        r"<!-- test: (\S+) -->\n```python\n(.*?)```",
        (BASE_DIR / "README.md").read_text(),
        re.DOTALL,
    )
)
#: What is run once, and what goes on in the background.
COMMANDS: list[list[str]] = [
    line.split()[1:]
    for block in re.findall(
        r"<!-- test: commands -->\n```console\n(.*?)```",
        (BASE_DIR / "README.md").read_text(),
        re.S,
    )
    for line in block.splitlines()
]
HOST_CODE = {name: code for name, code in BLOCKS.items() if name.endswith(".py")}
SHOP = "http://127.0.0.1:8808/mcp"

#: Who signs in: what `createsuperuser` asks for.
PERSON = {"USERNAME": "ada", "PASSWORD": "long enough 1", "EMAIL": "ada@example.test"}
CALL = """
from chat.agent import buy
from django.contrib.auth.models import User
buy(User.objects.get(username="ada"))
"""
READ = """
from chat.models import Message
from elicitation.models import ParkedCall
print([*Message.objects.values_list("text", flat=True)], ParkedCall.objects.count(), "left")
"""


def lines_of(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.strip() and line.lstrip()[0] != "#"]


def test_a_host_is_at_most_ten_lines_beside_settings_and_urls() -> None:
    assert set(BLOCKS) - set(HOST_CODE) == {"settings", "urls"}
    assert (BASE_DIR / "README.md").read_text().count("```python") == len(BLOCKS)
    assert 0 < sum(len(lines_of(code)) for code in HOST_CODE.values()) <= 10


class Project:
    """A project that somebody makes who reads the README."""

    def __init__(self, path: Path, database: dict[str, object], shop: str) -> None:
        self.path = path
        self.django("startproject", "site1", ".")
        self.django("startapp", "chat")
        settings = path / "site1" / "settings.py"
        own = f"DATABASES = {{'default': {database!r}}}\nALLOWED_HOSTS = ['127.0.0.1']\n"
        assert SHOP in BLOCKS["settings"]
        with settings.open("a") as file:
            file.write(own + BLOCKS["settings"].replace(SHOP, shop))
        with (path / "site1" / "urls.py").open("a") as file:
            file.write(BLOCKS["urls"])
        for name, code in HOST_CODE.items():
            (path / name).write_text(code)

    def django(self, *arguments: str) -> str:
        command = [sys.executable, "-W", "error", "-m", "django", *arguments]
        done = subprocess.run(
            command,
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.path), str(BASE_DIR)])
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE")
        }
        there = (self.path / "site1" / "settings.py").exists()
        return (
            kept
            | {"PYTHONPATH": path}
            | {f"DJANGO_SUPERUSER_{name}": value for name, value in PERSON.items()}
            | ({"DJANGO_SETTINGS_MODULE": "site1.settings"} if there else {})
        )

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, *arguments]
        process = subprocess.Popen(command, cwd=self.path, env=self.environment)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def database(django_db_blocker: DjangoDbBlocker, tmp_path: Path) -> Iterator[dict[str, object]]:
    """An empty database on the server of the tests, as an entry of ``DATABASES``."""
    entry = {
        key: connection.settings_dict[key]
        for key in ("ENGINE", "HOST", "PORT", "USER", "PASSWORD", "OPTIONS")
    }
    if connection.vendor == "sqlite":
        yield entry | {"NAME": str(tmp_path / "db.sqlite3")}
        return
    name = f"readme_{os.getpid()}"
    with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    try:
        yield entry | {"NAME": name}
    finally:
        with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name}")


def test_a_project_of_the_readme_asks_and_receives(
    database: dict[str, object], tmp_path: Path, page: Page
) -> None:
    shop, web = processes.free_port(), processes.free_port()
    project = Project(tmp_path, database, SHOP.replace("8808", str(shop)))
    # What a command needs where nobody is at the keyboard, and other sites may run.
    here = {"createsuperuser": ["--noinput"], "runserver": ["--noreload", f"127.0.0.1:{web}"]}
    with ExitStack() as stack:
        stack.enter_context(project.running("-m", "project.demo_server", "--port", str(shop)))
        for manage, name, *rest in COMMANDS:
            arguments = [word for word in rest if word != "&"] + here.get(name, [])
            if rest[-1:] == ["&"]:
                stack.enter_context(project.running(manage, name, *arguments))
            else:
                project.django(name, *arguments)
        assert "no issues" in project.django("check")
        for port in (shop, web):
            processes.wait_until(lambda port=port: processes.answers(port), f"port {port}")
        project.django("shell", "-c", CALL)
        # A person signs in, and answers what they find.
        page.goto(f"http://127.0.0.1:{web}/elicitation/")
        page.get_by_label("Username").fill(PERSON["USERNAME"])
        page.get_by_label("Password").fill(PERSON["PASSWORD"])
        page.get_by_role("button", name="Log in").click()
        # A page that is on its way to another one cannot be loaded again.
        page.wait_for_url("**/elicitation/")
        asked = page.get_by_role("link", name="The shop asks you")
        processes.wait_until(lambda: page.reload() and asked.count(), "the request")
        asked.click()
        page.get_by_label("Team").check()
        page.get_by_label("Seats").fill("3")
        page.get_by_role("button", name="Send").click()
        # The next request comes by itself.
        page.get_by_label("Yes").check()
        page.get_by_role("button", name="Send").click()
        # Saved once, and acknowledged.
        saved = "['Bought 3 seats of team.'] 0 left"
        processes.wait_until(lambda: saved in project.django("shell", "-c", READ), "the result")
