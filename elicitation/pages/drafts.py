"""What was typed and not sent: kept in the browser, and shown again where it was refused.

Nothing of it is stored here (docs/decisions/no-drafts-on-the-server.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, QueryDict
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_variables

from ..models import Elicitation
from .forms import INPUT, ElicitationForm


@dataclass(frozen=True, slots=True)
class Typed:
    """One question with what was typed for it; all but ``place`` is text of others."""

    place: str
    title: str
    lines: Sequence[str]


def person_key(user_id: object) -> str:
    """Return what stands for a person in a browser: a digest that only this site can make."""
    return salted_hmac("elicitation.draft", str(user_id), algorithm="sha256").hexdigest()[:16]


def draft_key(elicitation: Elicitation) -> str:
    """Return the key of a draft, for the person for whom this row was read."""
    person = person_key(elicitation.read_for)
    return f"{person}:{elicitation.pk}:{elicitation.fingerprint}"


def is_from_here(request: HttpRequest) -> bool:
    """Whether a page of this site posted it: what another site sent is not shown as typed."""
    return request.headers.get("Origin") == f"{request.scheme}://{request.get_host()}"


@sensitive_variables()
def typed(data: QueryDict, form: ElicitationForm | None = None) -> list[Typed]:
    """Return what was typed into a form.

    Args:
        data: What was posted.
        form: The form of it, if the person may see it and if it is the one that was posted.
            Without it questions have their numbers alone, and options their values.
    """
    if form is not None:
        return [
            Typed(question.place, question.title, question.typed)
            for question in form.questions
            if question.typed
        ]
    found: dict[int, list[Any]] = {}
    for name in data:
        part = INPUT.fullmatch(name)
        if part is not None and any(data.getlist(name)):
            found.setdefault(int(part[1]), []).extend(data.getlist(name))
    return [
        Typed(gettext("Question %(number)s") % {"number": position + 1}, "", lines)
        for position, lines in sorted(found.items())
    ]
