"""Every error of the API has one shape, and a code that clients branch on.

``{"code": …, "detail": …, "errors": {name: {"code", "message", "params"}}}``. No text repeats
what was sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from .. import inbox
from ..core import AnswerRefusal, ElicitationRefusal
from ..models import Elicitation, TooLargeError
from ..pages.refusals import MESSAGES, refusal_text

Errors = Mapping[str, Mapping[str, Any]]

State = Elicitation.State

DETAILS = {
    "answered": "The elicitation was already answered differently.",
    "declined": "The elicitation was declined.",
    "expired": "The time to answer is over.",
    "withdrawn": "The elicitation was withdrawn.",
    "replaced": "The server has changed the elicitation since then.",
    "wrong_mode": (
        "This endpoint does not fit the elicitation. Use answer/ for forms and consent/ for URLs."
    ),
    "not_allowed": "The policy of the server no longer lists this URL.",
}


class ApiError(exceptions.APIException):
    """An error that the API itself finds in a request.

    Args:
        status_code: The status of the response.
        code: What clients branch on.
        detail: One English sentence.
        errors: By the name of what is wrong: ``code``, ``message``, and ``params`` or not.
    """

    def __init__(
        self, status_code: int, code: str, detail: str, errors: Errors | None = None
    ) -> None:
        super().__init__(detail, code)
        self.status_code = status_code
        self.errors = errors or {}


def invalid_request(errors: Errors, detail: str = "The request is malformed.") -> ApiError:
    """Return the error for a request that has the wrong shape."""
    return ApiError(400, "invalid_request", detail, errors)


def too_large() -> ApiError:
    """Return the error for a body over ``ELICITATION_API_MAX_BYTES``."""
    return ApiError(413, "too_large", "The request is too large.")


def error_response(exc: Exception, context: Mapping[str, Any]) -> Response | None:
    """Return the response to an error: what DRF calls an exception handler.

    The API's views name it themselves, so a project's own handler stays as it is. ``None``
    for an exception that is no answer to a request: it is raised on.
    """
    error = _as_api_error(exc)
    if error is None:
        return None
    body = {
        "code": _code(error),
        "detail": _detail(error),
        "errors": getattr(error, "errors", {}),
    }
    response = Response(body, status=error.status_code)
    if header := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = header
    if isinstance(error, exceptions.Throttled):
        # A throttle may not know how long; a client that asks again at once would be no better.
        wait: float | None = getattr(error, "wait", None)
        response["Retry-After"] = str(max(1, math.ceil(wait or 1)))
    return response


def _as_api_error(exc: Exception) -> exceptions.APIException | None:
    match exc:
        case exceptions.APIException():
            return exc
        case inbox.AnswerRefusals():
            errors = {name: refusal_data(refusal) for name, refusal in exc.errors.items()}
            return ApiError(400, "invalid_answers", "Some answers do not fit.", errors)
        case inbox.WrongModeError():
            return ApiError(409, exc.code, DETAILS[exc.code])
        case ElicitationRefusal():
            return ApiError(403, "not_allowed", DETAILS["not_allowed"])
        case inbox.ElicitationReplacedError():
            return ApiError(409, exc.code, DETAILS[exc.code])
        case inbox.ElicitationClosedError():
            gone = exc.elicitation.current_state() in (State.EXPIRED, State.WITHDRAWN)
            return ApiError(410 if gone else 409, exc.code, DETAILS[exc.code])
        case Elicitation.DoesNotExist() | Http404():
            return exceptions.NotFound()
        case TooLargeError() | RequestDataTooBig():
            return too_large()
        case PermissionDenied():
            return exceptions.PermissionDenied()
    return None


def _code(error: exceptions.APIException) -> str:
    code = error.get_codes()
    return code if isinstance(code, str) else "invalid_request"


def _detail(error: exceptions.APIException) -> str:
    return str(error.detail) if isinstance(error.detail, str) else "The request is malformed."


def refusal_data(refusal: AnswerRefusal) -> dict[str, Any]:
    """Return why an answer does not fit; the message is for people where they can mend it."""
    for_people = refusal.code in MESSAGES or refusal.code == "bad_format"
    data: dict[str, Any] = {
        "code": refusal.code,
        "message": refusal_text(refusal) if for_people else str(refusal),
    }
    if refusal.params:
        data["params"] = dict(refusal.params)
    return data
