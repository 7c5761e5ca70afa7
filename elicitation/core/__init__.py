"""MCP elicitation without a framework: parse what a server requests, ask it, fingerprint it, and
turn a person's answers into content; read the address of a URL mode elicitation (MCP 2026-07-28,
client/elicitation).

Standard library only. It reads no settings and no clock but for the expiry of an answer.
"""

from .answers import FORM_ANSWER_TTL, FormAnswer, FormAnswerAction, StoredFormAnswer
from .credentials import looks_like_a_credential, names_a_credential
from .elicitation import (
    MAX_FORM_KEY_CHARS,
    Accept,
    Ask,
    Decline,
    FormAnswerStore,
    FormElicitation,
    FormElicitationPending,
    FormOutcome,
    StoredFormAnswers,
    form_answer_storage_key,
)
from .errors import (
    Address,
    AnswerRefusal,
    Credential,
    ElicitationError,
    FormRefusal,
    OutOfProfile,
    Schema,
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
    "URL_WARNINGS",
    "YES",
    "Accept",
    "Address",
    "AnswerRefusal",
    "Ask",
    "Choice",
    "Credential",
    "Decline",
    "ElicitationError",
    "ElicitationURL",
    "FormAnswer",
    "FormAnswerAction",
    "FormAnswerStore",
    "FormElicitation",
    "FormElicitationPending",
    "FormOutcome",
    "FormRefusal",
    "FormSchema",
    "Limits",
    "MultiChoice",
    "Number",
    "OutOfProfile",
    "Property",
    "Schema",
    "StoredFormAnswer",
    "StoredFormAnswers",
    "Text",
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
