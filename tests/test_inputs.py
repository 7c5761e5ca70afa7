"""Inputs are written by the app, and are what Django's templates write, byte by byte."""

from __future__ import annotations

from typing import Any

import pytest
from django.forms.renderers import DjangoTemplates
from django.utils.safestring import mark_safe

from elicitation.pages.forms import _Hidden, _input, _Line, _Radios, _Typed
from tests.hostile import HOSTILE

VALUES = [*HOSTILE, "", " ", "a\nb", "{}", "%s", 0, 1.5, True, False, None, mark_safe("<b>")]
ATTRS: dict[str, Any] = {
    "required": True,
    "id": 'a"b',
    "disabled": True,
    "data-no": False,
    "data-none": None,
    "size": 5,
    "class": "<i>",
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("widget", [_Hidden(), _Line(), _Typed("date")])
def test_an_input_is_what_django_writes(widget: Any, value: Any) -> None:
    context = widget.get_context('a"0', value, ATTRS)
    theirs = DjangoTemplates().render("django/forms/widgets/input.html", context)
    assert widget.render('a"0', value, ATTRS) == theirs.strip("\n")


def test_a_radio_button_is_what_django_writes() -> None:
    widget = _Radios(ATTRS, choices=[(text, text) for text in map(str, VALUES)])
    for button in widget.subwidgets("a-0", str(VALUES[0]), {"id": "x"}):
        context = {"widget": button | {"wrap_label": False}}
        theirs = DjangoTemplates().render(button["template_name"], context)
        assert _input(button) == theirs.strip("\n")
