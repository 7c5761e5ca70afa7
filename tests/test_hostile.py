"""Hostile text, in every place that a server can write to: it stays text."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import pytest
from django.urls import reverse

from elicitation.core.untrusted import visible
from elicitation.inbox import notify
from tests.asking import ask, schema
from tests.hostile import EVERYWHERE, HOSTILE, accepted, ask_with
from tests.reading_html import Page, page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set

    from django.contrib.auth.models import User
    from django.core.mail import EmailMultiAlternatives
    from django.test import Client
    from pytest_django.fixtures import SettingsWrapper

    from elicitation.models import Elicitation

pytestmark = pytest.mark.django_db

HARMLESS = "harmless"

Shown = TypeVar("Shown")

#: A label takes the place of the server's name, so it is in a question of its own.
IN_TWO_QUESTIONS = {"question": EVERYWHERE - {"server label"}, "label": {"server label"}}


def hostile_beside_harmless(
    user: User, among: Set[str], show: Callable[[Elicitation], Shown]
) -> Iterator[tuple[str, Shown, Shown]]:
    """Show a question with each text in all places among these that accept it.

    Yields:
        The text, what was shown, and what is shown with a harmless text in the same places.
    """
    harmless: dict[frozenset[str], Shown] = {}
    for text in HOSTILE:
        if places := accepted(text) & among:
            if places not in harmless:
                harmless[places] = show(ask_with(dict.fromkeys(places, HARMLESS), user))
            yield text, show(ask_with(dict.fromkeys(places, text), user)), harmless[places]


def test_the_corpus_is_large() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60
    texts = Counter(place for text in HOSTILE for place in accepted(text))
    assert set(texts) == EVERYWHERE
    # Names of properties are letters, digits and three signs.
    assert texts.pop("name of a property") > 2
    assert min(texts.values()) > 50


@pytest.mark.parametrize("among", IN_TWO_QUESTIONS)
def test_every_place_can_be_read(among: str, client: Client, user: User) -> None:
    """So there is something to compare in what follows."""
    client.force_login(user)
    texts = {place: f"in-{place.replace(' ', '-')}-" for place in IN_TWO_QUESTIONS[among]}
    shown = page(client.get(ask_with(texts, user).get_absolute_url())).text
    assert [text for text in texts.values() if text not in shown] == []


@pytest.mark.parametrize("among", IN_TWO_QUESTIONS)
def test_line_03_hostile_text_stays_text(among: str, client: Client, user: User) -> None:
    """No element, attribute or link comes of it: the pages have the elements that they have with
    harmless text, and what was not refused can be read in them."""
    client.force_login(user)

    def show(elicitation: Elicitation) -> list[Page]:
        addresses = [elicitation.get_absolute_url(), reverse("elicitation:inbox")]
        found = [client.get(address) for address in addresses]
        elicitation.delete()
        assert {response.status_code for response in found} == {200}
        # What differs each time is made the same.
        changing = r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=value=")\w{64}'
        changing += r'|(?<=datetime=")[^"]+|(?<=:)[0-9a-f]{64}'
        return [Page(re.sub(changing, "…", response.content.decode())) for response in found]

    for text, shown, harmless in hostile_beside_harmless(user, IN_TWO_QUESTIONS[among], show):
        skeletons = [each.skeleton() for each in shown]
        assert skeletons == [each.skeleton() for each in harmless], repr(text)
        # Names are cut.
        readable = " ".join(visible(text).split())[:20].strip()
        times = harmless[0].text.count(HARMLESS)
        assert shown[0].text.count(readable) >= times, repr(text)


def test_hostile_text_that_was_typed_stays_text(client: Client, user: User) -> None:
    """What does not fit is shown again in its input, as it was typed."""
    client.force_login(user)
    # Several lines: a field of one line becomes one of several where it has to.
    long = {"type": "string", "minLength": 90_000}
    asked = ask(user, schema("n", "t", n={"type": "integer"}, t=long))

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


@pytest.mark.parametrize("among", IN_TWO_QUESTIONS)
def test_hostile_text_stays_text_in_the_admin(
    among: str, admin_client: Client, user: User
) -> None:
    def show(elicitation: Elicitation) -> list[list[tuple[str, tuple[str, ...]]]]:
        base = "admin:elicitation_elicitation_"
        addresses = [reverse(f"{base}changelist"), reverse(f"{base}change", args=[elicitation.pk])]
        found = [admin_client.get(address) for address in addresses]
        elicitation.delete()
        assert {response.status_code for response in found} == {200}
        return [structure(Page(response.content.decode())) for response in found]

    for text, shown, harmless in hostile_beside_harmless(user, IN_TWO_QUESTIONS[among], show):
        assert shown == harmless, repr(text)


@pytest.mark.parametrize(
    ("among", "is_label"),
    [
        (EVERYWHERE - {"server", "server label"}, False),
        ({"server"}, True),
        ({"server label"}, True),
    ],
)
def test_hostile_text_is_not_in_an_e_mail(
    among: Set[str],
    is_label: bool,
    user: User,
    settings: SettingsWrapper,
    mailoutbox: list[EmailMultiAlternatives],
) -> None:
    """It has the operator's label and a link; the label is text, and nothing else is there."""
    settings.ELICITATION_BASE_URL = "https://site.test"

    def show(elicitation: Elicitation) -> tuple[str, str]:
        assert notify.send_email(elicitation.pk)
        message = mailoutbox.pop()
        ((html, _kind),) = message.alternatives  # type: ignore[misc]
        address = elicitation.get_absolute_url()
        elicitation.delete()
        plain = f"{message.subject}\n{message.body}"
        return plain.replace(address, "…"), str(html).replace(address, "…")

    for text, shown, harmless in hostile_beside_harmless(user, among, show):
        assert Page(shown[1]).skeleton() == Page(harmless[1]).skeleton(), repr(text)
        if not is_label:
            assert shown == harmless, repr(text)
