"""The form: what it shows, what it reads, and that the core alone judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.utils import timezone, translation
from django.views.debug import ExceptionReporter

from elicitation.core import KINDS, AnswerRefusal, FormAnswer
from elicitation.pages.fields import FIELDS, TextField
from elicitation.pages.forms import ElicitationForm, form_class
from elicitation.pages.localised import (
    localised_number,
    read_date,
    read_moment,
    read_number,
    zones,
)
from elicitation.pages.refusals import MESSAGES, refusal_text
from tests.asking import form_elicitation, schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django.fixtures import SettingsWrapper

PLANS = {"type": "string", "enum": ["free", "pro"], "enumNames": ["Free", "Pro"]}


def form(requested: dict[str, Any], data: dict[str, Any] | None = None, **kwargs: Any) -> Any:
    elicitation = form_elicitation(requested)
    if data is not None:
        data = {"fingerprint": elicitation.fingerprint(), **data}
    return ElicitationForm(elicitation, data, **kwargs)


def answered(prop: dict[str, Any], value: Any, *, required: bool = True) -> Any:
    """Return the content for one answer, or the code of its error."""
    given = form(
        schema(*(["x"] if required else []), x=prop), {} if value is None else {"a-0": value}
    )
    if not given.is_valid():
        (error,) = given.errors.as_data()["a-0"]
        return error.code
    return given.elicitation.schema.content_from_answers(given.to_answers()).get("x", "left out")


class TestFields:
    @pytest.mark.parametrize(
        ("many", "headings"),
        [
            (0, [""]),
            (8, [""]),
            (9, ["Questions 1 to 4", "Questions 5 to 9"]),
            (12, ["Questions 1 to 4", "Questions 5 to 8", "Questions 9 to 12"]),
        ],
    )
    def test_above_eight_questions_there_are_sections(
        self, many: int, headings: list[str]
    ) -> None:
        names = [f"q{number}" for number in range(many)]
        given = form(schema(**{name: {"type": "string"} for name in names}))
        assert [section.heading for section in given.sections] == headings
        listed = [each.title for section in given.sections for each in section.questions]
        assert listed == names

    @pytest.mark.parametrize(
        ("bounds", "default", "tag"),
        [
            ({}, None, "<input"),
            ({"maxLength": 200}, None, "<input"),
            ({"maxLength": 201}, None, "<textarea"),
            ({"minLength": 201}, None, "<textarea"),
            ({"maxLength": 5000, "format": "uri"}, None, "<input"),
            ({}, "one line", "<input"),
            ({}, "two\nlines", "<textarea"),
        ],
    )
    def test_line_29_a_text_is_one_line_unless_its_bounds_allow_a_long_one(
        self, bounds: dict[str, Any], default: str | None, tag: str
    ) -> None:
        prop = {"type": "string", **bounds, **({"default": default} if default else {})}
        assert str(form(schema(x=prop), prefill=True)["a-0"]).startswith(tag)
        # What was typed in several lines is shown again so.
        typed = form(schema(x=prop), {"a-0": "a\r\nb"})
        if "format" not in bounds:
            assert "<textarea" in str(typed["a-0"])

    @pytest.mark.parametrize(
        ("prop", "said"),
        [
            ({"type": "string"}, "Enter a text."),
            ({"type": "string", "format": "email"}, "Enter an e-mail address."),
            ({"type": "string", "format": "uri"}, "Enter a complete link."),
            ({"type": "string", "format": "date"}, "Enter a date."),
            ({"type": "string", "format": "date-time"}, "Enter a date and a time."),
            ({"type": "integer"}, "Enter a number."),
            ({"type": "boolean"}, "Choose Yes or No."),
            (PLANS, "Choose one of the options."),
        ],
    )
    def test_line_29_a_message_says_what_to_enter(self, prop: dict[str, Any], said: str) -> None:
        assert form(schema("x", x=prop), {}).errors["a-0"] == [said]

    def test_line_29_a_comma_is_answered_with_the_number_as_it_is_written(self) -> None:
        given = form(schema("x", x={"type": "number"}), {"a-0": "12,5"})
        assert given.errors["a-0"] == ["Use a point: 12.5"]
        with translation.override("de"):
            assert answered({"type": "number"}, "12,5") == 12.5

    @pytest.mark.parametrize(
        ("values", "labels", "shown"),
        [
            (["free", "pro"], ["Free", "Pro"], ["", ""]),
            (["f1", "pro"], ["Free", "Pro"], ["f1", ""]),
            # Case alone tells these two apart.
            (["-d", "-D"], ["-D", "-d"], ["-d", "-D"]),
        ],
    )
    def test_line_29_a_value_is_shown_where_it_says_more_than_its_label(
        self, values: list[str], labels: list[str], shown: list[str]
    ) -> None:
        prop = {"type": "string", "enum": values, "enumNames": labels}
        (question,) = form(schema(x=prop)).questions
        assert [option.description for option in question.options][:2] == shown

    def test_every_kind_of_the_core_has_a_field(self) -> None:
        assert {kind.kind_name for kind in KINDS} == FIELDS.keys()

    def test_every_refusal_of_an_answer_has_a_message(self) -> None:
        # What only programs can do wrong has none: a form cannot send it.
        not_from_forms = {
            "skipped_and_answered",
            "unknown_property",
            "bad_answer",
            "not_a_list",
            "not_text",
            "bad_format",
        }
        assert AnswerRefusal._TEXTS.keys() - not_from_forms == MESSAGES.keys()

    def test_a_message_never_repeats_what_was_typed(self) -> None:
        given = form(
            schema(
                "n",
                "e",
                n={"type": "integer", "maximum": 5},
                e={"type": "string", "format": "email"},
            ),
            {"a-0": "99887766", "a-1": "not-an-address"},
        )
        assert not given.is_valid()
        assert "99887766" not in str(given.errors)
        assert "not-an-address" not in str(given.errors)

    def test_a_message_names_its_question_where_there_are_several(self) -> None:
        given = form(schema("a", "b", a=PLANS, b={"type": "integer"}), {"a-1": "x"})
        assert given.errors == {
            "a-0": ["Question 1: Choose one of the options."],
            "a-1": ["Question 2: Write a number in digits, such as 12."],
        }
        assert [(each.href, each.title) for each in given.summary] == [
            ("id_a-0_0", "a"),
            ("id_a-1", "b"),
        ]

    def test_the_order_is_the_servers(self) -> None:
        given = form(schema(z=PLANS, a=PLANS, m=PLANS))
        assert [question.title for question in given.questions] == ["z", "a", "m"]

    def test_a_subclass_of_the_site_is_used(self, settings: SettingsWrapper) -> None:
        settings.ELICITATION_FORM_CLASS = f"{__name__}.OwnForm"
        assert form_class() is OwnForm
        del settings.ELICITATION_FORM_CLASS
        assert form_class() is ElicitationForm

    @pytest.mark.parametrize("path", ["no.such.Form", "builtins.dict", 3])
    def test_any_other_form_class_is_refused(self, path: Any, settings: SettingsWrapper) -> None:
        settings.ELICITATION_FORM_CLASS = path
        with pytest.raises(ImproperlyConfigured, match="ELICITATION_FORM_CLASS"):
            form_class()

    def test_prefill_shows_every_default_that_fits(self) -> None:
        requested = schema(
            plan={**PLANS, "default": "pro"},
            tags={
                "type": "array",
                "items": {"enum": ["a", "b"], "type": "string"},
                "default": ["b"],
            },
            ok={"type": "boolean", "default": False},
            name={"type": "string", "default": "Ada"},
            size={"type": "number", "default": 0.5},
            at={"type": "string", "format": "date-time", "default": "2026-07-01T12:00:00Z"},
            bad={"type": "integer", "default": "many"},
        )
        assert set(form(requested).initial) == {"fingerprint"}
        filled = form(requested, prefill=True)
        html = "".join(str(question) for question in filled.questions)
        assert filled.initial | {"fingerprint": ""} == {
            "fingerprint": "",
            "a-0": "1",
            "a-1": ["1"],
            "a-2": "1",
            "a-3": "Ada",
            "a-4": "0.5",
            "a-5": "2026-07-01T12:00:00Z",
        }
        assert 'value="2026-07-01T12:00:00"' in html

    def test_a_default_with_line_breaks_keeps_them(self) -> None:
        prop = {"type": "string", "maxLength": 20, "default": "a\nb"}
        assert "<textarea" in str(form(schema(x=prop), prefill=True)["a-0"])
        assert "<input" in str(form(schema(x={**prop, "default": "a"}), prefill=True)["a-0"])

    def test_options_above_the_limit_are_a_select(self, settings: SettingsWrapper) -> None:
        settings.ELICITATION_RADIO_LIMIT = 1
        assert "<select" in str(form(schema(x=PLANS))["a-0"])


def reading(language: str, read: Callable[[str], str], typed: str) -> str:
    """Return what a text is read as in a language, or the code of the refusal."""
    with translation.override(language):
        try:
            return read(typed)
        except ValidationError as error:
            return str(error.code)


class OwnForm(ElicitationForm):
    pass


class TestReading:
    @pytest.mark.parametrize(
        ("value", "content"),
        [
            ("0", "free"),
            ("1", "pro"),
            ("2", "not_offered"),
            ("free", "not_offered"),
            ("-1", "not_offered"),
            ("", "one_choice"),
            (None, "one_choice"),
            ("١", "not_offered"),
            ("9" * 5000, "not_offered"),
        ],
    )
    def test_a_choice(self, value: str, content: str) -> None:
        assert answered(PLANS, value) == content

    @pytest.mark.parametrize("value", ["", None])
    def test_an_optional_choice_left_blank(self, value: str | None) -> None:
        assert answered(PLANS, value, required=False) == "left out"

    @pytest.mark.parametrize(
        ("value", "content"),
        [
            (["0", "2"], ["", "a\nb"]),
            (["0", "0"], "repeated"),
            (["7"], "not_offered"),
            (["0", "1", "2"], "too_many"),
            ([], "too_few"),
        ],
    )
    def test_several_choices(self, value: list[str], content: Any) -> None:
        members = [{"const": "", "title": "none"}, {"const": "x"}, {"const": "a\nb"}]
        prop = {"type": "array", "items": {"anyOf": members}, "minItems": 1, "maxItems": 2}
        assert answered(prop, value) == content

    @pytest.mark.parametrize(
        ("value", "content"), [("0", True), ("1", False), ("x", "yes_or_no"), ("", "yes_or_no")]
    )
    def test_yes_or_no(self, value: str, content: Any) -> None:
        assert answered({"type": "boolean"}, value) == content
        if value == "":
            assert answered({"type": "boolean"}, value, required=False) == "left out"

    def test_line_breaks_of_browsers_are_one_character(self) -> None:
        assert answered({"type": "string", "maxLength": 3}, "a\r\nb") == "a\nb"
        assert answered({"type": "string", "maxLength": 2}, "a\r\nb") == "too_long"

    def test_lengths_are_in_code_points(self) -> None:
        assert answered({"type": "string", "maxLength": 10}, "😀" * 10) == "😀" * 10
        assert answered({"type": "string", "maxLength": 10}, "😀" * 11) == "too_long"

    @pytest.mark.parametrize("value", ["", "  ", "\r\n", None])
    def test_a_blank_text_is_left_out_or_refused(self, value: str | None) -> None:
        assert answered({"type": "string"}, value) == "blank"
        assert answered({"type": "string"}, value, required=False) == "left out"
        assert answered({"type": "integer"}, value) == "blank"
        assert answered({"type": "string", "format": "date"}, value, required=False) == "left out"

    def test_an_integer_is_exact(self) -> None:
        assert answered({"type": "integer"}, "9007199254740993") == 9007199254740993


def test_a_report_of_an_error_while_the_core_judges_has_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a view of the site's own, too, which hides no variables."""

    def fail(*args: object) -> None:
        raise LookupError

    monkeypatch.setattr("elicitation.core.schema.refuse_credentials", fail)
    # Not in one piece: a report quotes the lines of this test, too.
    typed = "-".join(("Zanzibar", "canary"))
    report = report_of(form(schema(x={"type": "string"}), {"a-0": typed}))
    assert "LookupError" in report
    assert typed not in report


def report_of(given: ElicitationForm) -> str:
    """Return what Django reports of the error that breaks this form off."""
    with pytest.raises(LookupError) as caught:
        given.is_valid()
    return ExceptionReporter(None, caught.type, caught.value, caught.tb).get_traceback_html()


class TestNumbers:
    @pytest.mark.parametrize(
        ("language", "typed", "plain"),
        [
            ("en", "12", "12"),
            ("en", "-1.5e3", "-1.5e3"),
            ("en", "1.234", "1.234"),
            ("en", "1,234,567.5", "1234567.5"),
            ("en", "12,5", "comma"),
            ("de", "1,5", "1.5"),
            ("de", "0,125", "0.125"),
            ("de", "1.234.567", "1234567"),
            ("de", "1.234,5", "1234.5"),
            ("de", "12.5", "12.5"),
            ("de", "−3", "-3"),
            ("de", "1.23.4", "1.23.4"),
            ("fr", "1\u202f234,5", "1234.5"),
            ("fr", "1 234 567", "1234567"),
            ("ar", "١٢", "12"),
            ("ar", "١٬٢٣٤٫٥", "1234.5"),
            ("ar", "٣٫١٤١", "ambiguous"),
            ("en", "1,234", "ambiguous"),
            ("de", "1.234", "ambiguous"),
            ("de", "1,234", "ambiguous"),
            ("de", "-12.345", "ambiguous"),
            ("fr", "1,234", "ambiguous"),
        ],
    )
    def test_a_number_is_read_as_the_language_writes_it(
        self, language: str, typed: str, plain: str
    ) -> None:
        assert reading(language, read_number, typed) == plain

    @pytest.mark.parametrize(
        ("language", "shown"),
        [("en", ["1234", "1.234", "1.2340"]), ("de", ["1234", "1,234", "1,2340"])],
    )
    def test_what_could_be_two_numbers_is_shown_as_both(
        self, language: str, shown: list[str]
    ) -> None:
        with translation.override(language):
            given = form(schema("x", x={"type": "number"}), {"a-0": "1,234"})
            assert not given.is_valid()
            assert all(number in str(given.errors["a-0"]) for number in shown)
            # What the message says to write is taken.
            for number in (shown[0], shown[2]):
                assert form(schema("x", x={"type": "number"}), {"a-0": number}).is_valid()

    @pytest.mark.parametrize("language", ["en", "de", "fr", "ar"])
    @pytest.mark.parametrize("plain", ["0.5", "1.234", "-12.345", "1234", "1234567.25", "0.125"])
    def test_a_shown_number_is_read_back_as_itself(self, language: str, plain: str) -> None:
        with translation.override(language):
            assert float(read_number(localised_number(plain))) == float(plain)

    def test_bounds_are_said_in_the_language(self) -> None:
        prop = {"type": "number", "minimum": 0.5, "exclusiveMaximum": 9.5, "multipleOf": 0.5}
        with translation.override("de"):
            hint = form(schema(x=prop)).questions[0].hint
            assert "0,5" in hint
            assert "9,5" in hint
            refusal = AnswerRefusal("too_small", "x", {"minimum": "0.5"})
            assert "0,5" in refusal_text(refusal)


class TestDays:
    @pytest.mark.parametrize(
        ("language", "typed", "day"),
        [
            ("en", "2026-03-04", "2026-03-04"),
            ("en", "12/31/2026", "2026-12-31"),
            ("en", "03/03/2026", "2026-03-03"),
            ("en", "03/04/2026", "ambiguous"),
            ("en", "31/12/2026", "31/12/2026"),
            ("en", "03/04/26", "03/04/26"),
            ("de", "04.03.2026", "2026-03-04"),
            ("fr", "31/12/2026", "2026-12-31"),
            ("fr", "04/03/2026", "ambiguous"),
            ("en", "tomorrow", "tomorrow"),
        ],
    )
    def test_a_day_is_read_as_the_language_writes_it(
        self, language: str, typed: str, day: str
    ) -> None:
        assert reading(language, read_date, typed) == day

    def test_a_day_that_could_be_two_is_shown_as_both(self) -> None:
        with pytest.raises(ValidationError) as raised:
            read_date("03/04/2026")
        assert "2026-03-04" in raised.value.message
        assert "2026-04-03" in raised.value.message

    def test_digits_of_the_language(self) -> None:
        prop = {"type": "string", "format": "date"}
        assert answered(prop, "٢٠٢٦-٠٣-٠٤") == "2026-03-04"
        assert answered(prop, "2026-02-30") == "bad_format"


class TestMoments:
    @pytest.mark.parametrize(
        ("local", "zone", "moment"),
        [
            ("2026-07-01T12:00", "Europe/Berlin", "2026-07-01T12:00:00+02:00"),
            ("2026-01-01T12:00:05", "Europe/Berlin", "2026-01-01T12:00:05+01:00"),
            ("2026-07-01T12:00", "UTC", "2026-07-01T12:00:00+00:00"),
            ("2026-07-01T12:00", "UTC+05:45", "2026-07-01T12:00:00+05:45"),
            ("2026-07-01T12:00", "UTC-09:30", "2026-07-01T12:00:00-09:30"),
            ("2026-07-01 12:00", "UTC", "2026-07-01T12:00:00+00:00"),
            ("07/31/2026 12:00", "UTC", "2026-07-31T12:00:00+00:00"),
            ("2026-07-01T12:00:00Z", "Europe/Berlin", "2026-07-01T12:00:00+00:00"),
            ("2026-10-25T02:30", "UTC+02:00", "2026-10-25T02:30:00+02:00"),
            ("2026-03-29T02:30", "Europe/Berlin", "does_not_exist"),
            ("2026-10-25T02:30", "Europe/Berlin", "exists_twice"),
            ("1800-01-01T12:00", "Europe/Berlin", "odd_offset"),
            ("2026-07-01T12:00", "Mars/Olympus", "bad_zone"),
            ("2026-07-01T12:00", "UTC+99:00", "bad_zone"),
            ("2026-07-01T12:00", "../../etc/passwd", "bad_zone"),
            ("2026-07-01T12:00", "", "bad_zone"),
            ("noon", "UTC", "bad_format"),
            ("2026-W01-1T12:00", "UTC", "bad_format"),
            ("2026-02-30T12:00", "UTC", "bad_format"),
            ("2026-07-01", "UTC", "bad_format"),
        ],
    )
    def test_a_moment_carries_its_offset(self, local: str, zone: str, moment: str) -> None:
        prop = {"type": "string", "format": "date-time"}
        given = form(schema("x", x=prop), {"a-0_0": local, "a-0_1": zone})
        if given.is_valid():
            assert given.to_answers() == {"x": FormAnswer(other_text=moment)}
        else:
            (error,) = given.errors.as_data()["a-0"]
            assert error.code == moment

    def test_a_time_that_exists_twice_says_how_to_choose(self) -> None:
        with pytest.raises(ValidationError) as raised:
            read_moment("2026-10-25T02:30", "Europe/Berlin")
        assert "UTC+02:00 for the first time or UTC+01:00 for the second" in raised.value.message
        offered = {name for area in zones().values() for name, _place in area}
        assert {"UTC+02:00", "UTC+01:00"} <= offered

    @pytest.mark.parametrize("here", ["Asia/Kathmandu", "UTC"])
    def test_line_23_the_sites_zone_is_not_chosen(self, here: str) -> None:
        with timezone.override(here):
            (question,) = form(schema(x={"type": "string", "format": "date-time"})).questions
            assert question.parts()[1].tag().count("selected") == 1
            assert '<option value="" selected>' in question.parts()[1].tag()

    def test_left_blank(self) -> None:
        prop = {"type": "string", "format": "date-time"}
        given = form(schema(x=prop), {"a-0_0": "", "a-0_1": "UTC"})
        assert given.is_valid()
        assert given.to_answers() == {"x": FormAnswer(skipped=True)}
        needed = form(schema("x", x=prop), {})
        assert needed.errors.as_data()["a-0"][0].code == "blank"


class TestHints:
    @pytest.mark.parametrize(
        ("prop", "hint"),
        [
            ({"type": "string", "minLength": 2, "maxLength": 2}, "Exactly 2 characters."),
            ({"type": "string", "maxLength": 1}, "At most 1 character."),
            ({"type": "string", "minLength": 2}, "At least 2 characters."),
            ({"type": "string", "minLength": 2, "maxLength": 5}, "2 to 5 characters."),
            ({"type": "string", "format": "uuid"}, ""),
            ({"type": "string", "format": "email"}, "An e-mail address."),
            ({"type": "string", "format": "date"}, ""),
            ({"type": "integer"}, "A whole number."),
            ({"type": "integer", "minimum": 1, "maximum": 5}, "A whole number, from 1 to 5."),
            ({"type": "number", "minimum": 0.5}, "A number, at least 0.5."),
            ({"type": "number", "maximum": 2.0}, "A number, at most 2."),
            (
                {"type": "number", "exclusiveMinimum": 0, "multipleOf": 2},
                "A number, more than 0, a multiple of 2.",
            ),
            (PLANS, ""),
            ({"type": "boolean"}, ""),
        ],
    )
    def test_bounds_in_words(self, prop: dict[str, Any], hint: str) -> None:
        assert form(schema(x=prop)).questions[0].hint == hint

    @pytest.mark.parametrize(
        ("given", "shown"), [("uuid", "uuid"), ("email", ""), ("date-time", ""), (None, "")]
    )
    def test_a_format_that_is_left_to_the_server(self, given: str | None, shown: str) -> None:
        prop = {"type": "string", "format": given}
        assert form(schema(x=prop)).questions[0].format == shown

    @pytest.mark.parametrize(
        ("bounds", "hint"),
        [
            ({}, "Choose as many options as you like."),
            ({"minItems": 1}, "Choose at least 1 option."),
            ({"maxItems": 2}, "Choose at most 2 options."),
            ({"minItems": 1, "maxItems": 2}, "Choose 1 to 2 options."),
            ({"minItems": 2, "maxItems": 2}, "Choose exactly 2 options."),
        ],
    )
    def test_how_many_in_words(self, bounds: dict[str, int], hint: str) -> None:
        prop = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, **bounds}
        assert form(schema(x=prop)).questions[0].hint == hint


def test_a_kind_is_given_another_field_by_one_method() -> None:
    class Shouted(TextField):
        template = "shouted"

    class Loud(ElicitationForm):
        def field_for(self, prop: Any, position: int) -> Any:
            return Shouted(prop, position)

    loud = Loud(form_elicitation(schema(x={"type": "string"})))
    assert loud.questions[0].template == "elicitation/fields/shouted.html"


def test_a_long_number_takes_no_long_time() -> None:
    """The time grew with the square of the digits: 40,000 of them took more than a minute."""
    assert read_number("1" * 1_000_000 + "x") == "1" * 1_000_000 + "x"
