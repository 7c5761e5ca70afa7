"""The host that is shown is the host that Chromium opens."""

from __future__ import annotations

import random
import sys
import unicodedata
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from elicitation.core import ElicitationURL, URLRefusal, parse_elicitation_url
from tests.core.addresses import OPENS, OPENS_ON_THIS_MACHINE, REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from playwright.sync_api import Browser

    Read = Callable[[Iterable[str]], list[dict[str, Any] | None]]

READ = """texts => texts.map(text => {
    let url
    try { url = new URL(text) } catch { return null }
    const link = document.createElement("a")
    link.href = text
    return {
        scheme: url.protocol.slice(0, -1), host: url.hostname, port: url.port, href: url.href,
        user: url.username + url.password, linkHost: link.hostname, linkHref: link.href,
    }
})"""


@pytest.fixture
def read(browser: Browser) -> Iterator[Read]:
    """Return a function that says how Chromium reads addresses; null is one it does not take."""
    page = browser.new_page()

    def ask(texts: Iterable[str]) -> list[dict[str, Any] | None]:
        answer: list[dict[str, Any] | None] = page.evaluate(READ, list(texts))
        return answer

    yield ask
    page.close()


def shown(texts: Iterable[str]) -> list[ElicitationURL]:
    """The addresses that are shown; the others are nothing to the browser."""
    urls = []
    for text in texts:
        try:
            urls.append(parse_elicitation_url(text, allow_loopback_http=True))
        except URLRefusal:
            continue
    return urls


def as_browsers_put_it(url: ElicitationURL) -> dict[str, Any]:
    return {
        "scheme": url.scheme,
        "host": url.host,
        "port": "" if url.port is None else str(url.port),
        "user": "",
        "linkHost": url.host,
    }


def check(urls: list[ElicitationURL], read: Read) -> None:
    """What was sent and what a link holds: Chromium reads both as they were shown."""
    by_text = read(url.text for url in urls)
    by_href = read(url.href for url in urls)
    for url, of_text, of_href in zip(urls, by_text, by_href, strict=True):
        assert of_text is not None, ascii(url.text)
        assert of_text == of_href, ascii(url.text)
        href = of_text.pop("href")
        assert of_text.pop("linkHref") == href
        assert of_text == as_browsers_put_it(url), ascii(url.text)
        # Nothing after the host is dropped or moved; some of it is percent-encoded.
        rest = url.rest if url.rest.startswith("/") else f"/{url.rest}"
        assert unquote(href) == unquote(url.href.removesuffix(url.rest) + rest)


def test_every_address_of_the_table(read: Read) -> None:
    cases = [*OPENS, *OPENS_ON_THIS_MACHINE]
    urls = shown(case.text for case in cases)
    assert [url.host for url in urls] == [case.host for case in cases]
    check(urls, read)


def test_what_is_refused_would_not_open_what_it_says(read: Read) -> None:
    """The table has what it is about: addresses that Chromium takes and reads as another host."""
    hosts = {
        text: answer["host"]
        for text, answer in zip(REFUSED, read(REFUSED), strict=True)
        if answer is not None
    }
    assert hosts["https://example.com@evil.net/"] == "evil.net"
    assert hosts["https://example.com\\@evil.net/"] == "example.com"
    assert hosts["https://0x7f000001/"] == "127.0.0.1"
    assert hosts["https://017700000001/"] == "127.0.0.1"
    assert hosts["https://example\u3002com/"] == "example.com"
    assert hosts["https://ex%61mple.com/"] == "example.com"
    assert hosts["https://exam\tple.com/"] == "example.com"
    assert hosts["https://\ufb01nance.com/"] == "finance.com"


def test_every_letter_of_a_host(read: Read) -> None:
    """Ideographs, syllables and what is like them are thousands of a kind: some of each."""
    texts = []
    for number in range(0x80, sys.maxunicode + 1):
        char = chr(number)
        category = unicodedata.category(char)
        is_one_of_many = category == "Lo" and number >= 0x3400
        if category[0] in "LMN" and (not is_one_of_many or number % 199 == 0):
            # A mark needs a letter before it, a letter from right to left none of another kind.
            texts.append(f"https://{'a' if category[0] == 'M' else ''}{char}.example/")
    urls = shown(texts)
    assert len(urls) > 4000
    check(urls, read)


PARTS = [
    *"a b l x example com co.uk 1 22 0 0x 127.0.0.1 - _ -- xn-- xn--bcher-kva xn--4dbcd".split(),
    *"ü Ü ß é \u0430 \u0435 \u0451 \u03c3 \u03a3 \u03c2 \u05d0 \u05d1 \u0627 \u0644".split(),
    *"\u0661 \u06f1 \u0301 \u0323 \u0308 \u00b7 \u30ab \u30fc \u6f22 \u3007 \uac00".split(),
    *"\u1100 \u1161 \u11a8 \u0928 \u094d \u093c \u0e01 \u0e33 \u13a0 \u10d0".split(),
    *"\u1c90 \u0130 \u0131 \u0345 \u0390".split(),
]
RESTS = ["", "/", "?q", "#f", "/a/b;c=d?e=f&g[]={}|^'#~!$", "/%2e.a/...?/../#/..", "//x//", "/:@"]


def test_addresses_put_together_at_random(read: Read) -> None:
    draw = random.Random(8)  # noqa: S311
    texts = set()
    for _number in range(30_000):
        host = "".join(draw.choice([*PARTS, ".", "."]) for _part in range(draw.randint(1, 8)))
        port = draw.choice(["", "", ":443", ":80", ":8443"])
        scheme = draw.choice(["https://", "HTTPS://", "http://"])
        texts.add(f"{scheme}{host}{port}{draw.choice(RESTS)}")
    for _number in range(2_000):
        groups = [draw.choice(["0", "0", "00", "1", "aB", "0db8", "FFFF"]) for _ in range(8)]
        at, until = sorted((draw.randint(0, 8), draw.randint(0, 8)))
        literal = ":".join(groups[:at]) + "::" + ":".join(groups[until:])
        texts.add(f"https://[{draw.choice([literal, ':'.join(groups)])}]/")
        texts.add("https://" + ".".join(str(draw.randint(0, 260)) for _ in range(4)))
    urls = shown(sorted(texts))
    assert len(urls) > 4000
    check(urls, read)
