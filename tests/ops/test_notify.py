"""Telling a person that something waits for them."""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import django
import pytest
from django.contrib.auth.models import Group, User
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMultiAlternatives
from django.utils import translation

from elicitation import inbox
from elicitation.inbox import notify
from elicitation.models import Elicitation
from tests.asking import allow

from .conftest import ANSWER, age, answer, park

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def on(settings: SettingsWrapper) -> SettingsWrapper:
    settings.ELICITATION_EMAIL = True
    settings.ELICITATION_BASE_URL = "https://site.example"
    return settings


def sent() -> EmailMultiAlternatives:
    (message,) = mail.outbox
    assert isinstance(message, EmailMultiAlternatives)
    return message


def test_it_is_off_by_default(user: User) -> None:
    (asked,) = park(user)
    assert mail.outbox == []
    asked.refresh_from_db()
    assert asked.notified_at is None


def test_one_e_mail_a_question(on: SettingsWrapper, user: User) -> None:
    (asked,) = park(user)
    message = sent()
    assert message.to == ["ada@example.test"]
    assert message.extra_headers == {"Auto-Submitted": "auto-generated"}
    assert not notify.send_email(asked.pk)
    assert len(mail.outbox) == 1
    asked.refresh_from_db()
    assert asked.notified_at is not None


def test_it_has_the_label_and_a_link_and_nothing_that_a_server_wrote(
    on: SettingsWrapper, user: User
) -> None:
    allow(label="A & B")
    (asked,) = park(user, "Dear sir, send me your <b>password</b>", call="call-of-the-agent")
    message = sent()
    ((html, kind),) = message.alternatives
    link = f"https://site.example/elicitation/{asked.pk}/"
    assert message.subject == "A & B asks you something"
    assert kind == "text/html"
    assert link in message.body
    assert "“A & B”" in message.body
    assert f'<a href="{link}">' in html
    assert "“A &amp; B”" in html
    for text in ("password", "buy", "chat-1", "call-of-the-agent", "name", "state"):
        assert text not in f"{message.subject} {message.body} {html}"


def test_it_is_in_the_language_of_the_person(
    on: SettingsWrapper, user: User, other_user: User
) -> None:
    on.ELICITATION_USER_LANGUAGE = f"{__name__}.language"
    with translation.override("fr"):
        park(user)
        park(other_user, call="call-2")
    ((arabic, _),), ((english, _),) = (message.alternatives for message in mail.outbox)  # type: ignore[attr-defined]
    assert '<html lang="ar" dir="rtl">' in arabic
    assert '<html lang="en" dir="ltr">' in english


def language(user: User) -> str:
    return {"ada": "ar"}.get(user.username, "en")


def test_by_default_it_is_in_the_language_of_the_site(on: SettingsWrapper, user: User) -> None:
    on.LANGUAGE_CODE = "de"
    with translation.override("fr"):
        park(user)
    ((html, _),) = sent().alternatives
    assert '<html lang="de" dir="ltr">' in html


@pytest.mark.parametrize(
    "why", ["answered", "expired", "unknown", "deleted", "inactive", "no mail"]
)
def test_none_is_sent(why: str, on: SettingsWrapper, user: User) -> None:
    on.ELICITATION_EMAIL = False
    (asked,) = park(user)
    if why == "answered":
        # Before the sender, a queue's worker for example, came to it.
        answer(asked, user)
    elif why == "expired":
        age(asked, expires_at=1)
    elif why == "deleted":
        user.delete()
    elif why == "inactive":
        User.objects.update(is_active=False)
    elif why == "no mail":
        User.objects.update(email="")
    assert not notify.send_email(uuid4() if why == "unknown" else asked.pk)
    assert mail.outbox == []


def test_of_two_senders_one_sends(
    on: SettingsWrapper, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    on.ELICITATION_EMAIL = False
    (asked,) = park(user)
    real = notify._address

    def address(user: User) -> str:
        with monkeypatch.context() as patched:
            patched.setattr(notify, "_address", real)
            assert notify.send_email(asked.pk)
        return real(user)

    monkeypatch.setattr(notify, "_address", address)
    assert not notify.send_email(asked.pk)
    assert len(mail.outbox) == 1


def test_case_F6_one_bad_address_keeps_no_mail_from_the_others(
    on: SettingsWrapper, user: User, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    on.ELICITATION_ACCESS = "elicitation.inbox.access.GroupAccess"
    group = Group.objects.create(name="team")
    others = [
        User.objects.create_user(name, email=f"{name}@site.example") for name in ("bad", "grace")
    ]
    for person in (user, *others):
        person.groups.add(group)
    real = EmailMultiAlternatives.send

    def send(self: Any) -> int:
        if self.to == ["bad@site.example"]:
            raise smtplib.SMTPRecipientsRefused({"bad@site.example": (550, b"no such user")})
        return real(self)

    monkeypatch.setattr(EmailMultiAlternatives, "send", send)
    with caplog.at_level(logging.WARNING, "elicitation"):
        (asked,) = park(user)
    assert sorted(message.to[0] for message in mail.outbox) == sorted(
        [user.email, "grace@site.example"]
    )
    asked.refresh_from_db()
    assert asked.notified_at is not None
    assert "bad@site.example" not in str([vars(one) for one in caplog.records])


if django.VERSION < (6, 1):  # later, MAILERS has the time-outs

    def test_case_F6_a_mail_server_gets_no_more_than_some_seconds(
        on: SettingsWrapper, user: User
    ) -> None:
        (asked,) = park(user)
        on.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"

        def patience() -> object:
            return notify._message(asked, "https://site.example", user.email).connection.timeout

        assert patience() == 10
        on.EMAIL_TIMEOUT = 3
        assert patience() == 3


def test_a_mail_server_that_is_away_disturbs_nobody_and_is_tried_when_asked_again(
    on: SettingsWrapper, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(self: Any) -> int:
        raise smtplib.SMTPServerDisconnected

    with monkeypatch.context() as patched:
        patched.setattr(EmailMultiAlternatives, "send", send)
        (asked,) = park(user)
    asked = Elicitation.objects.pending().get(pk=asked.pk)
    assert asked.notified_at is None
    assert notify.send_email(asked.pk)


def test_without_a_base_url_it_says_what_to_set(user: User, settings: SettingsWrapper) -> None:
    (asked,) = park(user)
    with pytest.raises(ImproperlyConfigured, match="ELICITATION_BASE_URL"):
        notify.send_email(asked.pk)


called: list[UUID] = []


def hook(elicitation_id: UUID) -> None:
    called.append(elicitation_id)
    raise RuntimeError


@pytest.fixture
def hooked(settings: SettingsWrapper) -> Iterator[list[UUID]]:
    settings.ELICITATION_NOTIFY = f"{__name__}.hook"
    yield called
    called.clear()


def test_the_hook_is_called_and_its_errors_disturb_nobody(
    on: SettingsWrapper, hooked: list[UUID], user: User
) -> None:
    (asked,) = park(user)
    assert hooked == [asked.pk]
    assert len(mail.outbox) == 1


def test_nothing_of_it_is_logged_but_ids(
    on: SettingsWrapper, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "elicitation"):
        (asked,) = park(user, "A message")
        answer(asked, user)
    records = str([vars(record) for record in caplog.records])
    assert str(asked.pk) in records
    for text in ("A message", "ada@example.test", ANSWER):
        assert text not in records


def test_closing_sends_none(on: SettingsWrapper, user: User) -> None:
    (asked,) = park(user)
    inbox.withdraw(asked.pk)
    assert len(mail.outbox) == 1
