"""One field for each kind of property: how it is shown, and how what was typed is read.

Nothing a server wrote goes through ``label`` or ``help_text``, which Django's templates mark as
safe: the app's own templates ask each bound field (``Question``) for it and escape it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from django import forms
from django.utils.functional import Promise, cached_property
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..conf import settings as app_settings
from ..core import (
    NO,
    YES,
    Choice,
    FormAnswer,
    MultiChoice,
    Number,
    Property,
    Text,
    YesNo,
    number_text,
)
from ..core.text import FORMATS
from ..core.untrusted import visible
from .localised import localised_number, plain_digits, read_date, read_moment, read_number
from .widgets import Line, Lines, Moment, Radios, typed

PropertyT = TypeVar("PropertyT", bound=Property)

#: A text whose bounds allow more characters by name is asked for in several lines.
ONE_LINE_CHARS = 200
#: Above so many options a script adds a box that searches the list.
SEARCH_ABOVE = 15

FORMAT_HINTS: dict[str, Promise] = {
    "email": _("An e-mail address."),
    "uri": _("A complete link, such as https://example.com/page."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option as the templates show it; ``tag`` is the input alone."""

    tag: SafeString
    id: str
    label: str
    description: str
    #: Whether the label is this app's: "Yes", "No answer".
    is_ours: bool


class Question(forms.BoundField):
    """One property as the templates show it.

    ``title`` and ``description`` are a server's text: templates show them through
    ``elicitation_text``, escaped, in a block of their own.
    """

    field: AnswerField[Any]

    @property
    def asked(self) -> Property:
        """What the core knows about it."""
        asked: Property = self.field.asked
        return asked

    @property
    def title(self) -> str:
        """What the server calls it."""
        return self.asked.label

    @property
    def description(self) -> str:
        """What else the server says about it."""
        return (self.asked.description or "").strip()

    @property
    def is_optional(self) -> bool:
        """Whether it can be left blank."""
        return not self.asked.required

    @property
    def number(self) -> int:
        """Its place in the form, from 1."""
        return self.field.position + 1

    @property
    def of(self) -> int:
        """How many questions the form has."""
        return sum(isinstance(field, AnswerField) for field in self.form.fields.values())

    @property
    def place(self) -> str:
        """Its place in words; nothing where it is the only one."""
        if self.of == 1:
            return ""
        return gettext("Question %(number)s of %(of)s") % {"number": self.number, "of": self.of}

    @cached_property
    def hint(self) -> str:
        """Its bounds in words."""
        return self.field.hint()

    @property
    def format(self) -> str:
        """The format that the server names, where the core does not know it."""
        return self.field.unknown_format

    @property
    def template(self) -> str:
        """The template that shows it; a site can put its own in the place of each."""
        return f"elicitation/fields/{self.field.template}.html"

    @property
    def has_options(self) -> bool:
        """Whether each option is an input of its own."""
        return isinstance(self.field.widget, forms.RadioSelect)

    @cached_property
    def options(self) -> list[Option]:
        """The radio buttons or checkboxes."""
        found = []
        for widget in self.subwidgets:
            index = str(widget.data["value"])
            label, description = self.field.option(index)
            found.append(
                Option(
                    tag=widget.tag(),
                    id=widget.id_for_label,
                    label=label,
                    description=description,
                    is_ours=index == "" or self.field.options_are_ours,
                )
            )
        return found

    @property
    def is_short(self) -> bool:
        """Whether the options are few and short enough to stand side by side."""
        options = self.options
        return len(options) <= 3 and all(
            len(option.label) <= 12 and not option.description for option in options
        )

    def parts(self) -> list[forms.boundfield.BoundWidget]:
        """Return the inputs of a question that has several."""
        widget = self.field.widget
        attrs = self.build_widget_attrs({"id": self.auto_id}, widget)
        context = widget.get_context(self.html_name, self.value(), attrs)
        return [
            forms.boundfield.BoundWidget(widget, part, self.form.renderer)
            for part in context["widget"]["subwidgets"]
        ]

    @property
    def max_length(self) -> int | None:
        """How many characters an answer may have; nothing for what is no text."""
        return getattr(self.asked, "max_length", None)

    @property
    def min_length(self) -> int | None:
        """How many characters an answer must have; nothing for what is no text."""
        return getattr(self.asked, "min_length", None)

    @property
    def can_be_enlarged(self) -> bool:
        """Whether a script may make several lines of its one."""
        return isinstance(self.field.widget, Line) and not self.format

    @property
    def choices_size(self) -> int:
        """How many of its options can be chosen at most; 0 where it is no such question."""
        if not isinstance(self.asked, MultiChoice):
            return 0
        return self.asked.max_items or len(self.asked.labels)

    @property
    def can_be_searched(self) -> bool:
        """Whether its options are so many that a script helps to find one."""
        return len(getattr(self.asked, "labels", ())) > SEARCH_ABOVE

    @property
    def typed(self) -> list[str]:
        """What the person typed or chose, in words, whether it fits or not."""
        return self.field.typed(self.value())

    @property
    def answered(self) -> list[str]:
        """What is sent for it, in words, once the form was found to fit."""
        return self.field.answered(self.form.cleaned_data[self.name])

    @property
    def first_id(self) -> str:
        """The id of the input where an error of this question is put right."""
        return f"{self.auto_id}_0" if self.use_fieldset else self.auto_id

    @property
    def described_by(self) -> str:
        """The ids of description, hint and error."""
        parts = {"said": self.description, "hint": self.hint or self.format, "error": self.errors}
        return " ".join(f"{self.auto_id}_{part}" for part, shown in parts.items() if shown)

    @property
    def aria_describedby(self) -> str:
        """What Django puts on a single input; a fieldset takes ``described_by`` itself."""
        return self.described_by

    def build_widget_attrs(
        self, attrs: dict[str, Any], widget: forms.Widget | None = None
    ) -> dict[str, Any]:
        """Leave ``aria-invalid`` off radio buttons and checkboxes, where it is not allowed."""
        built: dict[str, Any] = super().build_widget_attrs(attrs, widget)
        if self.use_fieldset:
            built.pop("aria-invalid", None)
        return built


class AnswerField(forms.Field, Generic[PropertyT]):
    """Reads one answer. ``clean`` never judges it: that is the core's."""

    bound_field_class = Question
    template: ClassVar[str]
    #: Whether the app wrote the labels of the options, and not the server.
    options_are_ours: ClassVar[bool] = False
    #: A format that the server names and the core does not know.
    unknown_format: str = ""

    def __init__(self, prop: PropertyT, position: int) -> None:
        self.asked: PropertyT = prop
        self.position = position
        super().__init__(required=False, label="", widget=self.make_widget())

    @classmethod
    def asking_for(cls, prop: PropertyT, position: int) -> AnswerField[PropertyT]:
        """Return the field that asks for a property of this kind."""
        return cls(prop, position)

    def make_widget(self) -> forms.Widget:
        """Return the widget."""
        raise NotImplementedError

    def hint(self) -> str:
        """Say the bounds in words."""
        return ""

    def initial_from(self, answer: FormAnswer) -> Any:
        """Return what the widget shows for an answer."""
        raise NotImplementedError

    def read(self, value: Any) -> FormAnswer | None:
        """Return what was answered; ``None`` where nothing was.

        Raises:
            ValidationError: It can be read in two ways, or in none.
        """
        raise NotImplementedError

    def missing(self) -> str:
        """Say what to enter, where nothing was answered."""
        return gettext("Choose one of the options.")

    def nothing(self) -> FormAnswer:
        """Return the answer to a required property where nothing was answered."""
        return FormAnswer(selected=())

    def typed(self, value: Any) -> list[str]:
        """Return in words what was typed or chosen, whether it fits or not."""
        return [str(value)] if value else []

    def answered(self, answer: FormAnswer) -> list[str]:
        """Return in words what is sent; nothing where nothing is."""
        return [] if answer.skipped else self.typed(self.initial_from(answer))

    def clean(self, value: Any) -> FormAnswer:
        """Return the answer; an optional property without one is skipped."""
        answer = self.read(value)
        if answer is not None:
            return answer
        return self.nothing() if self.asked.required else FormAnswer(skipped=True)

    def option(self, index: str) -> tuple[str, str]:
        """Return the label and description of the option with this value."""
        raise NotImplementedError


class ChoiceField(AnswerField[Choice]):
    """One of a closed list: radio buttons, or a select where they are many."""

    template = "choice"

    def make_widget(self) -> forms.Widget:
        options = [(str(index), self.shown(str(index))) for index in range(self.size)]
        if self.size <= app_settings.RADIO_LIMIT:
            if not self.asked.required:
                options.append(("", gettext("No answer")))
            return Radios(choices=options)
        first = gettext("No answer") if not self.asked.required else gettext("Choose one …")
        return forms.Select(choices=[("", first), *options])

    @property
    def size(self) -> int:
        """How many options there are."""
        return len(self.asked.labels)

    def shown(self, index: str) -> str:
        """Return an option as one line, for a select."""
        label, description = self.option(index)
        return visible(f"{label} ({description})" if description else label)

    def option(self, index: str) -> tuple[str, str]:
        if index == "":
            return gettext("No answer"), ""
        return _option(self.asked, int(index))

    def initial_from(self, answer: FormAnswer) -> str:
        return str(self.asked.labels.index(answer.selected[0]))

    def typed(self, value: Any) -> list[str]:
        return [label] if (label := _label(self.asked.labels, value)) else []

    def read(self, value: Any) -> FormAnswer | None:
        if not value:
            return None
        return FormAnswer(selected=(_label(self.asked.labels, value),))


class MultiChoiceField(AnswerField[MultiChoice]):
    """Some of a closed list: checkboxes."""

    template = "multi_choice"

    def missing(self) -> str:
        return gettext("Choose at least one of the options.")

    def make_widget(self) -> forms.Widget:
        return forms.CheckboxSelectMultiple(
            choices=[(str(index), label) for index, label in enumerate(self.asked.labels)]
        )

    def option(self, index: str) -> tuple[str, str]:
        return _option(self.asked, int(index))

    def hint(self) -> str:
        low, high = self.asked.min_items, self.asked.max_items
        if low is not None and low == high:
            text = ngettext(
                "Choose exactly %(low)s option.", "Choose exactly %(low)s options.", low
            )
        elif low is not None and high is not None:
            text = gettext("Choose %(low)s to %(high)s options.")
        elif low is not None:
            text = ngettext(
                "Choose at least %(low)s option.", "Choose at least %(low)s options.", low
            )
        elif high is not None:
            text = ngettext(
                "Choose at most %(high)s option.", "Choose at most %(high)s options.", high
            )
        else:
            text = gettext("Choose as many options as you like.")
        return text % {"low": low, "high": high}

    def initial_from(self, answer: FormAnswer) -> list[str]:
        return [str(self.asked.labels.index(label)) for label in answer.selected]

    def typed(self, value: Any) -> list[str]:
        return [label for index in value if (label := _label(self.asked.labels, index))]

    def read(self, value: Any) -> FormAnswer | None:
        if not value:
            return None
        return FormAnswer(selected=tuple(_label(self.asked.labels, index) for index in value))


class YesNoField(AnswerField[YesNo]):
    """Yes or no: radio buttons."""

    template = "yes_no"
    options_are_ours = True
    answers: ClassVar[dict[str, str]] = {"0": YES, "1": NO}

    def missing(self) -> str:
        return gettext("Choose Yes or No.")

    def make_widget(self) -> forms.Widget:
        values = ["0", "1"] if self.asked.required else ["0", "1", ""]
        return Radios(choices=[(value, self.option(value)[0]) for value in values])

    def option(self, index: str) -> tuple[str, str]:
        labels = {"0": gettext("Yes"), "1": gettext("No"), "": gettext("No answer")}
        return labels[index], ""

    def initial_from(self, answer: FormAnswer) -> str:
        return "0" if answer.selected == (YES,) else "1"

    def typed(self, value: Any) -> list[str]:
        return [self.option(str(value))[0]] if str(value) in self.answers else []

    def read(self, value: Any) -> FormAnswer | None:
        if not value:
            return None
        return FormAnswer(selected=(self.answers.get(str(value), ""),))


class TextField(AnswerField[Text]):
    """A text of one line, unless its bounds allow a long one."""

    template = "text"

    def __init__(self, prop: Text, position: int) -> None:
        super().__init__(prop, position)
        if prop.format is not None and prop.format not in FORMATS:
            self.unknown_format = prop.format

    @classmethod
    def asking_for(cls, prop: Text, position: int) -> AnswerField[Text]:
        return FIELDS_BY_FORMAT.get(prop.format, cls)(prop, position)

    def missing(self) -> str:
        return gettext("Enter a text.")

    def make_widget(self) -> forms.Widget:
        bounds = (self.asked.min_length or 0, self.asked.max_length or 0)
        if self.asked.format is None and max(bounds) > ONE_LINE_CHARS:
            return Lines()
        return Line()

    def hint(self) -> str:
        low, high = self.asked.min_length, self.asked.max_length
        parts = [str(FORMAT_HINTS[self.asked.format])] if self.asked.format in FORMAT_HINTS else []
        if low is not None and low == high:
            text = ngettext("Exactly %(low)s character.", "Exactly %(low)s characters.", low)
            parts.append(text % {"low": low})
        elif low is not None and high is not None:
            text = ngettext(
                "%(low)s to %(high)s character.", "%(low)s to %(high)s characters.", high
            )
            parts.append(text % {"low": low, "high": high})
        elif low is not None:
            text = ngettext("At least %(low)s character.", "At least %(low)s characters.", low)
            parts.append(text % {"low": low})
        elif high is not None:
            text = ngettext("At most %(high)s character.", "At most %(high)s characters.", high)
            parts.append(text % {"high": high})
        return " ".join(parts)

    def initial_from(self, answer: FormAnswer) -> str:
        return answer.text

    def nothing(self) -> FormAnswer:
        return FormAnswer(other_text="")

    def read(self, value: Any) -> FormAnswer | None:
        # Browsers send CRLF; a line break is one character to the person who made it.
        answer = FormAnswer(other_text=str(value or "").replace("\r\n", "\n"))
        return answer if answer.text else None


class EmailField(TextField):
    """A text with a keyboard for e-mail addresses. Not ``type=email``: browsers would judge it,
    and send another address than the one that was typed."""

    def missing(self) -> str:
        return gettext("Enter an e-mail address.")

    def make_widget(self) -> forms.Widget:
        return forms.TextInput(attrs={"inputmode": "email", "autocapitalize": "none"})


class UriField(TextField):
    """A text with a keyboard for URLs."""

    def missing(self) -> str:
        return gettext("Enter a complete link.")

    def make_widget(self) -> forms.Widget:
        return forms.TextInput(attrs={"inputmode": "url", "autocapitalize": "none"})


class DateField(TextField):
    """A day: the browser's own control; where it has none, in the forms of the language."""

    template = "date"

    def hint(self) -> str:
        return ""

    def missing(self) -> str:
        return gettext("Enter a date.")

    def make_widget(self) -> forms.Widget:
        return typed("date")

    def read(self, value: Any) -> FormAnswer | None:
        text = plain_digits(str(value or "")).strip()
        return FormAnswer(other_text=read_date(text)) if text else None


class NumberField(AnswerField[Number]):
    """A number, written as the language does or plainly."""

    template = "number"

    def missing(self) -> str:
        return gettext("Enter a number.")

    def make_widget(self) -> forms.Widget:
        bounds = (self.asked.minimum, self.asked.exclusive_minimum)
        positive = any(bound is not None and bound >= 0 for bound in bounds)
        # The number keyboards of some phones have no minus.
        mode = ("numeric" if self.asked.whole else "decimal") if positive else "text"
        return forms.TextInput(attrs={"inputmode": mode, "class": "elicitation-short"})

    def hint(self) -> str:
        prop = self.asked
        low, high = prop.minimum, prop.maximum
        parts = [gettext("A whole number") if prop.whole else gettext("A number")]
        if low is not None and high is not None:
            parts.append(gettext("from %(low)s to %(high)s"))
        elif low is not None:
            parts.append(gettext("at least %(low)s"))
        elif high is not None:
            parts.append(gettext("at most %(high)s"))
        if prop.exclusive_minimum is not None:
            parts.append(gettext("more than %(above)s"))
        if prop.exclusive_maximum is not None:
            parts.append(gettext("less than %(below)s"))
        if prop.multiple_of is not None:
            parts.append(gettext("a multiple of %(step)s"))
        numbers = {
            "low": low,
            "high": high,
            "above": prop.exclusive_minimum,
            "below": prop.exclusive_maximum,
            "step": prop.multiple_of,
        }
        shown = {
            name: localised_number(number_text(number))
            for name, number in numbers.items()
            if number is not None
        }
        return gettext(", ").join(parts) % shown + "."

    def initial_from(self, answer: FormAnswer) -> str:
        value = self.asked.value_from(answer)
        assert isinstance(value, int | float)
        return localised_number(number_text(value))

    def nothing(self) -> FormAnswer:
        return FormAnswer(other_text="")

    def read(self, value: Any) -> FormAnswer | None:
        text = str(value or "").strip()
        return FormAnswer(other_text=read_number(text)) if text else None


class MomentField(AnswerField[Text]):
    """A date and time in a time zone that is shown and can be chosen."""

    template = "moment"

    def missing(self) -> str:
        return gettext("Enter a date and a time.")

    def make_widget(self) -> forms.Widget:
        return Moment()

    def hint(self) -> str:
        return gettext("Check the time zone. It is sent with the time.")

    def answered(self, answer: FormAnswer) -> list[str]:
        return [] if answer.skipped else [answer.text]

    def typed(self, value: Any) -> list[str]:
        local, zone = value or ("", "")
        return [f"{local} {zone}".strip()] if local else []

    def initial_from(self, answer: FormAnswer) -> str:
        return answer.text

    def nothing(self) -> FormAnswer:
        return FormAnswer(other_text="")

    def read(self, value: Any) -> FormAnswer | None:
        local, zone = value or ("", "")
        text = plain_digits(str(local or "")).strip()
        return FormAnswer(other_text=read_moment(text, str(zone or ""))) if text else None


#: The field of each kind of property. A new kind is one line here.
FIELDS: Mapping[str, type[AnswerField[Any]]] = {
    "choice": ChoiceField,
    "multi_choice": MultiChoiceField,
    "yes_no": YesNoField,
    "text": TextField,
    "number": NumberField,
}

#: The field of a text with one of these formats.
FIELDS_BY_FORMAT: Mapping[str | None, type[AnswerField[Text]]] = {
    "email": EmailField,
    "uri": UriField,
    "date": DateField,
    "date-time": MomentField,
}


def _label(labels: Sequence[str], index: Any) -> str:
    """Return the label of an option; one that nobody offers where the index is none."""
    text = str(index)
    if text.isascii() and text.isdecimal() and len(text) <= 3 and int(text) < len(labels):
        return labels[int(text)]
    return ""


def _option(asked: Choice | MultiChoice, index: int) -> tuple[str, str]:
    """Return the label and description of an option, without a value that says no more.

    A value that differs from its label in case alone says no more, unless case is what tells it
    from another value.
    """
    option = asked.options()[index]
    texts = [str(value).casefold() for value in asked.values]
    if texts[index] == option["label"].casefold() and texts.count(texts[index]) == 1:
        return option["label"], asked.descriptions[index]
    return option["label"], option["description"]
