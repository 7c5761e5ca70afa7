"""Answers that people give, and the stored records of them that wait for the retry of a call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Self

from .characters import trim
from .errors import AnswerRefusal
from .text import MAX_FORM_ANSWER_CHARS

# How long an answer can wait for the retry that sends it. After that the person is asked again:
# they may have changed their mind.
FORM_ANSWER_TTL: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """A person's answer to one property.

    `selected` holds labels, never values. `other_text` holds the text that was typed. `skipped`
    leaves an optional property out of the content; such an answer has neither labels nor text.
    """

    selected: tuple[str, ...] = ()
    # `__repr__` leaves it out: a repr can end up in a log.
    other_text: str | None = None
    skipped: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "selected", tuple(self.selected))

    def __repr__(self) -> str:
        return "FormAnswer(skipped=True)" if self.skipped else "FormAnswer(...)"

    @property
    def text(self) -> str:
        """The typed text, trimmed and with LF line breaks; `""` if nothing was typed.

        HTML forms send CRLF, but the person typed one character.
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

        Raises AnswerRefusal with the code `bad_answer` for any other shape: an unknown key, a
        wrong type, or a text of more than `MAX_FORM_ANSWER_CHARS` characters.
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
    """What the person did with the questions. All but an answer is a decline."""

    ACCEPT = "accept"
    DECLINE = "decline"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFormAnswer:
    """One recorded answer. It is sent at most once.

    `fingerprint` is `FormElicitation.fingerprint()` of the elicitation that the person saw.
    `expires_at` is an aware datetime.
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
        """Whether this answers exactly this server, tool and elicitation, and has not expired.

        `now` is an aware datetime.
        """
        return (
            self.server == server
            and self.tool == tool
            and self.fingerprint == fingerprint
            and self.expires_at > now
        )
