"""Streams of what changes, read as a browser's ``EventSource`` reads them, over HTTP."""

from __future__ import annotations

import http.client
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.test import Client

from tests import processes

if TYPE_CHECKING:
    from django.contrib.auth.models import User

PAGES, API = "/elicitation/events/", "/api/elicitation/events/"
#: Streams wait for longer than anything else here.
PATIENCE = 10 * processes.WAIT_SECONDS


def signed_in(user: User) -> dict[str, str]:
    """Return the headers of a new session of this person."""
    client = Client()
    client.force_login(user)
    return {"Cookie": f"sessionid={client.cookies['sessionid'].value}", "Host": "localhost"}


@dataclass
class Stream:
    """One stream, which a thread reads until it ends."""

    site: str
    headers: dict[str, str]
    path: str = PAGES
    text: str = ""
    #: Name and data of each event, in order.
    events: list[tuple[str, Any]] = field(default_factory=list)
    has_ended: bool = False

    def __enter__(self) -> Stream:
        self.connection = http.client.HTTPConnection(urlsplit(self.site).netloc, timeout=PATIENCE)
        self.connection.request(
            "GET", self.path, headers={"Accept": "text/event-stream"} | self.headers
        )
        self.response = self.connection.getresponse()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        return self

    def __exit__(self, *args: object) -> None:
        if self.connection.sock is not None:
            self.connection.sock.shutdown(2)
        self.reader.join(processes.WAIT_SECONDS)
        self.connection.close()

    def _read(self) -> None:
        name = ""
        try:
            for line in self.response:
                text = line.decode()
                self.text += text
                if text.startswith("event: "):
                    name = text[7:].strip()
                elif text.startswith("data: "):
                    self.events.append((name, json.loads(text[6:])))
        except (OSError, http.client.HTTPException, ValueError):
            pass
        self.has_ended = True

    def waiting(self) -> list[str]:
        """Return what its first event says, once it is there."""
        processes.wait_until(lambda: self.events, "the first event")
        name, data = self.events[0]
        assert name == "waiting"
        found: list[str] = data["waiting"]
        return found

    def states(self) -> dict[str, str]:
        """Return the last state of each elicitation that it has told of."""
        return {data["id"]: data["state"] for name, data in self.events if name == "elicitation"}

    def wait_for_state(self, elicitation_id: object, state: str) -> None:
        processes.wait_until(
            lambda: self.states().get(str(elicitation_id)) == state, f"{state} in the stream"
        )

    def wait_for_end(self) -> None:
        processes.wait_until(lambda: self.has_ended, "the end of the stream")
