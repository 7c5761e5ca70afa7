"""A person on the real pages: a browser without scripts, over HTTP, with forms and cookies.

Knows of the site only what its pages show: titles of questions, texts of options, buttons. Its
requests are those that a browser would send for the same HTML. Nothing here imports Django.
"""

from __future__ import annotations

import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from urllib.error import HTTPError

from tests import processes
from tests.reading_html import Element, Page

#: What a person does to one question: types a text, or chooses one option or several.
Typed = str | int | float | bool | Sequence[str]


@contextmanager
def site(application: str = "tests.site:application") -> Iterator[str]:
    """Serve the site on this test's database, in a process of its own; give its address."""
    port = processes.free_port()
    server = processes.start(
        "uvicorn",
        application,
        *("--port", str(port), "--log-level", "error", "--lifespan", "off"),
        # Streams of what changes stay open.
        *("--timeout-graceful-shutdown", "1"),
    )
    try:
        processes.wait_until(
            lambda: server.poll() is not None or processes.answers(port), "the site"
        )
        assert server.poll() is None, server.communicate()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.communicate(timeout=processes.WAIT_SECONDS)


class NotDone(AssertionError):
    """The site did not do what the person wanted; the message is what its page says."""


class Person:
    """Somebody who opens the pages of one site."""

    def __init__(self, site: str) -> None:
        self.site = site
        self._browser = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(CookieJar()),
            # A proxy that the environment names is no part of the test.
            urllib.request.ProxyHandler({}),
        )

    def sign_in(self, username: str, password: str) -> None:
        """Sign in where the inbox leads to."""
        signing_in = self._open("/elicitation/")
        (form,) = [form for form in signing_in.forms if "password" in form.shown]
        self._submit(form, {"username": [username], "password": [password]})
        self.waiting()

    def waiting(self) -> list[str]:
        """Return the addresses of the questions that wait, as the inbox shows them."""
        inbox = self._open("/elicitation/")
        assert not any("password" in form.shown for form in inbox.forms), "not signed in"
        found, is_waiting = [], False
        for element in inbox.elements:
            if element.tag == "li":
                is_waiting = "elicitation-item-waiting" in element.classes
            elif element.tag == "a" and is_waiting:
                found.append(element.attrs["href"])
        return found

    def wait_for(self, number: int = 1, *, without: Sequence[str] = ()) -> list[str]:
        """Look into the inbox until so many questions wait there, and return their addresses.

        Args:
            number: How many.
            without: Addresses that do not count.
        """
        found: list[str] = []

        def look() -> bool:
            found[:] = [address for address in self.waiting() if address not in without]
            return len(found) >= number

        processes.wait_until(look, f"{number} questions in the inbox")
        return found

    def read(self, address: str) -> str:
        """Return all that the page of a question says."""
        return self._open(address).text

    def answer(self, address: str, typed: Mapping[str, Typed] | None = None) -> str:
        """Fill in the form of a question, send it, and return what the next page says.

        Args:
            address: Its page.
            typed: What to type or choose, by the title that the page shows. A question that is
                left out stays as the page shows it, be that empty or prefilled.

        Raises:
            NotDone: There is no form, or no such question or option, or the answer was refused.
        """
        form = self._form(address, *SEND)
        changes: dict[str, list[str]] = {}
        for title, value in (typed or {}).items():
            if title not in form.questions:
                raise NotDone(f"'{title}' is not asked, but {list(form.questions)}")
            changes |= form.questions[title].filled_in(value)
        page = self._submit(form, changes)
        # Above five questions, and for a confirmation, the answers are shown first.
        for check in [form for form in page.forms if "checked" in form.shown]:
            page = self._submit(check, {})
        return page.text

    def decline(self, address: str) -> str:
        """Decline a question, and return what the next page says."""
        return self._submit(self._form(address, "Decline"), {}).text

    def press(self, address: str, button: str) -> str:
        """Press a button of a question's page that sends nothing typed, such as *Agree*."""
        return self._submit(self._form(address, button), {}).text

    def _form(self, address: str, *buttons: str) -> _Form:
        page = self._open(address)
        forms = [form for form in page.forms if form.button in buttons]
        if len(forms) != 1:
            raise NotDone(page.text)
        return forms[0]

    def _submit(self, form: _Form, changes: dict[str, list[str]]) -> _Page:
        pairs = [
            (name, value.replace("\r\n", "\n").replace("\n", "\r\n"))
            for name, values in (form.shown | changes).items()
            for value in values
        ]
        return self._open(form.action, urllib.parse.urlencode(pairs).encode())

    def _open(self, address: str, body: bytes | None = None) -> _Page:
        url = urllib.parse.urljoin(self.site, address)
        # Django's check of the origin, which a browser names when it sends a form.
        request = urllib.request.Request(url, body, {"Origin": self.site} if body else {})
        try:
            with self._browser.open(request, timeout=processes.WAIT_SECONDS) as response:
                return _Page(response.read().decode(), response.url)
        except HTTPError as error:
            with error:
                page = _Page(error.read().decode(), url)
            raise NotDone(f"{error.code}: {page.text}") from None


#: The buttons that send an answer.
SEND = ("Send answer", "Yes, go on")
#: Where this person's browser is.
ZONE = "Asia/Kathmandu"


@dataclass
class _Question:
    """One question of a form: its inputs, and the texts that stand at its options."""

    controls: list[Element] = field(default_factory=list)
    options: list[tuple[Element, set[str]]] = field(default_factory=list)

    def filled_in(self, typed: Typed) -> dict[str, list[str]]:
        """Return what is sent for it, by the inputs' names."""
        if isinstance(typed, bool):
            typed = "Yes" if typed else "No"
        name = self.controls[0].attrs["name"]
        if name.endswith("_0"):
            # A moment: a script selects the browser's zone.
            return {name: [str(typed)], f"{name[:-1]}1": [ZONE]}
        if not self.options:
            return {name: [str(typed)]}
        values = []
        for wanted in [typed] if isinstance(typed, str | int | float) else typed:
            found = [option for option, texts in self.options if str(wanted) in texts]
            if len(found) != 1:
                raise NotDone(f"'{wanted}' is not offered once, but {len(found)} times")
            values.append(found[0].attrs["value"])
        return {name: values}


@dataclass
class _Form:
    """A form with what it would send as it is shown."""

    action: str
    elements: list[Element]
    button: str = ""
    shown: dict[str, list[str]] = field(default_factory=dict)
    questions: dict[str, _Question] = field(default_factory=dict)

    def __post_init__(self) -> None:
        question = _Question()
        is_titled = True
        select = ""
        for element in self.elements:
            name = element.attrs.get("name", "")
            text = element.text.strip()
            if element.tag in ("label", "legend") and "elicitation-label" in element.classes:
                question, is_titled = _Question(), False
            elif not is_titled and "elicitation-said" in element.classes:
                self.questions[text], is_titled = question, True
            elif element.tag == "button":
                self.button = text
                if name:
                    # A browser sends the button that was pressed as well.
                    self.shown[name] = [element.attrs.get("value", "")]
            elif element.tag == "option":
                # The zone of a moment is its second input; a person types into the first.
                if question.controls[0].attrs["name"] == select:
                    question.options.append((element, {text}))
                if "selected" in element.attrs or not self.shown[select]:
                    self.shown[select] = [element.attrs["value"]]
            elif name and element.tag in ("input", "select", "textarea"):
                select = name
                question.controls.append(element)
                self._show(element, name, question)
            elif element.tag == "span" and question.options:
                question.options[-1][1].add(text)

    def _show(self, element: Element, name: str, question: _Question) -> None:
        shown = self.shown.setdefault(name, [])
        if element.attrs.get("type") in ("radio", "checkbox"):
            question.options.append((element, set()))
            if "checked" in element.attrs:
                shown.append(element.attrs["value"])
        elif element.tag == "textarea":
            # HTML drops the line break with which a text area begins.
            shown.append(element.text.removeprefix("\n"))
        elif element.tag == "input":
            shown.append(element.attrs.get("value", ""))


class _Page(Page):
    """A page that knows which elements stand in which form."""

    def __init__(self, html: str, url: str) -> None:
        self._forms: list[tuple[Element, list[Element]]] = []
        super().__init__(html)
        self.forms = [
            _Form(urllib.parse.urljoin(url, form.attrs.get("action", "")), elements)
            for form, elements in self._forms
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        if tag == "form":
            self._forms.append((self.elements[-1], []))
        elif any(element.tag == "form" for element in self._open):
            self._forms[-1][1].append(self.elements[-1])
