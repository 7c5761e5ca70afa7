"""What to tell a person about an answer that does not fit. No text repeats what was typed."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from ..core import AnswerRefusal
from .localised import FORMAT_MESSAGES, is_number, localised_number

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


def refusal_text(refusal: AnswerRefusal) -> str:
    """Return what to tell a person about an answer that does not fit."""
    if refusal.code == "bad_format":
        return str(FORMAT_MESSAGES[str(refusal.params["format"])])
    params = {
        name: localised_number(str(value)) if is_number(str(value)) else value
        for name, value in refusal.params.items()
    }
    return str(MESSAGES[refusal.code]) % params
