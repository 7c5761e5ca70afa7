"""Answers: what a person gave, and the record of it that waits for the retry."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Self

from .characters import trim
from .errors import AnswerRefusal
from .text import MAX_FORM_ANSWER_CHARS

# How long an answer may wait for the retry that sends it; after that the person is asked
# again, since they may no longer mean it.
FORM_ANSWER_TTL: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """A person's answer to one property.

    `selected` holds labels, never values; `other_text` what was typed. `skipped` leaves an
    optional property out of the content, and stands alone.
    """

    selected: tuple[str, ...] = ()
    # An answer must not reach a log by way of a repr.
    other_text: str | None = None
    skipped: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "selected", tuple(self.selected))

    def __repr__(self) -> str:
        return "FormAnswer(skipped=True)" if self.skipped else "FormAnswer(...)"

    @property
    def text(self) -> str:
        """What was typed: trimmed, line breaks as LF, `""` where nothing was.

        Forms post CRLF; a line break is one character to the person who typed it.
        """
        return trim((self.other_text or "").replace("\r\n", "\n"))

    def to_dict(self) -> dict[str, Any]:
        """The answer as a JSON object; `from_dict` reads it back."""
        answer: dict[str, Any] = {
            "selected": list(self.selected),
            "other_text": self.other_text,
        }
        if self.skipped:
            answer["skipped"] = True
        return answer

    @classmethod
    def from_dict(cls, obj: object, *, property: str | None = None) -> Self:
        """The answer in a JSON object.

        Raises AnswerRefusal `bad_answer` for any other shape: an unknown key, a wrong type,
        or a text over `MAX_FORM_ANSWER_CHARS`.
        """
        if not isinstance(obj, dict) or not obj.keys() <= {"selected", "other_text", "skipped"}:
            raise AnswerRefusal("bad_answer", property)
        selected = obj.get("selected", [])
        other_text = obj.get("other_text")
        skipped = obj.get("skipped", False)
        if (
            not isinstance(selected, list)
            or not all(isinstance(label, str) for label in selected)
            or not (other_text is None or isinstance(other_text, str))
            or len(other_text or "") > MAX_FORM_ANSWER_CHARS
            or not isinstance(skipped, bool)
        ):
            raise AnswerRefusal("bad_answer", property)
        return cls(selected=tuple(selected), other_text=other_text, skipped=skipped)


class FormAnswerAction(StrEnum):
    """What the person did with the questions. Whatever is not an answer is a decline."""

    ACCEPT = "accept"
    DECLINE = "decline"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFormAnswer:
    """One recorded answer, sent at most once.

    `fingerprint` is `FormElicitation.fingerprint()` of what the person saw; `expires_at` is
    an aware datetime.
    """

    server: str
    tool: str
    fingerprint: str
    action: FormAnswerAction
    expires_at: datetime
    answers: Mapping[str, FormAnswer] = field(default_factory=dict, repr=False)

    @classmethod
    def recorded(
        cls,
        *,
        server: str,
        tool: str,
        fingerprint: str,
        action: FormAnswerAction,
        now: datetime,
        answers: Mapping[str, FormAnswer] | None = None,
        ttl: timedelta = FORM_ANSWER_TTL,
    ) -> Self:
        """The record of an answer given at `now`, usable for `ttl`."""
        return cls(
            server=server,
            tool=tool,
            fingerprint=fingerprint,
            action=action,
            answers=dict(answers or {}),
            expires_at=now + ttl,
        )

    def applies_to(self, server: str, tool: str, fingerprint: str, now: datetime) -> bool:
        """Whether this is an answer to just this server, tool and question, and still fresh."""
        return (
            self.server == server
            and self.tool == tool
            and self.fingerprint == fingerprint
            and self.expires_at > now
        )
