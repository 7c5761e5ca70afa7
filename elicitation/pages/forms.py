"""A requested schema as a Django form.

The form reads what was typed and says what is wrong with it, in the person's language; whether
an answer fits is decided by the core alone. Nothing a server wrote goes through ``label`` or
``help_text``, which Django's templates mark as safe: the app's own templates ask each bound
field (``Question``) for it and escape it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from django import forms
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.utils import timezone
from django.utils.functional import Promise, cached_property
from django.utils.html import format_html, format_html_join
from django.utils.module_loading import import_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..conf import settings as app_settings
from ..core import (
    NO,
    YES,
    AnswerRefusal,
    Choice,
    FormAnswer,
    FormElicitation,
    MultiChoice,
    Number,
    Property,
    Text,
    YesNo,
    number_text,
)
from ..core.text import FORMATS
from ..core.untrusted import visible
from .localised import (
    FORMAT_MESSAGES,
    is_number,
    localised_number,
    plain_digits,
    read_date,
    read_moment,
    read_number,
    zones,
)

PropertyT = TypeVar("PropertyT", bound=Property)

#: Up to this length a text is asked for in a field of one line.
ONE_LINE_CHARS = 80

#: What to tell a person, by ``AnswerRefusal.code``. None repeats what was typed.
MESSAGES: dict[str, Promise] = {
    "missing": _("An answer is needed."),
    "required": _("An answer is needed."),
    "blank": _("An answer is needed."),
    "one_choice": _("Choose one of the options."),
    "yes_or_no": _("Choose Yes or No."),
    "not_offered": _("Choose only from the options that are shown."),
    "repeated": _("Choose each option only once."),
    "too_few": _("Choose more options: at least %(min_items)s."),
    "too_many": _("Choose fewer options: at most %(max_items)s."),
    "bad_text": _("Remove the control characters: they cannot be sent."),
    "too_short": _("Write a longer answer: at least %(min_length)s characters."),
    "too_long": _("Write a shorter answer: at most %(max_length)s characters."),
    "not_a_number": _("Write a number in digits, such as 12."),
    "not_whole": _("Write a whole number, without a fraction."),
    "out_of_range": _("This number is too large to be sent."),
    "too_small": _("Write a larger number: at least %(minimum)s."),
    "too_large": _("Write a smaller number: at most %(maximum)s."),
    "not_above": _("Write a larger number: more than %(exclusive_minimum)s."),
    "not_below": _("Write a smaller number: less than %(exclusive_maximum)s."),
    "not_multiple": _("Write a multiple of %(multiple_of)s."),
    "credential": _(
        "This looks like a password, a key or a token. It was not stored and will not be "
        "sent. Remove it, or decline the request."
    ),
}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One line of the error summary; ``title`` is the server's text."""

    text: str
    href: str = ""
    title: str = ""


class Question(forms.BoundField):
    """One property as the templates show it.

    ``title`` and ``description`` are a server's text: templates show them through
    ``elicitation_text``, escaped, in a block of their own.
    """

    form: ElicitationForm
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
        return len(self.form.elicitation.schema.asked)

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
        given = self.asked.format if isinstance(self.asked, Text) else None
        return "" if given is None or given in FORMATS else given

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
                    tag=_input(widget.data),
                    id=widget.id_for_label,
                    label=label,
                    description=description,
                    is_ours=index == "" or isinstance(self.asked, YesNo),
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


# --- Widgets ---------------------------------------------------------------------------------


class _Written(forms.Widget):
    """Writes its ``<input>`` here; Django's templates take ten times as long for it."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        return _input(self.get_context(name, value, attrs)["widget"])


def _input(widget: Mapping[str, Any]) -> SafeString:
    """Return the element that ``django/forms/widgets/input.html`` makes of a widget's context."""
    value = widget["value"]
    return format_html(
        '<input type="{}" name="{}"{}{}>',
        widget["type"],
        widget["name"],
        "" if value is None else format_html(' value="{}"', value),
        _attributes(widget["attrs"]),
    )


def _attributes(attrs: Mapping[str, Any]) -> SafeString:
    """Write what ``django/forms/widgets/attrs.html`` does; ``flatatt`` has an order of its own."""
    return SafeString(
        "".join(
            format_html(" {}", name) if value is True else format_html(' {}="{}"', name, value)
            for name, value in attrs.items()
            if value is not False
        )
    )


class _Hidden(_Written, forms.HiddenInput):
    pass


class _Line(_Written, forms.TextInput):
    pass


class _Radios(forms.RadioSelect):
    """Radio buttons of which none is chosen at first, "No answer" neither."""

    def format_value(self, value: Any) -> list[str]:
        # None is nothing chosen; "" is "No answer", chosen.
        return [] if value is None else [str(value)]


class _Typed(_Line):
    """An input of one of the browser's own types, whose value is never localised."""

    def __init__(self, input_type: str) -> None:
        super().__init__({"class": "elicitation-short"})
        self.input_type = input_type


class _Zones(forms.Select):
    """A time zone: one select of six hundred, written once and not once for each question."""

    template_name = "elicitation/fields/zones.html"

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context = forms.Widget.get_context(self, name, value, attrs)
        chosen = format_html('value="{}"', value)
        context["widget"]["options"] = SafeString(
            _zone_options(timezone.get_current_timezone_name()).replace(
                chosen, f"{chosen} selected", 1
            )
        )
        return context


@cache
def _zone_options(here: str) -> str:
    """Return the options of a zone select; the site's own zone is among them."""
    areas = zones()
    if not any(here == name for listed in areas.values() for name, _place in listed):
        areas = {here: [(here, here)], **areas}
    return format_html_join(
        "\n",
        '<optgroup label="{}">{}</optgroup>',
        (
            (area, format_html_join("", '<option value="{}">{}</option>', listed))
            for area, listed in areas.items()
        ),
    )


class _Moment(forms.MultiWidget):
    """A local time and the name of a zone."""

    def __init__(self) -> None:
        self.here = timezone.get_current_timezone_name()
        super().__init__([_Typed("datetime-local"), _Zones()])

    def decompress(self, value: Any) -> list[str]:
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            return ["", self.here]
        local = moment.astimezone(timezone.get_current_timezone())
        return [local.replace(tzinfo=None).isoformat(), self.here]


# --- Fields ----------------------------------------------------------------------------------


class AnswerField(forms.Field, Generic[PropertyT]):
    """Reads one answer. ``clean`` never judges it: that is the core's."""

    bound_field_class = Question
    template: ClassVar[str]

    def __init__(self, prop: PropertyT, position: int) -> None:
        self.asked: PropertyT = prop
        self.position = position
        super().__init__(required=False, label="", widget=self.make_widget())

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

    def nothing(self) -> FormAnswer:
        """Return the answer to a required property where nothing was answered."""
        return FormAnswer(selected=())

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
            return _Radios(choices=options)
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
        option = self.asked.options()[int(index)]
        return option["label"], option["description"]

    def initial_from(self, answer: FormAnswer) -> str:
        return str(self.asked.labels.index(answer.selected[0]))

    def read(self, value: Any) -> FormAnswer | None:
        if not value:
            return None
        return FormAnswer(selected=(_label(self.asked.labels, value),))


class MultiChoiceField(AnswerField[MultiChoice]):
    """Some of a closed list: checkboxes."""

    template = "multi_choice"

    def make_widget(self) -> forms.Widget:
        return forms.CheckboxSelectMultiple(
            choices=[(str(index), label) for index, label in enumerate(self.asked.labels)]
        )

    def option(self, index: str) -> tuple[str, str]:
        option = self.asked.options()[int(index)]
        return option["label"], option["description"]

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

    def read(self, value: Any) -> FormAnswer | None:
        if not value:
            return None
        return FormAnswer(selected=tuple(_label(self.asked.labels, index) for index in value))


class YesNoField(AnswerField[YesNo]):
    """Yes or no: radio buttons."""

    template = "yes_no"
    answers: ClassVar[dict[str, str]] = {"0": YES, "1": NO}

    def make_widget(self) -> forms.Widget:
        values = ["0", "1"] if self.asked.required else ["0", "1", ""]
        return _Radios(choices=[(value, self.option(value)[0]) for value in values])

    def option(self, index: str) -> tuple[str, str]:
        labels = {"0": gettext("Yes"), "1": gettext("No"), "": gettext("No answer")}
        return labels[index], ""

    def initial_from(self, answer: FormAnswer) -> str:
        return "0" if answer.selected == (YES,) else "1"

    def read(self, value: Any) -> FormAnswer | None:
        if not value:
            return None
        return FormAnswer(selected=(self.answers.get(str(value), ""),))


class TextField(AnswerField[Text]):
    """A text; of several lines, unless it is short or has a format."""

    template = "text"

    def make_widget(self) -> forms.Widget:
        limit = self.asked.max_length
        if self.asked.format is not None or (limit is not None and limit <= ONE_LINE_CHARS):
            default = self.asked.default_answer
            # A field of one line would drop the line breaks of a default.
            if default is None or "\n" not in default.text:
                return _Line()
        return forms.Textarea(attrs={"rows": "2"})

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
    and send an address other than the one that was typed."""

    def make_widget(self) -> forms.Widget:
        return _Line(attrs={"inputmode": "email", "autocapitalize": "none"})


class UriField(TextField):
    """A text with a keyboard for addresses."""

    def make_widget(self) -> forms.Widget:
        return _Line(attrs={"inputmode": "url", "autocapitalize": "none"})


class DateField(TextField):
    """A day: the browser's own control; where it has none, in the forms of the language."""

    template = "date"

    def hint(self) -> str:
        return ""

    def make_widget(self) -> forms.Widget:
        return _Typed("date")

    def read(self, value: Any) -> FormAnswer | None:
        text = plain_digits(str(value or "")).strip()
        return FormAnswer(other_text=read_date(text)) if text else None


class NumberField(AnswerField[Number]):
    """A number, written as the language does or plainly."""

    template = "number"

    def make_widget(self) -> forms.Widget:
        bounds = (self.asked.minimum, self.asked.exclusive_minimum)
        positive = any(bound is not None and bound >= 0 for bound in bounds)
        # The number keyboards of some phones have no minus.
        mode = ("numeric" if self.asked.whole else "decimal") if positive else "text"
        return _Line(attrs={"inputmode": mode, "class": "elicitation-short"})

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

    def make_widget(self) -> forms.Widget:
        return _Moment()

    def hint(self) -> str:
        return gettext("Check the time zone. It is sent with the time.")

    def initial_from(self, answer: FormAnswer) -> str:
        return answer.text

    def nothing(self) -> FormAnswer:
        return FormAnswer(other_text="")

    def read(self, value: Any) -> FormAnswer | None:
        local, zone = value or ("", "")
        text = plain_digits(str(local or "")).strip()
        return FormAnswer(other_text=read_moment(text, str(zone or ""))) if text else None


#: The field of each kind of property, or of a kind and a format. A new kind is one line here.
FIELDS: dict[str, Callable[[Any, int], AnswerField[Any]]] = {
    "choice": ChoiceField,
    "multi_choice": MultiChoiceField,
    "yes_no": YesNoField,
    "text": TextField,
    "text/email": EmailField,
    "text/uri": UriField,
    "text/date": DateField,
    "text/date-time": MomentField,
    "number": NumberField,
}


class ElicitationForm(forms.Form):
    """The form of one elicitation.

    Inputs are named by position and options by index, so that no name or value of a server
    can meet one of the form's own. ``fingerprint`` is sent along, so that a form that was
    replaced meanwhile is noticed.
    """

    use_required_attribute = False

    fingerprint = forms.CharField(required=False, widget=_Hidden)

    def __init__(
        self,
        elicitation: FormElicitation,
        data: Mapping[str, Any] | None = None,
        *,
        prefill: bool = False,
        auto_id: str = "id_%s",
    ) -> None:
        self.elicitation = elicitation
        super().__init__(data, auto_id=auto_id)
        self.initial["fingerprint"] = elicitation.fingerprint()
        for position, prop in enumerate(elicitation.schema.asked):
            field = self.field_for(prop, position)
            self.fields[_name(position)] = field
            if prefill and prop.default_answer is not None:
                self.initial[_name(position)] = field.initial_from(prop.default_answer)

    def field_for(self, prop: Property, position: int) -> AnswerField[Any]:
        """Return the field that asks for a property."""
        by_format = f"{prop.kind_name}/{prop.format}" if isinstance(prop, Text) else ""
        return (FIELDS.get(by_format) or FIELDS[prop.kind_name])(prop, position)

    @property
    def questions(self) -> list[Question]:
        """The properties, in the order in which the server sent them."""
        return list(self._questions())

    def _questions(self) -> Iterator[Question]:
        for name in self.fields:
            bound = self[name]
            if isinstance(bound, Question):
                yield bound

    @property
    def sent_fingerprint(self) -> str:
        """The fingerprint of the form that was sent."""
        return str(self.data.get("fingerprint", ""))

    @property
    def is_replaced(self) -> bool:
        """Whether the form that was sent is another one than this."""
        return self.is_bound and self.sent_fingerprint != self.elicitation.fingerprint()

    @property
    def summary(self) -> list[Problem]:
        """What is wrong, in the order of the questions."""
        if not self.is_bound:
            return []
        general = [Problem(text=str(error)) for error in self.non_field_errors()]
        return general + [
            Problem(text=str(error), href=question.first_id, title=question.title)
            for question in self._questions()
            for error in question.errors
        ]

    def clean(self) -> dict[str, Any]:
        """Let the core judge every answer that could be read."""
        _content, refusals = self.elicitation.schema.check_answers(self.to_answers())
        self.refuse(refusals)
        return self.cleaned_data

    def refuse(self, refusals: Mapping[str, AnswerRefusal]) -> None:
        """Show why answers do not fit; a question that has an error already keeps that one."""
        for name, field in self._answer_fields():
            refusal = refusals.get(field.asked.name)
            if refusal is not None and name not in self.errors:
                self.add_error(name, ValidationError(refusal_text(refusal), code=refusal.code))

    def add_error(self, field: str | None, error: Any) -> None:
        """Add an error; where there are several questions it names the one it is about."""
        about = self.fields.get(field) if field is not None else None
        if isinstance(about, AnswerField) and len(self.elicitation.schema.asked) > 1:
            number = about.position + 1
            error = [
                ValidationError(
                    gettext("Question %(number)s: %(error)s") % {"number": number, "error": text},
                    code=each.code,
                )
                for each in ValidationError(error).error_list
                for text in each.messages
            ]
        super().add_error(field, error)

    def to_answers(self) -> dict[str, FormAnswer]:
        """Return the answers by property name."""
        return {
            field.asked.name: self.cleaned_data[name]
            for name, field in self._answer_fields()
            if name in self.cleaned_data
        }

    def _answer_fields(self) -> Iterator[tuple[str, AnswerField[Any]]]:
        for name, field in self.fields.items():
            if isinstance(field, AnswerField):
                yield name, field


def form_class() -> type[ElicitationForm]:
    """Return the form of this site: ``ELICITATION_FORM_CLASS``, a dotted path.

    Raises:
        ImproperlyConfigured: It is no subclass of ``ElicitationForm``.
    """
    path = app_settings.FORM_CLASS
    try:
        found = import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(f"ELICITATION_FORM_CLASS: {error}") from error
    if not (isinstance(found, type) and issubclass(found, ElicitationForm)):
        raise ImproperlyConfigured(
            "ELICITATION_FORM_CLASS must be the path of a subclass of "
            "elicitation.pages.forms.ElicitationForm."
        )
    return found


def refusal_text(refusal: AnswerRefusal) -> str:
    """Return what to tell a person about an answer that does not fit."""
    if refusal.code == "bad_format":
        return str(FORMAT_MESSAGES[str(refusal.params["format"])])
    params = {
        name: localised_number(str(value)) if is_number(str(value)) else value
        for name, value in refusal.params.items()
    }
    return str(MESSAGES[refusal.code]) % params


def _label(labels: Sequence[str], index: Any) -> str:
    """Return the label of an option; one that nobody offers where the index is none."""
    text = str(index)
    if text.isascii() and text.isdecimal() and len(text) <= 3 and int(text) < len(labels):
        return labels[int(text)]
    return ""


def _name(position: int) -> str:
    return f"a-{position}"
