"""What operators see and do in the admin."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from elicitation import inbox
from elicitation.calls import parking
from elicitation.calls.ended import Code, Ended
from elicitation.core import FormAnswer
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer

from .asking import allow, ask, schema
from .ops.conftest import ANSWER, age, answer, park

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db

VIEW = ("view_elicitation", "view_parkedcall", "view_storedformanswer", "view_serverpolicy")
MARKUP = "<img src=x onerror=alert(1)>\u202e"

Staff = Callable[..., Client]


def address(model: type[Any], row: Any = None) -> str:
    name = f"admin:elicitation_{model._meta.model_name}_"
    return reverse(f"{name}change", args=[row.pk]) if row else reverse(f"{name}changelist")


def read(client: Client, where: str, **query: str) -> str:
    response = client.get(where, query)
    assert response.status_code == 200
    return response.content.decode()


def act(client: Client, action: str, *rows: Elicitation) -> str:
    response = client.post(
        address(Elicitation),
        {"action": action, "_selected_action": [str(row.pk) for row in rows]},
        follow=True,
    )
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def staff(db: None) -> Staff:
    """Return a function that signs in somebody of the staff with these permissions."""

    def sign_in(*permissions: str) -> Client:
        person = User.objects.create_user("oscar", is_staff=True)
        found = Permission.objects.filter(
            content_type__app_label__in=("elicitation", "auth"), codename__in=permissions
        )
        assert found.count() == len(permissions)
        person.user_permissions.set(found)
        client = Client()
        client.force_login(person)
        return client

    return sign_in


class TestReading:
    def test_a_list_says_what_is_asked_of_whom(self, staff: Staff, user: User) -> None:
        allow(label="Corner Shop")
        (asked,) = park(user)
        shown = read(staff(*VIEW), address(Elicitation))
        for text in (asked.short_id, "Corner Shop", "buy", "ada", ">open<", "name", "+0545"):
            assert text in shown
        assert '<td class="field-message_short">Who?</td>' in shown
        assert "Corner Shop" in read(Client_of(user), address(ParkedCall))

    @pytest.mark.parametrize("model", [Elicitation, ParkedCall, StoredFormAnswer])
    def test_fifty_rows_take_as_many_queries_as_one(
        self, model: type[Any], staff: Staff, user: User
    ) -> None:
        client = staff(*VIEW, "withdraw_elicitation")

        def queries(count: int) -> int:
            while model.objects.count() < count:
                number = model.objects.count()
                person = User.objects.create_user(f"person-{number}")
                (asked,) = park(person, call=f"call-{number}")
                if model is StoredFormAnswer:
                    answer(asked, person)
            model.objects.update(server="")
            for number, row in enumerate(model.objects.all()):
                model.objects.filter(pk=row.pk).update(server=f"server-{number}")
            with CaptureQueriesContext(connection) as captured:
                shown = read(client, address(model))
            assert f"{count} " in shown
            return len(captured)

        # The first page of a process looks up what it then keeps.
        queries(1)
        assert queries(1) == queries(50)

    def test_rows_are_searched_by_respondent_server_tool_and_scope(
        self, staff: Staff, user: User
    ) -> None:
        asked = ask(user, schema(hidden={"type": "string"}), "a message", scope="scope-9")
        client = staff(*VIEW)
        for text in ("ada", "shop", "buy", "scope-9"):
            assert asked.short_id in read(client, address(Elicitation), q=text)
        for text in ("a message", "hidden"):
            assert asked.short_id not in read(client, address(Elicitation), q=text)

    def test_the_settings_have_labels_too(
        self, staff: Staff, user: User, settings: SettingsWrapper
    ) -> None:
        settings.ELICITATION_SERVERS = {"shop": {"command": "shop", "label": "Corner Shop"}}
        ask(user, schema(x={"type": "string"}))
        # In the filter, and in the row.
        assert read(staff(*VIEW), address(Elicitation)).count("Corner Shop") == 2

    def test_rows_are_filtered_by_server_and_state(self, staff: Staff, user: User) -> None:
        allow(label="Corner Shop")
        asked = ask(user, schema(x={"type": "string"}))
        client = staff(*VIEW)
        assert "Corner Shop" in read(client, address(Elicitation))
        for query in ({"from_server": "shop"}, {"state__exact": "pending"}):
            assert asked.short_id in read(client, address(Elicitation), **query)
        for query in ({"from_server": "other"}, {"state__exact": "answered"}):
            assert asked.short_id not in read(client, address(Elicitation), **query)

    def test_what_a_server_wrote_is_escaped_and_made_visible(
        self, staff: Staff, user: User
    ) -> None:
        ServerPolicy.objects.create(server="shop", policy="url_and_form")
        requested = schema(x={"type": "string", "description": "<b>&amp;"})
        asked = ask(user, requested, "before\n" + MARKUP[:-1], scope=MARKUP, call=MARKUP)
        Elicitation.objects.update(message=MARKUP, tool=MARKUP, scope_label=MARKUP)
        client = staff(*VIEW)
        for where in (address(Elicitation), address(Elicitation, asked)):
            shown = read(client, where)
            assert "<img src=x" not in shown
            assert "&lt;img src=x onerror=alert(1)&gt;U+202E" in shown
            assert "\u202e" not in shown
        title = shown.split("<title>")[1].split("</title>")[0]
        assert "img" not in title
        assert "&lt;b&gt;&amp;amp;" in shown

    def test_a_form_of_many_fields_is_cut_and_one_that_cannot_be_read_is_said(
        self, staff: Staff, user: User
    ) -> None:
        ask(user, schema(**{f"p{n}": {"type": "string"} for n in range(5)}))
        client = staff(*VIEW)
        assert "p0, p1, p2, p3…" in read(client, address(Elicitation))
        Elicitation.objects.update(requested_schema="{}")
        assert "p0, p1" not in read(client, address(Elicitation))
        long = schema(p0={"type": "string", "x-ignored": "x" * 20_000})
        Elicitation.objects.update(requested_schema=json.dumps(long))
        assert ">p0<" not in read(client, address(Elicitation))

    def test_a_question_past_its_deadline_has_expired(self, staff: Staff, user: User) -> None:
        age(ask(user, schema(x={"type": "string"})), expires_at=1)
        shown = read(staff(*VIEW), address(Elicitation))
        assert '<td class="field-state_now">expired</td>' in shown

    def test_days_are_left_out_where_the_database_has_no_zones(
        self, staff: Staff, user: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        park(user)
        client = staff(*VIEW)
        where = address(Elicitation)
        if connection.features.has_zoneinfo_database:
            assert 'class="toplinks"' in read(client, where)
        monkeypatch.setattr(connection.features, "has_zoneinfo_database", False)
        assert 'class="toplinks"' not in read(client, where)

    def test_every_page_can_be_viewed_and_nothing_changed(self, staff: Staff, user: User) -> None:
        (asked,) = park(user)
        answer(asked, user)
        client = staff(*VIEW)
        rows = (asked, ParkedCall.objects.get(), StoredFormAnswer.objects.get())
        for row in rows:
            model = type(row)
            name = f"admin:elicitation_{model._meta.model_name}"
            assert 'name="_save"' not in read(client, address(model, row))
            assert 'name="action"' not in read(client, address(model))
            assert client.get(reverse(f"{name}_add")).status_code == 403
            assert client.post(address(model, row), {}).status_code == 403
            assert client.get(reverse(f"{name}_delete", args=[row.pk])).status_code == 403
            assert read(client, reverse(f"{name}_history", args=[row.pk]))

    def test_even_a_superuser_deletes_no_row_here(self, admin_client: Client, user: User) -> None:
        (asked,) = park(user)
        where = reverse("admin:elicitation_elicitation_delete", args=[asked.pk])
        assert admin_client.get(where).status_code == 403
        assert 'value="delete_selected"' not in read(admin_client, address(Elicitation))

    def test_a_person_with_open_calls_can_be_deleted(
        self, admin_client: Client, user: User
    ) -> None:
        (asked,) = park(user)
        answer(asked, user)
        where = reverse("admin:auth_user_delete", args=[user.pk])
        assert ANSWER not in read(admin_client, where)
        assert admin_client.post(where, {"post": "yes"}).status_code == 302
        assert not ParkedCall.objects.parked().exists()
        assert not StoredFormAnswer.objects.exists()
        assert Elicitation.objects.get().respondent is None

    def test_who_is_not_staff_sees_nothing(self, client: Client, user: User) -> None:
        client.force_login(user)
        assert client.get(address(Elicitation)).status_code == 302

    def test_what_an_agent_and_a_server_keep_is_not_shown(self, staff: Staff, user: User) -> None:
        park(user)
        ParkedCall.objects.update(arguments='{"secret": 1}', request_state='"secret"')
        shown = read(staff(*VIEW), address(ParkedCall, ParkedCall.objects.get()))
        assert "secret" not in shown


def Client_of(user: User) -> Client:
    user.is_staff = user.is_superuser = True
    user.save()
    client = Client()
    client.force_login(user)
    return client


class TestActions:
    def test_withdrawing(self, staff: Staff, user: User) -> None:
        client = staff(*VIEW, "withdraw_elicitation")
        one, two, answered = (park(user, call=f"call-{n}")[0] for n in range(3))
        answer(answered, user)
        gone = ask(user, schema(x={"type": "string"}))
        age(gone, expires_at=1)
        shown = act(client, "withdraw_selected", one, two, answered, gone)
        assert "2 requests were closed." in shown
        assert "2 requests were skipped: they are already closed." in shown
        one.refresh_from_db()
        assert (one.state, one.closed_via) == ("withdrawn", "admin")
        assert one.closed_by == User.objects.get(username="oscar")
        answered.refresh_from_db()
        assert answered.state == "answered"
        entries = {entry.object_id: entry for entry in LogEntry.objects.all()}
        assert set(entries) == {str(one.pk), str(two.pk)}
        assert entries[str(one.pk)].get_change_message() == "Withdrawn."
        assert ANSWER not in str([vars(entry) for entry in entries.values()])

    def test_letting_expire_before_the_deadline(self, staff: Staff, user: User) -> None:
        client = staff(*VIEW, "expire_elicitation")
        (asked,) = park(user)
        assert "1 request was closed." in act(client, "expire_selected", asked)
        assert "1 request was skipped" in act(client, "expire_selected", asked)
        asked.refresh_from_db()
        assert (asked.state, asked.closed_via) == ("expired", "admin")
        assert asked.closed_by is not None
        assert LogEntry.objects.get().get_change_message() == "Expired before its deadline."
        # The server is told the same as of any other.
        assert StoredFormAnswer.objects.get().action == "decline"

    def test_somebody_else_can_be_first(
        self, staff: Staff, user: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (asked,) = park(user)
        real = inbox.withdraw

        def withdraw(*args: Any, **kwargs: Any) -> Elicitation:
            answer(asked, user)
            return real(*args, **kwargs)

        monkeypatch.setattr(inbox, "withdraw", withdraw)
        client = staff(*VIEW, "withdraw_elicitation")
        assert "1 request was skipped" in act(client, "withdraw_selected", asked)
        assert not LogEntry.objects.exists()

    @pytest.mark.parametrize("action", ["withdraw_selected", "expire_selected"])
    def test_each_takes_its_own_permission(self, action: str, staff: Staff, user: User) -> None:
        (asked,) = park(user)
        other = {"withdraw_selected": "expire", "expire_selected": "withdraw"}[action]
        client = staff(*VIEW, f"{other}_elicitation")
        assert action not in read(client, address(Elicitation))
        act(client, action, asked)
        asked.refresh_from_db()
        assert asked.state == "pending"

    def test_expiring_now_is_for_open_questions(self, user: User) -> None:
        (asked,) = park(user)
        answer(asked, user)
        with pytest.raises(inbox.ElicitationClosedError):
            inbox.expire_now(asked.pk)


class TestAnswers:
    @pytest.fixture
    def stored(self, user: User) -> StoredFormAnswer:
        (asked,) = park(user)
        answer(asked, user, f"{ANSWER} <b>\nand a second line")
        return StoredFormAnswer.objects.get()

    def test_without_the_permission_nothing_of_it_is_shown(
        self, staff: Staff, stored: StoredFormAnswer
    ) -> None:
        client = staff(*VIEW)
        for where in (address(StoredFormAnswer), address(StoredFormAnswer, stored)):
            shown = read(client, where)
            assert ANSWER not in shown
            assert "accept" not in shown
        assert not LogEntry.objects.exists()

    def test_with_it_reading_is_logged_and_the_answer_is_not(
        self, staff: Staff, stored: StoredFormAnswer, caplog: pytest.LogCaptureFixture
    ) -> None:
        client = staff(*VIEW, "view_answer_content")
        assert ANSWER not in read(client, address(StoredFormAnswer))
        assert not LogEntry.objects.exists()
        with caplog.at_level(logging.INFO, "elicitation"):
            shown = read(client, address(StoredFormAnswer, stored))
        assert f"{ANSWER} &lt;b&gt;" in shown
        entry = LogEntry.objects.get()
        assert entry.user.username == "oscar"
        assert entry.get_change_message() == "The answer was read."
        (record,) = caplog.records
        assert vars(record)["elicitation_id"] == str(stored.elicitation_id)
        assert ANSWER not in f"{vars(entry)} {vars(record)}"
        history = reverse("admin:elicitation_storedformanswer_history", args=[stored.pk])
        assert "The answer was read." in (shown := read(client, history))
        assert ANSWER not in shown

    def test_every_kind_of_answer_is_shown(self, staff: Staff, user: User) -> None:
        requested = schema(
            plan={"type": "string", "enum": ["solo", "team"]}, note={"type": "string"}
        )
        asked = ask(user, requested)
        inbox.answer(
            asked.pk,
            {"plan": FormAnswer(selected=("team",)), "note": FormAnswer(skipped=True)},
            by=user,
        )
        client = staff(*VIEW, "view_answer_content")
        shown = read(client, address(StoredFormAnswer, StoredFormAnswer.objects.get()))
        assert ">team</div>" in shown
        assert ">—</div>" in shown
        StoredFormAnswer.objects.update(action="decline", answers_json="{}")
        shown = read(client, address(StoredFormAnswer, StoredFormAnswer.objects.get()))
        assert "Declined." in shown


class TestResults:
    """The result of a call takes a permission of its own, as an answer does."""

    @pytest.fixture
    def ended(self, user: User) -> ParkedCall:
        (asked,) = park(user)
        result = {"content": [{"type": "text", "text": f"{ANSWER} <b>"}]}
        parking.close(asked, Ended(code=Code.FINISHED, result=result))
        return ParkedCall.objects.get()

    def test_without_the_permission_it_is_said_how_it_ended_and_no_more(
        self, staff: Staff, ended: ParkedCall
    ) -> None:
        client = staff(*VIEW)
        for where in (address(ParkedCall), address(ParkedCall, ended)):
            shown = read(client, where)
            assert "finished" in shown
            assert ANSWER not in shown
        assert "bytes of the result" in shown.lower()
        assert not LogEntry.objects.exists()

    def test_with_it_reading_is_logged_and_the_result_is_not(
        self, staff: Staff, ended: ParkedCall, caplog: pytest.LogCaptureFixture
    ) -> None:
        client = staff(*VIEW, "view_result")
        assert ANSWER not in read(client, address(ParkedCall))
        assert not LogEntry.objects.exists()
        with caplog.at_level(logging.INFO, "elicitation"):
            shown = read(client, address(ParkedCall, ended))
        assert f"{ANSWER} &lt;b&gt;" in shown
        entry = LogEntry.objects.get()
        assert entry.get_change_message() == "The result was read."
        (record,) = caplog.records
        assert vars(record)["parked_call_id"] == str(ended.pk)
        assert ANSWER not in f"{vars(entry)} {vars(record)}"

    def test_where_there_is_none_nothing_is_read(self, staff: Staff, user: User) -> None:
        (asked,) = park(user)
        client = staff(*VIEW, "view_result")
        read(client, address(ParkedCall, ParkedCall.objects.get()))
        parking.close(asked, Ended(code=Code.LOST, reason="error -32000"))
        assert "error -32000" in read(client, address(ParkedCall, ParkedCall.objects.get()))
        assert not LogEntry.objects.exists()


class TestPolicies:
    def test_an_operator_decides_and_the_name_stays(self, admin_client: Client) -> None:
        where = reverse("admin:elicitation_serverpolicy_add")
        sent = {"server": "shop", "policy": "url_and_form", "label": "Shop"}
        assert admin_client.post(where, sent).status_code == 302
        policy = ServerPolicy.objects.get()
        page = address(ServerPolicy, policy)
        assert admin_client.post(page, sent | {"server": "x", "policy": "url"}).status_code == 302
        policy.refresh_from_db()
        assert (policy.server, policy.policy) == ("shop", "url")

    def test_times_are_in_the_readers_zone(
        self, staff: Staff, user: User, settings: SettingsWrapper
    ) -> None:
        park(user)
        client = staff(*VIEW)
        with timezone.override("America/New_York"):
            shown = read(client, address(Elicitation))
        assert "EST" in shown or "EDT" in shown
