"""Hypothesis strategies: schemas of the accepted profile, answers to them, and hostile things."""

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from elicitation.core import (
    Choice,
    FormAnswer,
    FormSchema,
    MultiChoice,
    Number,
    Property,
    Text,
    YesNo,
    names_a_credential,
    number_text,
)

FORMATS = ("email", "uri", "date", "date-time", "x-unknown")
NASTY_NUMBERS = (
    0,
    -0.0,
    0.1,
    0.3,
    0.5,
    -2.5,
    5.0,
    1e16,
    1e23,
    1e308,
    5e-324,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    10**308,
)

clean_text = st.text(
    st.characters(
        exclude_categories=("Cs", "Cc"),
        exclude_characters="\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    ),
    max_size=12,
)
names = st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True).filter(
    lambda name: not names_a_credential(name)
)
numbers = st.one_of(
    st.integers(-12, 12),
    st.sampled_from(NASTY_NUMBERS),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-10, 10, places=1).map(float),
)


def _with(required: dict[str, Any], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fixed = {key: st.just(value) for key, value in required.items()}
    return st.fixed_dictionaries(fixed, optional=optional)


_people = {"title": clean_text, "description": clean_text}
_lengths = st.integers(0, 6) | st.sampled_from((2.0, 10**9))
_labels = clean_text.filter(str.strip)
_number_bounds = {
    "minimum": numbers,
    "maximum": numbers,
    "exclusiveMinimum": numbers,
    "exclusiveMaximum": numbers,
    "multipleOf": numbers.filter(lambda n: n > 0),
    "default": numbers,
}


def _constants(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    option = st.fixed_dictionaries({"const": values}, optional={"title": _labels})
    return st.lists(option, min_size=1, max_size=4)


_text = _with(
    {"type": "string"},
    **_people,
    format=st.sampled_from(FORMATS),
    minLength=_lengths,
    maxLength=_lengths,
    default=clean_text,
)
_number = st.sampled_from(("number", "integer")).flatmap(
    lambda kind: _with({"type": kind}, **_people, **_number_bounds)
)
_yes_no = _with({"type": "boolean"}, **_people, default=st.booleans())
_choice = st.one_of(
    st.lists(_labels, min_size=1, max_size=4).flatmap(
        lambda values: _with(
            {"enum": values},
            **_people,
            type=st.just("string"),
            enumNames=st.lists(_labels, min_size=len(values), max_size=len(values)),
            minLength=st.integers(0, 3),
            default=st.sampled_from(values),
        )
    ),
    _constants(clean_text).flatmap(lambda options: _with({"oneOf": options}, **_people)),
    _constants(numbers).flatmap(lambda options: _with({"anyOf": options}, **_people)),
    st.lists(numbers, min_size=1, max_size=3).flatmap(
        lambda values: _with(
            {"enum": values}, type=st.sampled_from(("number", "integer")), minimum=numbers
        )
    ),
    st.booleans().map(lambda value: {"type": "boolean", "const": value}),
)
_multi_choice = st.lists(_labels, min_size=1, max_size=4, unique=True).flatmap(
    lambda values: _with(
        {"type": "array", "items": {"type": "string", "enum": values}},
        **_people,
        minItems=st.integers(0, 3),
        maxItems=st.integers(0, 5),
        uniqueItems=st.booleans(),
        default=st.lists(st.sampled_from(values)),
    )
)


def _nullable(definition: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [definition, {"type": "null"}], "default": None}


definitions = st.one_of(_text, _number, _yes_no, _choice, _multi_choice)
definitions |= definitions.filter(lambda d: not {"anyOf", "const"} & d.keys()).map(_nullable)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A schema that uses the profile's keywords. Some are refused: their bounds contradict."""
    properties = draw(st.dictionaries(names, definitions, min_size=1, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    return {"type": "object", "properties": properties, "required": required}


@st.composite
def _number_texts(draw: st.DrawFn, prop: Number) -> str:
    bounds = [
        bound
        for bound in (
            prop.minimum,
            prop.maximum,
            prop.exclusive_minimum,
            prop.exclusive_maximum,
            prop.multiple_of,
        )
        if bound is not None
    ]
    near = draw(st.sampled_from(bounds)) if bounds else 0
    exact = Decimal(number_text(near))
    times = draw(st.integers(-3, 3))
    return draw(
        st.sampled_from(
            (
                number_text(near),
                repr(near),
                str(exact * times),
                str(exact + times),
                repr(near + times * 0.1),
                f" {times} ",
            )
        )
        | st.floats().map(repr)
        | st.integers(-(2**65), 2**65).map(str)
        | st.text("0123456789.eE+-", max_size=6)
    )


_formatted = st.sampled_from(
    (
        "ada@example.org",
        "a@b",
        "https://example.org/a?b#c",
        "urn:isbn:1",
        "2024-02-29",
        "2023-02-29",
        "2024-02-29T12:00:00Z",
        "2024-02-29T12:00:00.5+05:30",
        "2024-02-29 12:00:00",
    )
)


def _answered(draw: st.DrawFn, prop: Property) -> FormAnswer:
    match prop:
        case Choice():
            return FormAnswer(selected=(draw(st.sampled_from(prop.labels)),))
        case MultiChoice():
            return FormAnswer(selected=tuple(draw(st.lists(st.sampled_from(prop.labels)))))
        case YesNo():
            return FormAnswer(selected=(draw(st.sampled_from(("Yes", "No"))),))
        case Number():
            return FormAnswer(other_text=draw(_number_texts(prop)))
        case _:
            assert isinstance(prop, Text)
            return FormAnswer(other_text=draw(_formatted | clean_text | st.text(max_size=8)))


wild_answers = st.builds(
    FormAnswer,
    selected=st.lists(st.text(max_size=4), max_size=2).map(tuple),
    other_text=st.none() | st.text(max_size=8),
    skipped=st.booleans(),
)


@st.composite
def answers_to(draw: st.DrawFn, schema: FormSchema) -> dict[str, FormAnswer]:
    """Answers, most of which fit."""
    answers = {}
    for prop in schema.properties:
        how = draw(st.sampled_from(("answer", "answer", "answer", "skip", "wild")))
        if how == "answer":
            answers[prop.name] = _answered(draw, prop)
        elif how == "skip":
            answers[prop.name] = FormAnswer(skipped=True)
        else:
            answers[prop.name] = draw(wild_answers)
    return answers


def _deep(levels: int) -> Any:
    value: Any = []
    for level in range(levels):
        value = [value] if level % 2 else {"anyOf": value}
    return value


class Odd:
    """Something that is no JSON at all."""


hostile_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.sampled_from(
        (
            float("nan"),
            float("inf"),
            "\ud800",
            "\x00",
            "x" * 3000,
            (),
            frozenset(),
            Odd,
            Odd(),
            1j,
            Decimal("NaN"),
            range(3),
        )
    ),
    # Built when drawn: the strategies' own repr must not meet them.
    st.sampled_from((1, -1)).map(lambda sign: sign * 10**5000),
    st.just(5000).map(_deep),
)
hostile = st.recursive(
    hostile_scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4) | st.integers() | st.none(), inner, max_size=4)
    ),
    max_leaves=8,
)
_keywords = (
    "type title description format writeOnly enum enumNames oneOf anyOf const minimum maximum "
    "exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern items minItems "
    "maxItems uniqueItems default $ref allOf"
).split()
_plausible = st.sampled_from(
    (
        "string",
        "number",
        "integer",
        "boolean",
        "array",
        "null",
        ["string", "null"],
        ["a", "b"],
        [None],
        [1, None],
        [{"const": "a"}, {"type": "null"}],
        [{"type": "string"}, {"type": "null"}],
        {"enum": ["a"]},
        1,
        2.5,
        "a",
        True,
    )
)
hostile_schemas = hostile | st.fixed_dictionaries(
    {
        "type": st.just("object") | hostile,
        "properties": hostile
        | st.dictionaries(
            names | st.text(max_size=3) | st.integers(),
            hostile | st.dictionaries(st.sampled_from(_keywords), _plausible | hostile),
            max_size=4,
        ),
    },
    optional={"required": hostile | st.lists(names)},
)
