"""The console for operators, in the admin: figures of servers, timelines, and search."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from elicitation import inbox
from elicitation.calls import refusals
from elicitation.core import FormAnswer
from elicitation.metrics import figures
from elicitation.models import Elicitation, ServerPolicy
from elicitation.signals import elicitation_closed
from tests.asking import allow, ask, ask_to_open
from tests.integration.conftest import Host
from tests.integration.scripted import PLAN, ScriptedServer, form, text
from tests.integration.scripted import ask as asks
from tests.ops.conftest import NAME, answer, park
from tests.reading_html import Page

pytestmark = pytest.mark.django_db(transaction=True)


def one_round(params: Any) -> Any:
    return text("ok") if params.input_responses else asks(k=form("Which plan?", PLAN))


SERVERS = "admin:elicitation_serverpolicy_servers"


def read(client: Client, where: str, status: int = 200, **query: str) -> Page:
    response = client.get(where, query)
    assert response.status_code == status
    return Page(response.content.decode())


def closed(user: User, state: str, seconds: int = 0, **changes: Any) -> Elicitation:
    asked = ask(user, NAME, state=state, **changes)
    at = asked.asked_at + timedelta(seconds=seconds)
    Elicitation.objects.filter(pk=asked.pk).update(closed_at=at)
    return asked


class TestFigures:
    def test_they_count_every_way_in_which_a_request_ends(self, user: User) -> None:
        ask(user, NAME)
        ask(user, NAME, expires_at=timezone.now() - timedelta(seconds=1))
        for seconds in (10, 500, 20, 30):
            closed(user, "answered", seconds)
        closed(user, "answered", 1, delivery="round_lost")
        for state in ("declined", "expired", "withdrawn"):
            closed(user, state)
        for _ in range(3):
            refusals.count("shop", "schema", "why")
        refusals.count("shop", "url", "why")
        ask(user, NAME, server="Shop")
        refusals.count("Shop", "url", "why")
        found = figures("shop")
        assert (found.waiting, found.answered, found.declined, found.expired) == (1, 5, 1, 2)
        assert (found.withdrawn, found.lost, found.refused) == (1, 1, 4)
        assert found.median == timedelta(seconds=20)
        assert found.last_refused_at is not None

    @pytest.mark.parametrize(
        ("took", "median"), [([], None), ([7], 7), ([1, 9], 1), ([9, 1, 5], 5)]
    )
    def test_half_of_the_answers_took_that_long_at_most(
        self, took: list[int], median: int | None, user: User
    ) -> None:
        for seconds in took:
            closed(user, "answered", seconds)
        closed(user, "declined", 1000)
        expected = None if median is None else timedelta(seconds=median)
        assert figures("shop").median == expected

    def test_the_page_of_a_server_has_them_with_the_lists_behind_them(
        self, admin_client: Client, user: User
    ) -> None:
        allow(label="Corner Shop")
        closed(user, "answered", 200)
        refusals.count("shop", "schema", "why")
        shown = read(admin_client, reverse(SERVERS), server="shop")
        assert shown.one("h1").text == "Corner Shop"
        pairs = zip(shown.all("dt"), shown.all("dd"), strict=True)
        values = {term.text: value.text for term, value in pairs}
        assert values["answered"] == values["refused"] == "1"
        assert values["median time to answer"] == "0:03:20"
        for link in shown.all("a"):
            where = link.attrs["href"]
            if "server=shop" in where:
                assert admin_client.get(where).status_code == 200

    def test_the_list_has_every_server_that_the_site_knows(
        self, admin_client: Client, user: User, settings: Any
    ) -> None:
        settings.ELICITATION_SERVERS = {"bank": {"command": "bank", "label": "The <b>bank</b>"}}
        ask(user, NAME, server="unknown & new")
        shown = read(admin_client, reverse(SERVERS))
        assert "The <b>bank</b>" in shown.text
        links = [link.attrs["href"] for link in shown.all("a") if link.attrs["href"][:1] == "?"]
        assert len(links) == 2
        for link in links:
            read(admin_client, f"{reverse(SERVERS)}{link}")

    def test_a_server_that_nobody_knows_has_no_page(self, admin_client: Client) -> None:
        read(admin_client, reverse(SERVERS), 404, server="unknown")

    @pytest.mark.parametrize("missing", ["view_elicitation", "view_serverpolicy"])
    def test_it_takes_both_permissions(self, missing: str, client: Client) -> None:
        person = User.objects.create_user("oscar", is_staff=True)
        both = {"view_elicitation", "view_serverpolicy"}
        client.force_login(person)
        person.user_permissions.set(Permission.objects.filter(codename__in=both - {missing}))
        assert client.get(reverse(SERVERS)).status_code == 403
        person.user_permissions.set(Permission.objects.filter(codename__in=both))
        assert client.get(reverse(SERVERS)).status_code == 200


class TestOneRequest:
    def where(self, row: Elicitation) -> str:
        return reverse("admin:elicitation_elicitation_change", args=[row.pk])

    def test_a_timeline_says_step_by_step_what_became_of_it(
        self, admin_client: Client, user: User
    ) -> None:
        (asked,) = park(user)
        answer(asked, user)
        asked.refresh_from_db()
        begin = asked.asked_at
        Elicitation.objects.update(
            notified_at=begin + timedelta(seconds=1),
            first_shown_at=begin + timedelta(seconds=2),
            closed_at=begin + timedelta(seconds=3),
            delivered_at=begin + timedelta(seconds=4),
            delivery="delivered",
        )
        steps = read(admin_client, self.where(asked)).all("li", class_="elicitation-step")
        found = [step.text for step in steps]
        ends = ["asked", "e-mail sent", "shown for the first time"]
        ends += ["answered by ada, through: web page", "delivered"]
        assert [step[-len(end) :] for step, end in zip(found, ends, strict=True)] == ends

    def test_a_step_that_did_not_happen_is_not_there(
        self, admin_client: Client, user: User
    ) -> None:
        asked = ask(user, NAME)
        shown = read(admin_client, self.where(asked))
        assert len(shown.all("li", class_="elicitation-step")) == 1

    def test_it_leads_to_call_policy_and_person(self, admin_client: Client, user: User) -> None:
        (asked,) = park(user)
        links = {link.attrs.get("href") for link in read(admin_client, self.where(asked)).all("a")}
        policy = ServerPolicy.objects.get()
        for name, key in (
            ("elicitation_serverpolicy", policy.pk),
            ("elicitation_parkedcall", asked.parked_call_id),
            ("auth_user", user.pk),
        ):
            where = reverse(f"admin:{name}_change", args=[key])
            assert where in links
            assert admin_client.get(where).status_code == 200

    def test_a_server_of_the_settings_has_its_label_and_no_policy_yet(
        self, admin_client: Client, user: User, settings: Any
    ) -> None:
        settings.ELICITATION_SERVERS = {"shop": {"command": "shop", "label": "Corner Shop"}}
        shown = read(admin_client, self.where(ask(user, NAME)))
        assert "Corner Shop" in shown.text
        add = reverse("admin:elicitation_serverpolicy_add", query={"server": "shop"})
        assert add in {link.attrs.get("href") for link in shown.all("a")}


def act(client: Client, action: str, *rows: Elicitation) -> str:
    sent = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
    where = reverse("admin:elicitation_elicitation_changelist")
    return client.post(where, sent, follow=True).content.decode()


class TestActions:
    def test_people_are_notified_again_of_what_is_open(
        self, admin_client: Client, user: User, settings: Any
    ) -> None:
        settings.ELICITATION_EMAIL, settings.ELICITATION_BASE_URL = True, "https://example.com"
        user.email = "ada@example.com"
        user.save()
        asked = ask(user, NAME)
        assert len(mail.outbox) == 1
        assert "Notified again. (1)" in act(admin_client, "resend_selected", asked)
        assert [message.to for message in mail.outbox] == [["ada@example.com"]] * 2
        assert LogEntry.objects.get().change_message == "Notified again."

    def test_a_mail_server_that_is_away_breaks_no_page(
        self, admin_client: Client, user: User, settings: Any
    ) -> None:
        asked = ask(user, NAME)
        settings.ELICITATION_EMAIL = True
        user.email = "ada@example.com"
        user.save()
        # Without the address of the site there is no link, and so no e-mail.
        assert "1 request was skipped" in act(admin_client, "resend_selected", asked)

    def test_hosts_are_told_again_of_what_was_not_sent_yet(
        self, admin_client: Client, user: User
    ) -> None:
        (asked,) = park(user)
        answer(asked, user)
        sent: list[Any] = []

        def receive(**kwargs: Any) -> None:
            sent.append(kwargs["elicitation_id"])

        elicitation_closed.connect(receive)
        try:
            assert "Notified again. (1)" in act(admin_client, "resend_selected", asked)
            assert sent == [asked.pk]
            Elicitation.objects.update(delivered_at=timezone.now())
            assert "1 request was skipped" in act(admin_client, "resend_selected", asked)
            assert sent == [asked.pk]
        finally:
            elicitation_closed.disconnect(receive)

    def test_the_time_to_answer_is_extended(
        self, admin_client: Client, user: User, settings: Any
    ) -> None:
        soon = timezone.now() + timedelta(minutes=1)
        asked = ask(user, NAME, expires_at=soon)
        waits = ask(user, NAME, in_call=True, alive_until=timezone.now() + timedelta(hours=1))
        late = ask(user, NAME, expires_at=timezone.now() - timedelta(seconds=1))
        settings.ELICITATION_QUESTION_TTL = timedelta(hours=5)
        shown = act(admin_client, "extend_selected", asked, waits, late)
        assert "The time to answer was extended. (1)" in shown
        assert "2 requests were skipped" in shown
        left = Elicitation.objects.get(pk=asked.pk).expires_at - timezone.now()
        assert timedelta(hours=4) < left <= timedelta(hours=5)
        assert Elicitation.objects.get(pk=late.pk).is_expired()

    def test_a_request_is_handed_to_somebody_else_and_the_call_takes_the_answer(
        self, admin_client: Client, user: User
    ) -> None:
        allow()
        grace = User.objects.create_user("grace")
        host = Host(ScriptedServer(one_round), user)
        pending = host.pending()
        row = Elicitation.objects.get()
        where = reverse("admin:elicitation_elicitation_hand_over", query={"id": str(row.pk)})
        assert str(row) in read(admin_client, where).text
        sent = {"id": str(row.pk), "person": "grace"}
        shown = admin_client.post(where, sent, follow=True).content.decode()
        assert "Handed to somebody else. (1)" in shown
        row.refresh_from_db()
        assert (row.respondent, row.made_for) == (grace, user)
        assert list(inbox.waiting(grace)) == [row]
        assert not inbox.waiting(user).exists()
        inbox.answer(row.pk, {"plan": FormAnswer(selected=("solo",))}, by=grace)
        host.resume(pending)
        assert host.server.answers == [("accept", {"plan": "solo"})]
        row.refresh_from_db()
        assert (row.closed_by, row.delivery) == (grace, "delivered")

    def test_what_comes_back_is_that_of_the_first_person_again(self, user: User) -> None:
        grace = User.objects.create_user("grace")
        row = ask(user, NAME)
        inbox.hand_over(row.pk, to=grace)
        inbox.hand_over(row.pk, to=user)
        row.refresh_from_db()
        assert (row.respondent, row.made_for) == (user, None)

    def test_a_link_is_handed_to_nobody(self, admin_client: Client, user: User) -> None:
        User.objects.create_user("grace")
        row = ask_to_open(user)
        where = reverse("admin:elicitation_elicitation_hand_over")
        sent = {"id": str(row.pk), "person": "grace"}
        assert (
            "1 request was skipped" in admin_client.post(where, sent, follow=True).content.decode()
        )
        row.refresh_from_db()
        assert row.respondent == user

    @pytest.mark.parametrize("name", ["nobody", "gone"])
    def test_it_is_handed_to_somebody_who_can_sign_in(
        self, name: str, admin_client: Client, user: User
    ) -> None:
        User.objects.create_user("gone", is_active=False)
        row = ask(user, NAME)
        where = reverse("admin:elicitation_elicitation_hand_over")
        shown = admin_client.post(where, {"id": str(row.pk), "person": name}).content.decode()
        assert "There is no active user with this name." in shown
        assert Elicitation.objects.get().respondent == user

    @pytest.mark.parametrize("verb", ["resend", "extend", "hand_over"])
    def test_each_takes_its_own_permission(self, verb: str, client: Client, user: User) -> None:
        ask(user, NAME)
        person = User.objects.create_user("oscar", is_staff=True)
        client.force_login(person)
        seen = {}
        for names in ({"view_elicitation"}, {"view_elicitation", f"{verb}_elicitation"}):
            person.user_permissions.set(Permission.objects.filter(codename__in=names))
            where = reverse("admin:elicitation_elicitation_changelist")
            seen[len(names)] = f'value="{verb}_selected"' in client.get(where).content.decode()
            status = client.get(reverse("admin:elicitation_elicitation_hand_over")).status_code
            assert status == (200 if verb == "hand_over" and len(names) == 2 else 403)
        assert seen == {1: False, 2: True}


class TestTheList:
    WHERE = "admin:elicitation_elicitation_changelist"

    def test_it_has_the_beginning_of_the_message_as_text(
        self, admin_client: Client, user: User
    ) -> None:
        ask(user, NAME, "<b>Buy</b>\u200b now\nor " + "later " * 50)
        (cell,) = read(admin_client, reverse(self.WHERE)).all("td", class_="field-message_short")
        assert cell.text.startswith("<b>Buy</b>U+200B now or later")
        assert cell.text.endswith("…")
        assert len(cell.text) <= 60

    @pytest.mark.parametrize("term", ["Corner", "corner shop", "Holid", "ada", "chat-1", "call-1"])
    def test_it_is_searched_by_label_person_and_conversation(
        self, term: str, admin_client: Client, user: User
    ) -> None:
        allow(label="Corner Shop")
        ask(user, NAME, scope_label="Holidays")
        grace = User.objects.create_user("grace")
        ask(grace, NAME, server="bank", scope="chat-2", call="call-2")
        assert self.found(admin_client, term) == 1

    def test_it_is_searched_by_the_labels_of_the_settings(
        self, admin_client: Client, user: User, settings: Any
    ) -> None:
        settings.ELICITATION_SERVERS = {"shop": {"command": "shop", "label": "Corner Shop"}}
        ask(user, NAME)
        ask(user, NAME, server="bank")
        assert self.found(admin_client, "CORNER") == 1

    def test_it_is_searched_by_the_beginning_of_an_id_and_by_all_of_it(
        self, admin_client: Client, user: User
    ) -> None:
        asked = ask(user, NAME)
        ask(user, NAME)
        assert self.found(admin_client, asked.short_id) == 1
        assert self.found(admin_client, str(asked.pk)) == 1

    def test_what_was_asked_is_not_searched(self, admin_client: Client, user: User) -> None:
        ask(user, NAME, "t0p5ecr3t")
        assert self.found(admin_client, "t0p5ecr3t") == 0

    def found(self, client: Client, term: str) -> int:
        return len(read(client, reverse(self.WHERE), q=term).all("th", class_="field-short_id"))
