"""The site's addresses, and views of a host that take an answer while they serve a request."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

from elicitation.store import DatabaseFormAnswerStore
from project.urls import urlpatterns as site
from tests.asking import form_elicitation

QUESTION = {"type": "object", "properties": {"plan": {"type": "string"}}, "required": ["plan"]}
ASKED = form_elicitation(QUESTION, "Which plan?")


def store() -> DatabaseFormAnswerStore:
    return DatabaseFormAnswerStore(scope="host", call="call-1")


def take(request: HttpRequest) -> HttpResponse:
    taken = store().take_form_answer(ASKED)
    return HttpResponse("nothing" if taken is None else taken.answers["plan"].other_text)


@transaction.non_atomic_requests
def take_outside(request: HttpRequest) -> HttpResponse:
    return take(request)


urlpatterns = [
    path("host/take/", take),
    path("host/take-outside/", take_outside),
    *site,
]
