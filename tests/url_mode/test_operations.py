"""What operators see of an address: the host, and never the rest."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from elicitation import inbox
from elicitation.calls import outbox
from elicitation.inbox import audit
from elicitation.models import Elicitation, ParkedCall, ServerPolicy
from tests.asking import ask_to_open

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "t0p5ecr3t"
ADDRESS = f"https://login.example.com/start/{SECRET}?token={SECRET}"


@pytest.fixture
def admin(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def test_the_admin_shows_the_host_as_text(admin: Client, user: User) -> None:
    question = ask_to_open(user, ADDRESS, parked=True)
    inbox.consent(question.pk, by=user)
    pages = [
        reverse("admin:elicitation_elicitation_changelist"),
        reverse("admin:elicitation_elicitation_change", args=[question.pk]),
        reverse("admin:elicitation_parkedcall_changelist"),
        reverse("admin:elicitation_parkedcall_change", args=[ParkedCall.objects.get().pk]),
        reverse("admin:elicitation_storedformanswer_changelist"),
    ]
    shown = [admin.get(page).content.decode() for page in pages]
    assert all("login.example.com" in page for page in shown[:2])
    for page in shown:
        assert SECRET not in page
        assert "login.example.com/" not in page
        assert "//login" not in page


def test_an_operator_edits_the_domains(admin: Client) -> None:
    policy = ServerPolicy.objects.create(server="shop")
    where = reverse("admin:elicitation_serverpolicy_change", args=[policy.pk])
    sent = {"policy": "url", "allowed_domains": "https://example.com"}
    assert "Write one host per line" in admin.post(where, sent).content.decode()
    sent["allowed_domains"] = "example.com\r\n*.example.com"
    assert admin.post(where, sent).status_code == 302
    policy.refresh_from_db()
    assert policy.allows_host("example.com")
    assert not policy.allows_host("example.org")


def test_the_audit_has_the_host_and_never_the_rest(user: User) -> None:
    inbox.consent(ask_to_open(user, ADDRESS).pk, by=user)
    inbox.decline(ask_to_open(user, ADDRESS, call="2").pk, by=user)
    for record in audit.records():
        assert record["url_host"] == "login.example.com"
        assert SECRET not in json.dumps(record)
    out = StringIO()
    call_command("elicitation_audit", since="2000-01-01", format="csv", stdout=out)
    assert "login.example.com" in out.getvalue()
    assert SECRET not in out.getvalue()


def test_cleaning_up_forgets_addresses_that_nobody_can_open(user: User) -> None:
    fresh, lapsed = (ask_to_open(user, ADDRESS, call=call) for call in "12")
    waiting = ask_to_open(user, ADDRESS, call="3")
    for question in (fresh, lapsed):
        inbox.consent(question.pk, by=user)
    past = timezone.now() - timedelta(minutes=31)
    Elicitation.objects.filter(pk=lapsed.pk).update(closed_at=past)
    for dry_run in (True, False):
        out = StringIO()
        call_command("elicitation_cleanup", stdout=out, dry_run=dry_run)
        assert "removed URLs 1," in out.getvalue()
    kept = {row.pk for row in Elicitation.objects.with_url()}
    assert kept == {fresh.pk, waiting.pk}
    lapsed.refresh_from_db()
    assert (lapsed.url, lapsed.url_host) == ("", "login.example.com")


def test_the_outbox_goes_on_with_a_call_whose_server_still_asks(user: User) -> None:
    question = ask_to_open(user, ADDRESS, parked=True)
    inbox.consent(question.pk, by=user)
    now = timezone.now()
    # Told, asked again, and given up by an outbox that has tried often enough.
    Elicitation.objects.update(resume_at=now, resent=10)
    assert outbox.resend_due(now=now) == (0, 1)
    question.refresh_from_db()
    assert question.delivery == "never_resumed"
    assert inbox.waits_for_completion(question)
    inbox.go_on(question.pk, by=user)
    assert outbox.resend_due(now=now + timedelta(minutes=2)) == (1, 0)
