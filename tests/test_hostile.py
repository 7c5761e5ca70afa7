"""Hostile text, in every place that a server can write to: it stays text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.urls import reverse

from elicitation.core import ElicitationError
from elicitation.core.untrusted import visible
from elicitation.inbox import notify
from elicitation.models import Elicitation, ServerPolicy, check_name
from tests.asking import allow, ask, schema
from tests.hostile import HOSTILE
from tests.reading_html import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.contrib.auth.models import User
    from django.core.mail import EmailMultiAlternatives
    from django.test import Client
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db

#: A message after which the warning stands out, and a name that is flagged: so every page has
#: these notices, whatever the text, and differs in nothing else.
SECRET, MIXED = "Your password?", "Pаypal"

BUY = schema(plan={"type": "string", "enum": ["free", "pro"]})


def pages_with(client: Client, elicitation: Elicitation, *, listed: bool) -> list[Page]:
    """Return the pages that show a question, with what differs each time made the same."""
    addresses = [elicitation.get_absolute_url()] + [reverse("elicitation:inbox")] * listed
    found = [client.get(address) for address in addresses]
    elicitation.delete()
    assert {response.status_code for response in found} == {200}
    return [
        Page(
            re.sub(
                r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=value=")\w{64}|(?<=datetime=")[^"]+',
                "…",
                response.content.decode(),
            )
        )
        for response in found
    ]


def in_message(user: User, text: str) -> Elicitation:
    return ask(user, BUY, f"before {text} password", server=MIXED)


def in_title(user: User, text: str) -> Elicitation:
    return ask(
        user,
        schema(x={"type": "string", "title": f"before {text}"[:200]}),
        message=SECRET,
        server=MIXED,
    )


def in_description(user: User, text: str) -> Elicitation:
    return ask(
        user,
        schema(x={"type": "integer", "description": f"before {text}"}),
        message=SECRET,
        server=MIXED,
    )


def in_label(user: User, text: str) -> Elicitation:
    return ask(
        user,
        schema(x={"oneOf": [{"const": "a", "title": text}, {"const": "b"}]}),
        message=SECRET,
        server=MIXED,
    )


def in_value(user: User, text: str) -> Elicitation:
    return ask(
        user,
        schema(x={"oneOf": [{"const": text, "title": "A"}, {"const": "b"}]}),
        message=SECRET,
        server=MIXED,
    )


def in_select(user: User, text: str) -> Elicitation:
    return ask(
        user, schema(x={"enum": [text, *map(str, range(20))]}), message=SECRET, server=MIXED
    )


def in_checkbox(user: User, text: str) -> Elicitation:
    return ask(
        user,
        schema(x={"type": "array", "items": {"type": "string", "enum": [text, "b" * 20]}}),
        message=SECRET,
        server=MIXED,
    )


def in_name(user: User, text: str) -> Elicitation:
    return ask(
        user,
        {"type": "object", "properties": {text: {"type": "string"}}},
        message=SECRET,
        server=MIXED,
    )


def in_format(user: User, text: str) -> Elicitation:
    return ask(user, schema(x={"type": "string", "format": text}), message=SECRET, server=MIXED)


# Names are checked by the call that is parked, before anything is asked.


def in_server_name(user: User, text: str) -> Elicitation:
    name = check_name("The server", f"{MIXED} {text}")
    return ask(user, BUY, message=SECRET, server=name)


def in_server_label(user: User, text: str) -> Elicitation:
    ServerPolicy.objects.all().delete()
    allow(label=f"{MIXED} {check_name('The label', text)}"[:64])
    return ask(user, BUY, message=SECRET)


def in_tool(user: User, text: str) -> Elicitation:
    return ask(user, BUY, message=SECRET, server=MIXED, tool=check_name("The tool", text))


def in_scope_label(user: User, text: str) -> Elicitation:
    label = check_name("The label", text)[:64]
    return ask(user, BUY, message=SECRET, server=MIXED, scope_label=label)


PLACES = (
    in_message,
    in_title,
    in_description,
    in_label,
    in_value,
    in_select,
    in_checkbox,
    in_name,
    in_format,
    in_server_name,
    in_server_label,
    in_tool,
    in_scope_label,
)

#: What the inbox shows as well.
LISTED = (in_message, in_server_name, in_server_label, in_scope_label)


def asked_with_hostile_text(
    place: Callable[[User, str], Elicitation], user: User
) -> Iterator[tuple[str, Elicitation]]:
    """Ask with each text in this place; what is refused is not shown, and left out."""
    for text in HOSTILE:
        try:
            elicitation = place(user, text)
        except ElicitationError:
            continue
        yield text, elicitation


def test_the_corpus_is_large() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60


@pytest.mark.parametrize("place", PLACES)
def test_line_03_hostile_text_stays_text(
    place: Callable[[User, str], Elicitation], client: Client, user: User
) -> None:
    """No element, attribute or link comes of it: the pages have the elements that they have with
    harmless text, and what was not refused can be read in them."""
    client.force_login(user)
    listed = place in LISTED
    harmless = [
        shown.skeleton() for shown in pages_with(client, place(user, "harmless"), listed=listed)
    ]
    shown_here = 0
    for text, elicitation in asked_with_hostile_text(place, user):
        pages = pages_with(client, elicitation, listed=listed)
        assert [shown.skeleton() for shown in pages] == harmless, repr(text)
        # Names are cut.
        assert " ".join(visible(text).split())[:20].strip() in pages[0].text, repr(text)
        shown_here += 1
    # Names of properties are letters, digits and three signs.
    assert shown_here > (2 if place is in_name else 50)


def test_hostile_text_that_was_typed_stays_text(client: Client, user: User) -> None:
    """What does not fit is shown again in its input, as it was typed."""
    client.force_login(user)
    short = {"type": "string", "maxLength": 1}
    asked = ask(user, schema("n", "t", n={"type": "integer"}, t=short))

    def shown_again(text: str) -> Page:
        data = {"fingerprint": asked.fingerprint, "a-0": f"not {text}", "a-1": f"not {text}"}
        response = client.post(asked.get_absolute_url(), data)
        assert response.status_code == 422
        return Page(response.content.decode())

    def elements(shown: Page) -> list[tuple[str, tuple[str, ...]]]:
        return [(element.tag, tuple(element.attrs)) for element in shown.elements]

    harmless = elements(shown_again("harmless"))
    # No browser sends half a character.
    for text in [text for text in HOSTILE if text.encode(errors="ignore").decode() == text]:
        shown = shown_again(text)
        assert elements(shown) == harmless, repr(text)
        assert shown.one("input", name="a-0").attrs["value"] == f"not {text}", repr(text)


# --- In the admin, and in e-mail -------------------------------------------------------------


def structure(shown: Page) -> list[tuple[str, tuple[str, ...]]]:
    """Every element with the names of its attributes; each link stays on this site."""
    for element in shown.elements:
        for name in ("href", "src", "action"):
            assert element.attrs.get(name, "/").startswith(("/", "?", "#", ".")), element
    return [(element.tag, tuple(sorted(element.attrs))) for element in shown.elements]


@pytest.mark.parametrize("place", PLACES)
def test_hostile_text_stays_text_in_the_admin(
    place: Callable[[User, str], Elicitation], admin_client: Client, user: User
) -> None:
    def shown(elicitation: Elicitation) -> list[Page]:
        base = "admin:elicitation_elicitation_"
        addresses = [reverse(f"{base}changelist"), reverse(f"{base}change", args=[elicitation.pk])]
        found = [admin_client.get(address) for address in addresses]
        elicitation.delete()
        assert {response.status_code for response in found} == {200}
        return [Page(response.content.decode()) for response in found]

    harmless = [structure(page) for page in shown(place(user, "harmless"))]
    shown_here = 0
    for text, elicitation in asked_with_hostile_text(place, user):
        assert [structure(page) for page in shown(elicitation)] == harmless, repr(text)
        shown_here += 1
    assert shown_here > (2 if place is in_name else 50)


@pytest.mark.parametrize("place", PLACES)
def test_hostile_text_is_not_in_an_e_mail(
    place: Callable[[User, str], Elicitation],
    user: User,
    settings: SettingsWrapper,
    mailoutbox: list[EmailMultiAlternatives],
) -> None:
    """It has the operator's label and a link; the label is text, and nothing else is there."""
    settings.ELICITATION_BASE_URL = "https://site.test"

    def sent(elicitation: Elicitation) -> tuple[str, str, Page]:
        assert notify.send_email(elicitation.pk)
        message = mailoutbox.pop()
        ((html, _kind),) = message.alternatives  # type: ignore[misc]
        address = elicitation.get_absolute_url()
        elicitation.delete()
        texts = (f"{message.subject}\n{message.body}", str(html))
        plain, marked_up = (text.replace(address, "…") for text in texts)
        return plain, marked_up, Page(marked_up)

    plain, plain_html, page = sent(place(user, "harmless"))
    skeleton = page.skeleton()
    is_label = place in (in_server_name, in_server_label)
    for text, elicitation in asked_with_hostile_text(place, user):
        body, html, page = sent(elicitation)
        assert page.skeleton() == skeleton, repr(text)
        if not is_label:
            assert (body, html) == (plain, plain_html), repr(text)
