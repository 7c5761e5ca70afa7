"""The errors: each has a stable code and the property that it is about.

Every text here can end up in a log, an audit row or the context of an AI agent. So a text contains
no answer, no default and no other text of a server or a person. The one exception is a property's
name, which is cut and made plain ASCII first.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

_SHOWN_NAME_CHARS = 64


def plain(text: str, limit: int = _SHOWN_NAME_CHARS) -> str:
    """`text` cut to `limit` characters, with `?` for each character outside printable ASCII."""
    cut = text[:limit]
    shown = "".join(c if " " <= c <= "~" and c != "'" else "?" for c in cut)
    return shown if len(text) <= limit else shown + "..."


def _rebuild(cls: type["ElicitationError"], text: str) -> "ElicitationError":
    return cls.__new__(cls, text)


class ElicitationError(Exception):
    """Base of every error of this package.

    `code` is stable and meant for programs; `property` is the name of the property the
    error is about, or None. `str()` is one plain English sentence.
    """

    code: str
    property: str | None

    def __init__(self, text: str, *, code: str, property: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.property = property

    def __reduce__(
        self,
    ) -> tuple[Callable[..., "ElicitationError"], tuple[object, ...], dict[str, Any]]:
        # Task queues and parallel test runners pickle exceptions. By default, unpickling would
        # call __init__ with the text alone.
        return _rebuild, (type(self), str(self)), self.__dict__


class ElicitationRefusal(ElicitationError):
    """An elicitation that is shown to nobody. The call fails with it.

    `code` is `credential`, `out_of_profile` or `schema`, or `url` in URL mode. `reason` says what
    was wrong. `result` is set if the server received `decline` and its tool ran in spite of that:
    it is what the tool returned.
    """

    reason: str
    result: Any

    def __init__(self, text: str, *, code: str, reason: str, property: str | None = None) -> None:
        super().__init__(text, code=code, property=property)
        self.reason = reason
        self.result = None


class CredentialRefusal(ElicitationRefusal):
    """A property asks for a credential (MCP 2026-07-28, client/elicitation: servers MUST NOT
    request sensitive information in form mode and MUST use URL mode for it)."""

    def __init__(self, property: str) -> None:
        super().__init__(
            f"Property '{plain(property)}' asks for a credential, and a form never collects "
            "one. The server should use URL mode elicitation for it.",
            code="credential",
            reason="asks for a credential",
            property=property,
        )


class OutOfProfileRefusal(ElicitationRefusal):
    """A form cannot ask for this property, or the property exceeds a limit."""

    def __init__(self, property: str, reason: str) -> None:
        super().__init__(
            f"Property '{plain(property)}' cannot be asked in a form: {reason}.",
            code="out_of_profile",
            reason=reason,
            property=property,
        )


class SchemaRefusal(ElicitationRefusal):
    """The requested schema as a whole, or the message, is malformed or exceeds a limit."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The elicitation cannot be shown: {reason}.", code="schema", reason=reason
        )


class URLRefusal(ElicitationRefusal):
    """The URL of a URL mode elicitation is shown to nobody (MCP 2026-07-28, client/elicitation,
    "Safe URL Handling")."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The elicitation's URL is refused: {reason}.", code="url", reason=reason)


class AnswerRefusal(ElicitationError):
    """An answer that does not fit the question.

    `params` holds the bounds that were not met, for a translated message. It never holds the
    answer. `property` is None if the answer was read before its property was known.
    """

    params: Mapping[str, str | int]

    _TEXTS: ClassVar[Mapping[str, str]] = {
        "missing": "has no answer",
        "required": "is required and cannot be skipped",
        "skipped_and_answered": "is marked as skipped but also has an answer",
        "unknown_property": "was not asked for",
        "bad_answer": "has an answer of the wrong shape",
        "not_offered": "has a choice that was not offered",
        "repeated": "has the same choice more than once",
        "one_choice": "needs exactly one choice",
        "yes_or_no": "needs Yes or No",
        "not_a_list": "needs a list of choices",
        "too_few": "needs at least {min_items} choices",
        "too_many": "takes at most {max_items} choices",
        "blank": "is blank",
        "not_text": "needs a text",
        "bad_text": "has control characters or characters that are not valid Unicode",
        "too_short": "needs at least {min_length} characters",
        "too_long": "takes at most {max_length} characters",
        "bad_format": "does not have the format {format}",
        "not_a_number": "needs a number written in the digits 0 to 9",
        "not_whole": "needs a whole number",
        "out_of_range": "has a number that is too large to be sent",
        "too_small": "needs a number of at least {minimum}",
        "too_large": "needs a number of at most {maximum}",
        "not_above": "needs a number above {exclusive_minimum}",
        "not_below": "needs a number below {exclusive_maximum}",
        "not_multiple": "needs a multiple of {multiple_of}",
        "credential": "looks like a credential ({format}), which a form never sends",
    }

    def __init__(
        self, code: str, property: str | None = None, params: Mapping[str, str | int] | None = None
    ) -> None:
        self.params = dict(params or {})
        subject = "An answer" if property is None else f"'{plain(property)}'"
        text = self._TEXTS[code].format_map(self.params)
        super().__init__(f"{subject} {text}.", code=code, property=property)


class AnswerRefusals(ElicitationError):
    """Answers that do not fit. `errors` has one `AnswerRefusal` by property name."""

    def __init__(self, errors: Mapping[str, AnswerRefusal]) -> None:
        self.errors = dict(errors)
        super().__init__(f"Some answers do not fit: {len(self.errors)}.", code="answers")
