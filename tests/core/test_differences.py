"""The deliberate differences from the reference, each under its number."""

from typing import Any

import pytest

from elicitation.core import (
    AnswerRefusal,
    Choice,
    ElicitationRefusal,
    FormAnswer,
    FormElicitation,
    MultiChoice,
    Number,
    OutOfProfileRefusal,
    SchemaRefusal,
    Text,
    YesNo,
    names_a_credential,
    parse_requested_schema,
)

from .data import form


def only(definition: dict[str, Any], *, required: bool = False) -> Any:
    """The one property of a form that asks for it alone."""
    schema = form(x=definition) | {"required": ["x"] if required else []}
    (prop,) = parse_requested_schema(schema).properties
    return prop


def typed(text: str) -> FormAnswer:
    return FormAnswer(other_text=text)


def chosen(*labels: str) -> FormAnswer:
    return FormAnswer(selected=labels)


def code(definition: dict[str, Any], answer: FormAnswer) -> str:
    with pytest.raises(AnswerRefusal) as refused:
        only(definition).value_from(answer)
    return refused.value.code


def refused(definition: Any) -> str:
    with pytest.raises(OutOfProfileRefusal) as refusal:
        only(definition)
    assert refusal.value.property == "x"
    return refusal.value.reason


# --- 1 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 9007199254740993),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1e3", 1000),
        ("1.50e1", 15),
        (".5e1", 5),
        ("5.", 5),
        ("-0", 0),
        ("0e999999999", 0),
        ("00012", 12),
        ("1" + "0" * 25 + "e-25", 1),
    ],
)
def test_difference_01_integers_are_exact(text: str, value: int) -> None:
    got = only({"type": "integer"}).value_from(typed(text))
    assert got == value
    assert type(got) is int


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9223372036854775808", "out_of_range"),
        ("-9223372036854775809", "out_of_range"),
        ("1e999999999", "out_of_range"),
        ("1e-999999999", "not_whole"),
        ("9007199254740993.5", "not_whole"),
        ("0.1", "not_whole"),
    ],
)
def test_difference_01_what_is_no_integer_of_64_bits_is_refused(text: str, why: str) -> None:
    assert code({"type": "integer"}, typed(text)) == why


def test_difference_01_bounds_of_integers_are_compared_exactly() -> None:
    definition = {"type": "integer", "minimum": 9007199254740993}
    assert code(definition, typed("9007199254740992")) == "too_small"
    assert only(definition).value_from(typed("9007199254740993")) == 9007199254740993
    assert only(definition).bounds_text() == "a whole number, at least 9007199254740993"


def test_difference_01_a_number_stays_a_double() -> None:
    got = only({"type": "number"}).value_from(typed("9007199254740993"))
    assert got == 9007199254740992.0
    assert type(got) is float


# --- 2 ---------------------------------------------------------------------------------------

TITLED = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}, {"const": "other"}]


@pytest.mark.parametrize("key", ["oneOf", "anyOf"])
@pytest.mark.parametrize("base", [{}, {"type": "string"}])
def test_difference_02_titled_enums_are_choices(key: str, base: dict[str, Any]) -> None:
    prop = only(base | {key: TITLED})
    assert isinstance(prop, Choice)
    assert prop.options() == [
        {"label": "Small", "description": "s"},
        {"label": "Large", "description": "l"},
        {"label": "other", "description": ""},
    ]
    assert prop.value_from(chosen("Large")) == "l"
    assert prop.answer_from("l") == chosen("Large")


def test_difference_02_an_enum_without_a_type_is_a_choice() -> None:
    assert only({"enum": ["a", "b"]}).values == ("a", "b")


def test_difference_02_a_titled_value_may_be_blank() -> None:
    prop = only({"oneOf": [{"const": "", "title": "None of them"}]})
    assert prop.value_from(chosen("None of them")) == ""


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["a"],
        [{"title": "A"}],
        [{"const": None, "title": "A"}],
        [{"const": "a", "title": 5}],
        [{"const": "a", "title": " "}],
        [{"const": ""}],
        [{"const": "a"}, {"const": 1}],
        [{"const": "a"}, {"const": "b", "pattern": "b"}],
        [{"const": "a", "minLength": 3}],
        [{"const": "a", "type": "integer"}],
        [{"const": 1.5, "type": "integer"}],
        [{"const": "a", "type": ["string"]}],
        [{"const": ["a"]}],
        [{"enum": ["a"]}],
        [{"minLength": 3}, {"format": "email"}],
    ],
)
def test_difference_02_other_combinations_are_refused(options: list[Any]) -> None:
    assert refused({"oneOf": options})
    assert refused({"type": "string", "anyOf": options})


def test_difference_02_one_of_means_exactly_one() -> None:
    twice = [{"const": "a", "title": "A"}, {"const": "a", "title": "B"}]
    assert refused({"oneOf": twice}) == "two options have the same value"
    assert only({"anyOf": twice}).labels == ("A", "B")


def test_difference_02_options_in_two_ways_are_refused() -> None:
    assert refused({"enum": ["s", "l"], "oneOf": TITLED})
    assert refused({"enum": ["s", "l"], "const": "s"})
    assert refused({"enum": [1], "const": True})
    assert refused({"enum": [["s"]], "const": ["s"]})
    # What Pydantic wrote for a Literal for some time.
    assert only({"enum": ["s"], "const": "s"}).values == ("s",)


# --- 3 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "items",
    [
        {"type": "string", "enum": ["s", "l", "other"]},
        {"enum": ["s", "l", "other"]},
        {"anyOf": TITLED},
        {"oneOf": TITLED},
    ],
)
def test_difference_03_arrays_of_a_closed_list_are_choices(items: dict[str, Any]) -> None:
    prop = only({"type": "array", "items": items, "minItems": 1, "maxItems": 2})
    assert isinstance(prop, MultiChoice)
    question = prop.question("billing")
    assert question["multi_select"] is True
    assert question["allow_other"] is False
    assert question["kind"] == "choice"
    assert question["question"] == "x (choose 1 to 2)"
    assert prop.value_from(chosen(prop.labels[1], prop.labels[0])) == ["l", "s"]
    assert prop.answer_from(["l"]) == chosen(prop.labels[1])


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ((), "too_few"),
        (("a", "b", "c"), "too_many"),
        (("a", "a"), "repeated"),
        (("a", "z"), "not_offered"),
    ],
)
def test_difference_03_the_number_of_choices_is_enforced(
    labels: tuple[str, ...], why: str
) -> None:
    definition = {
        "type": "array",
        "items": {"enum": ["a", "b", "c"]},
        "minItems": 1,
        "maxItems": 2,
    }
    assert code(definition, chosen(*labels)) == why


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ({}, "x"),
        ({"minItems": 0}, "x"),
        ({"minItems": 1}, "x (choose at least 1)"),
        ({"maxItems": 2}, "x (choose at most 2)"),
        ({"minItems": 2, "maxItems": 2}, "x (choose exactly 2)"),
    ],
)
def test_difference_03_the_number_of_choices_is_stated(bounds: dict[str, int], text: str) -> None:
    definition = {"type": "array", "items": {"enum": ["a", "b", "c"]}}
    assert only(definition | bounds).question_text() == text


@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"items": {}},
        {"items": {"type": "string"}},
        {"items": {"enum": [1, 2]}},
        {"items": {"type": "integer", "enum": [1]}},
        {"items": {"enum": ["a"], "type": ["string", "null"]}},
        {"items": [{"enum": ["a"]}]},
        {"items": {"oneOf": [{"const": "a", "title": "A"}, {"const": "a", "title": "B"}]}},
        {"items": {"enum": ["a", "a"], "enumNames": ["A", "B"]}},
        {"items": {"enum": ["a"]}, "contains": {"const": "a"}},
        {"enum": [["a"]]},
    ],
)
def test_difference_03_other_arrays_are_refused(rest: dict[str, Any]) -> None:
    assert refused({"type": "array"} | rest)


# --- 4 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"type": "string", "minLength": 3, "maxLength": 20}, "3 to 20 characters"),
        ({"type": "string", "minLength": 3}, "at least 3 characters"),
        ({"type": "string", "maxLength": 20.0}, "at most 20 characters"),
        ({"type": "string", "minLength": 4, "maxLength": 4}, "exactly 4 characters"),
        ({"type": "string", "maxLength": 1}, "at most 1 character"),
        ({"type": "string", "minLength": 1}, "at least 1 character"),
        ({"type": "string", "minLength": 0}, ""),
        (
            {"type": "string", "format": "email", "maxLength": 20},
            "format: email, at most 20 characters",
        ),
        ({"type": "number", "exclusiveMinimum": 0}, "a number, more than 0"),
        (
            {"type": "number", "minimum": 0, "exclusiveMaximum": 10.0},
            "a number, at least 0, less than 10",
        ),
        ({"type": "integer", "multipleOf": 5}, "a whole number, a multiple of 5"),
        ({"type": "number", "multipleOf": 1e-7}, "a number, a multiple of 0.0000001"),
    ],
)
def test_difference_04_bounds_are_stated(definition: dict[str, Any], text: str) -> None:
    prop = only(definition)
    assert prop.bounds_text() == text
    assert prop.question_text() == (f"x ({text})" if text else "x")


@pytest.mark.parametrize(
    ("definition", "text", "why"),
    [
        ({"type": "string", "minLength": 3}, "ab", "too_short"),
        ({"type": "string", "minLength": 3}, "  ab  ", "too_short"),
        ({"type": "string", "maxLength": 3}, "abcd", "too_long"),
        ({"type": "number", "exclusiveMinimum": 0}, "0", "not_above"),
        ({"type": "number", "exclusiveMaximum": 0}, "0", "not_below"),
        ({"type": "number", "minimum": 1}, "0.9", "too_small"),
        ({"type": "number", "maximum": 1}, "1.1", "too_large"),
        ({"type": "integer", "multipleOf": 5}, "7", "not_multiple"),
        ({"type": "number", "multipleOf": 0.5}, "0.75", "not_multiple"),
    ],
)
def test_difference_04_bounds_are_enforced(
    definition: dict[str, Any], text: str, why: str
) -> None:
    assert code(definition, typed(text)) == why


@pytest.mark.parametrize(
    ("definition", "text", "value"),
    [
        ({"type": "string", "minLength": 10, "maxLength": 10}, "\U0001f600" * 10, None),
        ({"type": "string", "maxLength": 3}, "a\r\nb", "a\nb"),
        ({"type": "string", "maxLength": 2}, " ab ", "ab"),
        ({"type": "number", "exclusiveMinimum": 0}, "1e-300", 1e-300),
        ({"type": "integer", "multipleOf": 5}, "-15", -15),
        ({"type": "number", "multipleOf": 0.1}, "0.5", 0.5),
        ({"type": "number", "multipleOf": 5e-324}, "1e308", 1e308),
        ({"type": "integer", "multipleOf": 0.5}, "3", 3),
    ],
)
def test_difference_04_what_is_within_bounds_is_sent(
    definition: dict[str, Any], text: str, value: Any
) -> None:
    assert only(definition).value_from(typed(text)) == (text if value is None else value)


def test_difference_04_a_multiple_that_validators_would_refuse_is_refused() -> None:
    # 0.3 / 0.1 is 2.9999999999999996 in the doubles that jsonschema and Ajv divide.
    assert code({"type": "number", "multipleOf": 0.1}, typed("0.3")) == "not_multiple"
    # And 2**53 + 1 steps of 0.1 are no decimal multiple, though the doubles divide evenly.
    assert code({"type": "number", "multipleOf": 0.3}, typed("1e22")) == "not_multiple"


@pytest.mark.parametrize(
    ("form_name", "good", "bad"),
    [
        (
            "email",
            ["ada@example.org", "a.b+c@x-y.example.org", "a" * 64 + "@b.co"],
            ["ada", "ada@", "@b.co", "a@b", "a..b@c.de", "a b@c.de", "a@-b.de", "a@b..de",
             "a" * 65 + "@b.co", "ä@b.de", "a@b.de@c", "a@" + "b" * 64 + ".de"],
        ),
        (
            "uri",
            ["https://example.org", "https://u:p@[2001:db8::1]:80/a%20b?q=/?#f", "urn:isbn:1",
             "mailto:a@b.de", "file:///etc/hosts", "https://example.org:/", "tel:+1-2"],
            ["example.org", "/a", "https://", "http:a", "https://a b", "https://a/%zz", "a:",
             "https://ä.de", "https://[::1", "https://[::1]x", "https://[zz]", "https://a:b",
             "https://[fe80::1%25eth0]", "https://u@", "https://a/?<", "https://a/#<", "1:a",
             "https://<@a", "https://:80", "https://a:١"],
        ),
        (
            "date",
            ["2024-02-29", "0001-01-01"],
            ["2023-02-29", "2024-2-29", "24-02-29", "2024-02-29 ", "0000-01-01", "20240229",
             "٢٠٢٤-02-29", "2024-W01-1"],
        ),
        (
            "date-time",
            ["2024-02-29T12:00:00Z", "2024-02-29T23:59:59.123456789+14:00"],
            ["2024-02-29", "2024-02-29T12:00:00", "2023-02-29T12:00:00Z", "2024-02-29 12:00:00Z",
             "2024-02-29T24:00:00Z", "2024-02-29T23:59:60Z", "2024-02-29T12:00Z",
             "2024-02-29T12:00:00+24:00", "2024-02-29T12:00:00Z\nx"],
        ),
    ],
)  # fmt: skip
def test_difference_04_formats_are_validated(
    form_name: str, good: list[str], bad: list[str]
) -> None:
    prop = only({"type": "string", "format": form_name})
    for text in good:
        assert prop.value_from(typed(text)) == text
    for text in bad:
        with pytest.raises(AnswerRefusal) as refusal:
            prop.check(text)
        assert refusal.value.code == "bad_format", text
        assert refusal.value.params == {"format": form_name}


def test_difference_04_other_formats_are_left_to_the_server() -> None:
    prop = only({"type": "string", "format": "hostname"})
    assert prop.bounds_text() == "format: hostname"
    assert prop.value_from(typed("not a host name!")) == "not a host name!"


def test_difference_04_a_pattern_is_never_run() -> None:
    prop = only({"type": "string", "pattern": "(a+)+$"})
    assert isinstance(prop, Text)
    assert prop.value_from(typed("a" * 1000 + "!")) == "a" * 1000 + "!"
    assert only({"type": "string", "pattern": "("}) == only({"type": "string"})


# --- 5 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("definition", "options", "value"),
    [
        ({"type": "integer", "enum": [1, 2.0]}, [("1", ""), ("2", "")], 2),
        ({"type": "number", "enum": [0.5, 1e16]}, [("0.5", ""), ("10000000000000000", "")], 1e16),
        ({"enum": [1, 2], "enumNames": ["One", "Two"]}, [("One", "1"), ("Two", "2")], 2),
        ({"type": "boolean", "enum": [True]}, [("Yes", "true")], True),
        ({"const": False}, [("No", "false")], False),
        ({"const": "only"}, [("only", "")], "only"),
        ({"const": 7, "type": "integer"}, [("7", "")], 7),
        (
            {"type": "boolean", "oneOf": [{"const": True, "title": "On"}, {"const": False}]},
            [("On", "true"), ("No", "false")],
            False,
        ),
    ],
)
def test_difference_05_typed_options_are_choices(
    definition: dict[str, Any], options: list[tuple[str, str]], value: Any
) -> None:
    prop = only(definition)
    assert isinstance(prop, Choice)
    assert [(o["label"], o["description"]) for o in prop.options()] == options
    got = prop.value_from(chosen(options[-1][0]))
    assert (got, type(got)) == (value, type(value))
    assert prop.answer_from(value) == chosen(options[-1][0])


def test_difference_05_content_has_the_type_of_the_option() -> None:
    numbers = only({"enum": [0, 1]})
    for wrong in ("1", True, None, [1], 2):
        with pytest.raises(AnswerRefusal) as refusal:
            numbers.answer_from(wrong)
        assert refusal.value.code == "not_offered"
    assert numbers.answer_from(1.0) == chosen("1")


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "integer", "enum": [1.5]},
        {"type": "integer", "enum": [True]},
        {"type": "string", "enum": [1]},
        {"type": "number", "enum": ["1"]},
        {"type": "number", "enum": [float("nan")]},
        {"enum": [10**400]},
        {"enum": [10**250]},
        {"enum": [1, "a"]},
        {"enum": [1, 1.0]},
        {"enum": [{}]},
        {"type": "object", "enum": [{}]},
        {"type": "integer", "minimum": 3, "enum": [2, 3]},
        {"type": "string", "format": "email", "enum": ["a"]},
    ],
)
def test_difference_05_options_that_cannot_be_sent_are_refused(definition: dict[str, Any]) -> None:
    assert refused(definition)


def test_difference_05_options_within_the_propertys_bounds_are_asked() -> None:
    assert only({"type": "integer", "minimum": 3, "enum": [3, 4]}).values == (3, 4)
    assert only({"enum": ["abc"], "minLength": 3, "enumNames": ["A"]}).values == ("abc",)


# --- 6 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nullable", "plain"),
    [
        (
            {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "title": "T"},
            {"type": "string", "format": "date", "title": "T"},
        ),
        ({"type": ["integer", "null"], "minimum": 1}, {"type": "integer", "minimum": 1}),
        ({"type": ["boolean"]}, {"type": "boolean"}),
        (
            {"oneOf": [{"type": "null"}, {"type": "number", "title": "T"}], "default": None},
            {"type": "number", "title": "T"},
        ),
        (
            {"anyOf": [{"type": "number", "title": "Inner"}, {"type": "null"}], "title": "T"},
            {"type": "number", "title": "T"},
        ),
        ({"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}, {"enum": ["a", "b"]}),
        ({"type": ["string", "null"], "enum": ["a", None]}, {"enum": ["a"]}),
        ({"enum": ["a", None], "enumNames": ["A", "-"]}, {"enum": ["a"], "enumNames": ["A"]}),
        ({"anyOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]}, {"enum": ["a", "b"]}),
        ({"anyOf": [{"const": "a"}, {"type": "null"}]}, {"enum": ["a"]}),
        (
            {"anyOf": [{"type": "array", "items": {"enum": ["a"]}}, {"type": "null"}]},
            {"type": "array", "items": {"enum": ["a"]}},
        ),
    ],
)
def test_difference_06_null_beside_a_type_makes_it_optional(
    nullable: dict[str, Any], plain: dict[str, Any]
) -> None:
    assert only(nullable) == only(plain)
    schema = parse_requested_schema(form(x=nullable))
    assert schema.content_from_answers({"x": FormAnswer(skipped=True)}) == {}


@pytest.mark.parametrize(
    "definition",
    [
        {"anyOf": [{"type": "null"}]},
        {"type": "null"},
        {"type": ["null"]},
        {"type": []},
        {"type": ["string", "integer"]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "type": "string"},
        {"anyOf": [{"$ref": "#/$defs/X"}, {"type": "null"}]},
        {"anyOf": [{"type": "string", "title": 5}, {"type": "null"}]},
        {"anyOf": [{"type": "string", "description": "x" * 2001}, {"type": "null"}]},
        {"enum": [None]},
        {"type": "string", "enum": ["a", None]},
        {"anyOf": ["a", {"type": "null"}]},
    ],
)
def test_difference_06_other_unions_are_refused(definition: dict[str, Any]) -> None:
    assert refused(definition)


def test_difference_06_a_credential_is_seen_in_the_branch() -> None:
    for branch in (
        {"type": "string", "format": "password"},
        {"type": "string", "writeOnly": True},
        {"type": "string", "title": "Password"},
    ):
        with pytest.raises(ElicitationRefusal) as refusal:
            parse_requested_schema(form(x={"title": "Fine", "anyOf": [branch, {"type": "null"}]}))
        assert refusal.value.code == "credential"


def test_difference_06_a_required_one_is_still_required() -> None:
    # Left out, the content would not satisfy the schema; and MCP has no null to send.
    schema = form(x={"type": ["string", "null"]}) | {"required": ["x"]}
    with pytest.raises(AnswerRefusal) as refusal:
        parse_requested_schema(schema).content_from_answers({"x": FormAnswer(skipped=True)})
    assert refusal.value.code == "required"


# --- 7 ---------------------------------------------------------------------------------------


def test_difference_07_an_optional_property_can_be_skipped() -> None:
    schema = parse_requested_schema(
        form(a={"type": "string"}, b={"type": "boolean"}) | {"required": ["a"]}
    )
    answers = {"a": typed("x"), "b": FormAnswer(skipped=True)}
    assert schema.content_from_answers(answers) == {"a": "x"}


@pytest.mark.parametrize(
    ("answer", "required", "why"),
    [
        (None, False, "missing"),
        (FormAnswer(skipped=True), True, "required"),
        (FormAnswer(skipped=True, other_text=""), False, "skipped_and_answered"),
        (FormAnswer(skipped=True, selected=("a",)), False, "skipped_and_answered"),
        (FormAnswer(), False, "blank"),
        (FormAnswer(other_text=" \u3000\n"), False, "blank"),
    ],
)
def test_difference_07_blank_is_not_skipped(
    answer: FormAnswer | None, required: bool, why: str
) -> None:
    schema = parse_requested_schema(
        form(a={"type": "string"}) | {"required": ["a"] if required else []}
    )
    with pytest.raises(AnswerRefusal) as refusal:
        schema.content_from_answers({} if answer is None else {"a": answer})
    assert (refusal.value.code, refusal.value.property) == (why, "a")


def test_difference_07_blank_is_never_false() -> None:
    assert code({"type": "boolean"}, FormAnswer()) == "yes_or_no"
    assert code({"type": "number"}, FormAnswer(other_text="")) == "blank"
    assert code({"enum": ["a"]}, FormAnswer()) == "one_choice"


# --- 8 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [form(), form() | {"required": []}])
def test_difference_08_confirmations_need_permission(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaRefusal):
        parse_requested_schema(schema)
    parsed = parse_requested_schema(schema, allow_confirmation=True)
    assert parsed.is_confirmation
    assert parsed.questions("billing") == []
    assert parsed.content_from_answers({}) == {}
    assert parsed.answers_from_content({}) == {}


def test_difference_08_properties_must_be_an_object_even_so() -> None:
    for schema in (form() | {"properties": []}, form() | {"properties": "a"}):
        with pytest.raises(SchemaRefusal):
            parse_requested_schema(schema, allow_confirmation=True)
    form_schema = parse_requested_schema(form(a={"type": "string"}), allow_confirmation=True)
    assert not form_schema.is_confirmation


# --- 9 ---------------------------------------------------------------------------------------

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("keyword", "wrong"),
    [
        *(
            (key, value)
            for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
            for value in ("1", True, [], NAN, INFINITY, -INFINITY, 10**400)
        ),
        *(("multipleOf", value) for value in ("1", True, 0, -1, NAN, INFINITY)),
        *(
            (key, value)
            for key in ("minLength", "maxLength", "minItems", "maxItems")
            for value in ("1", True, -1, 1.5, NAN, INFINITY, 10**400)
        ),
        *((key, value) for key in ("title", "description", "format") for value in (5, ["a"])),
        ("type", 5),
        ("type", ["string", 5]),
        ("type", "text"),
        ("writeOnly", "yes"),
        ("uniqueItems", 1),
        ("pattern", 5),
        ("items", []),
        ("enum", "a"),
        ("enum", {}),
        ("enum", []),
        ("enum", [" "]),
        ("oneOf", {}),
        ("anyOf", "a"),
        ("$ref", "#/x"),
        ("allOf", []),
        ("not", {}),
    ],
)
def test_difference_09_malformed_keywords_are_refused(keyword: str, wrong: Any) -> None:
    assert refused({"type": "string"} | {keyword: wrong})


@pytest.mark.parametrize("names", ["A", ["A"], ["A", 5], ["A", None]])
def test_difference_09_malformed_names_of_an_enum_are_refused(names: Any) -> None:
    assert refused({"enum": ["a", "b"], "enumNames": names})


@pytest.mark.parametrize("required", ["x", {}, 5, True, ["x", 5], ("x",)])
def test_difference_09_a_malformed_required_is_refused(required: Any) -> None:
    with pytest.raises(SchemaRefusal):
        parse_requested_schema(form(x={"type": "string"}) | {"required": required})


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "number", "minimum": 2, "maximum": 1},
        {"type": "number", "minimum": 1, "exclusiveMaximum": 1},
        {"type": "number", "exclusiveMinimum": 1, "maximum": 1.0},
        {"type": "number", "exclusiveMinimum": 1, "minimum": 0, "exclusiveMaximum": 1},
        {"type": "integer", "minimum": 1, "maximum": 4, "multipleOf": 5},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 5, "multipleOf": 5},
        {"type": "number", "exclusiveMinimum": 5, "maximum": 9, "multipleOf": 5},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "string", "maxLength": 0},
        {"type": "string", "minLength": 100_001},
        {"type": "string", "minLength": 100_001, "maxLength": 200_000},
        {"type": "array", "items": {"enum": ["a"]}, "minItems": 2},
        {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "maxItems": 1},
        {"type": "array", "items": {"enum": ["a"]}, "maxItems": 0},
    ],
)
def test_difference_09_bounds_that_no_answer_meets_are_refused(definition: dict[str, Any]) -> None:
    assert refused(definition)


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "number", "minimum": 1, "maximum": 1},
        {"type": "number", "minimum": 5, "exclusiveMaximum": 6, "multipleOf": 5},
        {"type": "number", "exclusiveMinimum": 5, "maximum": 10, "multipleOf": 5},
        {"type": "number", "minimum": 1e300},
        {"type": "string", "minLength": 100_000},
    ],
)
def test_difference_09_bounds_that_some_answer_meets_are_asked(definition: dict[str, Any]) -> None:
    assert only(definition)


def test_difference_09_null_is_absent() -> None:
    keys = (
        "title description format writeOnly enum enumNames oneOf anyOf const minimum maximum "
        "exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern items minItems "
        "maxItems uniqueItems default $ref allOf"
    ).split()
    assert only({"type": "string"} | dict.fromkeys(keys)) == only({"type": "string"})
    schema = form(x={"type": "string"})
    nulls = dict.fromkeys(("required", "allOf", "minProperties"))
    assert parse_requested_schema(schema | nulls) == parse_requested_schema(schema)
    assert only({"oneOf": [{"const": "a", "title": None, "type": None, "pattern": None}]})
    optional = {"anyOf": [{"type": "string", "format": None}, {"type": "null"}], "format": "date"}
    assert only(optional) == only({"type": "string", "format": "date"})


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "string", "default": 5},
        {"type": "string", "default": "ab", "minLength": 3},
        {"type": "string", "default": "a\x00b"},
        {"type": "integer", "default": 1.5},
        {"type": "integer", "default": "1"},
        {"type": "number", "default": True},
        {"type": "number", "default": NAN},
        {"type": "number", "default": 10**5000},
        {"type": "number", "default": 11, "maximum": 10},
        {"type": "boolean", "default": "true"},
        {"enum": ["#00FF00"], "enumNames": ["Green"], "default": "Green"},
        {"type": "array", "items": {"enum": ["a"]}, "default": "a"},
        {"type": "array", "items": {"enum": ["a"]}, "default": ["b"]},
        {"type": "array", "items": {"enum": ["a"]}, "default": [["a"]]},
    ],
)
def test_difference_09_a_default_that_does_not_fit_is_ignored(definition: dict[str, Any]) -> None:
    assert only(definition).default_answer is None


@pytest.mark.parametrize(
    ("definition", "answer"),
    [
        ({"type": "string", "default": "abc"}, typed("abc")),
        ({"type": "integer", "default": 5.0}, typed("5")),
        ({"type": "number", "default": 3.14}, typed("3.14")),
        ({"type": "boolean", "default": False}, chosen("No")),
        ({"enum": ["a"], "enumNames": ["A"], "default": "a"}, chosen("A")),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "default": ["b"]}, chosen("b")),
    ],
)
def test_difference_09_a_default_that_fits_is_kept(
    definition: dict[str, Any], answer: FormAnswer
) -> None:
    assert only(definition).default_answer == answer


def test_difference_09_a_required_name_that_no_property_has_is_ignored() -> None:
    schema = form(x={"type": "string"})
    assert parse_requested_schema(schema | {"required": ["nobody"]}) == parse_requested_schema(
        schema
    )


@pytest.mark.parametrize(
    "keyword", ["allOf", "anyOf", "not", "if", "$ref", "minProperties", "propertyNames", "const"]
)
def test_difference_09_rules_that_a_form_cannot_keep_are_refused(keyword: str) -> None:
    with pytest.raises(SchemaRefusal) as refusal:
        parse_requested_schema(form(x={"type": "string"}) | {keyword: {}})
    assert keyword in refusal.value.reason


# --- 10 --------------------------------------------------------------------------------------

UNSAFE = ["\x00", "\x1b", "\x7f", "\x85", "\ud800", "\udfff", *map(chr, range(0x202A, 0x202F)),
          *map(chr, range(0x2066, 0x206A))]  # fmt: skip


@pytest.mark.parametrize("unsafe", UNSAFE, ids=ascii)
@pytest.mark.parametrize(
    "definition",
    [
        {"type": "string", "title": "a{}b"},
        {"type": "string", "description": "a{}b"},
        {"type": "string", "format": "a{}b"},
        {"enum": ["a{}b"]},
        {"enum": ["ab"], "enumNames": ["a{}b"]},
        {"oneOf": [{"const": "ab", "title": "a{}b"}]},
        {"oneOf": [{"const": "a{}b", "title": "ab"}]},
        {"const": "a{}b"},
    ],
    ids=str,
)
def test_difference_10_text_that_is_not_safe_is_refused(
    definition: dict[str, Any], unsafe: str
) -> None:
    def filled(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{}", unsafe)
        if isinstance(value, list):
            return [filled(item) for item in value]
        return {key: filled(item) for key, item in value.items()}

    assert refused(filled(definition))


def test_difference_10_tabs_line_breaks_and_marks_of_direction_are_text() -> None:
    text = "a\tb\nc\r\nd\u200f\u200e"
    assert only({"type": "string", "title": text, "description": text}).title == text


@pytest.mark.parametrize(
    "labels",
    [
        ["Pay", "Ｐａｙ"],
        ["Pay", "P\u200bay"],
        ["Pay", "Pa\u00ady"],
        ["Pay", " Pay "],
        ["Pay now", "Pay \t now"],
        ["Pay", "Pay\ufe0f"],
        ["é", "e\u0301"],
        ["é", "e\u200d\u0301"],
    ],
)
def test_difference_10_labels_that_look_the_same_are_refused(labels: list[str]) -> None:
    assert refused({"enum": labels}) == "two options look the same"
    assert refused({"enum": ["a", "b"], "enumNames": labels}) == "two options look the same"


@pytest.mark.parametrize("labels", [["Pay", "pay"], ["Straße", "STRASSE"]])
def test_difference_10_labels_that_differ_in_case_can_be_told_apart(labels: list[str]) -> None:
    assert [option["label"] for option in only({"enum": labels}).options()] == labels


def test_difference_10_values_may_be_the_same_under_different_labels() -> None:
    prop = only({"enum": ["a", "a"], "enumNames": ["A", "B"]})
    assert prop.value_from(chosen("B")) == "a"
    assert prop.answer_from("a") == chosen("A")


@pytest.mark.parametrize("title", ["", "  ", "\u200b", "\u3164", "\u2800"])
def test_difference_10_a_blank_title_falls_back_to_the_name(title: str) -> None:
    prop = only({"type": "string", "title": title})
    assert prop.title is None
    assert prop.label == prop.question_text() == "x"


@pytest.mark.parametrize("label", ["\u200b", "\u2800", " "])
def test_difference_10_a_label_that_cannot_be_seen_is_refused(label: str) -> None:
    assert refused({"enum": ["a"], "enumNames": [label]})


@pytest.mark.parametrize("unsafe", UNSAFE, ids=ascii)
def test_difference_10_a_message_that_is_not_safe_is_refused(unsafe: str) -> None:
    with pytest.raises(SchemaRefusal):
        asked(message=f"a{unsafe}b")


# --- 11 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "title",
    ["pass\u200bword", "pass\u00adword", "ｐａｓｓｗｏｒｄ", "𝐏𝐚𝐬𝐬𝐰𝐨𝐫𝐝", "p\u2060in",
     "API\u00a0ke\u200dy", "pass\u3164word", "to\ufe0fken", "ſecret"],
)  # fmt: skip
def test_difference_11_the_credential_check_sees_through(title: str) -> None:
    assert names_a_credential(title)
    with pytest.raises(ElicitationRefusal) as refusal:
        parse_requested_schema(form(x={"type": "string", "title": title}))
    assert refusal.value.code == "credential"


def test_difference_11_the_format_is_seen_through_as_well() -> None:
    with pytest.raises(ElicitationRefusal) as refusal:
        parse_requested_schema(form(x={"type": "string", "format": "pass\u200bword"}))
    assert refusal.value.code == "credential"


# --- 12 --------------------------------------------------------------------------------------


def asked(
    *, message: str = "Pick", key: str = "k1", properties: dict[str, Any] | None = None
) -> FormElicitation:
    return FormElicitation(
        server_name="billing",
        tool_name="buy",
        key=key,
        message=message,
        schema=parse_requested_schema(form(**(properties or {"plan": {"enum": ["pro"]}}))),
    )


def test_difference_12_the_message_belongs_to_what_was_asked() -> None:
    assert asked().fingerprint() == asked().fingerprint()
    assert asked().fingerprint() != asked(message="Pick one").fingerprint()
    assert asked().fingerprint() != asked(properties={"plan": {"enum": ["x"]}}).fingerprint()
    assert asked().fingerprint() != asked().schema.fingerprint()


def test_difference_12_the_key_does_not() -> None:
    assert asked(key="k1").fingerprint() == asked(key="k2").fingerprint()


# --- 13 --------------------------------------------------------------------------------------


def test_difference_13_the_servers_order_is_kept_for_people() -> None:
    schema = parse_requested_schema(
        form(b={"type": "string"}, a={"type": "boolean"}, B={"type": "number"})
    )
    assert [p.name for p in schema.asked] == ["b", "a", "B"]
    assert [p.name for p in schema.properties] == ["B", "a", "b"]
    assert [q["id"] for q in schema.questions("s")] == ["B", "a", "b"]
    assert [q["id"] for q in schema.questions("s", order="asked")] == ["b", "a", "B"]


def test_the_kinds_are_what_they_are_called() -> None:
    kinds = [only(d) for d in (
        {"enum": ["a"]}, {"type": "array", "items": {"enum": ["a"]}}, {"type": "boolean"},
        {"type": "string"}, {"type": "number"},
    )]  # fmt: skip
    assert [type(k) for k in kinds] == [Choice, MultiChoice, YesNo, Text, Number]
    names = ["choice", "multi_choice", "yes_no", "text", "number"]
    assert [k.kind_name for k in kinds] == names
    assert [k.free_text for k in kinds] == [False, False, False, True, False]
