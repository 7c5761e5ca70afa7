"""Why nothing was done with an elicitation."""

from __future__ import annotations

from ..core import ElicitationError
from ..models import Elicitation
from .rows import REPLACED


class ElicitationClosedError(ElicitationError):
    """The elicitation is closed, and not in the way that was asked for now.

    ``code`` is its state, or ``replaced`` if the server has asked something else since then.
    """

    def __init__(self, elicitation: Elicitation, *, code: str = "") -> None:
        self.elicitation = elicitation
        if not code:
            replaced = elicitation.reason == REPLACED
            code = REPLACED if replaced else str(elicitation.current_state())
        super().__init__(f"The elicitation is closed: {code}.", code=code)


class ElicitationReplacedError(ElicitationClosedError):
    """The form that was sent is not the one that is asked now; nothing was stored."""

    def __init__(self, elicitation: Elicitation) -> None:
        super().__init__(elicitation, code=REPLACED)


class WrongModeError(ElicitationError):
    """``consent`` was called for a form, or ``answer`` for a URL.

    Only ``consent`` consents: a program that answers confirmations without looking at them must
    not agree to a URL by that.
    """

    def __init__(self, elicitation: Elicitation) -> None:
        asks = "to open a URL, not for answers" if elicitation.is_url else "for answers"
        super().__init__(f"The elicitation asks {asks}.", code="wrong_mode")
