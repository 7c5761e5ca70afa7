"""A requested schema as a Django form.

The form reads what was typed and says what is wrong with it, in the person's language; whether
an answer fits is decided by the core alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_variables

from ..conf import load_class, settings
from ..core import AnswerRefusal, AnswerRefusals, FormAnswer, FormElicitation, Property
from ..core.schema import CheckedAnswers, check_answers
from .fields import FIELDS, AnswerField, Question
from .refusals import refusal_text

#: Above so many questions a page shows all answers before they are sent.
CHECK_ABOVE = 5


#: Above so many questions the form has sections, of at most so many each.
SECTIONS_ABOVE = 8
SECTION_SIZE = 5


@dataclass(frozen=True, slots=True)
class Section:
    """Some of the questions, in their order; ``heading`` is empty where there is one section."""

    heading: str
    questions: list[Question]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One line of the error summary; ``title`` is the server's text."""

    text: str
    href: str = ""
    title: str = ""


class ElicitationForm(forms.Form):
    """The form of one elicitation.

    Inputs are named by position and options by index, so that no name or value of a server
    can meet one of the form's own. ``fingerprint`` is sent along, so that a form that was
    replaced meanwhile is noticed.
    """

    use_required_attribute = False

    fingerprint = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        elicitation: FormElicitation,
        data: Mapping[str, Any] | None = None,
        *,
        prefill: bool = False,
        auto_id: str = "id_%s",
    ) -> None:
        self.elicitation = elicitation
        self.asked_fingerprint = elicitation.fingerprint()
        #: The answers, once they were found to fit; ``inbox.answer`` takes them so.
        self.checked: CheckedAnswers | None = None
        super().__init__(data, auto_id=auto_id)
        self.initial["fingerprint"] = self.asked_fingerprint
        for position, prop in enumerate(elicitation.schema.asked):
            field = self.field_for(prop, position)
            self.fields[_name(position)] = field
            if prefill and prop.default_answer is not None:
                self.initial[_name(position)] = field.initial_from(prop.default_answer)

    def field_for(self, prop: Property, position: int) -> AnswerField[Any]:
        """Return the field that asks for a property."""
        return FIELDS[prop.kind_name].asking_for(prop, position)

    @property
    def questions(self) -> list[Question]:
        """The properties, in the order in which the server sent them."""
        return list(self._questions())

    @property
    def sections(self) -> list[Section]:
        """The questions in sections of about the same size."""
        questions = self.questions
        if len(questions) <= SECTIONS_ABOVE:
            return [Section("", questions)]
        many = math.ceil(len(questions) / SECTION_SIZE)
        bounds = [len(questions) * number // many for number in range(many + 1)]
        return [
            Section(
                gettext("Questions %(first)s to %(last)s") % {"first": first + 1, "last": last},
                questions[first:last],
            )
            for first, last in pairwise(bounds)
        ]

    def _questions(self) -> Iterator[Question]:
        for name in self.fields:
            bound = self[name]
            if isinstance(bound, Question):
                yield bound

    @property
    def needs_check(self) -> bool:
        """Whether a page shows the answers before they are sent.

        A confirmation has none: there the one press is all that a person does.
        """
        return not 0 < len(self.elicitation.schema.asked) <= CHECK_ABOVE

    @property
    def posted(self) -> list[tuple[str, str]]:
        """The inputs of the questions as they were sent, to be sent again."""
        assert isinstance(self.data, QueryDict)
        return [
            (name, str(value))
            for name, values in self.data.lists()
            for value in values
            if INPUT.fullmatch(name)
        ]

    @property
    def sent_fingerprint(self) -> str:
        """The fingerprint of the form that was sent."""
        return str(self.data.get("fingerprint", ""))

    @property
    def is_replaced(self) -> bool:
        """Whether the form that was sent is another one than this."""
        return self.is_bound and self.sent_fingerprint != self.asked_fingerprint

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

    # Error reports have the variables of frames, and those of the core have the answers.
    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        """Let the core judge every answer that could be read."""
        try:
            self.checked = check_answers(self.elicitation.schema, self.to_answers())
        except AnswerRefusals as refusals:
            self.refuse(refusals.errors)
        return self.cleaned_data

    def refuse(self, refusals: Mapping[str, AnswerRefusal]) -> None:
        """Show why answers do not fit; a question that has an error already keeps that one."""
        for name, field in self._answer_fields():
            refusal = refusals.get(field.asked.name)
            if refusal is not None and name not in self.errors:
                is_missing = refusal.code in ("missing", "required", "blank")
                text = field.missing() if is_missing else refusal_text(refusal)
                self.add_error(name, ValidationError(text, code=refusal.code))

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
    return load_class("FORM_CLASS", settings.FORM_CLASS, ElicitationForm)


#: The name of an input: the position of its question, and its own if there are two.
INPUT = re.compile(r"a-([0-9]{1,3})(?:_[01])?")


def _name(position: int) -> str:
    return f"a-{position}"
