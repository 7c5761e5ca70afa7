"""The OpenAPI description of the views, where drf-spectacular is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rest_framework import serializers

from ..calls.requests import MAX_ELICITATIONS
from ..core import MAX_FORM_ANSWER_CHARS, WIDE_LIMITS
from ..models import MAX_NAME_CHARS, Elicitation
from .serializers import (
    ElicitationDetailSerializer,
    ElicitationSerializer,
    ProgressSerializer,
)

try:
    from drf_spectacular.types import OpenApiTypes
    from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
except ImportError:
    IS_INSTALLED = False
else:
    IS_INSTALLED = True

View = TypeVar("View", bound=Callable[..., Any])
Describe = Callable[[View], View]


class FieldErrorSerializer(serializers.Serializer[Any]):
    """What is wrong with one name; ``params`` holds the bounds that were not met."""

    code = serializers.CharField()
    message = serializers.CharField()
    params = serializers.DictField(required=False)


class ErrorSerializer(serializers.Serializer[Any]):
    """The body of every error."""

    code = serializers.CharField()
    detail = serializers.CharField()
    errors = serializers.DictField(child=FieldErrorSerializer())  # type: ignore[assignment]


class ResultSerializer(serializers.Serializer[Any]):
    """What became of one of several: its status, and the elicitation or the error."""

    id = serializers.CharField()
    status = serializers.IntegerField()
    elicitation = ElicitationDetailSerializer(allow_null=True)
    error = ErrorSerializer(allow_null=True)


class ResultsSerializer(serializers.Serializer[Any]):
    """What became of each, in the order in which they were sent."""

    results = ResultSerializer(many=True)


class WaitingSerializer(serializers.Serializer[Any]):
    """The ids of what waits for this person, the oldest deadline first."""

    waiting = serializers.ListField(child=serializers.UUIDField())


STREAM = {
    "type": "string",
    "description": "Server-sent events: `waiting` first, then an `elicitation` for each change.",
}

ERRORS = {
    400: "The request is malformed, or some answers do not fit.",
    401: "Nobody is signed in.",
    403: "Not allowed.",
    404: "There is no such elicitation for this person, or no such page.",
    405: "This URL does not have this method.",
    406: "The API only writes JSON.",
    409: "The elicitation was closed differently, was replaced, or is of the other mode.",
    410: "The elicitation has expired or was withdrawn.",
    413: "The request is too large.",
    415: "The API only reads JSON.",
    429: "Too many requests.",
}
READING = (400, 401, 403, 404, 405, 406, 413, 429)
WRITING = (*READING, 409, 410, 415)

FORM_ANSWER = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "selected": {"type": "array", "items": {"type": "string"}},
        "other_text": {
            "type": "string",
            "nullable": True,
            "maxLength": MAX_FORM_ANSWER_CHARS,
        },
        "skipped": {"type": "boolean"},
    },
}
CONTENT_VALUE = {
    "oneOf": [
        {"type": "string"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "array", "items": {"type": "string"}},
    ]
}
FINGERPRINT = {
    "type": "string",
    "description": "The fingerprint of the elicitation that was shown.",
}


def _sent(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name],
        "properties": {
            name: {
                "type": "object",
                "additionalProperties": value,
                "maxProperties": WIDE_LIMITS.properties,
            },
            "fingerprint": FINGERPRINT,
        },
    }


ANSWER_BODY = {"oneOf": [_sent("answers", FORM_ANSWER), _sent("content", CONTENT_VALUE)]}
_DECLINE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["decline"],
    "properties": {"decline": {"type": "boolean", "enum": [True]}},
}


def _with_id(sent: dict[str, Any]) -> dict[str, Any]:
    return {
        **sent,
        "required": ["id", *sent["required"]],
        "properties": {"id": {"type": "string", "format": "uuid"}, **sent["properties"]},
    }


ANSWERS_BODY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["elicitations"],
    "properties": {
        "elicitations": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_ELICITATIONS,
            "items": {
                "oneOf": [
                    _with_id(_sent("answers", FORM_ANSWER)),
                    _with_id(_sent("content", CONTENT_VALUE)),
                    _with_id(_DECLINE),
                ]
            },
        }
    },
}
CONSENT_BODY = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"fingerprint": FINGERPRINT},
}
NO_BODY = {"type": "object", "additionalProperties": False, "properties": {}}


def _describe(
    summary: str,
    *,
    responses: Any,
    errors: tuple[int, ...],
    parameters: tuple[tuple[str, str, Any], ...] = (),
    body: dict[str, Any] | None = None,
    operation_id: str,
    has_id: bool = True,
) -> Describe[Any]:
    if not IS_INSTALLED:
        return lambda view: view
    described = [
        OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=description)
        for name, description, kind in parameters
    ]
    if has_id:
        described.append(
            OpenApiParameter("elicitation_id", OpenApiTypes.UUID, OpenApiParameter.PATH)
        )
    described.append(
        OpenApiParameter(
            "Retry-After",
            OpenApiTypes.INT,
            OpenApiParameter.HEADER,
            description="Seconds to wait.",
            response=[429],
            required=True,
        )
    )
    return extend_schema(
        operation_id=operation_id,
        summary=summary,
        tags=["elicitations"],
        parameters=described,
        request={"application/json": body} if body is not None else None,
        responses={
            **(responses if isinstance(responses, dict) else {200: responses}),
            **{
                status: OpenApiResponse(ErrorSerializer, description=ERRORS[status])
                for status in errors
            },
        },
    )


# As check_name() has it: something that is seen, and no control characters.
_NAME = {
    "type": "string",
    "maxLength": MAX_NAME_CHARS,
    "pattern": r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
}

FILTERS = (
    (
        "state",
        "Only elicitations in this state.",
        {"type": "string", "enum": list(Elicitation.State.values)},
    ),
    ("scope", "Only elicitations of exactly this scope.", _NAME),
    (
        "server",
        "Only elicitations of the server that is configured under exactly this name.",
        _NAME,
    ),
    (
        "search",
        "Only elicitations with this text in what people see of them.",
        _NAME,
    ),
)
LIST = _describe(
    "Elicitations, the oldest deadline first",
    operation_id="elicitations_list",
    has_id=False,
    parameters=FILTERS,
    responses=ElicitationSerializer(many=True),
    errors=READING,
)
HISTORY = _describe(
    "Closed elicitations, the latest first",
    operation_id="history_list",
    has_id=False,
    parameters=FILTERS,
    responses=ElicitationSerializer(many=True),
    errors=READING,
)
PROGRESS = _describe(
    "How far the call is",
    operation_id="elicitations_progress",
    responses=ProgressSerializer,
    errors=READING,
)
EVENTS = _describe(
    "What waits, and what changes",
    operation_id="events",
    parameters=(),
    has_id=False,
    responses={
        (200, "application/json"): WaitingSerializer,
        (200, "text/event-stream"): STREAM,
        (204, "text/event-stream"): None,
        (304, "application/json"): None,
    },
    errors=(401, 403, 405, 413, 429),
)
DETAIL = _describe(
    "One elicitation",
    operation_id="elicitations_retrieve",
    responses=ElicitationDetailSerializer,
    errors=READING,
)
ANSWER = _describe(
    "Answer an elicitation",
    operation_id="elicitations_answer",
    body=ANSWER_BODY,
    responses=ElicitationDetailSerializer,
    errors=WRITING,
)
ANSWERS = _describe(
    "Answer or decline several elicitations, each by itself",
    operation_id="answers",
    has_id=False,
    body=ANSWERS_BODY,
    responses=ResultsSerializer,
    errors=(400, 401, 403, 405, 406, 413, 415, 429),
)
CONSENT = _describe(
    "Consent to opening a URL",
    operation_id="elicitations_consent",
    body=CONSENT_BODY,
    responses=ElicitationDetailSerializer,
    errors=WRITING,
)
CONTINUE = _describe(
    "Say that the person has finished at a URL",
    operation_id="elicitations_continue",
    body=NO_BODY,
    responses=ElicitationDetailSerializer,
    errors=WRITING,
)
DECLINE = _describe(
    "Decline an elicitation",
    operation_id="elicitations_decline",
    body=NO_BODY,
    responses=ElicitationDetailSerializer,
    errors=WRITING,
)
