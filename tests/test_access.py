"""Who may see and answer a question: one object, asked by inbox, pages, API and notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse

from elicitation import inbox
from elicitation.checks import check_settings
from elicitation.core import FormAnswer
from elicitation.inbox.access import RespondentAccess, access
from elicitation.inbox.notify import send_email
from elicitation.models import Elicitation, StoredFormAnswer
from tests.asking import ask, schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from elicitation.models import ElicitationQuerySet

pytestmark = pytest.mark.django_db

ASKED = schema("name", name={"type": "string"})
PATHS = {
    "respondent": "elicitation.inbox.access.RespondentAccess",
    "group": "elicitation.inbox.access.GroupAccess",
    "permission": "elicitation.inbox.access.PermissionAccess",
}


class AuditorAccess(RespondentAccess):
    """A project's own rule."""

    def visible(self, elicitations: ElicitationQuerySet, user: Any) -> ElicitationQuerySet:
        return elicitations.filter(tool="buy") if user.username == "grace" else elicitations.none()


@pytest.fixture
def question(user: User) -> Elicitation:
    return ask(user, ASKED)


def share_a_group(*people: User) -> None:
    for person in people:
        person.groups.add(*Group.objects.get_or_create(name="team")[:1])


def may_answer_any(person: User) -> None:
    person.user_permissions.add(Permission.objects.get(codename="answer_any"))


def test_somebody_who_was_never_saved_sees_nothing_of_people_who_are_gone(
    user: User, settings: Any
) -> None:
    """Such a person's key is ``None``, and so is the respondent of whoever was deleted."""
    question = ask(user, ASKED)
    Elicitation.objects.update(respondent=None)
    nobody = User(username="nobody")
    assert nobody.is_authenticated
    for settings.ELICITATION_ACCESS in (PATHS["respondent"], PATHS["permission"]):
        assert not inbox.visible(nobody).exists()
        with pytest.raises(Elicitation.DoesNotExist):
            inbox.get(nobody, question.pk)


def sees(client: Client, person: User, question: Elicitation) -> dict[str, bool]:
    """Whether each face shows a question to a person."""
    client.force_login(person)
    try:
        inbox.get(person, question.pk)
        by_id = True
    except Elicitation.DoesNotExist:
        by_id = False
    listed = client.get(reverse("elicitation_api:list")).json()["results"]
    detail = reverse("elicitation_api:detail", args=[question.pk])
    return {
        "inbox.get": by_id,
        "inbox.waiting": question in inbox.waiting(person),
        "inbox.visible": question in inbox.visible(person),
        "inbox page": question.get_absolute_url()
        in client.get(reverse("elicitation:inbox")).content.decode(),
        "page": client.get(question.get_absolute_url()).status_code == 200,
        "API list": bool(listed),
        "API": client.get(detail).status_code == 200,
    }


CASES: list[tuple[str, Callable[[User, User], None], bool]] = [
    ("respondent", lambda ada, grace: None, False),
    ("respondent", share_a_group, False),
    ("respondent", lambda ada, grace: may_answer_any(grace), False),
    ("group", lambda ada, grace: None, False),
    ("group", share_a_group, True),
    ("group", lambda ada, grace: share_a_group(grace), False),
    ("permission", lambda ada, grace: share_a_group(ada, grace), False),
    ("permission", lambda ada, grace: may_answer_any(grace), True),
]


@pytest.mark.parametrize(("name", "prepare", "shared"), CASES)
def test_every_face_asks_the_same_object(
    client: Client,
    user: User,
    other_user: User,
    question: Elicitation,
    settings: Any,
    name: str,
    prepare: Callable[[User, User], None],
    shared: bool,
) -> None:
    settings.ELICITATION_ACCESS = PATHS[name]
    prepare(user, other_user)
    other_user = User.objects.get(pk=other_user.pk)
    assert set(sees(client, other_user, question).values()) == {shared}
    assert set(sees(client, user, question).values()) == {True}


@pytest.mark.parametrize("name", ["group", "permission"])
@pytest.mark.parametrize("face", ["page", "api", "inbox"])
def test_an_answer_in_somebody_s_stead_is_recorded_as_such(
    client: Client,
    user: User,
    other_user: User,
    question: Elicitation,
    settings: Any,
    name: str,
    face: str,
) -> None:
    settings.ELICITATION_ACCESS = PATHS[name]
    share_a_group(user, other_user)
    may_answer_any(other_user)
    client.force_login(other_user)
    if face == "page":
        data = {"a-0": "Ada", "fingerprint": question.fingerprint}
        assert client.post(question.get_absolute_url(), data).status_code == 302
    elif face == "api":
        url = reverse("elicitation_api:answer", args=[question.pk])
        data = {"content": {"name": "Ada"}}
        assert client.post(url, data, content_type="application/json").status_code == 200
    else:
        inbox.answer(question.pk, {"name": FormAnswer(other_text="Ada")}, by=other_user)
    question.refresh_from_db()
    assert (question.respondent, question.closed_by) == (user, other_user)
    # The call takes it as its respondent's.
    assert StoredFormAnswer.objects.get().respondent == user
    assert list(inbox.recent(other_user)) == list(inbox.recent(user)) == [question]


def test_a_project_s_own_rule_decides(
    client: Client, user: User, other_user: User, question: Elicitation, settings: Any
) -> None:
    settings.ELICITATION_ACCESS = "tests.test_access.AuditorAccess"
    assert set(sees(client, other_user, question).values()) == {True}
    assert set(sees(client, user, question).values()) == {False}
    with pytest.raises(Elicitation.DoesNotExist):
        inbox.decline(question.pk, by=user)


def test_who_is_told(user: User, other_user: User, question: Elicitation, settings: Any) -> None:
    share_a_group(user, other_user)
    may_answer_any(other_user)
    told = {}
    for name, path in PATHS.items():
        settings.ELICITATION_ACCESS = path
        told[name] = set(access().people(question))
    assert told == {"respondent": {user}, "group": {user, other_user}, "permission": {user}}
    question.respondent = None
    assert not access().people(question)


def test_those_who_are_told_get_an_e_mail_each(
    user: User, other_user: User, question: Elicitation, settings: Any, mailoutbox: list[Any]
) -> None:
    settings.ELICITATION_BASE_URL = "https://example.com"
    settings.ELICITATION_ACCESS = PATHS["group"]
    share_a_group(user, other_user)
    assert send_email(question.pk)
    assert {message.to[0] for message in mailoutbox} == {user.email, other_user.email}
    assert {len(message.to) for message in mailoutbox} == {1}
    assert not send_email(question.pk)
    assert len(mailoutbox) == 2


def test_nobody_in_particular_sees_nothing(question: Elicitation) -> None:
    # The account was deleted: to look for "no respondent" would find the question.
    Elicitation.objects.update(respondent=None)
    nobody: Any = AnonymousUser()
    assert not inbox.visible(nobody)
    assert not inbox.waiting(nobody)
    assert not inbox.recent(nobody)
    with pytest.raises(Elicitation.DoesNotExist):
        inbox.get(nobody, question.pk)


@pytest.mark.parametrize(
    "path", ["no.such.module", "elicitation.inbox.access", "builtins.str", "x", 5]
)
def test_a_wrong_setting_says_so(
    user: User, question: Elicitation, settings: Any, path: Any
) -> None:
    settings.ELICITATION_ACCESS = path
    with pytest.raises(ImproperlyConfigured, match="ELICITATION_ACCESS"):
        inbox.get(user, question.pk)
    [message] = check_settings(None)
    assert message.id == "elicitation.E001"
    assert "ELICITATION_ACCESS" in message.msg
