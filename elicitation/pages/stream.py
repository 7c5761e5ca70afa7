"""What changes, over HTTP: server-sent events under ASGI, and a document to ask for elsewhere.

Pages and API share it. It carries ids and states, and no text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any

from asgiref.sync import SyncToAsync, sync_to_async
from django.conf import settings as django_settings
from django.contrib.auth import get_user
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.utils.cache import get_conditional_response
from django.utils.functional import SimpleLazyObject
from django.utils.http import quote_etag

from .. import inbox
from ..inbox import live

if TYPE_CHECKING:
    from uuid import UUID

    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser
    from django.contrib.sessions.backends.base import SessionBase

STREAM, DOCUMENT = "text/event-stream", "application/json"
#: After how many milliseconds a browser comes again when a stream has ended.
RETRY = 2000


def events(
    request: HttpRequest,
    user: AbstractBaseUser,
    identify: Callable[[HttpRequest], AbstractBaseUser | AnonymousUser | None],
) -> HttpResponse | StreamingHttpResponse:
    """Answer with what waits for a person and what changes, as far as the server can.

    A request that prefers ``text/event-stream`` gets a stream under ASGI, and 204 elsewhere: a
    browser then stops without a complaint, and its script asks for the document. That is what
    waits now, as JSON, or 304 if the client has it already (``If-None-Match``).

    Args:
        request: The request, of a person who is signed in.
        user: Who that is.
        identify: Returns who makes a request, or ``None``: for a request that comes again.
    """
    session = leave_session(request)
    if request.get_preferred_type([DOCUMENT, STREAM]) != STREAM:
        return _document(request, inbox.waiting_ids(user))
    if not isinstance(request, ASGIRequest) or request.method != "GET":
        return HttpResponse(status=204)

    def read_again() -> AbstractBaseUser | None:
        person = identify(_again(request, session))
        return person if person is not None and person.is_authenticated else None

    response = StreamingHttpResponse(
        _written(live.follow(user, read_again, session)), content_type=STREAM
    )
    # nginx would keep events back until its buffer is full.
    response["X-Accel-Buffering"] = "no"
    return response


def leave_session(request: HttpRequest) -> SessionBase | None:
    """Return a request's session, if it has one, and let the middleware not save it.

    A page that is left open does not keep its person signed in, even where every request
    prolongs the session.
    """
    session = getattr(request, "session", None)
    if session is not None and not session.modified:
        del request.session
    return session


def _document(request: HttpRequest, waiting: list[UUID]) -> HttpResponse:
    response = JsonResponse({"waiting": [str(key) for key in waiting]})
    response["ETag"] = etag = quote_etag(hashlib.sha256(response.content).hexdigest())
    response["Vary"] = "Accept"
    found = get_conditional_response(request, etag=etag, response=response)
    assert isinstance(found, HttpResponse)
    return found


async def _written(news: AsyncIterator[live.News]) -> AsyncIterator[str]:
    """Write news as events (WHATWG HTML, *Server-sent events*)."""
    await sync_to_async(_close_connections)()
    _let_the_thread_go()
    yield f"retry: {RETRY}\n\n"
    async for item in news:
        match item:
            case live.Waiting(ids):
                yield _event("waiting", {"waiting": [str(key) for key in ids]})
            case live.Changed(key, state):
                yield _event("elicitation", {"id": str(key), "state": state})
            case live.Beat():
                yield ":\n\n"


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _close_connections() -> None:
    """Give the request's connections back: Django would do that at the end of the stream."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def _let_the_thread_go() -> None:
    """End the request's own thread, which would wait for the end of the stream.

    Django gives each request one, and makes another where it is needed again. The names are not
    public in asgiref; without them the thread only stays.
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context else None
    if executor is not None:
        executor.shutdown(wait=False)


def _again(request: HttpRequest, session: SessionBase | None) -> HttpRequest:
    """Return this request as if it came now, with session and user to be read."""
    again = copy(request)
    if session is not None:
        engine = import_module(django_settings.SESSION_ENGINE)
        again.session = engine.SessionStore(session.session_key)
        again.user = SimpleLazyObject(lambda: get_user(again))  # type: ignore[assignment]
    return again
