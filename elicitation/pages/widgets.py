"""Django's widgets, where they have to do a little more than by default."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from .localised import offset_zone, zones


class Radios(forms.RadioSelect):
    """Radio buttons of which none is chosen at first, "No answer" neither."""

    def format_value(self, value: Any) -> list[str]:
        # None is nothing chosen; "" is "No answer", chosen.
        return [] if value is None else [str(value)]


class Line(forms.TextInput):
    """One line, in which Enter sends; several lines where the text already has them."""

    def render(self, name: str, value: Any, *args: Any, **kwargs: Any) -> SafeString:
        if "\n" in str(value or ""):
            return Lines(self.attrs).render(name, value, *args, **kwargs)
        return super().render(name, value, *args, **kwargs)


class Lines(forms.Textarea):
    """Several lines."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__({"rows": "2", **(attrs or {})})


def typed(input_type: str) -> forms.TextInput:
    """Return an input of one of the browser's own types, whose value is never localised."""
    return forms.TextInput({"type": input_type, "class": "elicitation-short"})


class Moment(forms.MultiWidget):
    """A local time and the name of a zone. No zone is chosen: a script chooses the browser's."""

    def __init__(self) -> None:
        choices = [("", gettext("Choose a time zone …")), *zones().items()]
        super().__init__([typed("datetime-local"), forms.Select(choices=choices)])

    def decompress(self, value: Any) -> list[str]:
        """Return a default with its own offset: then exactly this moment is sent."""
        try:
            moment = datetime.fromisoformat(value)
            zone = offset_zone(moment)
            if zone is None:
                moment, zone = moment.astimezone(UTC), "UTC"
        except (TypeError, ValueError, OverflowError):
            return ["", ""]
        local = moment.replace(tzinfo=None).isoformat()
        # A browser's control has at most milliseconds.
        return [local.removesuffix("000") if "." in local else local, zone]

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        """Let the browser show the seconds of a default, and accept others."""
        context: dict[str, Any] = super().get_context(name, value, attrs)
        local = context["widget"]["subwidgets"][0]
        _day, _point, fraction = str(local["value"] or "").partition(".")
        if len(fraction) > 3:
            local["type"] = "text"
        elif str(local["value"] or "").count(":") > 1:
            local["attrs"]["step"] = "any"
        return context
