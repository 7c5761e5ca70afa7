"""What the API shows, and how it reads what is sent.

Everything a server wrote is shown as it is, to be displayed as plain text and never as markup;
labels must come back exactly. Nothing here shows an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

from rest_framework import serializers

from .. import inbox
from ..calls.requests import MAX_ELICITATIONS
from ..core import (
    MAX_FORM_PROPERTIES,
    URL_WARNINGS,
    AnswerRefusal,
    ElicitationRefusal,
    ElicitationURL,
    FormAnswer,
    FormSchema,
    Property,
    attribution_header,
)
from ..core.kinds import Scalar
from ..core.untrusted import one_line
from ..models import Elicitation, ServerPolicy
from .errors import invalid_request

_State = Elicitation.State

ValueType = Literal["string", "boolean", "integer", "number", "array"]

# --- What is shown ---------------------------------------------------------------------------


class Server(TypedDict):
    """The server that asks: the name it is configured under, and the name people see."""

    name: str
    label: str


class Option(TypedDict):
    """One option: ``label`` for ``answers``, ``value`` for ``content``."""

    label: str
    description: str
    value: str | float | bool


class Default(TypedDict):
    """The answer that a server suggests, as it could be sent back."""

    selected: list[str]
    other_text: str | None


class _Number(serializers.FloatField):
    """A bound exactly as the server sent it: an integer may have more digits than a double."""

    def to_representation(self, value: Any) -> Any:
        return value


class BoundsSerializer(serializers.Serializer[Property]):
    """The bounds of an answer; what is absent is no bound. ``format`` is the server's word."""

    format = serializers.CharField(required=False)
    min_length = serializers.IntegerField(required=False)
    max_length = serializers.IntegerField(required=False)
    minimum = _Number(required=False)
    maximum = _Number(required=False)
    exclusive_minimum = _Number(required=False)
    exclusive_maximum = _Number(required=False)
    multiple_of = _Number(required=False)
    min_items = serializers.IntegerField(required=False)
    max_items = serializers.IntegerField(required=False)

    def to_representation(self, instance: Property) -> dict[str, Any]:
        """Return the bounds that this kind of property has, and this property sets."""
        shown = super().to_representation(instance)
        return {name: bound for name, bound in shown.items() if bound is not None}


class QuestionSerializer(serializers.Serializer[Property]):
    """One property of the requested schema, as it is asked (MCP 2026-07-28)."""

    kind = serializers.ChoiceField(("choice", "text"), source="question_kind")
    type = serializers.SerializerMethodField()
    id = serializers.CharField(source="name")
    header = serializers.SerializerMethodField()
    question = serializers.CharField(source="question_text")
    label = serializers.CharField()  # type: ignore[assignment]
    description = serializers.SerializerMethodField()
    required = serializers.BooleanField()  # type: ignore[assignment]
    multi_select = serializers.BooleanField()
    allow_other = serializers.SerializerMethodField()
    bounds = BoundsSerializer(source="*")
    options = serializers.SerializerMethodField()
    # get_default() is a method of every field.
    default = serializers.SerializerMethodField(method_name="get_suggestion")

    def get_type(self, asked: Property) -> ValueType:
        """The JSON type of the value in ``content``."""
        return CONTENT[asked.kind_name].type(asked)

    def get_header(self, asked: Property) -> str:
        """Who asks: the server's configured name, in at most 16 characters."""
        server: str = self.context["elicitation"].server
        return attribution_header(server)

    def get_description(self, asked: Property) -> str:
        """What else the server says about it."""
        return asked.description or ""

    def get_allow_other(self, asked: Property) -> bool:
        """Whether the answer is typed."""
        return asked.question_kind == "text"

    def get_options(self, asked: Property) -> list[Option]:
        """The options in the server's order; none where the answer is typed."""
        values = CONTENT[asked.kind_name].options(asked)
        return [
            {"label": option["label"], "description": option["description"], "value": value}
            for option, value in zip(asked.options(), values, strict=True)
        ]

    def get_suggestion(self, asked: Property) -> Default | None:
        """What the server suggests, only where the operator's policy says ``prefill``."""
        answer = asked.default_answer
        policy: ServerPolicy = self.context["policies"][self.context["elicitation"].server]
        if answer is None or not policy.prefill:
            return None
        return {"selected": list(answer.selected), "other_text": answer.other_text}


# The views pass ``policies`` by server name in the context, and ``elicitation`` where the
# questions are shown. Docstrings are part of the OpenAPI document.


class ElicitationSerializer(serializers.Serializer[Elicitation]):
    """An elicitation as lists show it."""

    id = serializers.UUIDField()
    kind = serializers.SerializerMethodField()
    state = serializers.ChoiceField(Elicitation.State.choices, source="current_state")
    server = serializers.SerializerMethodField()
    tool = serializers.CharField()
    scope = serializers.CharField()
    scope_label = serializers.CharField()
    message = serializers.CharField()
    asked_at = serializers.DateTimeField()
    deadline = serializers.DateTimeField(source="expires_at")
    closed_at = serializers.DateTimeField(allow_null=True)
    page_url = serializers.SerializerMethodField()

    def get_page_url(self, elicitation: Elicitation) -> str:
        """Where people answer it, for links; empty if the site has no such page."""
        return elicitation.page_url

    def get_kind(self, elicitation: Elicitation) -> str:
        """``form`` asks for answers, ``url`` asks to open a URL."""
        return "url" if elicitation.is_url else "form"

    def get_server(self, elicitation: Elicitation) -> Server:
        """The server that asks; a server never writes either name."""
        policy: ServerPolicy = self.context["policies"][elicitation.server]
        return {"name": elicitation.server, "label": one_line(policy.display_name)}


class URLSerializer(serializers.Serializer[Any]):
    """A URL that a server wants a person to open, split for display.

    Show all of it, as text. ``registrable_domain`` is the end of ``unicode_host`` that says whose
    it is, and may stand out; where it is null nothing may. Show ``host`` too where the two
    differ. ``href`` is what to open, and null until the person has consented.
    """

    text = serializers.CharField()
    scheme = serializers.CharField()
    host = serializers.CharField()
    unicode_host = serializers.CharField()
    subdomain = serializers.CharField()
    registrable_domain = serializers.CharField(allow_null=True)
    port = serializers.IntegerField(allow_null=True)
    rest = serializers.CharField()
    warnings = serializers.ListField(child=serializers.ChoiceField(URL_WARNINGS))
    href = serializers.SerializerMethodField()

    def get_attribute(self, instance: Elicitation) -> ElicitationURL | None:
        """The URL: for people who are asked, then for the person who consented; else nothing."""
        agreed = inbox.consent_lasts(instance)
        if not instance.is_url or not (instance.is_open() or agreed):
            return None
        if agreed and instance.closed_by_id != self.context["user"].pk:
            return None
        policy: ServerPolicy = self.context["policies"][instance.server]
        try:
            return policy.parse_url(instance.url, site_host=self.context["site_host"])
        except ElicitationRefusal:
            # An operator has changed the policy since it was asked.
            return None

    def get_href(self, url: ElicitationURL) -> str | None:
        """What to open."""
        return url.href if self.context["elicitation"].state == _State.ANSWERED else None


class ElicitationDetailSerializer(ElicitationSerializer):
    """An elicitation with its questions in the server's order. Without questions it is a
    confirmation, or, if ``kind`` is ``url``, a URL to open.

    ``fingerprint`` stands for what is asked: sent back with the answer, it makes sure that the
    answer is to these questions. ``url`` is null for forms, for people who may not open the
    URL, and when nobody can open it any more.
    """

    fingerprint = serializers.CharField()
    url = URLSerializer(allow_null=True)
    questions = QuestionSerializer(many=True, source="schema.asked")
    scope_url = serializers.SerializerMethodField()
    result_url = serializers.SerializerMethodField()

    def get_scope_url(self, elicitation: Elicitation) -> str:
        """Where the conversation is that it belongs to; empty if the site does not say."""
        return inbox.scope_url(elicitation)

    def get_result_url(self, elicitation: Elicitation) -> str:
        """Where the result of the call can be seen; empty if there is none yet."""
        return inbox.result_url(elicitation)


class ProgressSerializer(serializers.Serializer[Elicitation]):
    """How far the call of an elicitation is: states and codes, and never what it returned.

    ``call`` is ``waiting`` while a person is asked something for it, then ``going_on``, then
    ``ended``. ``outcome`` says how it ended until the host has fetched that, and is null else.
    ``delivery`` says what became of the answer, and is empty before.
    """

    state = serializers.ChoiceField(Elicitation.State.choices, source="current_state")
    round = serializers.IntegerField()
    delivery = serializers.ChoiceField(
        Elicitation.Delivery.choices, source="told", allow_blank=True
    )
    delivered_at = serializers.DateTimeField(allow_null=True)
    call = serializers.SerializerMethodField()
    outcome = serializers.SerializerMethodField()
    result_url = serializers.SerializerMethodField()

    def get_call(self, elicitation: Elicitation) -> Literal["waiting", "going_on", "ended"]:
        """How far the call is."""
        state: Literal["waiting", "going_on", "ended"] = self.context["progress"].state
        return state

    def get_outcome(self, elicitation: Elicitation) -> str | None:
        """How the call ended."""
        outcome: str | None = self.context["progress"].outcome
        return outcome

    def get_result_url(self, elicitation: Elicitation) -> str:
        """Where the result of the call can be seen; empty if there is none yet."""
        return inbox.result_url(elicitation)


_TYPES: Mapping[type, ValueType] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


def _type_of(values: Iterable[Scalar]) -> ValueType:
    types = {_TYPES[type(value)] for value in values}
    # Options have one type, but for numbers with and without a fraction.
    return types.pop() if len(types) == 1 else "number"


class Content(NamedTuple):
    """What the answers to one kind of property are in ``content``."""

    #: Returns the JSON type of the value.
    type: Callable[[Any], ValueType]
    #: Returns what each option stands for, in the order of the options.
    options: Callable[[Any], tuple[Scalar, ...]]


#: By the kind of property. A new kind is one line here.
CONTENT: Mapping[str, Content] = {
    "choice": Content(lambda asked: _type_of(asked.values), lambda asked: asked.values),
    "multi_choice": Content(lambda asked: "array", lambda asked: asked.values),
    "yes_no": Content(lambda asked: "boolean", lambda asked: (True, False)),
    "text": Content(lambda asked: "string", lambda asked: ()),
    "number": Content(lambda asked: "integer" if asked.whole else "number", lambda asked: ()),
}


# --- What is sent ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SentAnswers:
    """What a request answers, by property name; ``unread`` says what is no answer to anything."""

    answers: Mapping[str, FormAnswer]
    unread: Mapping[str, AnswerRefusal]
    fingerprint: str | None


_TEXTS = {
    "unknown_property": "This is not part of the request.",
    "one_of": "Send exactly one of answers and content.",
    "not_an_object": "This must be a JSON object.",
    "not_a_round": f"Send 1 to {MAX_ELICITATIONS} objects, each with an id of its own.",
    "not_text": "This must be a string.",
    "too_many": "There are more names here than a form can have questions.",
}


def read_answers(body: object, schema: FormSchema) -> SentAnswers:
    """Read ``{"answers": …}`` or ``{"content": …}``; whether the answers fit is the inbox's.

    Args:
        body: The parsed body.
        schema: What was asked.

    Raises:
        ApiError: ``invalid_request``: the body has another shape.
    """
    sent = _known(body, "answers", "content", "fingerprint")
    forms: list[str] = [name for name in ("answers", "content") if name in sent]
    if len(forms) != 1:
        raise _malformed(dict.fromkeys(forms or ["answers", "content"], "one_of"))
    [form] = forms
    given, fingerprint = sent[form], sent.get("fingerprint", "")
    errors: dict[str, str] = {}
    if not isinstance(given, dict):
        errors[form] = "not_an_object"
    elif len(given) > MAX_FORM_PROPERTIES:
        # Each would be named in the response.
        errors[form] = "too_many"
    if not isinstance(fingerprint, str):
        errors["fingerprint"] = "not_text"
    if errors:
        raise _malformed(errors)
    if form == "content":
        answers, unread = schema.check_content(given)
    else:
        answers, unread = _check_shapes(given, {asked.name for asked in schema.asked})
    return SentAnswers(
        answers=answers,
        unread=unread,
        fingerprint=fingerprint if "fingerprint" in sent else None,
    )


def read_several(body: object) -> list[tuple[str, dict[str, Any]]]:
    """Read ``{"elicitations": [{"id": …, "answers": …}, …]}``: what answers each, by id.

    What is left of each is a body as ``read_answers`` reads it, or ``{"decline": true}``.

    Raises:
        ApiError: ``invalid_request``: the body has another shape, or more than a round can have.
    """
    sent = _known(body, "elicitations").get("elicitations")
    if not isinstance(sent, list) or not 0 < len(sent) <= MAX_ELICITATIONS:
        raise _malformed({"elicitations": "not_a_round"})
    found: dict[str, dict[str, Any]] = {}
    for one in sent:
        key = one.get("id") if isinstance(one, dict) else None
        if not isinstance(key, str) or key in found:
            raise _malformed({"elicitations": "not_a_round"})
        found[key] = {name: value for name, value in one.items() if name != "id"}
    return list(found.items())


def read_consent(body: object) -> str | None:
    """Read ``{"fingerprint": …}`` or ``{}``; return the fingerprint, or ``None``.

    Raises:
        ApiError: ``invalid_request``: the body has another shape.
    """
    sent = _known(body, "fingerprint")
    fingerprint = sent.get("fingerprint", "")
    if not isinstance(fingerprint, str):
        raise _malformed({"fingerprint": "not_text"})
    return fingerprint if "fingerprint" in sent else None


def read_nothing(body: object) -> None:
    """Make sure that a request brings nothing: an answer sent to the wrong URL is not lost
    in silence.

    Raises:
        ApiError: ``invalid_request``.
    """
    _known(body)


def _known(body: object, *names: str) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise invalid_request({}, "The body must be a JSON object.")
    unknown = [name for name in body if name not in names]
    if unknown:
        raise _malformed(dict.fromkeys(unknown[:MAX_FORM_PROPERTIES], "unknown_property"))
    return body


def _check_shapes(
    given: Mapping[str, object], asked: set[str]
) -> tuple[dict[str, FormAnswer], dict[str, AnswerRefusal]]:
    answers: dict[str, FormAnswer] = {}
    refusals: dict[str, AnswerRefusal] = {}
    for name, answer in given.items():
        try:
            if name not in asked:
                raise AnswerRefusal("unknown_property")
            answers[name] = FormAnswer.from_dict(answer, property=name)
        except AnswerRefusal as refusal:
            refusals[name] = refusal
    return answers, refusals


def _malformed(codes: Mapping[str, str]) -> Exception:
    return invalid_request(
        {name: {"code": code, "message": _TEXTS[code]} for name, code in codes.items()}
    )
