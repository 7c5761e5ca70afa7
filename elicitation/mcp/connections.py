"""Connections with the servers of ``ELICITATION_SERVERS``, which are kept and shared.

What calls must have in common to share a connection is their ``Terms``; where a server has
``auth``, that is the person. A connection belongs to the event loop in which it was made, and
lives in a task of its own there: the SDK enters and leaves its task groups in one task, and the
calls that use a connection come and go. Where the loop ends, as that of ``asyncio.run``, the task
is cancelled, and closes the connection.

A server of a revision before 2026-07-28 asks in the middle of a call, and does not say of which
one. Its connection is used by one call at a time, and only by calls of one person.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

import httpx2
import mcp
from django.core.exceptions import ImproperlyConfigured
from django.views.decorators.debug import sensitive_variables
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
)

from ..calls.refusals import note_refusal
from ..calls.replies import REPLIES, NotSentError, RoundLostError
from ..calls.requests import unanswered_action
from ..conf import NamedServer, settings
from ..core import ElicitationError
from ..inbox.listening import between_requests
from ..models import ServerPolicy
from .client import declared
from .host import Host
from .methods import TasksExtension
from .replies import is_refusal
from .transport import connect, http_client

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

logger = logging.getLogger("elicitation")

#: For how many seconds a connection is kept that no call uses, and how many such connections a
#: loop keeps.
IDLE, MOST_IDLE = 300.0, 100

#: For how many seconds a connection over HTTP gets new calls. A server may be another one by then,
#: and a token may have been taken away.
LIFETIME = 3600.0

#: How long a server may take to start and to agree on a revision, in seconds.
PATIENCE = 60.0

#: Why a call failed, where the server may be another one than was connected to: codes of REPLIES,
#: and of JSON-RPC.
_ANOTHER_SERVER: Final = frozenset(
    {
        "http_404",
        "http_405",
        "method_not_found",
        "unsupported_version",
        # What servers of older SDKs say of a request without a session.
        f"error {INVALID_REQUEST}",
        f"error {CONNECTION_CLOSED}",
    }
)

#: Replies, by their codes, that a connection gives which the server has forgotten.
_FORGOTTEN: Final = frozenset({"connect", "http_404"})


class ConnectionFailed(Exception):  # no error: the caller makes one that names the call
    """There is no connection. ``reason`` is a code of ``REPLIES``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What calls have in common that share a connection.

    ``owner`` is the key of the person whose token it carries, where the server has ``auth``. The
    rest is what the client declares, by the policy of the moment.
    """

    server: NamedServer
    owner: Any
    allows_asking: bool
    allows_forms: bool


class Connection:
    """One connection, in a task of its own.

    Args:
        terms: What its calls have in common.
        policy: What is declared; ``None`` where nobody can be asked.
        person: The key of the user of its first call.
    """

    def __init__(self, terms: Terms, policy: ServerPolicy | None, person: Any) -> None:
        self.terms = terms
        self.policy = policy
        self.person = person
        self.loop = asyncio.get_running_loop()
        self.made_at = self.loop.time()
        self.host: Host | None = None
        #: Set once there is a session, or will be none.
        self.settled = asyncio.Event()
        #: Why the server let nobody connect, as a code of REPLIES.
        self.reason = ""
        self.status: int | None = None
        #: The calls that use it now, with the one that makes it; and how many have used it.
        self.users, self.uses = 1, 0
        self.used_at = self.made_at
        #: What answers the server where it asks in the middle of the call.
        self.asking: ElicitationFnT | None = None
        self.is_retired = False
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        _connections_of(self.loop).append(self)

    @property
    def session(self) -> mcp.ClientSession:
        """The session; read once it is settled."""
        assert self.host is not None
        return self.host.session

    @property
    def is_legacy(self) -> bool:
        """Whether its server asks in the middle of a call."""
        return self.host is not None and not self.host.is_modern

    @property
    def has_ended(self) -> bool:
        """Whether nothing can be sent over it any more: the server's program has ended."""
        return self.host is not None and self.host.has_ended

    @property
    def is_over(self) -> bool:
        """Whether no further call may use it."""
        age = self.loop.time() - self.made_at
        return self.has_ended or (age > LIFETIME and not self.terms.server.command)

    def begin(self, asking: ElicitationFnT | None) -> None:
        """Begin a call over it."""
        self.uses += 1
        if self.is_legacy:
            self.asking = asking

    def give_back(self) -> None:
        """A call does not use it any more."""
        self.users -= 1
        self.used_at = self.loop.time()
        self.asking = None
        self._woken.set()

    def retire(self) -> None:
        """Let no other call use it. It is closed after the last one."""
        self.is_retired = True
        self._woken.set()

    def judge(self, error: BaseException) -> bool:
        """Retire it if that is what an error of one of its calls means.

        Returns:
            Whether the call can be made again at once, over a new connection: this one had been
            kept for too long, and nothing was sent.
        """
        reason = ""
        if isinstance(error, NotSentError | RoundLostError):
            reason = error.reason
        elif isinstance(error, mcp.MCPError):
            reason = f"error {error.code}"
        if self.is_legacy:
            # A call that did not come to its end may ask yet, in the middle of the next one.
            is_open = isinstance(error, NotSentError | RoundLostError)
            if is_open or not (isinstance(error, ElicitationError) or is_refusal(error)):
                self.retire()
        elif reason in _ANOTHER_SERVER and not self.terms.server.command:
            self.retire()
        was_kept = self.uses > 1 and (self.is_legacy or self.has_ended)
        return was_kept and isinstance(error, NotSentError) and reason in _FORGOTTEN

    # --- Its task ----------------------------------------------------------------------------

    async def open(self, user: AbstractBaseUser | None) -> None:
        """Connect, with the credentials of this user.

        Raises:
            ConnectionFailed: There is no connection.
            Exception: What ``auth`` of the server raises.
        """
        try:
            # In the caller's task, whose thread for the database is there.
            auth = await _credentials(self, user)
        except BaseException:
            self._end()
            raise
        # In a context of its own: it outlives the call that happens to make it.
        self._task = self.loop.create_task(self._live(auth), context=Context())
        # A task that is cancelled before it begins runs none of its own code.
        self._task.add_done_callback(self._end)
        await self.settled.wait()
        if self.host is None:
            raise ConnectionFailed(self.reason or "connect")

    async def _live(self, auth: httpx2.Auth | None) -> None:
        try:
            async with asyncio.timeout(PATIENCE) as patience, self._connected(auth) as client:
                patience.reschedule(None)
                self.host = Host(client.session, None, None)
                self.settled.set()
                await self._until_unused()
        except Exception as error:
            if self.host is None:
                status = f"http_{self.status}"
                self.reason = status if status in REPLIES else "connect"
            # Its text may quote a URL with a secret in it.
            logger.warning(
                "A connection with the MCP server '%s' failed",
                self.terms.server.name,
                extra={"server": self.terms.server.name, "error": type(error).__name__},
            )

    def _end(self, task: asyncio.Task[None] | None = None) -> None:
        self.is_retired = True
        self.settled.set()
        connections = _connections_of(self.loop)
        connections.remove(self)
        if not connections:
            del _connections[self.loop]

    @asynccontextmanager
    async def _connected(self, auth: httpx2.Auth | None) -> AsyncIterator[mcp.Client]:
        server = self.terms.server
        # The server is asked which era it speaks, also for a call that goes on from a round: what
        # an older server makes of an answer cannot be known.
        options = declared(self.policy, callback=self._ask) | {"mode": "auto"}
        if settings.TASKS:
            options["extensions"] = [TasksExtension()]
        if server.command:
            parameters = mcp.StdioServerParameters(
                command=server.command,
                args=list(server.args),
                env=None if server.env is None else dict(server.env),
                cwd=None if server.cwd is None else str(server.cwd),
            )
            async with mcp.Client(parameters, **options) as client:
                yield client
            return
        hooks = {"response": [self._note]}
        async with (
            http_client(headers=dict(server.headers), auth=auth, event_hooks=hooks) as http,
            connect(server.url, http=http, **options) as client,
        ):
            yield client

    async def _note(self, response: httpx2.Response) -> None:
        """Note with what status a server refuses to connect."""
        self.status = response.status_code

    async def _until_unused(self) -> None:
        while self.users or not self.is_retired:
            left = None if self.users else self.used_at + IDLE - self.loop.time()
            if left is not None and left <= 0:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._woken.wait()
            self._woken.clear()
        # From here on no call finds it.
        self.is_retired = True

    async def _ask(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        if self.asking is not None:
            return await self.asking(context, params)
        # To ask the person of an earlier call would be to guess.
        name = self.terms.server.name
        await note_refusal(name, "no_call", "it asks while no call of it is under way")
        action: Any = unanswered_action()
        return ElicitResult(action=action)


#: The connections of each loop.
_connections: dict[asyncio.AbstractEventLoop, list[Connection]] = {}


def _connections_of(loop: asyncio.AbstractEventLoop) -> list[Connection]:
    return _connections.setdefault(loop, [])


@asynccontextmanager
async def connected(
    server: NamedServer,
    policy: ServerPolicy,
    user: AbstractBaseUser | None,
    asking: ElicitationFnT | None,
    *,
    needs_modern: bool = False,
) -> AsyncIterator[Connection]:
    """Use a connection for one call.

    Args:
        server: The server.
        policy: Its policy.
        user: Whose call it is, and who is asked.
        asking: What answers a server that asks in the middle of the call.
        needs_modern: Whether the call goes on from a round, which only 2026-07-28 has: a
            connection that is known to be an older one is of no use.

    Raises:
        ConnectionFailed: There is none.
        Exception: What ``auth`` of the server raises.
    """
    person = None if user is None else user.pk
    shown = None if user is None else policy
    terms = Terms(
        server=server,
        owner=person if server.auth else None,
        allows_asking=shown is not None and shown.allows_asking,
        allows_forms=shown is not None and shown.allows_forms,
    )
    while (connection := _find(terms, person, needs_modern=needs_modern)) is not None:
        if connection.settled.is_set():
            break
        # Another call is making it.
        await connection.settled.wait()
        if connection.reason:
            raise ConnectionFailed(connection.reason)
    if connection is not None:
        connection.users += 1
    else:
        connection = Connection(terms, shown, person)
    try:
        if not connection.settled.is_set():
            await connection.open(user)
        connection.begin(asking)
        yield connection
    finally:
        connection.give_back()
        _limit_idle()


def _find(terms: Terms, person: Any, *, needs_modern: bool) -> Connection | None:
    """Return a connection that this call can use or wait for; ``None`` where it makes its own."""
    same = []
    for connection in _connections.get(asyncio.get_running_loop(), ()):
        if connection.is_over:
            connection.retire()
        if connection.terms == terms and not connection.is_retired:
            same.append(connection)
    for connection in same:
        if connection.host is not None and not connection.is_legacy:
            return connection
        is_free = connection.is_legacy and not connection.users and connection.person == person
        if is_free and not needs_modern:
            return connection
    if any(connection.is_legacy for connection in same):
        # Each call has its own.
        return None
    return next(iter(same), None)


def _limit_idle() -> None:
    """Retire the connection that was used least recently where too many are idle."""
    connections = _connections.get(asyncio.get_running_loop(), ())
    idle = [each for each in connections if not (each.users or each.is_retired)]
    if len(idle) > MOST_IDLE:
        min(idle, key=lambda each: each.used_at).retire()


# --- Credentials -----------------------------------------------------------------------------


async def _credentials(
    connection: Connection, user: AbstractBaseUser | None
) -> httpx2.Auth | None:
    """Return what the requests of a connection are authenticated with."""
    server = connection.terms.server
    if server.auth is None:
        return None
    found = await _asked(server, user)
    return found if isinstance(found, httpx2.Auth) else _Headers(found, connection, user)


@sensitive_variables()
async def _asked(
    server: NamedServer, user: AbstractBaseUser | None
) -> Mapping[str, str] | httpx2.Auth:
    """Return what ``auth`` of a server returns.

    Raises:
        ImproperlyConfigured: That is neither headers nor an ``httpx2.Auth``.
    """
    auth: Any = server.auth
    if iscoroutinefunction(auth):
        found = await auth(user)
    else:
        found = await between_requests(partial(auth, user))
        # A callable object may be asynchronous, and not look like it.
        found = await found if isawaitable(found) else found
    if isinstance(found, httpx2.Auth):
        return found
    if isinstance(found, Mapping) and all(
        isinstance(part, str) for item in found.items() for part in item
    ):
        return dict(found)
    raise ImproperlyConfigured(
        f"ELICITATION_SERVERS[{server.name!r}]['auth'] must return a dictionary of strings, or an "
        f"httpx2.Auth, not a {type(found).__module__}.{type(found).__qualname__}."
    )


class _Headers(httpx2.Auth):
    """The headers that ``auth`` returned. It is asked again when a server answers with 401.

    No server handles a request that it answers so. The request is sent again with the new
    headers, if they are others.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        connection: Connection,
        user: AbstractBaseUser | None,
    ) -> None:
        self.headers = headers
        self.connection = connection
        self.user = user
        self.asking = asyncio.Lock()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        sent = self.headers
        request.headers.update(sent)
        response = yield request
        # Before the connection is made the headers are as new as can be.
        if response.status_code != 401 or not self.connection.settled.is_set():
            return
        async with self.asking:
            # Another request may have asked in the meantime.
            if self.headers is sent:
                fresh = await _asked(self.connection.terms.server, self.user)
                if isinstance(fresh, Mapping) and fresh != sent:
                    self.headers = fresh
        if self.headers is not sent:
            for name in sent:
                request.headers.pop(name, None)
            request.headers.update(self.headers)
            yield request
