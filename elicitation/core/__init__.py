"""MCP elicitation without a framework (MCP 2026-07-28, client/elicitation).

This package parses the schema that a server requests, turns it into questions and a fingerprint,
and turns a person's answers into content. It also reads the URL of a URL mode elicitation.

It uses the standard library only. It reads no settings. It reads the clock in one place, to see
whether an answer has expired.
"""

from .answers import FORM_ANSWER_TTL, FormAnswer, FormAnswerAction, StoredFormAnswer
from .characters import names_a_credential
from .credentials import looks_like_a_credential
from .elicitation import (
    MAX_FORM_KEY_CHARS,
    NO_PROPERTIES_JSON,
    Accept,
    AnyElicitation,
    Ask,
    Decline,
    ElicitationPending,
    FormAnswerStore,
    FormElicitation,
    FormOutcome,
    StoredFormAnswers,
    URLElicitation,
    form_answer_storage_key,
)
from .errors import (
    AnswerRefusal,
    AnswerRefusals,
    CredentialRefusal,
    ElicitationError,
    ElicitationRefusal,
    OutOfProfileRefusal,
    SchemaRefusal,
    URLRefusal,
)
from .kinds import KINDS, NO, YES, Choice, MultiChoice, Number, Property, Text, Value, YesNo
from .schema import FormSchema, attribution_header, parse_requested_schema, refuse_credentials
from .text import (
    DEFAULT_LIMITS,
    MAX_FORM_ANSWER_CHARS,
    MAX_FORM_ENUM_MEMBERS,
    MAX_FORM_NUMBER_CHARS,
    MAX_FORM_PROPERTIES,
    MAX_FORM_PROPERTY_NAME_CHARS,
    MAX_FORM_SCHEMA_CHARS,
    MAX_FORM_TEXT_CHARS,
    MAX_FORM_TITLE_CHARS,
    WIDE_LIMITS,
    Limits,
    number_text,
)
from .url import (
    LONG_HOST_CHARS,
    MAX_ELICITATION_URL_CHARS,
    URL_WARNINGS,
    ElicitationURL,
    parse_elicitation_url,
)

__all__ = [
    "DEFAULT_LIMITS",
    "FORM_ANSWER_TTL",
    "KINDS",
    "LONG_HOST_CHARS",
    "MAX_ELICITATION_URL_CHARS",
    "MAX_FORM_ANSWER_CHARS",
    "MAX_FORM_ENUM_MEMBERS",
    "MAX_FORM_KEY_CHARS",
    "MAX_FORM_NUMBER_CHARS",
    "MAX_FORM_PROPERTIES",
    "MAX_FORM_PROPERTY_NAME_CHARS",
    "MAX_FORM_SCHEMA_CHARS",
    "MAX_FORM_TEXT_CHARS",
    "MAX_FORM_TITLE_CHARS",
    "NO",
    "NO_PROPERTIES_JSON",
    "URL_WARNINGS",
    "WIDE_LIMITS",
    "YES",
    "Accept",
    "AnswerRefusal",
    "AnswerRefusals",
    "AnyElicitation",
    "Ask",
    "Choice",
    "CredentialRefusal",
    "Decline",
    "ElicitationError",
    "ElicitationPending",
    "ElicitationRefusal",
    "ElicitationURL",
    "FormAnswer",
    "FormAnswerAction",
    "FormAnswerStore",
    "FormElicitation",
    "FormOutcome",
    "FormSchema",
    "Limits",
    "MultiChoice",
    "Number",
    "OutOfProfileRefusal",
    "Property",
    "SchemaRefusal",
    "StoredFormAnswer",
    "StoredFormAnswers",
    "Text",
    "URLElicitation",
    "URLRefusal",
    "Value",
    "YesNo",
    "attribution_header",
    "form_answer_storage_key",
    "looks_like_a_credential",
    "names_a_credential",
    "number_text",
    "parse_elicitation_url",
    "parse_requested_schema",
    "refuse_credentials",
]
