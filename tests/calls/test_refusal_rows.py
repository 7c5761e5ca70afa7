"""Case F 3: a refused request leaves a row, a metric, a record and a line in the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from elicitation import metrics
from elicitation.calls import refusals
from elicitation.calls.in_call import answer_in_call
from elicitation.core import ElicitationRefusal
from elicitation.models import Refusal, ServerPolicy, row_key
from tests.integration.conftest import Host
from tests.integration.scripted import ScriptedServer, ask, form, text
from tests.integration.test_in_call import names

pytestmark = pytest.mark.django_db(transaction=True)

#: What only the server wrote.
MARKER = "Zanzibar-Wrote-This"
ASKS_FOR_A_PASSWORD = {
    "type": "object",
    "properties": {"password": {"type": "string", "title": MARKER, "description": MARKER}},
}


def refusing(user: User, requested: dict[str, Any] = ASKS_FOR_A_PASSWORD) -> Host:
    ServerPolicy.objects.get_or_create(
        server="shop", defaults={"policy": "url_and_form", "label": "The shop"}
    )

    def tool(params: Any) -> Any:
        return text("ok") if params.input_responses else ask(k=form(MARKER, requested))

    return Host(ScriptedServer(tool), user)


def parked(user: User) -> None:
    with pytest.raises(ElicitationRefusal) as caught:
        refusing(user).call()
    assert refusals.WHERE in str(caught.value)


def in_call(user: User) -> None:
    ServerPolicy.objects.get_or_create(server="shop", defaults={"policy": "url_and_form"})
    params = {"mode": "form", "message": MARKER, "requestedSchema": ASKS_FOR_A_PASSWORD}
    told = async_to_sync(answer_in_call)(params, **names(user))
    assert told == {"action": "decline"}


@pytest.mark.parametrize(("refuse", "tool"), [(parked, "tool"), (in_call, "buy")])
def test_case_F3_it_leaves_a_trace_everywhere(
    refuse: Callable[[User], None], tool: str, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(user)
    row = Refusal.objects.get()
    assert (row.server, row.tool, row.code) == ("shop", tool, "credential")
    assert (row.property_name, row.reason, row.times) == (
        "password",
        "asks for a credential",
        1,
    )
    (line,) = [one for one in caplog.records if "put to nobody" in one.getMessage()]
    assert "asks for a credential" in line.getMessage()
    assert metrics.snapshot().refusals == {("shop", "credential"): 1}
    written = metrics.prometheus(metrics.snapshot())
    assert 'elicitation_refusals{server="shop",code="credential"} 1' in written
    out = StringIO()
    call_command("elicitation_audit", since="2000-01-01", refusals=True, stdout=out)
    record = json.loads(out.getvalue())
    assert record["code"] == "credential"
    assert record["times"] == 1
    everything = f"{vars(row)} {vars(line)} {written} {record}"
    assert MARKER not in everything


def test_case_F3_the_same_again_is_one_row(user: User) -> None:
    for number in range(3):
        with pytest.raises(ElicitationRefusal):
            refusing(user).call(call=f"call-{number}")
    row = Refusal.objects.get()
    assert row.times == 3
    assert row.first_at < row.last_at


def test_case_F3_threads_lose_no_count() -> None:
    def one(_: int) -> None:
        try:
            refusals.count("shop", "schema", "too large", tool="buy")
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(40)))
    assert Refusal.objects.get().times == 40


def test_a_server_cannot_fill_the_table_with_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "MAX_ROWS", 5)
    for number in range(12):
        refusals.count("shop", "credential", "asks", property=f"password{number}")
    refusals.count("other", "credential", "asks", property="password")
    rows = Refusal.objects.filter(policy=row_key("shop"))
    assert rows.count() == 6
    assert rows.get(property_name="").times == 7


def test_a_name_is_cut_and_made_plain() -> None:
    refusals.count("shop", "credential", "asks", property="p\u0430ssword<b>" + "x" * 100)
    name = Refusal.objects.get().property_name
    assert name.startswith("p?ssword<b>x")
    assert len(name) < 70


def test_a_database_that_is_away_changes_nothing_for_the_call(
    user: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(refusals, "count", broken)
    with pytest.raises(ElicitationRefusal):
        refusing(user).call()
    assert "A refusal could not be counted" in caplog.text


def test_old_ones_are_deleted_with_the_rest(settings: Any) -> None:
    for code in ("old", "new"):
        refusals.count("shop", code, "why")
    Refusal.objects.filter(code="old").update(last_at=timezone.now() - timedelta(days=91))
    out = StringIO()
    call_command("elicitation_cleanup", dry_run=True, stdout=out)
    call_command("elicitation_cleanup", stdout=out)
    assert out.getvalue().count("deleted refusals 1") == 2
    assert Refusal.objects.get().code == "new"


class TestAdmin:
    def test_case_F3_operators_filter_them_and_find_the_policy(
        self, user: User, client: Client
    ) -> None:
        parked(user)
        refusals.count("unknown", "not_allowed", "the policy does not allow form mode")
        operator = User.objects.create_user("oscar", is_staff=True)
        operator.user_permissions.set(
            Permission.objects.filter(codename__in=("view_refusal", "view_serverpolicy"))
        )
        client.force_login(operator)
        where = reverse("admin:elicitation_refusal_changelist")
        shown = client.get(where).content.decode()
        for said in ("The shop", "asks for a credential", "password", "not_allowed"):
            assert said in shown
        policy = reverse("admin:elicitation_serverpolicy_change", args=[row_key("shop")])
        assert policy in shown
        assert f"{reverse('admin:elicitation_serverpolicy_add')}?server=unknown" in shown
        only = client.get(where, {"code__exact": "not_allowed"}).content.decode()
        assert "asks for a credential" not in only
        assert f"{where}?server=shop" in client.get(policy).content.decode()
        one = reverse("admin:elicitation_refusal_change", args=[Refusal.objects.first().pk])
        assert client.get(one).status_code == 200
        assert MARKER not in shown
