"""Chromium, watched: whatever it complains about fails the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from playwright.sync_api import Browser, BrowserContext, Page
    from pytest_django.live_server_helper import LiveServer

CHROMIUM = "/usr/bin/chromium"
#: Neither UTC nor the site's zone: a time taken in the wrong zone must show.
BROWSER_ZONE = "America/New_York"


@pytest.fixture(scope="session", autouse=True)
def _chromium_is_there() -> Iterator[None]:
    if not Path(CHROMIUM).exists():
        reason = f"BROWSER TESTS DID NOT RUN: {CHROMIUM} is missing"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    # Playwright's event loop runs in this thread; Django would refuse the database here.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    yield
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    return {
        "executable_path": CHROMIUM,
        "args": [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ],
    }


@dataclass
class Watch:
    """What a browser complained about, and where it went."""

    site: str
    complaints: list[str] = field(default_factory=list)

    def follow(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        page.on("console", self._console)
        page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type not in ("error", "warning"):
            return
        # Chromium reports the status of a page that is meant to have one.
        url = message.location.get("url", "")
        of_a_page = url.startswith((f"{self.site}/elicitation/", f"{self.site}/api/elicitation/"))
        # It looks for the site's icon when it finds the time, and not on every run.
        is_icon = url == f"{self.site}/favicon.ico"
        if (of_a_page or is_icon) and "responded with a status of 4" in message.text:
            return
        self.complaints.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith(f"{self.site}/"):
            self.complaints.append(f"request to elsewhere: {request.url}")


OpenContext = Callable[..., "BrowserContext"]


@pytest.fixture
def sign_in() -> Callable[[User], dict[str, str]]:
    """Return a function that makes a session and gives its cookie."""

    def make(user: User) -> dict[str, str]:
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.save()
        return {"name": settings.SESSION_COOKIE_NAME, "value": str(session.session_key)}

    return make


@pytest.fixture
def open_context(
    browser: Browser,
    live_server: LiveServer,
    user: User,
    sign_in: Callable[[User], dict[str, str]],
) -> Iterator[OpenContext]:
    """Return a function that opens a browser window, with ``user`` signed in and watched."""
    watch = Watch(live_server.url)
    contexts: list[BrowserContext] = []

    def make(**changes: Any) -> BrowserContext:
        arguments = {
            "base_url": live_server.url,
            "timezone_id": BROWSER_ZONE,
            "locale": "en-US",
            "viewport": {"width": 1280, "height": 900},
            **changes,
        }
        context = browser.new_context(**arguments)
        context.set_default_timeout(10_000)
        context.add_cookies([{**sign_in(user), "url": live_server.url}])
        context.on("page", watch.follow)
        contexts.append(context)
        return context

    yield make
    for context in contexts:
        context.close()
    assert not watch.complaints


@pytest.fixture
def tab(open_context: OpenContext) -> Page:
    """A tab of a desktop browser."""
    return open_context().new_page()
