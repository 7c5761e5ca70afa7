"""What holds for every schema and every answer."""

import json
import pickle
from fractions import Fraction
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from elicitation.core import (
    AnswerRefusal,
    ElicitationRefusal,
    FormAnswer,
    FormSchema,
    Text,
    parse_requested_schema,
)

from .data import form
from .strategies import answers_to, hostile, hostile_schemas, schemas, wild_answers

Validator = jsonschema.Draft202012Validator
SLOW = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


plain_values = st.one_of(
    st.booleans(),
    st.integers(-20, 20),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.text(max_size=3), max_size=3),
)


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def typed(content: dict[str, Any]) -> dict[str, tuple[bool, Any]]:
    """Content as JSON has it: 1 is 1.0 and not true."""
    return {name: (isinstance(value, bool), value) for name, value in content.items()}


def read(schema: object, **options: Any) -> FormSchema | ElicitationRefusal:
    """What becomes of a schema; any other exception fails the test."""
    try:
        return parse_requested_schema(schema, **options)
    except ElicitationRefusal as refusal:
        return refusal


def accepted(schema: dict[str, Any]) -> FormSchema:
    parsed = read(schema)
    assume(isinstance(parsed, FormSchema))
    assert isinstance(parsed, FormSchema)
    return parsed


@SLOW
@given(hostile_schemas, st.booleans())
def test_anything_is_accepted_or_refused_and_nothing_else(
    schema: object, allow_confirmation: bool
) -> None:
    parsed = read(schema, allow_confirmation=allow_confirmation)
    if isinstance(parsed, ElicitationRefusal):
        assert parsed.code in {"credential", "out_of_profile", "schema"}
        assert str(parsed).isascii()
        assert str(parsed).isprintable()
        assert len(str(parsed)) < 300
        assert str(pickle.loads(pickle.dumps(parsed))) == str(parsed)  # noqa: S301
    else:
        json.dumps(parsed.questions("billing"), allow_nan=False).encode()
        assert len(parsed.fingerprint()) == 64
        # Nothing that cannot be compared, hashed or shown was kept.
        again = read(schema, allow_confirmation=True)
        assert parsed == again
        assert hash(parsed) == hash(again)
        assert repr(parsed) == repr(again)


@SLOW
@given(st.one_of(st.text(), st.binary(), hostile_schemas.filter(_is_json).map(json.dumps)))
def test_any_text_is_accepted_or_refused_and_nothing_else(text: str | bytes) -> None:
    parsed = read(text)
    if isinstance(parsed, ElicitationRefusal):
        assert parsed.code in {"credential", "out_of_profile", "schema"}


@SLOW
@given(schemas(), st.data())
def test_content_satisfies_the_servers_schema(schema: dict[str, Any], data: st.DataObject) -> None:
    parsed = accepted(schema)
    answers = data.draw(answers_to(parsed))
    content, refusals = parsed.check_answers(answers)
    checker = Validator.FORMAT_CHECKER
    for name, value in content.items():
        Validator(schema["properties"][name], format_checker=checker).validate(value)
    if refusals:
        with pytest.raises(AnswerRefusal) as refused:
            parsed.content_from_answers(answers)
        assert refused.value.property == min(refusals)
    else:
        assert parsed.content_from_answers(answers) == content
        jsonschema.validate(content, schema, Validator, format_checker=checker)


@SLOW
@given(schemas(), st.data())
def test_content_gives_back_the_answers_that_gave_it(
    schema: dict[str, Any], data: st.DataObject
) -> None:
    parsed = accepted(schema)
    content, refusals = parsed.check_answers(data.draw(answers_to(parsed)))
    assume(not refusals)
    answers = parsed.answers_from_content(content)
    # Two options may have values that are equal in JSON, such as 1 and 1.0.
    assert typed(parsed.content_from_answers(answers)) == typed(content)
    # The same through storage.
    stored = {n: FormAnswer.from_dict(a.to_dict()) for n, a in answers.items()}
    assert stored == answers


@SLOW
@given(schemas(), st.data())
def test_whatever_content_is_taken_passes_as_answers(
    schema: dict[str, Any], data: st.DataObject
) -> None:
    parsed = accepted(schema)
    content = data.draw(
        st.fixed_dictionaries(
            {}, optional={p.name: plain_values | hostile for p in parsed.properties}
        )
    )
    answers, refusals = parsed.check_content(content)
    passed, not_passed = parsed.check_answers(answers)
    assert not_passed.keys() == refusals.keys()
    for name, value in passed.items():
        assert name in content
        Validator(schema["properties"][name], format_checker=Validator.FORMAT_CHECKER).validate(
            value
        )


@SLOW
@given(schemas())
def test_a_default_is_an_answer_that_fits_or_nothing(schema: dict[str, Any]) -> None:
    parsed = accepted(schema)
    for prop in parsed.properties:
        if prop.default_answer is not None:
            definition = schema["properties"][prop.name]
            if definition.get("default") is None:
                definition = definition["anyOf"][0]
            default = definition["default"]
            value = prop.value_from(prop.default_answer)
            assert value == (default.strip() if isinstance(prop, Text) else default)


MARK = "qXz8vW"
marked_values = st.one_of(
    st.text(max_size=5).map(lambda text: MARK + text),
    st.lists(st.text(max_size=5).map(lambda text: MARK + text), max_size=2),
    st.dictionaries(st.just(MARK), st.just(MARK)),
)


@SLOW
@given(schemas(), st.data())
def test_no_refusal_repeats_what_was_answered(schema: dict[str, Any], data: st.DataObject) -> None:
    parsed = accepted(schema)
    marked = wild_answers.map(
        lambda a: FormAnswer(
            selected=tuple(MARK + label for label in a.selected),
            other_text=None if a.other_text is None else MARK + a.other_text,
            skipped=a.skipped,
        )
    )
    answers = {p.name: data.draw(marked) for p in parsed.properties}
    _, refusals = parsed.check_answers(answers)
    content = {p.name: data.draw(marked_values) for p in parsed.properties}
    _, more = parsed.check_content(content)
    shown = [(str(r), repr(r), dict(r.params)) for r in (*refusals.values(), *more.values())]
    assert MARK not in str(shown)
    assert MARK not in repr(answers)


# --- Fingerprints ----------------------------------------------------------------------------

few_texts = st.sampled_from((None, "", " ", "A", "B"))
few_numbers = st.sampled_from((None, 0, 0.0, -0.0, 1, 1.0, 2.5))
few_definitions = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(("number", "integer"))},
        optional={
            "title": few_texts,
            "minimum": few_numbers,
            "exclusiveMinimum": few_numbers,
            "multipleOf": st.sampled_from((None, 1, 1.0, 2)),
            "default": few_numbers,
            "examples": st.just([1]),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "description": few_texts,
            "format": st.sampled_from((None, "", "date", "x")),
            "minLength": st.sampled_from((None, 0, 1, 1.0)),
            "default": few_texts,
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("boolean")}, optional={"default": st.sampled_from((None, True, False, 1))}
    ),
    st.fixed_dictionaries(
        {"enum": st.sampled_from((["A"], ["A", "B"], ["B", "A"], [1], [1.0], [True]))},
        optional={"enumNames": st.sampled_from((None, ["A"], ["B"], ["A", "B"]))},
    ),
    st.sampled_from(
        (
            {"const": "A"},
            {"oneOf": [{"const": "A"}]},
            {"anyOf": [{"const": "A", "title": "B"}]},
            {"type": "array", "items": {"enum": ["A"]}},
            {"type": "array", "items": {"enum": ["A"]}, "maxItems": 1},
        )
    ),
)
few_schemas = st.builds(
    lambda properties, required: form(**properties) | {"required": required},
    st.dictionaries(st.sampled_from("ab"), few_definitions, min_size=1),
    st.lists(st.sampled_from("abc")),
)


def bound(value: float | None) -> object:
    """A number as what it is worth; the sign of zero counts."""
    return None if value is None else (Fraction(value), str(value).startswith("-"))


def described(schema: dict[str, Any]) -> object:
    """What the schema asks, written down without the help of the code under test."""
    described = {}
    for name, raw in schema["properties"].items():
        keys = {key: value for key, value in raw.items() if value is not None}
        title = keys.get("title", "")
        options = keys.get("oneOf") or keys.get("anyOf")
        values = keys.get("enum") or keys.get("items", {}).get("enum")
        labels = keys.get("enumNames")
        if "const" in keys:
            values = [keys["const"]]
        if options:
            values = [option["const"] for option in options]
            labels = [option.get("title", option["const"]) for option in options]
        if values and not labels:
            labels = ["Yes" if v is True else str(v).removesuffix(".0") for v in values]
        default = keys.get("default")
        described[name] = (
            title.strip() and title,
            keys.get("description", ""),
            name in schema["required"],
            "choice" if values and "items" not in keys else keys["type"],
            repr(values),
            labels,
            bound(keys.get("minimum")),
            bound(keys.get("exclusiveMinimum")),
            bound(keys.get("multipleOf")),
            keys.get("format"),
            int(keys.get("minLength", 0)),
            keys.get("maxItems"),
            default
            if keys.get("type") == "boolean" and default in (True, False) and type(default) is bool
            else None,
        )
    return described


@settings(deadline=None, max_examples=400)
@given(few_schemas, few_schemas, st.booleans())
def test_fingerprints_are_equal_exactly_where_the_same_is_asked(
    a: dict[str, Any], b: dict[str, Any], related: bool
) -> None:
    if related:
        # One property from a: else the pair has hardly ever the same names.
        b = b | {"properties": b["properties"] | dict(list(a["properties"].items())[:1])}
    same = accepted(a).fingerprint() == accepted(b).fingerprint()
    assert same is (described(a) == described(b))


@SLOW
@given(schemas(), st.randoms())
def test_fingerprints_do_not_depend_on_the_order_of_keys(
    schema: dict[str, Any], random: Any
) -> None:
    def shuffled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        keys = list(value)
        random.shuffle(keys)
        return {key: shuffled(value[key]) for key in keys}

    assert accepted(schema).fingerprint() == accepted(shuffled(schema)).fingerprint()
