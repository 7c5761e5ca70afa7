"""Why nothing was done with an elicitation."""

from __future__ import annotations

from collections.abc import Mapping

from ..core import AnswerRefusal, ElicitationError
from ..models import Elicitation
from .rows import REPLACED


class ElicitationClosedError(ElicitationError):
    """The question is closed, otherwise than was asked for now.

    ``code`` is its state, or ``replaced`` where the server asked something else meanwhile.
    """

    def __init__(self, elicitation: Elicitation, *, code: str = "") -> None:
        self.elicitation = elicitation
        if not code:
            replaced = elicitation.reason == REPLACED
            code = REPLACED if replaced else str(elicitation.current_state())
        super().__init__(f"The question is closed: {code}.", code=code)


class ElicitationReplacedError(ElicitationClosedError):
    """The form that was sent is not the one that waits now; nothing was stored."""

    def __init__(self, elicitation: Elicitation) -> None:
        super().__init__(elicitation, code=REPLACED)


class AnswerRefusals(ElicitationError):
    """Answers that do not fit; ``errors`` has one ``AnswerRefusal`` by property name."""

    def __init__(self, errors: Mapping[str, AnswerRefusal]) -> None:
        self.errors = dict(errors)
        super().__init__(f"Answers that do not fit: {len(self.errors)}.", code="answers")


class WrongModeError(ElicitationError):
    """A form was to be consented to, or the consent to an address sent as a form's answer.

    Only ``consent`` consents: a program that answers confirmations without looking at what is
    asked must not agree to an address by that.
    """

    def __init__(self, elicitation: Elicitation) -> None:
        asks = "to open an address, not for answers" if elicitation.is_url else "for answers"
        super().__init__(f"The question asks {asks}.", code="wrong_mode")
