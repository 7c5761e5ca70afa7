"""Case F 1: nobody reads in the admin what they may not, and each reading leaves a trace."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth.models import Permission, User
from django.core.exceptions import SuspiciousOperation
from django.db.models import Field, Model
from django.test import Client, RequestFactory
from django.urls import reverse

from elicitation.calls import parking
from elicitation.calls.ended import Code, Ended
from elicitation.models import Elicitation, ParkedCall, Refusal, ServerPolicy, StoredFormAnswer

from .ops.conftest import ANSWER, answer, park

pytestmark = pytest.mark.django_db

MODELS = (Elicitation, ParkedCall, StoredFormAnswer, Refusal, ServerPolicy)
#: What everybody reads who may see the list: what its columns and its filters show.
SHOWN = {
    Elicitation: {
        *("server", "tool", "scope", "call"),
        *("state__exact", "delivery__exact", "closed_via__exact", "never_fetched__exact"),
        *("asked_at__year", "asked_at__month", "asked_at__day"),
    },
    ParkedCall: {"server", "tool", "scope", "call", "outcome__exact"},
    StoredFormAnswer: {"server", "tool", "scope", "call"},
    Refusal: {"server", "tool", "code", "code__exact"},
    ServerPolicy: {"policy__exact"},
}


@pytest.fixture
def oscar(db: None) -> User:
    """Somebody of the staff who sees every list, and may read no answer and no result."""
    person = User.objects.create_user("oscar", is_staff=True)
    names = [f"view_{model._meta.model_name}" for model in MODELS]
    person.user_permissions.set(Permission.objects.filter(codename__in=names))
    return person


def names_of(model: type[Model], depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the path to each column, hidden ones and those of related rows as well."""
    for name, field in {
        **model._meta.fields_map,
        **{one.name: one for one in model._meta.fields},
        "pk": model._meta.pk,
    }.items():
        yield name, field
        if name != getattr(field, "attname", name):
            yield field.attname, field
        if depth and getattr(field, "path_infos", None):
            to = field.path_infos[-1].to_opts.model
            yield from ((f"{name}__{rest}", last) for rest, last in names_of(to, depth - 1))


def lookups_of(model: type[Model]) -> Iterator[str]:
    """Yield every lookup of every column, also behind one transform."""
    for name, field in names_of(model, depth=1):
        yield name
        for lookup, kind in getattr(field, "get_lookups", dict)().items():
            yield f"{name}__{lookup}"
            if isinstance(field, Field) and not hasattr(kind, "process_lhs"):
                yield f"{name}__{lookup}__contains"


@pytest.mark.parametrize("model", MODELS)
def test_case_F1_no_column_can_be_read_by_any_lookup(model: type[Any], oscar: User) -> None:
    """Every field of every model through every lookup, as staff without the permission."""
    page = admin.site._registry[model]
    open_ones, tried = set(), 0
    for lookup in lookups_of(model):
        request = RequestFactory().get("/", {lookup: "2026"})
        request.user = oscar
        tried += 1
        try:
            page.get_changelist_instance(request)
        except IncorrectLookupParameters:
            open_ones.add(lookup)
        except SuspiciousOperation:
            continue
        else:
            open_ones.add(lookup)
    assert tried > 200
    assert open_ones == SHOWN[model] & set(lookups_of(model))


def test_case_F1_what_a_list_filters_by_is_all_that_its_url_takes(oscar: User) -> None:
    for model, shown in SHOWN.items():
        page = admin.site._registry[model]
        request = RequestFactory().get("/")
        request.user = oscar
        assert isinstance(page, admin.ModelAdmin)
        ours = {one for one in shown if page.lookup_allowed(one, "1", request)}
        assert ours == shown


@pytest.mark.parametrize(
    ("model", "oracle"),
    [
        (StoredFormAnswer, "answers_json__contains"),
        (Elicitation, "url__contains"),
        (Elicitation, "requested_schema__icontains"),
        (Elicitation, "respondent__password__startswith"),
        (ParkedCall, "requests__contains"),
        (ParkedCall, "arguments__regex"),
        (ParkedCall, "result__startswith"),
    ],
)
def test_case_F1_the_oracles_are_closed(
    model: type[Any], oracle: str, oscar: User, client: Client, user: User
) -> None:
    (asked,) = park(user)
    answer(asked, user)
    client.force_login(oscar)
    where = reverse(f"admin:elicitation_{model._meta.model_name}_changelist")
    for guess in ("s", "~"):
        assert client.get(where, {oracle: guess}).status_code == 400
    for harmless in ({"server": "shop"}, {"q": "shop"}, {"from_server": "shop"}):
        assert client.get(where, harmless).status_code == 200


class TestEveryWay:
    """Whatever the URL of the row's page says, it is read with the permission, and logged."""

    WAYS = ("", "?_popup=1", "?_to_field=id", "?_changelist_filters=q%3Dx", "?unknown=1")

    def rows(self, user: User) -> list[tuple[str, Model, str]]:
        asked, *_ = park(user, call="answered")
        answer(asked, user)
        (other,) = park(user, call="ended")
        result = {"content": [{"type": "text", "text": ANSWER}]}
        parking.close(other, Ended(code=Code.FINISHED, result=result))
        ended = ParkedCall.objects.ended().get()
        return [
            ("storedformanswer", StoredFormAnswer.objects.get(), "view_answer_content"),
            ("parkedcall", ended, "view_result"),
        ]

    def test_case_F1_without_the_permission_nothing_of_it_is_anywhere(
        self, oscar: User, client: Client, user: User
    ) -> None:
        rows = self.rows(user)
        client.force_login(oscar)
        for name, row, _permission in rows:
            change = reverse(f"admin:elicitation_{name}_change", args=[row.pk])
            history = reverse(f"admin:elicitation_{name}_history", args=[row.pk])
            for where in (*(change + way for way in self.WAYS), history):
                response = client.get(where)
                assert response.status_code == 200, where
                assert ANSWER not in response.content.decode()
        assert not LogEntry.objects.exists()

    def test_case_F1_with_it_each_reading_leaves_an_entry(
        self, oscar: User, client: Client, user: User, caplog: pytest.LogCaptureFixture
    ) -> None:
        rows = self.rows(user)
        client.force_login(oscar)
        for name, row, permission in rows:
            oscar.user_permissions.add(Permission.objects.get(codename=permission))
            change = reverse(f"admin:elicitation_{name}_change", args=[row.pk])
            for number, way in enumerate(self.WAYS, start=1):
                with caplog.at_level(logging.INFO, "elicitation"):
                    caplog.clear()
                    assert ANSWER in client.get(change + way).content.decode()
                assert LogEntry.objects.filter(object_id=str(row.pk)).count() == number
                (record,) = caplog.records
                assert vars(record)["user_id"] == str(oscar.pk)
                assert ANSWER not in str(vars(record))
        assert ANSWER not in str([vars(one) for one in LogEntry.objects.all()])
