"""Requested schemas that were once read wrongly, by the number of their case."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elicitation.core import (
    DEFAULT_LIMITS,
    WIDE_LIMITS,
    ElicitationRefusal,
    FormAnswer,
    FormElicitation,
    FormSchema,
    OutOfProfileRefusal,
    SchemaRefusal,
    names_a_credential,
    parse_requested_schema,
)
from elicitation.core.characters import is_same_name
from elicitation.core.untrusted import speaks_of_secrets, visible

from .data import form


def parsed(*definitions: Any, **options: Any) -> FormSchema:
    properties = {f"p{at}": definition for at, definition in enumerate(definitions)}
    return parse_requested_schema(form(**properties), **options)


def options(definition: dict[str, Any]) -> list[dict[str, Any]]:
    (question,) = parsed(definition).questions("shop")
    found: list[dict[str, Any]] = question["options"]
    return found


def refused(*definitions: Any, **options: Any) -> str:
    with pytest.raises(OutOfProfileRefusal) as refusal:
        parsed(*definitions, **options)
    return refusal.value.reason


# --- D1: bounds that no answer of the type can meet --------------------------------------------


@pytest.mark.parametrize(
    "bounds",
    [
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"type": "integer", "minimum": 0.2, "maximum": 0.8},
        {"type": "integer", "minimum": 1e30},
        {"type": "integer", "minimum": 2**63},
        {"type": "integer", "maximum": -(2**63) - 1},
        {"type": "integer", "exclusiveMinimum": 2**63 - 1},
        {"type": "integer", "minimum": 1, "multipleOf": 2**64},
        {"type": "integer", "minimum": 1, "maximum": 2, "multipleOf": 1.5},
        {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1.0000000000000002},
        {"type": "number", "minimum": 2**53 + 1, "maximum": 2**53 + 1},
        {"type": "number", "exclusiveMinimum": 1.7976931348623157e308},
        # Only 0.3 is in between, and servers that divide doubles refuse it.
        {"type": "number", "minimum": 0.25, "maximum": 0.35, "multipleOf": 0.1},
        {"type": "string", "format": "date", "maxLength": 5},
        {"type": "string", "format": "date", "minLength": 11},
        {"type": "string", "format": "date-time", "maxLength": 19},
        {"type": "string", "format": "email", "minLength": 500},
        {"type": "string", "format": "email", "maxLength": 4},
        {"type": "string", "format": "uri", "maxLength": 2},
        {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3},
        {"anyOf": [{"type": "integer", "minimum": 0.2, "maximum": 0.8}, {"type": "null"}]},
    ],
)
def test_case_D1_bounds_that_no_answer_of_the_type_meets_are_refused(
    bounds: dict[str, Any],
) -> None:
    assert refused(bounds).startswith("no ")


@pytest.mark.parametrize(
    ("bounds", "answer"),
    [
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 3}, "2"),
        ({"type": "integer", "minimum": 0.2, "maximum": 1.8}, "1"),
        ({"type": "integer", "minimum": 2**63 - 1}, str(2**63 - 1)),
        ({"type": "integer", "maximum": -(2**63)}, str(-(2**63))),
        ({"type": "integer", "exclusiveMaximum": -5, "multipleOf": 7}, "-7"),
        ({"type": "integer", "minimum": 1, "multipleOf": 1.5}, "3"),
        ({"type": "integer", "multipleOf": 2**64}, "0"),
        ({"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1.0000000000000004},
         "1.0000000000000002"),
        ({"type": "number", "minimum": 1.7976931348623157e308}, "1.7976931348623157e308"),
        ({"type": "number", "minimum": 0.25, "maximum": 0.45, "multipleOf": 0.1}, "0.4"),
        ({"type": "number", "maximum": -1e300, "multipleOf": 1e300}, "-1e300"),
        # More multiples than are looked at.
        ({"type": "number", "minimum": 1, "maximum": 1e9, "multipleOf": 1e-300}, None),
        ({"type": "string", "format": "date", "minLength": 10, "maxLength": 10}, "2026-07-28"),
        ({"type": "string", "format": "date-time", "maxLength": 20}, "2026-07-28T00:00:00Z"),
        ({"type": "string", "format": "email", "maxLength": 5}, "a@b.c"),
        ({"type": "string", "format": "uri", "maxLength": 3}, "a:b"),
        ({"type": "string", "format": "zip", "maxLength": 1}, "9"),
    ],
)  # fmt: skip
def test_case_D1_bounds_that_one_answer_meets_are_asked(
    bounds: dict[str, Any], answer: str | None
) -> None:
    schema = parsed(bounds)
    if answer is not None:
        assert schema.content_from_answers({"p0": FormAnswer(other_text=answer)})


@given(
    st.fixed_dictionaries(
        {"type": st.just("integer")},
        optional={
            "minimum": st.integers(-6, 6) | st.floats(-6, 6).map(lambda bound: round(bound, 1)),
            "maximum": st.integers(-6, 6) | st.floats(-6, 6).map(lambda bound: round(bound, 1)),
            "exclusiveMinimum": st.integers(-6, 6),
            "exclusiveMaximum": st.integers(-6, 6),
            "multipleOf": st.sampled_from([1, 2, 5, 1.5, 0.5, 0.1, 2.25]),
        },
    )
)
def test_case_D1_a_whole_number_is_asked_just_where_some_answer_fits(
    bounds: dict[str, Any],
) -> None:
    fits = any(_fits(bounds, number) for number in range(-20, 20))
    try:
        parsed(bounds)
    except OutOfProfileRefusal:
        assert not fits
    else:
        assert fits


def _fits(bounds: dict[str, Any], number: int) -> bool:
    """Whether a number is one that JSON Schema validators take, and people, who count tenths."""
    step = bounds.get("multipleOf", 1)
    return (
        bounds.get("minimum", number) <= number <= bounds.get("maximum", number)
        and bounds.get("exclusiveMinimum", number - 1) < number
        and bounds.get("exclusiveMaximum", number + 1) > number
        and (number / step).is_integer()
        and Fraction(number) % Fraction(str(step)) == 0
    )


# --- D2: the description of an option ----------------------------------------------------------

TIDY: dict[str, Any] = {"const": "a", "title": "Tidy", "description": "Removes all files"}
KEEP: dict[str, Any] = {"const": "Keep"}


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
@pytest.mark.parametrize("several", [False, True])
def test_case_D2_the_description_of_an_option_is_shown(keyword: str, several: bool) -> None:
    choice = {keyword: [TIDY, KEEP | {"description": "Changes nothing"}]}
    asked = {"type": "array", "items": choice} if several else choice
    assert options(asked) == [
        {"label": "Tidy", "description": "a: Removes all files"},
        {"label": "Keep", "description": "Changes nothing"},
    ]


def test_case_D2_an_option_without_a_description_shows_its_value() -> None:
    for absent in ({}, {"description": None}, {"description": ""}, {"description": " "}):
        option = {"const": "a", "title": "Tidy"} | absent
        assert options({"oneOf": [option, KEEP]}) == [
            {"label": "Tidy", "description": "a"},
            {"label": "Keep", "description": ""},
        ]


def test_case_D2_the_fingerprint_covers_the_description() -> None:
    def fingerprint(**changed: Any) -> str:
        return parsed({"oneOf": [TIDY | changed, KEEP]}).fingerprint()

    assert fingerprint() == fingerprint()
    assert fingerprint() != fingerprint(description="Removes no files")
    assert fingerprint() != fingerprint(description=None)
    assert fingerprint(description=None) == fingerprint(description="")


@pytest.mark.parametrize("description", [5, "a\x00", "a\u202eb", "x" * 2001])
def test_case_D2_a_description_is_checked(description: Any) -> None:
    assert refused({"oneOf": [TIDY | {"description": description}]})


# --- D3: labels that differ in case alone ------------------------------------------------------


@pytest.mark.parametrize("values", [["-d", "-D"], ["Mb", "MB"]])
def test_case_D3_labels_that_differ_in_case_alone_are_asked(values: list[str]) -> None:
    schema = parsed({"enum": values})
    for value in values:
        answer = {"p0": FormAnswer(selected=(value,))}
        assert schema.content_from_answers(answer) == {"p0": value}


# --- D4: the same values listed twice ----------------------------------------------------------

TITLED = [{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}]


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
@pytest.mark.parametrize("values", [["a", "b"], ["b", "a"]])
def test_case_D4_enum_beside_the_same_values_is_asked_with_the_titles(
    keyword: str, values: list[str]
) -> None:
    both = {"type": "string", "enum": values, keyword: TITLED}
    assert parsed(both) == parsed({"type": "string", keyword: TITLED})
    several = {"type": "array", "items": both}
    assert parsed(several) == parsed({"type": "array", "items": {keyword: TITLED}})


@pytest.mark.parametrize(
    ("values", "constants"),
    [
        (["a"], ["a", "b"]),
        (["a", "b", "c"], ["a", "b"]),
        (["a", "x"], ["a", "b"]),
        ([1, 2], ["1", "2"]),
        ([True], [1]),
        ([["a"], ["b"]], ["a", "b"]),
        (["a", "b"], ["a", None]),
        (["a", "b", None], ["a", "b"]),
    ],
)
def test_case_D4_other_values_are_refused(values: list[Any], constants: list[Any]) -> None:
    asked = {"type": "string", "enum": values, "oneOf": [{"const": each} for each in constants]}
    assert refused(asked) == "it lists its options in more than one way"
    many = [f"option {at}" for at in range(33)]
    titles = [{"const": each} for each in many]
    assert refused({"enum": many, "oneOf": titles}) == "it lists its options in more than one way"
    assert refused({"enum": ["a"], "oneOf": ["a"]}) == "it lists its options in more than one way"


def test_case_D4_null_in_an_enum_says_that_it_is_optional() -> None:
    asked = {"type": ["string", "null"], "enum": ["a", "b", None], "oneOf": TITLED}
    assert parsed(asked) == parsed({"oneOf": TITLED})


# --- D5: no properties at all ------------------------------------------------------------------


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": None}])
def test_case_D5_no_properties_is_a_confirmation(schema: dict[str, Any]) -> None:
    asked = parse_requested_schema(schema, allow_confirmation=True)
    assert asked == parse_requested_schema(form(), allow_confirmation=True)
    assert asked.content_from_answers({}) == {}
    with pytest.raises(SchemaRefusal, match="has no properties"):
        parse_requested_schema(schema)


# --- D6: isolates ------------------------------------------------------------------------------


def message(text: str) -> FormElicitation:
    return FormElicitation(
        server_name="shop", tool_name="buy", key="k", message=text, schema=parsed({"enum": ["a"]})
    )


@pytest.mark.parametrize(
    "text",
    [
        "Delete \u2068report.pdf\u2069?",
        "\u2066a\u2069 \u2067b\u2069",
        "\u2068\u2067a\u2069b\u2069",
    ],
)
def test_case_D6_paired_isolates_are_asked_and_shown_without_effect(text: str) -> None:
    assert message(text).message == text
    assert visible(text) == "".join(c for c in text if not "\u2066" <= c <= "\u2069")
    definition = {"type": "string", "title": text, "description": text}
    assert parsed(definition).asked[0].title == text
    assert [option["label"] for option in options({"enum": [text]})] == [text]


@pytest.mark.parametrize(
    "text",
    ["\u2068a", "a\u2069", "\u2069a\u2068", "\u2068a\nb\u2069", "\u2068a\u2029\u2069",
     "\u2068\u2068a\u2069", "\u2068\u202ea\u2069"],
)  # fmt: skip
def test_case_D6_unpaired_isolates_and_overrides_are_refused(text: str) -> None:
    with pytest.raises(SchemaRefusal):
        message(text)
    assert refused({"type": "string", "title": text})
    assert refused({"enum": [text]})


# --- D7: the wide limits -----------------------------------------------------------------------


def test_case_D7_the_numbers() -> None:
    assert (DEFAULT_LIMITS.properties, WIDE_LIMITS.properties) == (16, 64)
    assert (DEFAULT_LIMITS.enum_members, WIDE_LIMITS.enum_members) == (32, 500)
    assert (DEFAULT_LIMITS.ascii_names, WIDE_LIMITS.ascii_names) == (True, False)


@pytest.mark.parametrize(
    "schema",
    [
        form(**{f"p{at}": {"type": "boolean"} for at in range(25)}),
        form(**{f"p{at}": {"type": "boolean"} for at in range(64)}),
        form(x={"enum": [f"option {at}" for at in range(50)]}),
        form(x={"type": "array", "items": {"enum": [f"option {at}" for at in range(500)]}}),
        form(**{"a name": {"type": "boolean"}}),
        form(Größe={"type": "boolean"}),
        form(**{"名前 (必須)": {"type": "boolean"}}),
    ],
    ids=range(7),
)
def test_case_D7_what_is_too_wide_by_default_is_asked_with_the_wide_limits(
    schema: dict[str, Any],
) -> None:
    with pytest.raises(ElicitationRefusal):
        parse_requested_schema(schema)
    asked = parse_requested_schema(schema, limits=WIDE_LIMITS)
    assert [each.name for each in asked.asked] == list(schema["properties"])
    assert asked.fingerprint()


@pytest.mark.parametrize(
    "schema",
    [
        form(**{f"p{at}": {"type": "boolean"} for at in range(65)}),
        form(x={"enum": [f"option {at}" for at in range(501)]}),
        *(
            form(**{name: {"type": "boolean"}})
            for name in ("", " ", "a\n", "a\x00", "a\u200b", "\u3164", "a\u202e", "\ud800",
                         "\u2068a\u2069", "x" * 65)
        ),
    ],
    ids=range(12),
)  # fmt: skip
def test_case_D7_the_wide_limits_are_limits(schema: dict[str, Any]) -> None:
    with pytest.raises(ElicitationRefusal) as refusal:
        parse_requested_schema(schema, limits=WIDE_LIMITS)
    assert refusal.value.code in ("schema", "out_of_profile")


def test_case_D7_what_is_within_the_default_limits_is_the_same_within_the_wide_ones() -> None:
    schema = form(a={"type": "string"}, b={"enum": ["x"]})
    assert parse_requested_schema(schema) == parse_requested_schema(schema, limits=WIDE_LIMITS)
    credential = form(**{"Your pаssword": {"type": "string"}})
    with pytest.raises(ElicitationRefusal) as refusal:
        parse_requested_schema(credential, limits=WIDE_LIMITS)
    assert refusal.value.code == "credential"


# --- D8: credentials ---------------------------------------------------------------------------


def test_case_D8_a_description_that_asks_for_a_credential_makes_the_warning_stand_out() -> None:
    asked = parsed({"type": "string", "title": "Sign-in", "description": "Your bank password"})
    (prop,) = asked.asked
    assert not speaks_of_secrets(prop.label)
    assert speaks_of_secrets(prop.label, prop.description or "")


@pytest.mark.parametrize(
    "title",
    ["P\u0430ssword", "passw\u03bfrd", "pa\u0301ssword", "userpassword", "accesstoken",
     "Passwords", "API keys"],
)  # fmt: skip
def test_case_D8_a_title_that_reads_as_a_credential_is_refused(title: str) -> None:
    assert names_a_credential(title)
    with pytest.raises(ElicitationRefusal) as refusal:
        parsed({"type": "string", "title": title})
    assert refusal.value.code == "credential"


# --- D9: what looks the same -------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels", [["Pay 10", "P\u0430y 10"], ["\u0420\u0430\u0443", "Pay"], ["A", "\u0391"]]
)
def test_case_D9_options_that_look_the_same_are_refused(labels: list[str]) -> None:
    assert refused({"enum": labels}) == "two options look the same"
    titled = [{"const": str(at), "title": label} for at, label in enumerate(labels)]
    assert refused({"oneOf": titled}) == "two options look the same"


def test_case_D9_names_of_servers_that_look_the_same_are_told() -> None:
    assert is_same_name("The shop", "The sh\u043ep")
