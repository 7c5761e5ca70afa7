"""Take the pictures of the documentation by driving the demo: ``make screenshots``.

Starts the whole demo on a database of its own, answers its questions in Chromium as a person
would, and writes PNG files to ``docs/images``.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

BASE_DIR = Path(__file__).resolve().parent.parent
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
START_SECONDS = 90


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m project.screenshots", description=__doc__)
    parser.add_argument(
        "--to", type=Path, default=BASE_DIR / "docs" / "images", help="folder for the pictures"
    )
    folder: Path = parser.parse_args().to
    folder.mkdir(parents=True, exist_ok=True)
    with _demo() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            _take(browser, address, folder)
        finally:
            browser.close()
    sys.stdout.write(f"The pictures are in {folder}\n")


def _take(browser: Browser, address: str, folder: Path) -> None:
    page = _page(browser, 1100, "light")
    _sign_in(page, address)
    for tool in ("buy", "delete_project", "ship"):
        _run(page, address, tool)
    page.goto(f"{address}/elicitation/")
    page.screenshot(path=folder / "inbox.png", full_page=True)
    questions = [
        link.get_attribute("href") or "" for link in page.locator("main a[href*='-']").all()
    ]
    state = page.context.storage_state()
    for name, width, scheme in (
        ("question", 1100, "light"),
        ("question-dark", 1100, "dark"),
        ("question-narrow", 320, "light"),
    ):
        context = browser.new_context(
            storage_state=state,
            viewport={"width": width, "height": 800},
            color_scheme="dark" if scheme == "dark" else "light",
            device_scale_factor=1.5,
        )
        shot = context.new_page()
        shot.goto(f"{address}{questions[0]}")
        shot.screenshot(path=folder / f"{name}.png", full_page=True)
        context.close()
    page.goto(f"{address}{questions[0]}")
    page.locator("form").first.locator("button[type=submit]").click()
    page.screenshot(path=folder / "errors.png", full_page=True)
    _run(page, address, "connect")
    # The link opens a tab of its own.
    question = page.get_by_role("link", name="Open the request").get_attribute("href") or ""
    page.goto(f"{address}{question}")
    page.screenshot(path=folder / "consent.png", full_page=True)
    page.get_by_role("button", name="Agree").click()
    page.screenshot(path=folder / "address.png", full_page=True)
    _take_console(browser, page, address, folder)


def _take_console(browser: Browser, page: Page, address: str, folder: Path) -> None:
    """Let a server be refused, and take what operators see of it and of the rest."""
    page.goto(address)
    page.locator("button[value=connect_by_form]").click()
    page.get_by_text("credential").first.wait_for()
    operator = _page(browser, 1280, "light")
    operator.goto(f"{address}/admin/")
    operator.get_by_label("Username").fill("admin")
    operator.get_by_label("Password").fill("admin")
    operator.get_by_role("button", name="Log in").click()
    of_app = f"{address}/admin/elicitation"
    operator.goto(f"{of_app}/refusal/")
    operator.screenshot(path=folder / "refusals.png")
    operator.goto(f"{of_app}/serverpolicy/servers/")
    operator.locator("#content-main tbody a").first.click()
    operator.screenshot(path=folder / "figures.png")
    operator.goto(f"{of_app}/elicitation/?state__exact=answered")
    operator.locator("th.field-short_id a").first.click()
    operator.screenshot(path=folder / "timeline.png")


def _page(browser: Browser, width: int, scheme: str) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if scheme == "dark" else "light",
        device_scale_factor=1.5,
    )
    return context.new_page()


def _sign_in(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_label("User name").fill("demo")
    page.get_by_label("Password").fill("demo")
    page.get_by_role("button", name="Sign in").click()


def _run(page: Page, address: str, tool: str) -> None:
    page.goto(address)
    page.locator(f"button[value={tool}]").click()
    # The page of the run refreshes itself until the call is parked.
    page.get_by_role("link", name="Open the request").wait_for()


@contextmanager
def _demo() -> Iterator[str]:
    """Run the demo on ports that are free, and a database that is thrown away."""
    port, mcp_port = _free_port(), _free_port()
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "project.demo_run",
                f"--port={port}",
                f"--mcp-port={mcp_port}",
            ],
            cwd=BASE_DIR,
            env=os.environ | {"DATABASE_URL": f"sqlite:///{folder}/demo.sqlite3"},
            stdout=subprocess.DEVNULL,
        )
        try:
            _await(process, f"http://127.0.0.1:{port}/")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def _await(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urlopen(address, timeout=2):  # noqa: S310  # our own, on this machine
                return
        except URLError:
            time.sleep(0.2)
    sys.exit("The demo did not start; its lines above say why.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
