"""The scripted person, on every kind of question that a form can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from elicitation.models import Elicitation, StoredFormAnswer
from tests.asking import allow, ask, schema
from tests.person import NotDone, Person, site

if TYPE_CHECKING:
    from django.contrib.auth.models import User

COLOURS = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
EVERYTHING = schema(
    "name",
    "count",
    name={"type": "string", "title": "Name"},
    mail={"type": "string", "title": "Mail", "format": "email", "default": "ada@example.test"},
    count={"type": "integer", "title": "Count"},
    sure={"type": "boolean", "title": "Sure"},
    plan={"type": "string", "title": "Plan", "enum": ["solo", "team"], "default": "solo"},
    size={"type": "string", "title": "Size", "enum": [str(size) for size in range(30)]},
    colour={"type": "string", "title": "Colour", "oneOf": COLOURS},
    colours={"type": "array", "title": "Colours", "items": {"anyOf": COLOURS}},
    day={"type": "string", "title": "Day", "format": "date"},
    moment={"type": "string", "title": "Moment", "format": "date-time"},
)


@pytest.fixture
def person(transactional_db: None, user: User) -> Iterator[Person]:
    with site() as address:
        person = Person(address)
        person.sign_in("ada", "pw")
        yield person


def content(question: Elicitation) -> dict[str, object]:
    answer = StoredFormAnswer.objects.get(elicitation_id=question.pk)
    return question.schema.content_from_answers(answer.answers)


def test_answers_every_kind_of_question(person: Person, user: User) -> None:
    allow(prefill=True)
    question = ask(user, EVERYTHING)
    (address,) = person.wait_for()
    assert "Please answer." in person.read(address)
    said = person.answer(
        address,
        {
            "Name": "Ada\nLovelace",
            "Count": 3,
            "Sure": False,
            "Size": "17",
            "Colour": "Green",
            "Colours": ["Red", "Green"],
            "Day": "2026-12-24",
            "Moment": "2026-12-24T18:00",
        },
    )
    assert "Your answer was stored" in said
    assert person.waiting() == []
    assert content(question) == {
        "name": "Ada\nLovelace",
        "mail": "ada@example.test",
        "count": 3,
        "sure": False,
        "plan": "solo",
        "size": "17",
        "colour": "g",
        "colours": ["r", "g"],
        "day": "2026-12-24",
        "moment": "2026-12-24T18:00:00+05:45",
    }


def test_declines(person: Person, user: User) -> None:
    allow()
    question = ask(user, EVERYTHING)
    (address,) = person.wait_for()
    assert "You declined" in person.decline(address)
    question.refresh_from_db()
    assert question.state == "declined"


def test_is_told_what_is_wrong(person: Person, user: User) -> None:
    allow()
    ask(user, EVERYTHING)
    (address,) = person.wait_for()
    with pytest.raises(NotDone, match="'Nom' is not asked"):
        person.answer(address, {"Nom": "Ada"})
    with pytest.raises(NotDone, match="'Blue' is not offered"):
        person.answer(address, {"Colour": "Blue"})
    with pytest.raises(NotDone, match=r"422: .*Write a number in digits"):
        person.answer(address, {"Name": "Ada", "Count": "three"})
    person.decline(address)
    with pytest.raises(NotDone, match="You declined"):
        person.answer(address, {"Name": "Ada", "Count": 3})


def test_cannot_come_in_without_the_right_password(transactional_db: None, user: User) -> None:
    with site() as address, pytest.raises(AssertionError, match="not signed in"):
        Person(address).sign_in("ada", "wrong")
