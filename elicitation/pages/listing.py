"""What a list is narrowed to: by what is searched for, and by server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ..models import MAX_NAME_CHARS, ElicitationQuerySet, ServerPolicy, check_name
from .presentation import shown_name

if TYPE_CHECKING:
    from django.http import HttpRequest


@dataclass(frozen=True, slots=True)
class Server:
    """A server that the list can be narrowed to: its configured name, and the name people see."""

    server: str
    name: str


@dataclass(slots=True)
class Listing:
    """What the query string of a list asks for.

    ``search`` and ``server`` are as they were sent, ``""`` where they were not. What no row can
    hold finds nothing.
    """

    path: str
    search: str = ""
    server: str = ""
    servers: list[Server] = field(default_factory=list)

    @classmethod
    def of(cls, request: HttpRequest) -> Listing:
        """Read the query string of a request."""
        params = request.GET
        search, server = params.get("search", "").strip(), params.get("server", "")
        return cls(request.path, search[:MAX_NAME_CHARS], server)

    @property
    def is_narrowed(self) -> bool:
        """Whether not everything is listed."""
        return bool(self.search or self.server)

    @property
    def query(self) -> str:
        """The query string that lists the same, with ``&`` at its end; for links to its pages."""
        sent = {"search": self.search, "server": self.server}
        kept = urlencode({name: value for name, value in sent.items() if value})
        return f"{kept}&" if kept else ""

    def narrow(self, rows: ElicitationQuerySet) -> ElicitationQuerySet:
        """Return those of these elicitations that are asked for."""
        try:
            if self.search:
                rows = rows.saying(check_name("The search", self.search))
            if self.server:
                rows = rows.of_server(check_name("The server", self.server))
        except ValueError:
            return rows.none()
        return rows

    def offer(self, policies: dict[str, ServerPolicy]) -> None:
        """Offer to narrow the list to one of these servers."""
        found = [Server(server, shown_name(policy)) for server, policy in policies.items()]
        self.servers = sorted(found, key=lambda each: (each.name.casefold(), each.server))
