"""The schema that a server requests: parsed, turned into questions, and answered.

MCP 2026-07-28, client/elicitation, "Requested Schema": one flat object of primitive properties. A
schema that is anything else, or exceeds a limit, is refused. It is never trimmed: a person would
not notice that a part of the question is missing.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from .answers import FormAnswer
from .characters import is_blank, is_invisible, scrub
from .credentials import looks_like_a_credential
from .errors import (
    AnswerRefusal,
    AnswerRefusals,
    ElicitationRefusal,
    OutOfProfileRefusal,
    SchemaRefusal,
)
from .kinds import Definition, Property, Value, parse_property
from .text import DEFAULT_LIMITS, MAX_FORM_PROPERTY_NAME_CHARS, Limits

_HEADER_CHARS: Final = 16
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
# These keywords set rules for several properties together, which a form cannot check.
_UNSUPPORTED: Final = (
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "enum",
    "const",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
)


def attribution_header(server_name: str) -> str:
    """The name that the operator configured for the server, cut to 16 characters.

    It says who asks, so it never contains text of the server.
    """
    if len(server_name) <= _HEADER_CHARS:
        return server_name
    return server_name[: _HEADER_CHARS - 1] + "…"


@dataclass(frozen=True, slots=True)
class FormSchema:
    """A requested schema that passed every check. Built by `parse_requested_schema` only.

    `asked` has the properties in the order in which the server sent them.
    """

    asked: tuple[Property, ...]

    @property
    def properties(self) -> tuple[Property, ...]:
        """The properties in the order of their names."""
        return tuple(sorted(self.asked, key=lambda p: p.name))

    @property
    def is_confirmation(self) -> bool:
        """Whether the person is only asked to accept or decline the message."""
        return not self.asked

    def questions(
        self, server_name: str, order: Literal["name", "asked"] = "name"
    ) -> list[dict[str, Any]]:
        """The questions as JSON objects, one for each property.

        `server_name` is the name that the operator configured. `order` is `name`, or `asked` for
        the server's order.
        """
        header = attribution_header(server_name)
        asked = self.asked if order == "asked" else self.properties
        return [each.question(header) for each in asked]

    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that a person or the server could notice.

        Two schemas have equal fingerprints if and only if neither a person nor the server can tell
        them apart. The order of properties does not count.

        The hashed bytes are JSON in ASCII without blanks: `["elicitation.requested-schema", 1,
        [property, ...]]`, with the properties in the order of their names. 1 is the version of
        this encoding. Each property is the array `[name, title, description, required, kind,
        ...]`, and ends with the fields of its kind (see `canonical_fields`). Bounds are written as
        people read them. An absent bound is null. JSON delimits every text, so two different
        schemas never have the same bytes.
        """
        canonical = [
            "elicitation.requested-schema",
            1,
            [each.canonical() for each in self.properties],
        ]
        encoded = json.dumps(canonical, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(encoded.encode("ascii")).hexdigest()

    def check_answers(
        self, answers: Mapping[str, FormAnswer]
    ) -> tuple[dict[str, Value], dict[str, AnswerRefusal]]:
        """The content of the answers that fit, and a refusal for each property without one.

        Both are in the order of names. If there are no refusals, the content is complete. Answers
        to unknown properties are ignored.
        """
        content: dict[str, Value] = {}
        refusals: dict[str, AnswerRefusal] = {}
        for each in self.properties:
            try:
                answer = answers.get(each.name)
                if answer is None:
                    raise each.refusal("missing")
                if not answer.skipped:
                    content[each.name] = each.value_from(answer)
                elif answer.selected or answer.other_text is not None:
                    raise each.refusal("skipped_and_answered")
                elif each.required:
                    raise each.refusal("required")
            except AnswerRefusal as refusal:
                refusals[each.name] = refusal
        return content, refusals

    def content_from_answers(self, answers: Mapping[str, FormAnswer]) -> dict[str, Value]:
        """`ElicitResult.content` for these answers. No value is converted to another type.

        Raises AnswerRefusal for the first property, by name, whose answer does not fit.
        """
        content, refusals = self.check_answers(answers)
        for refusal in refusals.values():
            raise refusal
        return content

    def check_content(
        self, content: Mapping[str, object]
    ) -> tuple[dict[str, FormAnswer], dict[str, AnswerRefusal]]:
        """The answers that give `content`, and a refusal for each name whose value does not fit.

        Types are strict: `"5"` is not 5. An absent optional property is skipped.
        """
        answers: dict[str, FormAnswer] = {}
        refusals: dict[str, AnswerRefusal] = {}
        for each in self.properties:
            try:
                if each.name in content:
                    answers[each.name] = each.answer_from(content[each.name])
                elif each.required:
                    raise each.refusal("required")
                else:
                    answers[each.name] = FormAnswer(skipped=True)
            except AnswerRefusal as refusal:
                refusals[each.name] = refusal
        for name in content:
            if name not in answers and name not in refusals:
                shown = scrub(name[:MAX_FORM_PROPERTY_NAME_CHARS]) if type(name) is str else None
                refusals[name] = AnswerRefusal("unknown_property", shown)
        return answers, refusals

    def answers_from_content(self, content: Mapping[str, object]) -> dict[str, FormAnswer]:
        """The answers that give `content`. `content_from_answers` accepts them.

        Raises AnswerRefusal for the first property, by name, whose value does not fit, and after
        that for an unknown name.
        """
        answers, refusals = self.check_content(content)
        for refusal in refusals.values():
            raise refusal
        return answers


def refuse_credentials(schema: FormSchema, answers: Mapping[str, FormAnswer]) -> None:
    """Refuse typed texts that contain a well-known key or token. Call it before storing answers.

    Raises AnswerRefusal with the code `credential`.
    """
    for each in schema.properties:
        answer = answers.get(each.name)
        if each.free_text and answer is not None:
            found = looks_like_a_credential(answer.text)
            if found is not None:
                raise each.refusal("credential", format=found)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CheckedAnswers:
    """Answers that were found to fit a schema. Made by `check_answers` only.

    `content` is what `answers` give. `schema` is what they were checked against.
    """

    schema: FormSchema
    answers: Mapping[str, FormAnswer]
    content: Mapping[str, Value]


def check_answers(
    schema: FormSchema,
    answers: Mapping[str, FormAnswer],
    *,
    unread: Mapping[str, AnswerRefusal] | None = None,
) -> CheckedAnswers:
    """The answers, once they are found to fit the schema and to be no credentials.

    `answers` are by property name; only those to what was asked are kept. `unread` says why
    something that was sent could not be read as an answer, by the name sent.

    Raises AnswerRefusals if an answer does not fit, or has the format of a credential.
    """
    content, refusals = schema.check_answers(answers)
    for name, given in answers.items():
        try:
            refuse_credentials(schema, {name: given})
        except AnswerRefusal as refusal:
            refusals.setdefault(name, refusal)
    refusals.update(unread or {})
    if refusals:
        raise AnswerRefusals(refusals)
    kept = {asked.name: answers[asked.name] for asked in schema.asked}
    return CheckedAnswers(schema=schema, answers=kept, content=content)


def parse_requested_schema(
    schema: object, *, allow_confirmation: bool = False, limits: Limits = DEFAULT_LIMITS
) -> FormSchema:
    """Read the schema of a form, so that it can be shown to a person.

    `schema` is a JSON object of plain Python types, or JSON text. `allow_confirmation` allows an
    object without properties: a message to accept or decline. `limits` are the bounds, by default
    those of every server.

    Raises ElicitationRefusal, and no other exception, for any value of `schema`. It is a
    SchemaRefusal for the document as a whole. It is a CredentialRefusal or OutOfProfileRefusal for
    the first property, by name, that is refused.
    """
    if isinstance(schema, str | bytes):
        schema = _json(schema, limits)
    if type(schema) is not dict:
        raise SchemaRefusal("the requested schema is not an object")
    if schema.get("type") != "object":
        raise SchemaRefusal('the requested schema has a type that is not "object"')
    for key in _UNSUPPORTED:
        if schema.get(key) is not None:
            raise SchemaRefusal(f"the requested schema has {key}, which is not supported")
    properties = schema.get("properties")
    if properties is None:
        properties = {}
    if type(properties) is not dict or (not properties and not allow_confirmation):
        raise SchemaRefusal("the requested schema has no properties")
    if len(properties) > limits.properties:
        raise SchemaRefusal(
            f"the requested schema asks for {len(properties)} properties; "
            f"at most {limits.properties} are accepted"
        )
    check_size(properties, limits)
    required = _required(schema.get("required"))
    if not all(type(name) is str for name in properties):
        raise SchemaRefusal("the requested schema has a property name that is not a string")
    parsed = {
        name: _parse_property(name, properties[name], name in required, limits)
        for name in sorted(properties)
    }
    return FormSchema(asked=tuple(parsed[name] for name in properties))


def check_size(document: Mapping[str, object], limits: Limits) -> None:
    """Count all values of a part of a schema and the characters of its texts.

    Raises SchemaRefusal as soon as a limit is exceeded.
    """
    left: list[object] = list(document.values())
    values = chars = 0
    while left:
        value = left.pop()
        values += 1
        if isinstance(value, str):
            # Two characters stand for whole phrases.
            chars += len(value) + 17 * value.count("\ufdfa") + 7 * value.count("\ufdfb")
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        if chars > limits.sum_chars:
            raise SchemaRefusal(
                f"the texts of the requested schema have more than {limits.sum_chars} characters"
            )
        if values + len(left) > limits.values:
            raise SchemaRefusal(f"the requested schema has more than {limits.values} values")


def _parse_property(name: str, definition: object, required: bool, limits: Limits) -> Property:
    if len(name) > limits.property_name_chars or not _is_name(name, limits):
        ascii_only = "letters, digits, '_', '-' or '.'"
        allowed = ascii_only if limits.ascii_names else "printable characters"
        raise OutOfProfileRefusal(
            scrub(name[: limits.property_name_chars]),
            f"a name has 1 to {limits.property_name_chars} {allowed}",
        )
    if type(definition) is not dict:
        raise OutOfProfileRefusal(name, "its definition is not an object")
    return parse_property(Definition(name, definition, limits), required=required)


def _is_name(name: str, limits: Limits) -> bool:
    if limits.ascii_names:
        return _NAME.fullmatch(name) is not None
    return name.isprintable() and not is_blank(name) and not any(map(is_invisible, name))


def _required(names: object) -> frozenset[str]:
    if names is None:
        return frozenset()
    if type(names) is not list or not all(type(name) is str for name in names):
        raise SchemaRefusal("the requested schema has a required that is not an array of strings")
    return frozenset(names)


def _json(text: str | bytes, limits: Limits) -> object:
    if len(text) > limits.schema_chars:
        raise SchemaRefusal(
            f"the requested schema is longer than {limits.schema_chars} characters as JSON"
        )

    def number(literal: str) -> int:
        if len(literal) > limits.number_chars:
            raise ValueError
        return int(literal)

    def no_constant(literal: str) -> object:
        raise ValueError

    try:
        return json.loads(text, parse_int=number, parse_constant=no_constant)
    except (ValueError, RecursionError):
        # The parser's error quotes the document.
        raise SchemaRefusal("the requested schema is not JSON, or is nested too deeply") from None


__all__ = [
    "CheckedAnswers",
    "ElicitationRefusal",
    "FormSchema",
    "attribution_header",
    "check_answers",
    "check_size",
    "parse_requested_schema",
    "refuse_credentials",
]
