"""What pages, template tags, the terminal and the API say of an elicitation, in the same words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import settings as app_settings
from ..core.credentials import BROWSER_PATTERN
from ..core.untrusted import mixes_scripts, one_line, speaks_of_secrets
from ..models import Elicitation, ServerPolicy
from . import drafts
from .forms import ElicitationForm

if TYPE_CHECKING:
    from django.http import HttpRequest

State = Elicitation.State

#: How long before its deadline a form says that little time is left.
SOON = timedelta(minutes=10)

HEADINGS: dict[str, Promise] = {
    State.PENDING: _("This request has changed"),
    State.ANSWERED: _("Your answer was stored"),
    State.DECLINED: _("You declined"),
    State.EXPIRED: _("The time to answer is over"),
    State.WITHDRAWN: _("This request was withdrawn"),
}

#: The same if somebody else, or a program, closed it.
HEADINGS_OF_OTHERS: dict[str, Promise] = {
    **HEADINGS,
    State.ANSWERED: _("This request was answered"),
    State.DECLINED: _("This request was declined"),
}

#: The same if it asked to open a URL.
HEADINGS_OF_URLS: dict[str, Promise] = {
    **HEADINGS,
    State.ANSWERED: _("You agreed to open the link"),
}

Delivery = Elicitation.Delivery

#: The heading of an answered form, and its icon: a tick only where the server has the answer.
OUTCOMES: dict[str, tuple[Promise, str]] = {
    Delivery.DELIVERED: (_("Sent: the server has the answer"), "answered"),
    Delivery.SERVER_ERROR: (_("Sent: the server has the answer"), "answered"),
    Delivery.ROUND_LOST: (_("It is not known whether the server has the answer"), "unsent"),
    Delivery.NOT_SENT: (_("Not sent yet: the server cannot be reached"), "unsent"),
    Delivery.DROPPED: (_("Not sent: the server no longer needed the answer"), "unsent"),
    Delivery.SWITCHED_OFF: (_("Not sent: this site has switched the server off"), "unsent"),
    Delivery.NEVER_RESUMED: (_("Not sent: the tool call did not go on in time"), "unsent"),
    Delivery.RESTORED: (_("It is not known whether the server has the answer"), "unsent"),
}

#: The heading where a form or a decline came too late, by what was pressed and by the code of
#: ``inbox.ElicitationClosedError``. The second one is for what the same person did elsewhere.
TOO_LATE: dict[tuple[bool, str], tuple[Promise, Promise]] = {
    (False, "answered"): (
        _("Not sent: the request was answered at %(time)s"),
        _("Not sent: you answered the request at %(time)s in another tab"),
    ),
    (False, "declined"): (
        _("Not sent: the request was declined at %(time)s"),
        _("Not sent: you declined the request at %(time)s in another tab"),
    ),
    (True, "answered"): (
        _("Not declined: the request was answered at %(time)s"),
        _("Not declined: you answered the request at %(time)s in another tab"),
    ),
    (False, "withdrawn"): (_("Not sent: the request was withdrawn"),) * 2,
    (True, "withdrawn"): (_("Not declined: the request was withdrawn"),) * 2,
    (False, "replaced"): (_("Not sent: the request has changed"),) * 2,
}

#: What a person should know of a URL, by ``core.URL_WARNINGS``.
WARNINGS: dict[str, Promise] = {
    "insecure": _("The connection is not encrypted: others can read what you enter."),
    "loopback": _("The link leads to your own computer, not to the Internet."),
    "private_address": _(
        "The link leads to a private network, such as that of a company, not to the Internet."
    ),
    "ip_address": _(
        "The host of the link is a number and not a name. The number does not "
        "show whose link it is."
    ),
    "port": _("The link uses an unusual port."),
    "idn": _(
        "The name in the link has letters beyond a to z. It may only look like a name "
        "that you know."
    ),
    "mixed_scripts": _(
        "The name in the link mixes letters of several scripts. Honest links rarely do."
    ),
    "lookalike": _(
        "Some letters of the name in the link look like other letters. The name "
        "can be mistaken for another name."
    ),
    "imitates": _("The link looks like a link to this site, but it is not."),
    "long": _("The name in the link is very long. The end of the name shows whose link it is."),
}

STATE_NAMES: dict[str, Promise] = {
    State.ANSWERED: _("Answered"),
    State.DECLINED: _("Declined"),
    State.EXPIRED: _("Expired"),
    State.WITHDRAWN: _("Withdrawn"),
}

#: Why what was sent now was not stored, by the code of ``inbox.ElicitationClosedError``.
NOT_STORED: dict[str, Promise] = {
    "answered": _("The request was already answered. What you sent now was not stored."),
    "declined": _("The request was already declined. What you sent now was not stored."),
    "expired": _("What you sent came too late. It was not stored."),
    "withdrawn": _("The request was withdrawn in the meantime. What you sent now was not stored."),
    "replaced": _(
        "The server changed the request while this form was open. What you sent was not stored."
    ),
}


def site_name(request: HttpRequest) -> str:
    """Return what the pages call this site: ``ELICITATION_SITE_NAME``, or else its host."""
    return app_settings.SITE_NAME or request.get_host()


def shown_name(policy: ServerPolicy) -> str:
    """Return the name under which a server is shown: the operator's, on one line."""
    return one_line(policy.display_name)


def outcome(
    elicitation: Elicitation, *, is_own: bool, code: str = "", declining: bool = False
) -> tuple[str, str]:
    """Return the heading of the page of a closed elicitation, and the icon that agrees.

    Args:
        elicitation: The elicitation.
        is_own: Whether the person who looks closed it.
        code: Why nothing was stored, if something was pressed: that of
            ``inbox.ElicitationClosedError``.
        declining: Whether *Decline* was pressed.
    """
    state = elicitation.current_state()
    headings = HEADINGS_OF_URLS if elicitation.is_url else HEADINGS
    heading = str((headings if is_own else HEADINGS_OF_OTHERS)[state])
    if elicitation.is_url:
        return heading, state
    if (declining, code) in TOO_LATE:
        by_anybody, elsewhere = TOO_LATE[declining, code]
        in_a_tab = is_own and elicitation.closed_via == Elicitation.Via.PAGE
        said = str(elsewhere if in_a_tab else by_anybody)
        at = timezone.localtime(elicitation.closed_at or timezone.now())
        is_today = at.date() == timezone.localdate()
        form = "TIME_FORMAT" if is_today else "SHORT_DATETIME_FORMAT"
        look = "unsent" if state == State.ANSWERED else state
        return said % {"time": formats.date_format(at, form)}, look
    if state == State.ANSWERED:
        if elicitation.delivery in OUTCOMES:
            sent, look = OUTCOMES[elicitation.delivery]
            return str(sent), look
        return heading, "stored"
    return heading, state


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request stands in its call, for the person who is asked.

    ``step`` counts the rounds that asked something, ``number`` and ``of`` what this round asks.
    ``before`` is what earlier rounds asked: text of a server, and no answer.
    """

    step: int
    number: int
    of: int
    before: list[str]

    @classmethod
    def of_request(cls, elicitation: Elicitation) -> Place:
        """Return the place of a request, in one query."""
        asked = elicitation.asked_for_call()
        # Whoever else may answer this request may not see the others.
        is_theirs = elicitation.read_for == elicitation.respondent_id
        together = [key for key, number, _text in asked if number == elicitation.round]
        return cls(
            step=len({number for _key, number, _text in asked if number < elicitation.round}) + 1,
            number=together.index(elicitation.pk) + 1,
            of=len(together),
            before=[
                text
                for _key, number, text in asked
                if number < elicitation.round and text and is_theirs
            ],
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One step after an answer. ``state`` is ``stored``, ``done``, ``now`` or ``later``."""

    text: str
    state: str

    @property
    def icon(self) -> str:
        """The icon. That of ``done`` is a tick, which only what the server has done gets."""
        return {"stored": "stored", "done": "answered", "now": "expired"}.get(self.state, "later")


def steps(elicitation: Elicitation, name: str, *, has_ended: bool) -> list[Step]:
    """Return how far an answer is; nothing where it goes no further.

    Args:
        elicitation: The elicitation, in any state.
        name: The name of its server, as it is shown.
        has_ended: Whether its call has.
    """
    goes_on = ("", Delivery.NOT_SENT, Delivery.DELIVERED, Delivery.SERVER_ERROR)
    if elicitation.state != State.ANSWERED or elicitation.delivery not in goes_on:
        return []
    received = elicitation.delivered_at is not None
    if elicitation.delivery == Delivery.SERVER_ERROR:
        last = gettext("The tool has reported an error")
    elif has_ended:
        last = gettext("The tool has finished")
    else:
        last = gettext("The tool finishes")
    return [
        Step(gettext("The request is answered"), "stored"),
        Step(
            gettext("%(server)s has received the answer") % {"server": name}
            if received
            else gettext("%(server)s receives the answer") % {"server": name},
            "done" if received else "now",
        ),
        Step(last, "done" if has_ended else "now" if received else "later"),
    ]


def form_context(
    elicitation: Elicitation,
    policy: ServerPolicy,
    form: ElicitationForm,
    *,
    next_url: str = "",
    ids: str = "elicitation",
    is_first: bool = False,
    site: str = "",
) -> dict[str, Any]:
    """Return what ``elicitation/form.html`` shows.

    Args:
        elicitation: The elicitation.
        policy: What the operator decided about its server.
        form: The form, with or without what was typed.
        next_url: Where to go afterwards; a URL of this site.
        ids: The beginning of the ids of elements, other for each form of a page.
        is_first: Whether this person meets the server for the first time.
        site: The name of this site.
    """
    texts = [elicitation.message]
    for asked in form.questions:
        texts += [asked.title, asked.description]
    name = shown_name(policy)
    return {
        "elicitation": elicitation,
        "form": form,
        "server_name": name,
        "speaks_of_secrets": speaks_of_secrets(*texts),
        "mixes_scripts": mixes_scripts(name),
        "next": next_url,
        "leave_url": next_url or reverse("elicitation:inbox"),
        "ids": ids,
        "is_first": is_first,
        "site": site,
        "place": Place.of_request(elicitation),
        "is_soon": elicitation.expires_at - timezone.now() < SOON,
        "draft": drafts.draft_key(elicitation),
        "credentials": BROWSER_PATTERN,
    }


class Item:
    """An elicitation as the inbox shows it."""

    def __init__(self, elicitation: Elicitation, policy: ServerPolicy, number: str) -> None:
        self.elicitation = elicitation
        self.server_name = shown_name(policy)
        self.number = number
        self.state = elicitation.current_state()
        self.is_open = self.state == State.PENDING
        self.is_unread = self.is_open and elicitation.first_shown_at is None
        self.state_name = STATE_NAMES.get(self.state, "")

    @property
    def closed_at(self) -> datetime:
        """When it was closed; its deadline, if its row is not closed yet."""
        return self.elicitation.closed_at or self.elicitation.expires_at


@dataclass
class Group:
    """The elicitations of one conversation, or those without one."""

    label: str
    items: list[Item] = field(default_factory=list)
    heading: bool = True


def groups(elicitations: Iterable[Elicitation], policies: dict[str, ServerPolicy]) -> list[Group]:
    """Return elicitations by conversation; the group with the first deadline comes first."""
    found: dict[tuple[str, str], Group] = {}
    for number, elicitation in enumerate(elicitations):
        label = elicitation.scope_label
        # Two conversations may have one label; all without a label are one group.
        key = (label, elicitation.scope if label else "")
        group = found.setdefault(key, Group(label))
        group.items.append(Item(elicitation, policies[elicitation.server], f"w{number}"))
    for group in found.values():
        group.heading = bool(group.label) or len(found) > 1
    return list(found.values())
