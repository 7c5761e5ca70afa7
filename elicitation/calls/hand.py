"""The answers that a pass through the rounds has in hand, and the ledger of where each one is."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..core import URLElicitation
from ..models import Elicitation, StoredFormAnswer
from .rounds import Answer, Event, Ledger

if TYPE_CHECKING:
    from ..inbox import ElicitationRequest

Delivery = Elicitation.Delivery


class Hand:
    """The answers of a call that are not, or no longer, in the store.

    A consent to open a URL can be sent twice: the server asks for it until the person has
    finished there.
    """

    def __init__(self) -> None:
        self._ledger: Ledger[uuid.UUID] = Ledger()
        self._answers: dict[uuid.UUID, StoredFormAnswer] = {}
        self._consents: set[uuid.UUID] = set()

    def take(self, taken: Iterable[StoredFormAnswer]) -> None:
        """Note answers that were taken from the store."""
        for answer in taken:
            self._answers[answer.pk] = answer
            self._ledger.move([answer.pk], Answer.TAKEN)

    def send(self, keys: Sequence[uuid.UUID], requests: Sequence[ElicitationRequest]) -> None:
        """Note that answers are on their way to the server.

        Args:
            keys: Those of the answers.
            requests: What each one answers.
        """
        self._ledger.move(keys, Answer.SENT)
        self._consents |= {
            key
            for key, request in zip(keys, requests, strict=True)
            if isinstance(request.elicitation, URLElicitation)
            and not is_decline(self._answers[key])
        }

    def settle(self, event: Event) -> None:
        """Note what a reply says of the answers that are on their way."""
        self._ledger.settle(event)

    def answer(self, key: uuid.UUID) -> StoredFormAnswer:
        """Return the answer with this key."""
        return self._answers[key]

    def keys(self) -> list[uuid.UUID]:
        """Return the keys of the answers that can be sent, or put back."""
        return self._ledger.among(Answer.TAKEN)

    def in_hand(self) -> list[StoredFormAnswer]:
        """Return the answers that can be sent, or put back."""
        return [self._answers[key] for key in self.keys()]

    def are_consents_alone_on_their_way(self) -> bool:
        """Whether consents are on their way to the server, and no other answers."""
        sent = set(self._ledger.among(Answer.SENT))
        return bool(sent) and sent <= self._consents

    def mark_unread(self) -> None:
        """Note of the answers in hand that the server has refused them unread."""
        for answer in self.in_hand():
            answer.was_unread = True

    def was_unread_before(self) -> bool:
        """Whether the server has refused one of those on their way unread before."""
        return any(self._answers[key].was_unread for key in self._ledger.among(Answer.SENT))

    def told(self) -> set[uuid.UUID]:
        """Return the consents that the server has received and may ask for again."""
        got = set(self._ledger.among(Answer.DELIVERED)) & self._consents
        return {
            key
            for key in got
            if self._answers[key].elicitation_id is not None
            and not self._answers[key].is_expired()
        }

    def take_again(self, keys: Iterable[uuid.UUID]) -> None:
        """Note that the server asks again for URLs whose consent it has received."""
        self._ledger.move(keys, Answer.TAKEN)

    def is_answered(self) -> bool:
        """Whether an answer was sent that must not be sent again."""
        settled = self._ledger.among(Answer.DELIVERED, Answer.LOST)
        return any(key not in self._consents for key in settled)

    def break_off(self) -> bool:
        """Note that a request broke off.

        Returns:
            Whether its round is over: an answer was sent that must not be sent again.
        """
        sent = self._ledger.among(Answer.SENT)
        self._ledger.move(
            sent, Answer.TAKEN if self.are_consents_alone_on_their_way() else Answer.LOST
        )
        if self.is_answered():
            return True
        # Only consents were sent, and those can be sent again.
        self._ledger.move(self._ledger.among(Answer.DELIVERED), Answer.TAKEN)
        return False

    def deliveries(self) -> dict[uuid.UUID, str]:
        """Return how it ended with elicitations whose answers were sent, by their ids.

        A consent that the server got and asks for again is among them, and in hand as well.
        """
        got = self._ledger.among(Answer.DELIVERED)
        got += [key for key in self.keys() if self._ledger.was_delivered(key)]
        words = dict.fromkeys(got, str(Delivery.DELIVERED))
        words |= dict.fromkeys(self._ledger.among(Answer.LOST), str(Delivery.ROUND_LOST))
        return {
            elicitation_id: word
            for key, word in words.items()
            if (elicitation_id := self._answers[key].elicitation_id) is not None
        }

    def clear(self) -> None:
        """Forget the answers, once the database says what became of each."""
        self._ledger.forget()
        self._answers.clear()
        self._consents.clear()


def is_decline(answer: StoredFormAnswer) -> bool:
    """Whether the server gets no ``accept`` by this answer."""
    return answer.action == StoredFormAnswer.Action.DECLINE
