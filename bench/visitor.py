"""A person's requests to the site, through its whole WSGI stack and without a network."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.core.handlers.wsgi import WSGIHandler

from .asked import CONTENT

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: What a browser sends as a cookie and in a header.
CSRF = "x" * 32


class Visitor:
    """Somebody who is signed in."""

    def __init__(self, user: User) -> None:
        from django.test import Client

        client = Client()
        client.force_login(user)
        self.cookie = client.cookies.output(header="", sep=";").split(";")[0].strip()
        self.site = WSGIHandler()

    def request(
        self,
        path: str,
        *,
        body: object = None,
        form: Mapping[str, str] | None = None,
        status: str = "200",
    ) -> Callable[[], bytes]:
        """Return a function that makes one request and returns the response's body.

        Args:
            path: Where to.
            body: What to post as JSON; a GET where there is neither this nor a form.
            form: What to post as a page does.
            status: What the response's status line has to begin with.
        """
        content_type, sent = "application/json", b""
        if form is not None:
            content_type, sent = "application/x-www-form-urlencoded", urlencode(form).encode()
        elif body is not None:
            sent = json.dumps(body).encode()
        environ: dict[str, Any] = {
            "REQUEST_METHOD": "POST" if sent else "GET",
            "PATH_INFO": path,
            "QUERY_STRING": "",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_COOKIE": f"{self.cookie}; csrftoken={CSRF}",
            "HTTP_X_CSRFTOKEN": CSRF,
            "CONTENT_TYPE": content_type,
            "CONTENT_LENGTH": str(len(sent)),
            "wsgi.url_scheme": "http",
            "wsgi.errors": sys.stderr,
            "wsgi.multiprocess": True,
            "wsgi.multithread": False,
            "wsgi.run_once": False,
        }

        def run() -> bytes:
            lines: list[str] = []
            response = self.site(
                {**environ, "wsgi.input": io.BytesIO(sent)},
                lambda line, headers: lines.append(line),
            )
            found = b"".join(response)
            response.close()
            assert lines[0].startswith(status), (path, lines, found)
            return found

        return run


def filled_in(html: bytes) -> dict[str, str]:
    """Return what a browser sends of the page that asks ``asked.SCHEMA``, with the answer."""
    from tests.reading_html import Page

    found = {}
    for one in Page(html.decode()).elements:
        name, kind = one.attrs.get("name", ""), one.attrs.get("type")
        if one.tag != "input" or not name:
            continue
        if kind == "hidden":
            found[name] = one.attrs["value"]
        elif kind == "radio":
            # Of the two plans it is the second.
            found[name] = one.attrs["value"]
        elif kind in ("text", "number"):
            found[name] = str(CONTENT["seats"])
    return found
