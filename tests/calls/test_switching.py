"""Case F 2 and what belongs to it: a server that is switched off gets nothing from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from elicitation.calls import switching
from elicitation.calls.switching import SwitchedOff, UnderWay
from elicitation.core import ElicitationRefusal
from elicitation.inbox import audit
from elicitation.models import (
    Elicitation,
    ParkedCall,
    ServerPolicy,
    StoredFormAnswer,
    row_key,
)
from elicitation.signals import call_finished
from tests.asking import allow, ask, ask_to_open, schema
from tests.integration.conftest import Host
from tests.integration.scripted import PLAN, ScriptedServer, form, text
from tests.integration.scripted import ask as asks
from tests.ops.conftest import claimed

pytestmark = pytest.mark.django_db(transaction=True)

HostFor = Callable[[ScriptedServer], Host]


def tool(params: Any) -> Any:
    return text("ok") if params.input_responses else asks(k=form("Which plan?", PLAN))


@pytest.fixture
def host(user: User) -> Host:
    allow(label="The shop")
    return Host(ScriptedServer(tool), user)


@pytest.fixture
def finished() -> Iterator[list[dict[str, Any]]]:
    received: list[dict[str, Any]] = []

    def receive(**kwargs: Any) -> None:
        received.append(kwargs)

    call_finished.connect(receive)
    yield received
    call_finished.disconnect(receive)


def page(**query: Any) -> str:
    return reverse("admin:elicitation_serverpolicy_switch_off", query=query)


class TestSwitchingOff:
    def test_what_waits_is_withdrawn_and_the_hosts_hear_of_it(
        self, host: Host, finished: list[dict[str, Any]], admin_user: User
    ) -> None:
        pending = host.pending()
        assert switching.under_way() == {"shop": UnderWay(1, 1)}
        done = switching.switch_off("shop", by=admin_user, via=Elicitation.Via.ADMIN)
        assert done == SwitchedOff(1, 1, 0)
        row = Elicitation.objects.get()
        assert (row.state, row.reason, row.closed_via) == ("withdrawn", "switched_off", "admin")
        assert (row.closed_by, row.delivery) == (admin_user, "switched_off")
        (told,) = finished
        assert (told["code"], told["parked_call_id"]) == ("switched_off", pending.parked_call_id)
        assert switching.under_way() == {"shop": UnderWay(0, 0)}
        (record,) = audit.records()
        assert record["closed_by"] == str(admin_user.pk) or record["closed_by"] == admin_user.pk
        with pytest.raises(ElicitationRefusal) as caught:
            host.resume(pending)
        assert caught.value.code == "not_allowed"
        assert len(host.server.calls) == 1

    def test_an_answer_that_was_not_sent_yet_never_is(self, host: Host) -> None:
        pending = host.pending()
        host.answer(pending, plan="team")
        assert switching.switch_off("shop") == SwitchedOff(0, 1, 0)
        row = Elicitation.objects.get()
        assert (row.state, row.delivery) == ("answered", "switched_off")
        assert not StoredFormAnswer.objects.exists()
        with pytest.raises(ElicitationRefusal):
            host.resume(pending)
        assert host.server.answers == []

    def test_a_call_that_goes_on_just_now_is_left_to_its_process(self, host: Host) -> None:
        pending = host.pending()
        host.answer(pending, plan="team")
        assert pending.parked_call_id is not None
        lease = claimed(pending.parked_call_id)
        assert switching.switch_off("shop") == SwitchedOff(0, 0, 1)
        lease.release()
        with pytest.raises(ElicitationRefusal):
            host.resume(pending)
        assert ("accept", {"plan": "team"}) not in host.server.answers

    def test_a_call_that_has_asked_nothing_goes_on(self, host: Host) -> None:
        host.pending()
        ParkedCall.objects.update(round=0)
        assert switching.switch_off("shop").ended == 0
        assert ParkedCall.objects.parked().exists()

    def test_a_server_without_a_policy_gets_one(self, user: User, settings: Any) -> None:
        settings.ELICITATION_SERVERS = {"shop": {"command": "shop", "label": "Corner shop"}}
        ask_to_open(user)
        assert switching.switch_off("shop").withdrawn == 1
        row = ServerPolicy.objects.get()
        assert (row.policy, row.label) == ("none", "Corner shop")

    def test_a_server_whose_settings_are_wrong_is_off_as_well(self, settings: Any) -> None:
        settings.ELICITATION_SERVERS = {"shop": {"command": "shop", "policy": "all"}}
        switching.switch_off("shop")
        assert ServerPolicy.objects.get().policy == "none"

    def test_other_servers_go_on(self, host: Host) -> None:
        allow("Shop")
        kept = host.pending(server="Shop")
        host.pending()
        switching.switch_off("shop")
        assert switching.under_way() == {"Shop": UnderWay(1, 1), "shop": UnderWay(0, 0)}
        host.answer(kept, plan="solo")

    def test_the_person_reads_who_it_was(self, host: Host, client: Client) -> None:
        host.pending()
        switching.switch_off("shop")
        assert host.respondent is not None
        client.force_login(host.respondent)
        shown = client.get(Elicitation.objects.get().get_absolute_url()).content.decode()
        assert "An operator of this site no longer lets the server ask this." in shown


class TestThePage:
    def test_it_says_what_it_will_do_and_does_that(
        self, host: Host, admin_client: Client, user: User
    ) -> None:
        host.pending()
        for number in range(2):
            ask(user, schema(x={"type": "string"}), call=f"other-{number}")
        shown = admin_client.get(page(server="shop")).content.decode()
        assert "The shop" in shown
        assert "Open requests that are withdrawn: 3. Calls that are ended: 1." in shown
        assert Elicitation.objects.pending().count() == 3
        done = admin_client.post(page(), {"server": "shop"}, follow=True).content.decode()
        assert "The shop is off. Requests withdrawn: 3. Calls ended: 1." in done
        assert not Elicitation.objects.pending().exists()
        entry = LogEntry.objects.get()
        assert entry.get_change_message() == "Switched off."
        assert entry.object_id == str(row_key("shop"))

    def test_everything_is_every_server_that_the_site_knows(
        self, host: Host, admin_client: Client, user: User, settings: Any
    ) -> None:
        settings.ELICITATION_SERVERS = {"files": {"command": "files"}}
        ask_to_open(user, server="unknown")
        shown = admin_client.get(page()).content.decode()
        for name in ("files", "shop", "unknown"):
            assert f'value="{name}"' in shown
        assert "These are all servers that this site knows." in shown
        admin_client.post(page(), {"server": ["files", "shop", "unknown", "never heard of"]})
        found = dict(ServerPolicy.objects.values_list("server", "policy"))
        assert found == dict.fromkeys(("files", "shop", "unknown"), "none")

    def test_the_list_leads_to_it(self, host: Host, admin_client: Client) -> None:
        where = reverse("admin:elicitation_serverpolicy_changelist")
        assert page() in admin_client.get(where).content.decode()
        chosen = {"action": "switch_off_selected", "_selected_action": [str(row_key("shop"))]}
        assert admin_client.post(where, chosen).headers["Location"] == page(server="shop")
        change = reverse("admin:elicitation_serverpolicy_change", args=[row_key("shop")])
        shown = admin_client.get(change).content.decode()
        assert page(server="shop") in shown
        assert ">Delete<" not in shown
        assert ">Reset to the default<" in shown

    def test_it_takes_the_permission_to_decide(self, host: Host, client: Client) -> None:
        host.pending()
        client.force_login(User.objects.create_user("oscar", is_staff=True))
        assert client.get(page()).status_code == 403
        assert client.post(page(), {"server": "shop"}).status_code == 403
        assert Elicitation.objects.pending().exists()

    def test_saving_a_policy_of_nothing_stops_what_is_under_way(
        self, host: Host, admin_client: Client
    ) -> None:
        host.pending()
        change = reverse("admin:elicitation_serverpolicy_change", args=[row_key("shop")])
        shown = admin_client.post(change, {"policy": "none", "label": "The shop"}, follow=True)
        assert "Requests withdrawn: 1. Calls ended: 1." in shown.content.decode()
        assert Elicitation.objects.get().state == "withdrawn"


class TestReset:
    """Case F 2: deleting a policy of *nothing* opened URL mode, and nothing said so."""

    def reset(self, row: ServerPolicy) -> str:
        return reverse("admin:elicitation_serverpolicy_delete", args=[row.pk])

    def test_case_F2_it_warns_where_it_opens_something(self, admin_client: Client) -> None:
        row = ServerPolicy.objects.create(server="shop", policy="none")
        shown = admin_client.get(self.reset(row)).content.decode()
        assert "shop may show after the reset: links to open, no forms. Now: nothing." in shown
        assert "Warning: the reset allows more than now (may show)." in shown
        assert admin_client.post(self.reset(row), {"post": "yes"}).status_code == 302
        assert ServerPolicy.objects.for_server("shop").policy == "url"
        assert LogEntry.objects.get().is_deletion()

    def test_case_F2_the_action_warns_too(self, admin_client: Client) -> None:
        row = ServerPolicy.objects.create(server="shop", policy="none")
        where = reverse("admin:elicitation_serverpolicy_changelist")
        assert "Reset the selected server policies" in admin_client.get(where).content.decode()
        chosen = {"action": "delete_selected", "_selected_action": [str(row.pk)]}
        shown = admin_client.post(where, chosen).content.decode()
        assert "Warning: the reset allows more than now (may show)." in shown
        assert admin_client.post(where, chosen | {"post": "yes"}).status_code == 302
        assert not ServerPolicy.objects.exists()

    @pytest.mark.parametrize(
        ("row", "fields"),
        [
            ({"policy": "url_and_form", "prefill": True}, None),
            ({"policy": "url"}, None),
            ({"policy": "url", "allowed_domains": "example.com"}, "allowed domains"),
            ({"policy": "none", "allowed_domains": "a.example"}, "may show, allowed domains"),
        ],
    )
    def test_case_F2_only_where_it_does(
        self, row: dict[str, Any], fields: str | None, admin_client: Client
    ) -> None:
        policy = ServerPolicy.objects.create(server="shop", **row)
        shown = admin_client.get(self.reset(policy)).content.decode()
        assert ("Warning:" in shown) == (fields is not None)
        assert fields is None or f"({fields})" in shown

    def test_case_F2_it_is_compared_with_the_settings(
        self, admin_client: Client, settings: Any
    ) -> None:
        settings.ELICITATION_SERVERS = {
            "shop": {"command": "shop", "policy": "url_and_form", "prefill": True}
        }
        row = ServerPolicy.objects.create(server="shop", policy="url_and_form")
        shown = admin_client.get(self.reset(row)).content.decode()
        assert "Warning: the reset allows more than now (prefill)." in shown
        settings.ELICITATION_SERVERS = {"shop": {"command": "shop", "policy": "all"}}
        assert admin_client.get(self.reset(row)).status_code == 200
