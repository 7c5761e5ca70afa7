"""Answers, their stored form, and the family of errors."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from elicitation.core import (
    FORM_ANSWER_TTL,
    MAX_FORM_ANSWER_CHARS,
    AnswerRefusal,
    CredentialRefusal,
    ElicitationError,
    ElicitationRefusal,
    FormAnswer,
    FormAnswerAction,
    OutOfProfileRefusal,
    Property,
    SchemaRefusal,
    StoredFormAnswer,
    parse_requested_schema,
)
from elicitation.core.kinds import Definition
from elicitation.core.text import DEFAULT_LIMITS

NOW = datetime(2026, 7, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("answer", "stored"),
    [
        (FormAnswer(), {"selected": [], "other_text": None}),
        (FormAnswer(selected=("A",)), {"selected": ["A"], "other_text": None}),
        (FormAnswer(other_text=""), {"selected": [], "other_text": ""}),
        (FormAnswer(skipped=True), {"selected": [], "other_text": None, "skipped": True}),
    ],
)
def test_an_answer_is_stored_as_json_and_read_back(
    answer: FormAnswer, stored: dict[str, Any]
) -> None:
    assert answer.to_dict() == stored
    assert FormAnswer.from_dict(stored) == answer


def test_what_is_left_out_has_its_default() -> None:
    assert FormAnswer.from_dict({}) == FormAnswer()
    assert FormAnswer.from_dict({"skipped": True}) == FormAnswer(skipped=True)
    assert FormAnswer(selected=["A"]).selected == ("A",)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        "Yes",
        {"selected": "Yes"},
        {"selected": None},
        {"selected": [1]},
        {"selected": ("Yes",)},
        {"other_text": 5},
        {"other_text": "x" * (MAX_FORM_ANSWER_CHARS + 1)},
        {"skipped": 1},
        {"skipped": None},
        {"value": "x"},
        {1: 2},
    ],
)
def test_any_other_shape_is_refused(wrong: object) -> None:
    with pytest.raises(AnswerRefusal) as refusal:
        FormAnswer.from_dict(wrong, property="x")
    assert (refusal.value.code, refusal.value.property) == ("bad_answer", "x")
    with pytest.raises(AnswerRefusal, match=r"^An answer has an answer of the wrong shape\.$"):
        FormAnswer.from_dict(wrong)


def test_the_longest_answer_is_read() -> None:
    text = "x" * MAX_FORM_ANSWER_CHARS
    assert FormAnswer.from_dict({"other_text": text}).text == text


def test_what_was_answered_is_not_in_a_repr() -> None:
    answer = FormAnswer(selected=("Blue",), other_text="Ada")
    assert "Blue" not in repr(answer)
    assert "Ada" not in repr(answer)
    record = recorded(answers={"x": answer})
    assert "Blue" not in repr(record)
    assert "Ada" not in repr(record)
    assert repr(FormAnswer(skipped=True)) == "FormAnswer(skipped=True)"


def recorded(**changes: Any) -> StoredFormAnswer:
    fields: dict[str, Any] = {
        "server": "billing",
        "tool": "buy",
        "fingerprint": "fp",
        "action": FormAnswerAction.ACCEPT,
        "now": NOW,
    }
    return StoredFormAnswer.recorded(**fields | changes)


def test_a_record_is_honoured_for_what_it_names_and_while_it_is_fresh() -> None:
    record = recorded()
    assert record.answers == {}
    assert record.applies_to("billing", "buy", "fp", NOW)
    assert not record.applies_to("other", "buy", "fp", NOW)
    assert not record.applies_to("billing", "refund", "fp", NOW)
    assert not record.applies_to("billing", "buy", "other", NOW)


def test_a_record_expires_after_half_an_hour() -> None:
    assert timedelta(minutes=30) == FORM_ANSWER_TTL
    record = recorded()
    last = NOW + FORM_ANSWER_TTL - timedelta(microseconds=1)
    assert record.applies_to("billing", "buy", "fp", last)
    assert not record.applies_to("billing", "buy", "fp", NOW + FORM_ANSWER_TTL)


def test_a_record_keeps_its_own_answers() -> None:
    answers = {"x": FormAnswer(other_text="1")}
    record = recorded(answers=answers)
    answers.clear()
    assert record.answers == {"x": FormAnswer(other_text="1")}


def test_the_actions_are_words_on_the_wire() -> None:
    assert [str(action) for action in FormAnswerAction] == ["accept", "decline"]


# --- Errors ----------------------------------------------------------------------------------

ERRORS = [
    CredentialRefusal("x"),
    OutOfProfileRefusal("x", "it has no type"),
    SchemaRefusal("it is not an object"),
    AnswerRefusal("too_short", "x", {"min_length": 3}),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_are_one_family_and_survive_pickling(error: ElicitationError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    assert isinstance(error, ElicitationError)
    assert isinstance(error, ElicitationRefusal) is (type(error) is not AnswerRefusal)


def test_the_texts_of_errors() -> None:
    assert [str(error) for error in ERRORS] == [
        (
            "Property 'x' asks for a credential, and a form never collects one. The server should "
            "use URL mode elicitation for it."
        ),
        "Property 'x' cannot be asked in a form: it has no type.",
        "The elicitation cannot be shown: it is not an object.",
        "'x' needs at least 3 characters.",
    ]


def test_the_codes_of_refusals() -> None:
    assert [error.code for error in ERRORS] == [
        "credential",
        "out_of_profile",
        "schema",
        "too_short",
    ]


def test_params_are_a_copy() -> None:
    params: dict[str, str | int] = {"min_length": 3}
    refusal = AnswerRefusal("too_short", "x", params)
    params.clear()
    assert refusal.params == {"min_length": 3}


def test_a_kind_says_itself_what_it_does() -> None:
    """`Property` is a base: each of these is a kind's own."""
    prop = Property(name="x", title=None, description=None, required=False)
    definition = Definition("x", {}, DEFAULT_LIMITS)
    for call in (
        lambda: Property.recognises(definition),
        lambda: Property.fields_from(definition),
        lambda: prop.canonical_fields(),
        lambda: prop.value_from(FormAnswer()),
        lambda: prop.answer_from("x"),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_a_parsed_schema_survives_pickling() -> None:
    schema = parse_requested_schema({"type": "object", "properties": {"x": {"enum": ["a"]}}})
    assert pickle.loads(pickle.dumps(schema)) == schema  # noqa: S301
