"""The views. They hold no rule of their own: what happens to an elicitation is in ``inbox``.

What a project may want to change is a class attribute: subclass a view and route to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from django.db import connections, transaction
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from .. import inbox
from ..calls import outcomes
from ..conf import settings as app_settings
from ..models import Elicitation, ElicitationQuerySet, ServerPolicy, check_name
from ..pages import stream
from . import schema
from .errors import error_response, invalid_request, too_large
from .pagination import ClosedPagination, DeadlinePagination
from .parsers import StrictJSONParser
from .serializers import (
    ElicitationDetailSerializer,
    ElicitationSerializer,
    ProgressSerializer,
    read_answers,
    read_consent,
    read_nothing,
    read_several,
)
from .throttling import ElicitationThrottle

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser
    from django.http import HttpRequest, QueryDict
    from django.http.response import HttpResponseBase
    from rest_framework.request import Request

State, Via = Elicitation.State, Elicitation.Via


class ElicitationApiView(APIView):
    """What all views of the API share."""

    # How people sign in is the project's decision; everything else is the API's own, so that a
    # project's defaults (AllowAny is DRF's) cannot open it.
    authentication_classes: Sequence[Any] = api_settings.DEFAULT_AUTHENTICATION_CLASSES
    permission_classes = (IsAuthenticated,)
    throttle_classes = (ElicitationThrottle,)
    parser_classes = (StrictJSONParser,)
    renderer_classes = (JSONRenderer,)
    versioning_class = None
    # No OPTIONS: DRF would answer it with what the code says of itself.
    http_method_names = ["get", "head", "post"]  # noqa: RUF012 - Django's own is a list

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Return the view; a transaction round the request would undo what an answer's own
        transaction committed."""
        view = super().as_view(**initkwargs)
        for alias in connections:
            view = transaction.non_atomic_requests(using=alias)(view)
        return view

    @property
    def default_response_headers(self) -> dict[str, str]:
        """The headers of every response, the errors included."""
        return {
            **super().default_response_headers,
            "Cache-Control": "no-store, private",
            "X-Content-Type-Options": "nosniff",
        }

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """Return the API's own handler, whatever the project's is."""
        return error_response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse a body that says it is too large before anything reads it."""
        length = request.META.get("CONTENT_LENGTH") or "0"
        if length.isdecimal() and int(length[:20]) > app_settings.API_MAX_BYTES:
            raise too_large()
        super().initial(request, *args, **kwargs)

    def resource(self, elicitation: Elicitation) -> Response:
        """Return an elicitation as it is now."""
        context = {
            "policies": {elicitation.server: elicitation.server_policy},
            "elicitation": elicitation,
            "user": self.request.user,
            "site_host": self.request.get_host(),
        }
        return Response(ElicitationDetailSerializer(elicitation, context=context).data)


class ElicitationListView(ElicitationApiView):
    """The elicitations that this person may see."""

    pagination_class: type[DeadlinePagination] = DeadlinePagination

    @schema.LIST
    def get(self, request: Request) -> Response:
        """List elicitations in every state, or in one, the oldest deadline first."""
        return self.page_of(inbox.visible(person(request)))

    def page_of(self, elicitations: ElicitationQuerySet) -> Response:
        """Return a page of those of ``elicitations`` that the query string asks for."""
        found = filtered(elicitations, self.request.query_params)
        paginator = self.pagination_class()
        page: Any = paginator.paginate_queryset(found, self.request, view=self)
        policies = ServerPolicy.objects.for_servers({elicitation.server for elicitation in page})
        serializer = ElicitationSerializer(page, many=True, context={"policies": policies})
        return paginator.get_paginated_response(serializer.data)


class HistoryView(ElicitationListView):
    """The closed elicitations that this person may see."""

    pagination_class = ClosedPagination

    @schema.HISTORY
    def get(self, request: Request) -> Response:
        """List what is closed, the latest first."""
        return self.page_of(inbox.visible(person(request)).closed())


class EventsView(ElicitationApiView):
    """What waits for this person, and what changes."""

    @schema.EVENTS
    def get(self, request: Request) -> HttpResponseBase:
        """List what waits, and under ASGI go on with what changes, as server-sent events."""
        return stream.events(request._request, person(request), self._identified)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Refuse nothing: what is accepted says whether this is a stream."""
        return super().perform_content_negotiation(request, force=True)

    def _identified(self, request: HttpRequest) -> AbstractBaseUser | AnonymousUser | None:
        try:
            return self.initialize_request(request).user
        except AuthenticationFailed:
            return None


class ElicitationDetailView(ElicitationApiView):
    """One elicitation."""

    @schema.DETAIL
    def get(self, request: Request, elicitation_id: str) -> Response:
        """Show an elicitation, in any state."""
        elicitation = inbox.get(person(request), elicitation_id)
        if elicitation.is_open():
            inbox.shown(elicitation)
        return self.resource(elicitation)


class ProgressView(ElicitationApiView):
    """How far the call is that an elicitation belongs to."""

    @schema.PROGRESS
    def get(self, request: Request, elicitation_id: str) -> Response:
        """Say whether the call waits, goes on or has ended; never what it returned."""
        elicitation = inbox.get(person(request), elicitation_id)
        context = {"progress": outcomes.progress(elicitation)}
        return Response(ProgressSerializer(elicitation, context=context).data)


class AnswerView(ElicitationApiView):
    """The answer to an elicitation."""

    @schema.ANSWER
    def post(self, request: Request, elicitation_id: str) -> Response:
        """Record an answer; the same answer again succeeds again."""
        return self.answer(elicitation_id, request.data)

    def answer(self, elicitation_id: str, body: object) -> Response:
        """Record the answer in a body."""
        user = person(self.request)
        elicitation = inbox.get(user, elicitation_id)
        sent = read_answers(body, elicitation.schema)
        closed = inbox.answer(
            elicitation,
            sent.answers,
            by=user,
            via=Via.API,
            fingerprint=sent.fingerprint,
            unread=sent.unread,
        )
        return self.resource(closed)


class AnswersView(AnswerView):
    """The answers to several elicitations, such as those of a round on one page."""

    @schema.ANSWERS
    def post(self, request: Request) -> Response:
        """Answer or decline each by itself: one that is refused stops none of the others."""
        several = read_several(request.data)
        return Response({"results": [self._one(key, body) for key, body in several]})

    def _one(self, elicitation_id: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            if body == {"decline": True}:
                elicitation = inbox.get(person(self.request), elicitation_id)
                closed = inbox.decline(elicitation, by=person(self.request), via=Via.API)
                response = self.resource(closed)
            else:
                response = self.answer(elicitation_id, body)
        except Exception as exc:
            refused = error_response(exc, {})
            if refused is None:
                raise
            response = refused
        is_done = response.status_code == 200
        return {
            "id": elicitation_id,
            "status": response.status_code,
            "elicitation": response.data if is_done else None,
            "error": None if is_done else response.data,
        }


class ConsentView(ElicitationApiView):
    """The consent to opening a URL."""

    @schema.CONSENT
    def post(self, request: Request, elicitation_id: str) -> Response:
        """Consent; consenting again succeeds again. The response has what to open."""
        user = person(request)
        elicitation = inbox.get(user, elicitation_id)
        fingerprint = read_consent(request.data)
        return self.resource(
            inbox.consent(elicitation, by=user, via=Via.API, fingerprint=fingerprint)
        )


class ContinueView(ElicitationApiView):
    """The person says that they have finished at a URL."""

    @schema.CONTINUE
    def post(self, request: Request, elicitation_id: str) -> Response:
        """Go on with the call; nothing happens where it has gone on already."""
        user = person(request)
        elicitation = inbox.get(user, elicitation_id)
        read_nothing(request.data)
        return self.resource(inbox.go_on(elicitation, by=user))


class DeclineView(ElicitationApiView):
    """The refusal to answer an elicitation."""

    @schema.DECLINE
    def post(self, request: Request, elicitation_id: str) -> Response:
        """Decline an elicitation. Declining again succeeds again."""
        user = person(request)
        elicitation = inbox.get(user, elicitation_id)
        read_nothing(request.data)
        return self.resource(inbox.decline(elicitation, by=user, via=Via.API))


def person(request: Request) -> AbstractBaseUser:
    """Return who asks; the inbox shows nothing to nobody in particular."""
    return cast("AbstractBaseUser", request.user)


def filtered(elicitations: ElicitationQuerySet, params: QueryDict) -> ElicitationQuerySet:
    """Return the elicitations that a list's query string asks for.

    Raises:
        ApiError: ``invalid_request``: a value that no elicitation can have, or several of one.
    """
    filters: Mapping[str, Callable[[str], ElicitationQuerySet]] = {
        "state": lambda value: elicitations.in_state(State(value)),
        "scope": lambda value: elicitations.in_scope(check_name("The scope", value)),
        "server": lambda value: elicitations.of_server(check_name("The server", value)),
        "search": lambda value: elicitations.saying(check_name("The search", value)),
    }
    errors = {}
    for name, narrow in filters.items():
        values = params.getlist(name)
        try:
            if len(values) > 1:
                raise ValueError
            for value in values:
                elicitations = narrow(value)
        except ValueError:
            errors[name] = {"code": "invalid", "message": "No elicitation can have this value."}
    if errors:
        raise invalid_request(errors)
    return elicitations
