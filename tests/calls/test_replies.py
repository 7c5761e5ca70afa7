"""What hosts are told is true for each reason for which they are told it."""

from __future__ import annotations

import pickle

import pytest

from elicitation.calls.replies import CONSENT, REPLIES, NotSentError, RoundLostError
from elicitation.calls.rounds import Event

PERHAPS, AGAIN, UNREAD = "may have run", "Check what", "read none of the answers"
GONE, KEPT = "are gone", "is kept"

#: Each reason for which a round is lost: what its text says, and what it must not say.
LOST = {
    "error -32603": ((PERHAPS, AGAIN, GONE), (UNREAD,)),
    "no valid reply": ((PERHAPS, AGAIN, GONE), (UNREAD,)),
    "broken off": ((PERHAPS, AGAIN, GONE), (UNREAD,)),
    # Twice the server says that it read nothing: the tool has not run with the answers.
    "invalid_request_state": ((UNREAD, GONE), (PERHAPS,)),
    # The answers were delivered: nothing is gone.
    "working_too_long": ((PERHAPS, AGAIN, "ELICITATION_WORKING_TTL"), (UNREAD, GONE)),
    # The server has replied: what it did is known to it, and that it asked on to the app.
    "not_stored": (("has run as far as", AGAIN, "database"), (PERHAPS, UNREAD, GONE)),
}


@pytest.mark.parametrize("reason", LOST)
def test_what_is_said_of_a_lost_round_is_true_for_its_reason(reason: str) -> None:
    says, says_not = LOST[reason]
    lost = RoundLostError("shop", "buy", reason)
    text = str(lost)
    assert (lost.code, lost.reason) == ("round_lost", reason)
    assert all(words in text for words in (*says, "'shop'", "'buy'", reason)), text
    assert not any(words in text for words in says_not), text
    assert str(pickle.loads(pickle.dumps(lost))) == text  # noqa: S301


def test_every_code_by_which_a_state_is_refused_unread_has_its_own_text() -> None:
    codes = {code for code, reply in REPLIES.items() if reply.event is Event.UNREAD}
    assert {code for code, (says, _) in LOST.items() if UNREAD in says} == codes


NOT_SENT = sorted(code for code, reply in REPLIES.items() if reply.event is Event.NOT_SENT)


@pytest.mark.parametrize("reason", NOT_SENT)
def test_what_is_said_of_a_request_that_was_not_sent_is_true_for_its_reason(reason: str) -> None:
    error = NotSentError("shop", "buy", reason)
    text = str(error)
    assert (error.code, error.reason) == ("not_sent", reason)
    assert KEPT in text
    assert error.may_have_run == (PERHAPS in text) == (reason == CONSENT)
    assert ("Nothing was done because of it" in text) == (reason != CONSENT)
