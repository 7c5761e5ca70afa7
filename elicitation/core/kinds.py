"""The kinds of property: one class for each kind, and a table of them in the order of trying.

A class recognises its kind in a schema, writes the question and the canonical form, and reads
answers. To add a kind, write a class and add a line to `KINDS`.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeAlias

from .answers import FormAnswer
from .characters import (
    is_blank,
    is_clean,
    is_clean_answer,
    look_alike,
    names_a_credential,
    see_through,
    trim,
)
from .errors import AnswerRefusal, CredentialRefusal, OutOfProfileRefusal
from .text import (
    FORMAT_LENGTHS,
    FORMATS,
    MAX_FORM_ANSWER_CHARS,
    Limits,
    NotANumberError,
    number_text,
    parse_number,
    parse_whole_number,
)

# A value of ElicitResult.content in MCP 2026-07-28.
Value: TypeAlias = str | int | float | bool | list[str]
Scalar: TypeAlias = str | int | float | bool

YES: Final = "Yes"
NO: Final = "No"

_INT64: Final = range(-(2**63), 2**63)
_MAX_DOUBLE: Final = sys.float_info.max
_INT64_ENDS: Final = (Fraction(_INT64[0]), Fraction(_INT64[-1]))
_DOUBLE_ENDS: Final = (Fraction(-_MAX_DOUBLE), Fraction(_MAX_DOUBLE))
# How many multiples are tried at each end when an answer within all bounds is looked for.
_TRIED: Final = 100


# --- The keywords of a property ----------------------------------------------------------------
# The checks use `type(x) is` instead of isinstance. In Python True is an int, in JSON it is not. A
# subclass of a JSON type could behave in any way.


def _is_string(value: object) -> bool:
    return type(value) is str


def _is_list(value: object) -> bool:
    return type(value) is list


def _is_object(value: object) -> bool:
    return type(value) is dict


def _is_boolean(value: object) -> bool:
    return type(value) is bool


def _is_type(value: object) -> bool:
    return _is_string(value) or (type(value) is list and all(map(_is_string, value)))


def _is_number(value: object) -> bool:
    """Whether `value` is a number within the range of a double.

    It is compared only: to convert a huge int to a float or to text is slow, or an error.
    """
    return (type(value) is int or type(value) is float) and -_MAX_DOUBLE <= value <= _MAX_DOUBLE


def _is_positive(value: Any) -> bool:
    return _is_number(value) and bool(value > 0)


def _is_count(value: Any) -> bool:
    return _is_number(value) and bool(value >= 0) and bool(value == int(value))


_SHAPES: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = MappingProxyType(
    {
        "type": (_is_type, "a type name or a list of them"),
        "format": (_is_string, "a string"),
        "writeOnly": (_is_boolean, "true or false"),
        "enum": (_is_list, "an array"),
        "enumNames": (_is_list, "an array"),
        "oneOf": (_is_list, "an array"),
        "anyOf": (_is_list, "an array"),
        "minimum": (_is_number, "a finite number"),
        "maximum": (_is_number, "a finite number"),
        "exclusiveMinimum": (_is_number, "a finite number"),
        "exclusiveMaximum": (_is_number, "a finite number"),
        "multipleOf": (_is_positive, "a finite number above zero"),
        "minLength": (_is_count, "a whole number of zero or more"),
        "maxLength": (_is_count, "a whole number of zero or more"),
        "pattern": (_is_string, "a string"),
        "items": (_is_object, "an object"),
        "minItems": (_is_count, "a whole number of zero or more"),
        "maxItems": (_is_count, "a whole number of zero or more"),
        "uniqueItems": (_is_boolean, "true or false"),
    }
)

# Keywords with rules that a form cannot check. A form without them could accept an answer that the
# server refuses.
_UNSUPPORTED: Final = (
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "prefixItems",
    "additionalItems",
)

_STRING_BOUNDS: Final = ("format", "minLength", "maxLength")
_NUMBER_BOUNDS: Final = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
)
_JSON_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")


def _checked_text(name: str, what: str, value: object, limit: int) -> str:
    """Return `value` if it is a string of at most `limit` characters that is safe to show.

    Raises OutOfProfileRefusal.
    """
    if type(value) is not str:
        raise OutOfProfileRefusal(name, f"{what} is not a string")
    if len(value) > limit:
        raise OutOfProfileRefusal(name, f"{what} is longer than {limit} characters")
    if not is_clean(value):
        raise OutOfProfileRefusal(name, f"{what} has control characters or bidirectional controls")
    return value


class Definition:
    """The keywords of one property, checked. A known keyword has its type. `null` means absent."""

    __slots__ = ("_keywords", "limits", "name", "nullable", "type")

    def __init__(self, name: str, keywords: Mapping[str, Any], limits: Limits) -> None:
        """Raises CredentialRefusal and OutOfProfileRefusal."""
        self.name = name
        self.limits = limits
        self._keywords = keywords
        self.nullable = False
        self.type: str | None = None

        # The credential check comes first, so that a credential is refused as one, whatever the
        # type of the property is.
        self._check_texts_and_credentials(keywords)
        self._unwrap_null()
        self._check_shapes()
        self._read_type()

    def __contains__(self, key: str) -> bool:
        return self._keywords.get(key) is not None

    def get(self, key: str) -> Any:
        """The value of a keyword, or None if it is absent or null."""
        return self._keywords.get(key)

    def count(self, key: str) -> int | None:
        """The value of a keyword that counts characters or items."""
        value = self._keywords.get(key)
        return None if value is None else int(value)

    def text(self, key: str, limit: int) -> str | None:
        """The value of a keyword that people read."""
        value = self._keywords.get(key)
        return None if value is None else _checked_text(self.name, key, value, limit)

    def refusal(self, reason: str) -> OutOfProfileRefusal:
        return OutOfProfileRefusal(self.name, reason)

    def _check_texts_and_credentials(self, keywords: Mapping[str, Any]) -> None:
        title, description = keywords.get("title"), keywords.get("description")
        if title is not None:
            _checked_text(self.name, "title", title, self.limits.title_chars)
        if description is not None:
            _checked_text(self.name, "description", description, self.limits.text_chars)
        form = keywords.get("format")
        if (
            keywords.get("writeOnly") is True
            or names_a_credential(self.name)
            or (title is not None and names_a_credential(title))
            or (
                type(form) is str
                and len(form) <= self.limits.title_chars
                and see_through(form) == "password"
            )
        ):
            raise CredentialRefusal(self.name)

    def _unwrap_null(self) -> None:
        """Take the null branch out of `anyOf: [X, {"type": "null"}]`, and leave X."""
        for key in ("anyOf", "oneOf"):
            branches = self._keywords.get(key)
            if type(branches) is not list or len(branches) > self.limits.enum_members + 1:
                continue
            rest = [b for b in branches if type(b) is not dict or b.get("type") != "null"]
            if len(rest) == len(branches):
                continue
            self.nullable = True
            merged = {k: v for k, v in self._keywords.items() if k != key}
            if len(rest) == 1 and type(rest[0]) is dict and rest[0].get("const") is None:
                merged = self._merged(merged, rest[0])
            else:
                merged[key] = rest
            self._keywords = merged

    def _merged(self, outer: Mapping[str, Any], branch: Mapping[str, Any]) -> dict[str, Any]:
        both = {k: v for k, v in outer.items() if v is not None}
        self._check_texts_and_credentials(branch)
        for key, value in branch.items():
            if key not in both:
                both[key] = value
            elif key in _SHAPES and value is not None:
                # Both apply in JSON Schema. Servers do not write this, so it is refused.
                raise self.refusal(f"{key} is given twice")
        return both

    def _check_shapes(self) -> None:
        for key in _UNSUPPORTED:
            if key in self:
                raise self.refusal(f"{key} is not supported")
        for key, (fits, shape) in _SHAPES.items():
            value = self._keywords.get(key)
            if value is not None and not fits(value):
                raise self.refusal(f"{key} is not {shape}")

    def _read_type(self) -> None:
        declared = self._keywords.get("type")
        if type(declared) is list:
            rest = [name for name in declared if name != "null"]
            if len(rest) != 1:
                raise self.refusal("it has more than one type, or none")
            self.nullable = self.nullable or len(rest) < len(declared)
            declared = rest[0]
        self.type = declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One property of a requested schema that passed every check. Built by `parse` only.

    `title` is None if the server sent none, or one without visible characters. `description` is
    as sent. `default_answer` is the server's `default` as an answer, for prefilling, or None if
    there is none that fits.
    """

    kind_name: ClassVar[str]
    # Only a question of the kind "text" allows other answers. A list of options is closed.
    question_kind: ClassVar[str] = "choice"
    # Whether the answer is any text that a person types.
    free_text: ClassVar[bool] = False
    multi_select: ClassVar[bool] = False

    name: str
    title: str | None
    description: str | None
    required: bool
    default_answer: FormAnswer | None = None

    @classmethod
    def recognises(cls, definition: Definition) -> bool:
        """Whether a property with these keywords is of this kind."""
        raise NotImplementedError

    @classmethod
    def fields_from(cls, definition: Definition) -> dict[str, Any]:
        """The values of the fields that this kind adds. Raises OutOfProfileRefusal."""
        raise NotImplementedError

    @classmethod
    def parse(cls, definition: Definition, *, required: bool) -> Self:
        """The property with these keywords. Raises OutOfProfileRefusal."""
        title = definition.get("title")
        parsed = cls(
            name=definition.name,
            title=None if title is None or is_blank(title) else title,
            description=definition.get("description") or None,
            required=required,
            **cls.fields_from(definition),
        )
        if "default" in definition:
            try:
                return replace(
                    parsed, default_answer=parsed.answer_from(definition.get("default"))
                )
            except AnswerRefusal:
                pass
        return parsed

    @property
    def label(self) -> str:
        """The name of the property for people."""
        return self.title or self.name

    def question_text(self) -> str:
        """The whole question: label, description, and the bounds in parentheses."""
        text = self.label
        if self.description is not None and trim(self.description):
            text += f": {self.description}"
        bounds = self.bounds_text()
        return f"{text} ({bounds})" if bounds else text

    def question(self, header: str) -> dict[str, Any]:
        """The question as a JSON object."""
        return {
            "kind": self.question_kind,
            "id": self.name,
            "header": header,
            "question": self.question_text(),
            "multi_select": self.multi_select,
            "allow_other": self.question_kind == "text",
            "options": self.options(),
        }

    def options(self) -> list[dict[str, Any]]:
        """The options as JSON objects with `label` and `description`."""
        return []

    def bounds_text(self) -> str:
        """The bounds in words, without parentheses; `""` if there are none."""
        return ""

    def canonical(self) -> list[Any]:
        """Everything about the property that a person or the server could notice, as JSON.

        `FormSchema.fingerprint` hashes it.
        """
        return [
            self.name,
            self.title or "",
            self.description or "",
            self.required,
            self.kind_name,
            *self.canonical_fields(),
        ]

    def canonical_fields(self) -> list[Any]:
        """The fields that this kind adds to the canonical form."""
        raise NotImplementedError

    def value_from(self, answer: FormAnswer) -> Value:
        """The JSON value of an answer, which must not be a skipped one. Raises AnswerRefusal."""
        raise NotImplementedError

    def answer_from(self, value: object) -> FormAnswer:
        """The answer that gives a JSON value of exactly the right type. Raises AnswerRefusal."""
        raise NotImplementedError

    def refusal(self, code: str, **params: str | int) -> AnswerRefusal:
        return AnswerRefusal(code, self.name, params)


def _value_text(value: Scalar) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value)


def _default_label(value: Scalar) -> str:
    if isinstance(value, bool):
        return YES if value else NO
    return _value_text(value)


_SCALARS: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "string": _is_string,
        "boolean": _is_boolean,
        "integer": lambda value: _is_number(value) and value == int(value),
        "number": _is_number,
    }
)


def _is_of_type(value: object, name: object) -> bool:
    fits = _SCALARS.get(name) if type(name) is str else None
    return fits is not None and fits(value)


def _same(left: object, right: object) -> bool:
    """Whether two values are the same JSON scalar: 1 is 1.0, but not true and not "1"."""
    # Only scalars are compared: comparing deeply nested lists is an error.
    return (
        any(_is_of_type(left, name) and _is_of_type(right, name) for name in _SCALARS)
        and left == right
    )


_SOURCES: Final = ("enum", "oneOf", "anyOf", "const")


def _scalar_key(value: object) -> tuple[str, object] | None:
    """A key that is equal for two values that are the same JSON scalar; None for a list, an object
    or null."""
    kinds = ("string", "boolean", "number")
    return next(((kind, value) for kind in kinds if _is_of_type(value, kind)), None)


def _options_from(definition: Definition) -> dict[str, tuple[Any, ...]]:
    """The fields `values`, `labels` and `descriptions` of a closed list, index-aligned.

    Raises OutOfProfileRefusal.
    """
    source = _source(definition)
    members = [definition.get("const")] if source == "const" else definition.get(source)
    limit = definition.limits.enum_members
    if not members:
        raise definition.refusal(f"{source} is empty")
    if len(members) > limit:
        raise definition.refusal(
            f"{source} has {len(members)} members; at most {limit} are accepted"
        )
    descriptions = [""] * len(members)
    if source == "enum":
        members, titles = _enum_and_names(definition, members)
        descriptions = descriptions[: len(members)]
    elif source == "const":
        titles = [None]
    else:
        descriptions = _descriptions(definition, source, members)
        members, titles = _constants_and_titles(definition, source, members)
    values = _typed(definition, source, members)
    if source == "oneOf" and len(set(values)) < len(values):
        # oneOf means that exactly one member fits. A value that is listed twice is never valid.
        raise definition.refusal("two options have the same value")
    return {
        "values": values,
        "labels": _labels(definition, source, values, titles),
        "descriptions": tuple(descriptions),
    }


def _source(definition: Definition) -> str:
    """The one keyword that lists the options."""
    sources = [key for key in _SOURCES if key in definition]
    if sources == ["enum", "const"]:
        # Pydantic up to 2.9 writes this for a Literal with one member.
        members = definition.get("enum")
        if len(members) == 1 and _same(members[0], definition.get("const")):
            return "enum"
    if sources in (["enum", "oneOf"], ["enum", "anyOf"]) and _lists_the_same(
        definition, sources[1]
    ):
        # The second one has the titles.
        return sources[1]
    if len(sources) != 1:
        raise definition.refusal("it lists its options in more than one way")
    return sources[0]


def _lists_the_same(definition: Definition, source: str) -> bool:
    """Whether `enum` lists exactly the values of `oneOf` or `anyOf`."""
    members, options = definition.get("enum"), definition.get(source)
    if definition.nullable or definition.type is None:
        members = [member for member in members if member is not None]
    if max(len(members), len(options)) > definition.limits.enum_members:
        return False
    constants = [option.get("const") if type(option) is dict else None for option in options]
    values = {_scalar_key(member) for member in members}
    return None not in values and values == {_scalar_key(constant) for constant in constants}


def _enum_and_names(definition: Definition, members: list[Any]) -> tuple[list[Any], list[Any]]:
    names: list[Any] = [None] * len(members)
    if "enumNames" in definition:
        names = definition.get("enumNames")
        if len(names) != len(members):
            raise definition.refusal("enumNames does not match enum")
        if None in names:
            raise definition.refusal("enumNames has a member that is not a string")
    if any(type(member) is str and not trim(member) for member in members):
        raise definition.refusal("enum has a blank member")
    if definition.nullable or definition.type is None:
        # A null member means that the property can be left out.
        kept = [i for i, member in enumerate(members) if member is not None]
        return [members[i] for i in kept], [names[i] for i in kept]
    return members, names


def _constants_and_titles(
    definition: Definition, source: str, options: list[Any]
) -> tuple[list[Any], list[Any]]:
    for option in options:
        if type(option) is not dict or option.get("const") is None:
            raise definition.refusal(f"{source} has a member without const")
        rules = (key for key in (*_UNSUPPORTED, *_SHAPES) if key != "type")
        if any(option.get(key) is not None for key in rules):
            raise definition.refusal(f"{source} has a member with more than const and title")
        declared = option.get("type")
        if declared is not None and not _is_of_type(option["const"], declared):
            raise definition.refusal(f"{source} has a member of another type")
    return [o["const"] for o in options], [o.get("title") for o in options]


def _descriptions(definition: Definition, source: str, options: list[Any]) -> list[str]:
    """JSON Schema's annotation `description` of each option; `""` if it has no visible text."""
    name, limit = definition.name, definition.limits.text_chars
    found = []
    for option in options:
        text = option.get("description") if type(option) is dict else None
        if text is not None:
            _checked_text(name, f"the description of an option in {source}", text, limit)
        found.append("" if text is None or is_blank(text) else text)
    return found


def _typed(definition: Definition, source: str, members: list[Any]) -> tuple[Scalar, ...]:
    """Return `members` if all have the declared type, or, without a declared type, one type."""
    declared = definition.type
    if declared is None:
        names = ("string", "boolean", "number")
        declared = next((n for n in names if members and _is_of_type(members[0], n)), "null")
    if not members or not all(_is_of_type(member, declared) for member in members):
        raise definition.refusal(f"{source} has members that are not all of one simple type")
    return tuple(map(int, members)) if declared == "integer" else tuple(members)


def _labels(
    definition: Definition, source: str, values: Sequence[Scalar], titles: Sequence[Any]
) -> tuple[str, ...]:
    name, limit = definition.name, definition.limits.title_chars
    labels = []
    for value, title in zip(values, titles, strict=True):
        _checked_text(name, f"a value in {source}", _value_text(value), limit)
        label = _default_label(value) if title is None else title
        labels.append(_checked_text(name, "the label of an option", label, limit))
    if any(map(is_blank, labels)):
        raise definition.refusal("the label of an option is blank")
    if look_alike(labels):
        raise definition.refusal("two options look the same")
    return tuple(labels)


def _refuse_options_out_of_bounds(definition: Definition, values: Sequence[Scalar]) -> None:
    """Refuse a list with an option that the property's other keywords forbid."""
    typed = isinstance(values[0], str)
    kind: type[Text] | type[Number] = Text if typed else Number
    bounds = _STRING_BOUNDS if typed else _NUMBER_BOUNDS
    if isinstance(values[0], bool) or not any(key in definition for key in bounds):
        return
    ruler = kind(
        name=definition.name,
        title=None,
        description=None,
        required=False,
        **kind.fields_from(definition),
    )
    for value in values:
        try:
            ruler.check(value)  # type: ignore[arg-type]
        except AnswerRefusal:
            raise definition.refusal("an option is out of the property's own bounds") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Property):
    """Exactly one of a closed list: `enum`, `const`, or `oneOf`/`anyOf` of constants.

    `values` are sent to the server. People see `labels` and answer with them. `descriptions` are
    the server's notes about each option, `""` if there is none.
    """

    kind_name: ClassVar[str] = "choice"

    values: tuple[Scalar, ...]
    labels: tuple[str, ...]
    descriptions: tuple[str, ...]

    @classmethod
    def recognises(cls, definition: Definition) -> bool:
        return any(key in definition for key in _SOURCES)

    @classmethod
    def fields_from(cls, definition: Definition) -> dict[str, Any]:
        fields = _options_from(definition)
        _refuse_options_out_of_bounds(definition, fields["values"])
        return fields

    def options(self) -> list[dict[str, Any]]:
        return _options(self)

    def canonical_fields(self) -> list[Any]:
        return [self.values, self.labels, self.descriptions]

    def value_from(self, answer: FormAnswer) -> Scalar:
        if len(answer.selected) != 1:
            raise self.refusal("one_choice")
        try:
            return self.values[self.labels.index(answer.selected[0])]
        except ValueError:
            raise self.refusal("not_offered") from None

    def answer_from(self, value: object) -> FormAnswer:
        for candidate, label in zip(self.values, self.labels, strict=True):
            if _same(candidate, value):
                return FormAnswer(selected=(label,))
        raise self.refusal("not_offered")


def _options(asked: "Choice | MultiChoice") -> list[dict[str, Any]]:
    """The options as JSON objects.

    The description has the value, if it differs from the label, and the server's description.
    """
    options = []
    for value, label, said in zip(asked.values, asked.labels, asked.descriptions, strict=True):
        text = _value_text(value)
        parts = ([] if text == label else [text]) + ([said] if said else [])
        options.append({"label": label, "description": ": ".join(parts)})
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiChoice(Property):
    """Several of a closed list of strings: an `array` whose `items` are such a list.

    A `min_items` or `max_items` of None is no bound. The other fields are as in `Choice`.
    """

    kind_name: ClassVar[str] = "multi_choice"
    multi_select: ClassVar[bool] = True

    values: tuple[str, ...]
    labels: tuple[str, ...]
    descriptions: tuple[str, ...]
    min_items: int | None
    max_items: int | None

    @classmethod
    def recognises(cls, definition: Definition) -> bool:
        return definition.type == "array"

    @classmethod
    def fields_from(cls, definition: Definition) -> dict[str, Any]:
        items = Definition(definition.name, definition.get("items") or {}, definition.limits)
        if items.nullable or not Choice.recognises(items):
            raise definition.refusal("an array without a list of options cannot be asked")
        fields = Choice.fields_from(items)
        values = fields["values"]
        if type(values[0]) is not str:
            raise definition.refusal("an array of anything but strings cannot be answered")
        if len(set(values)) < len(values):
            raise definition.refusal("two options have the same value")
        low, high = definition.count("minItems") or None, definition.count("maxItems")
        if (low or 0) > len(values) or (high is not None and high < max(low or 1, 1)):
            raise definition.refusal("no number of choices is within minItems and maxItems")
        return {**fields, "min_items": low, "max_items": high}

    def options(self) -> list[dict[str, Any]]:
        return _options(self)

    def bounds_text(self) -> str:
        counted = _counted(self.min_items, self.max_items)
        return f"choose {counted}" if counted else ""

    def canonical_fields(self) -> list[Any]:
        return [self.values, self.labels, self.descriptions, self.min_items, self.max_items]

    def value_from(self, answer: FormAnswer) -> list[str]:
        value_of = dict(zip(self.labels, self.values, strict=True))
        if any(label not in value_of for label in answer.selected):
            raise self.refusal("not_offered")
        if len(set(answer.selected)) < len(answer.selected):
            raise self.refusal("repeated")
        if self.min_items is not None and len(answer.selected) < self.min_items:
            raise self.refusal("too_few", min_items=self.min_items)
        if self.max_items is not None and len(answer.selected) > self.max_items:
            raise self.refusal("too_many", max_items=self.max_items)
        return [value_of[label] for label in answer.selected]

    def answer_from(self, value: object) -> FormAnswer:
        if type(value) is not list:
            raise self.refusal("not_a_list")
        label_of = dict(zip(self.values, self.labels, strict=True))
        if not all(type(item) is str and item in label_of for item in value):
            raise self.refusal("not_offered")
        answer = FormAnswer(selected=tuple(label_of[item] for item in value))
        self.value_from(answer)
        return answer


def _counted(low: int | None, high: int | None) -> str:
    if low is not None and high is not None:
        return f"exactly {low}" if low == high else f"{low} to {high}"
    if low is not None:
        return f"at least {low}"
    return "" if high is None else f"at most {high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class YesNo(Property):
    """A `boolean`: Yes or No."""

    kind_name: ClassVar[str] = "yes_no"

    @property
    def default(self) -> bool | None:
        """The schema's default. It is part of the question, unlike the default of other kinds."""
        return None if self.default_answer is None else self.default_answer.selected == (YES,)

    @classmethod
    def recognises(cls, definition: Definition) -> bool:
        return definition.type == "boolean"

    @classmethod
    def fields_from(cls, definition: Definition) -> dict[str, Any]:
        return {}

    def options(self) -> list[dict[str, Any]]:
        return [
            {"label": YES, "description": "", "default": self.default is True},
            {"label": NO, "description": "", "default": self.default is False},
        ]

    def canonical_fields(self) -> list[Any]:
        return [self.default]

    def value_from(self, answer: FormAnswer) -> bool:
        if answer.selected not in ((YES,), (NO,)):
            raise self.refusal("yes_or_no")
        return answer.selected == (YES,)

    def answer_from(self, value: object) -> FormAnswer:
        if type(value) is not bool:
            raise self.refusal("yes_or_no")
        return FormAnswer(selected=(YES if value else NO,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Property):
    """A `string` that a person types. Lengths are in code points.

    A `format` that is not in `FORMATS` is not checked, and neither is `pattern`: a server's
    regular expression could keep this process busy for years.
    """

    kind_name: ClassVar[str] = "text"
    question_kind: ClassVar[str] = "text"
    free_text: ClassVar[bool] = True

    format: str | None
    min_length: int | None
    max_length: int | None

    @classmethod
    def recognises(cls, definition: Definition) -> bool:
        return definition.type == "string"

    @classmethod
    def fields_from(cls, definition: Definition) -> dict[str, Any]:
        low, high = definition.count("minLength") or None, definition.count("maxLength")
        form = definition.text("format", definition.limits.title_chars)
        # A blank text is no answer, so the shortest answer has one character.
        shortest, longest = FORMAT_LENGTHS.get(form or "", (1, None))
        bounds = (high, longest, MAX_FORM_ANSWER_CHARS)
        if max(low or 1, shortest) > min(bound for bound in bounds if bound is not None):
            raise definition.refusal("no text is within minLength, maxLength and format")
        return {
            "format": form,
            "min_length": low,
            "max_length": high,
        }

    def bounds_text(self) -> str:
        parts = [] if self.format is None else [f"format: {self.format}"]
        if counted := _counted(self.min_length, self.max_length):
            one = (self.max_length or self.min_length) == 1
            parts.append(f"{counted} character{'' if one else 's'}")
        return ", ".join(parts)

    def canonical_fields(self) -> list[Any]:
        return [self.format, self.min_length, self.max_length]

    def check(self, value: str) -> None:
        """Raises AnswerRefusal if the property does not accept this text."""
        if not is_clean_answer(value):
            raise self.refusal("bad_text")
        if self.min_length is not None and len(value) < self.min_length:
            raise self.refusal("too_short", min_length=self.min_length)
        limit = MAX_FORM_ANSWER_CHARS
        if self.max_length is not None and self.max_length < limit:
            limit = self.max_length
        if len(value) > limit:
            raise self.refusal("too_long", max_length=limit)
        if self.format is not None:
            fits = FORMATS.get(self.format)
            if fits is not None and not fits(value):
                raise self.refusal("bad_format", format=self.format)

    def value_from(self, answer: FormAnswer) -> str:
        text = answer.text
        if not text:
            raise self.refusal("blank")
        self.check(text)
        return text

    def answer_from(self, value: object) -> FormAnswer:
        if type(value) is not str:
            raise self.refusal("not_text")
        answer = FormAnswer(other_text=value)
        self.value_from(answer)
        return answer


def _exact(value: int | float) -> Fraction:
    """The decimal as which a number is written: 0.1 is one tenth."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def _canonical_number(value: int | float | None) -> str | None:
    """A bound as people read it: 5 is 5.0. But -0.0 is not 0, because a server can tell."""
    if value is None:
        return None
    return "-0" if value == 0 and math.copysign(1, value) < 0 else number_text(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Property):
    """A `number` or an `integer` that a person types.

    An answer to `integer` is exact and fits 64 bits signed. An answer to `number` is a finite
    double.
    """

    kind_name: ClassVar[str] = "number"
    question_kind: ClassVar[str] = "text"

    whole: bool
    minimum: int | float | None
    maximum: int | float | None
    exclusive_minimum: int | float | None
    exclusive_maximum: int | float | None
    multiple_of: int | float | None

    @classmethod
    def recognises(cls, definition: Definition) -> bool:
        return definition.type in ("number", "integer")

    @classmethod
    def fields_from(cls, definition: Definition) -> dict[str, Any]:
        fields = {
            "whole": definition.type == "integer",
            "minimum": definition.get("minimum"),
            "maximum": definition.get("maximum"),
            "exclusive_minimum": definition.get("exclusiveMinimum"),
            "exclusive_maximum": definition.get("exclusiveMaximum"),
            "multiple_of": definition.get("multipleOf"),
        }
        ruler = cls(name=definition.name, title=None, description=None, required=False, **fields)
        if not ruler.takes_any_number():
            raise definition.refusal("no number is within its bounds")
        return fields

    def takes_any_number(self) -> bool:
        """Whether at least one number is within the bounds.

        If there are more than 200 multiples of `multiple_of` between the bounds, not all of them
        are tried. If none of the tried ones fits, it is assumed that another one does.
        """
        lowest, highest = _INT64_ENDS if self.whole else _DOUBLE_ENDS
        lows = [_exact(b) for b in (self.minimum, self.exclusive_minimum) if b is not None]
        highs = [_exact(b) for b in (self.maximum, self.exclusive_maximum) if b is not None]
        low, high = max([*lows, lowest]), min([*highs, highest])
        if self.multiple_of is None:
            return any(map(self._takes, _smallest_from(low, self.whole)))
        step = _exact(self.multiple_of)
        if self.whole:
            # 3 is the smallest whole multiple of 1.5, that is 3/2.
            step = Fraction(step.numerator)
        first, last = math.ceil(low / step), math.floor(high / step)
        tried = {*range(first, first + _TRIED), *range(last - _TRIED + 1, last + 1), 0}
        within = [factor * step for factor in tried if first <= factor <= last]
        values = map(int, within) if self.whole else map(float, within)
        return any(map(self._takes, values)) or last - first >= 2 * _TRIED

    def _takes(self, value: int | float) -> bool:
        if (value not in _INT64) if self.whole else math.isinf(value):
            return False
        try:
            self.check(value)
        except AnswerRefusal:
            return False
        return True

    def bounds_text(self) -> str:
        text = "a whole number" if self.whole else "a number"
        low, high = self.minimum, self.maximum
        if low is not None and high is not None:
            text += f" from {number_text(low)} to {number_text(high)}"
        elif low is not None:
            text += f", at least {number_text(low)}"
        elif high is not None:
            text += f", at most {number_text(high)}"
        if self.exclusive_minimum is not None:
            text += f", more than {number_text(self.exclusive_minimum)}"
        if self.exclusive_maximum is not None:
            text += f", less than {number_text(self.exclusive_maximum)}"
        if self.multiple_of is not None:
            text += f", a multiple of {number_text(self.multiple_of)}"
        return text

    def canonical_fields(self) -> list[Any]:
        return [
            self.whole,
            _canonical_number(self.minimum),
            _canonical_number(self.maximum),
            _canonical_number(self.exclusive_minimum),
            _canonical_number(self.exclusive_maximum),
            _canonical_number(self.multiple_of),
        ]

    def check(self, value: int | float) -> None:
        """Raises AnswerRefusal if a number is out of bounds.

        Python compares int and float exactly, however large they are.
        """
        if self.minimum is not None and value < self.minimum:
            raise self.refusal("too_small", minimum=number_text(self.minimum))
        if self.exclusive_minimum is not None and value <= self.exclusive_minimum:
            limit = number_text(self.exclusive_minimum)
            raise self.refusal("not_above", exclusive_minimum=limit)
        if self.maximum is not None and value > self.maximum:
            raise self.refusal("too_large", maximum=number_text(self.maximum))
        if self.exclusive_maximum is not None and value >= self.exclusive_maximum:
            limit = number_text(self.exclusive_maximum)
            raise self.refusal("not_below", exclusive_maximum=limit)
        if self.multiple_of is not None and not _is_multiple(value, self.multiple_of):
            raise self.refusal("not_multiple", multiple_of=number_text(self.multiple_of))

    def value_from(self, answer: FormAnswer) -> int | float:
        text = answer.text
        if not text:
            raise self.refusal("blank")
        value: int | float | None
        try:
            value = parse_whole_number(text) if self.whole else parse_number(text)
        except NotANumberError:
            raise self.refusal("not_a_number") from None
        except OverflowError:
            raise self.refusal("out_of_range") from None
        if value is None:
            raise self.refusal("not_whole")
        if (value not in _INT64) if self.whole else math.isinf(value):
            raise self.refusal("out_of_range")
        self.check(value)
        return value

    def answer_from(self, value: Any) -> FormAnswer:
        if type(value) not in (int, float) or value != value:
            raise self.refusal("not_a_number")
        if not _is_number(value):
            raise self.refusal("out_of_range")
        if type(value) is float and self.whole:
            # In JSON, 5.0 is 5. An int has no exponent in its repr.
            if not value.is_integer():
                raise self.refusal("not_whole")
            value = int(value)
        answer = FormAnswer(other_text=repr(value))
        self.value_from(answer)
        return answer


def _is_multiple(value: int | float, step: int | float) -> bool:
    """Whether `value` is a multiple of `step`, both as decimals and as doubles.

    Common validators divide doubles: to them 0.3 is not a multiple of 0.1. If the server refuses
    an answer for that, the call fails. So such an answer is refused here.
    """
    if isinstance(step, int):
        by_doubles = value % step == 0
    else:
        quotient = value / step
        by_doubles = (
            quotient.is_integer()
            if math.isfinite(quotient)
            else (Fraction(value) / Fraction(step)).denominator == 1
        )
    return by_doubles and (_exact(value) / _exact(step)).denominator == 1


def _smallest_from(low: Fraction, whole: bool) -> tuple[int | float, ...]:
    """Candidates: among them are the smallest number above `low` and the smallest from it on."""
    if whole:
        return math.ceil(low), math.ceil(low) + 1
    nearest = float(low)
    above = math.nextafter(nearest, math.inf)
    return nearest, above, math.nextafter(above, math.inf)


# A property is of the first kind that recognises it. A list of options decides before the type.
KINDS: Final[tuple[type[Property], ...]] = (Choice, MultiChoice, YesNo, Text, Number)


def parse_property(definition: Definition, *, required: bool) -> Property:
    """The property, as the first kind that recognises it. Raises OutOfProfileRefusal."""
    for kind in KINDS:
        if kind.recognises(definition):
            return kind.parse(definition, required=required)
    if definition.type is None:
        raise definition.refusal("it has no type")
    # The text names the type only if it is a word of JSON Schema, and not any text of a server.
    known = definition.type if definition.type in _JSON_TYPES else "it has"
    raise definition.refusal(f"the type {known} is not one that a form can ask for")
