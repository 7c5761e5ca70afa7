"""Django's widgets, where they have to do a little more than by default."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.utils import timezone

from .localised import zones


class Radios(forms.RadioSelect):
    """Radio buttons of which none is chosen at first, "No answer" neither."""

    def format_value(self, value: Any) -> list[str]:
        # None is nothing chosen; "" is "No answer", chosen.
        return [] if value is None else [str(value)]


def typed(input_type: str) -> forms.TextInput:
    """Return an input of one of the browser's own types, whose value is never localised."""
    return forms.TextInput({"type": input_type, "class": "elicitation-short"})


class Moment(forms.MultiWidget):
    """A local time and the name of a zone."""

    def __init__(self) -> None:
        self.here = timezone.get_current_timezone_name()
        areas = zones()
        if not any(self.here == name for listed in areas.values() for name, _place in listed):
            areas = {self.here: [(self.here, self.here)], **areas}
        super().__init__([typed("datetime-local"), forms.Select(choices=list(areas.items()))])

    def decompress(self, value: Any) -> list[str]:
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            return ["", self.here]
        local = moment.astimezone(timezone.get_current_timezone())
        return [local.replace(tzinfo=None).isoformat(), self.here]
