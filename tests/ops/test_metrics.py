"""How much waits, and for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from elicitation import metrics
from elicitation.calls import parking
from elicitation.calls.ended import Code, Ended
from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer

from .conftest import ANSWER, age, answer, park

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db

ADDRESS = "/elicitation/metrics"


@pytest.fixture
def rows(user: User) -> None:
    waits, due, answered, other = (park(user, call=f"call-{n}")[0] for n in range(4))
    age(waits, asked_at=100)
    age(due, expires_at=1)
    age(answer(answered, user), closed_at=30)
    Elicitation.objects.filter(pk=other.pk).update(server='a "quoted" \\ name')
    (ended,) = park(user, call="ended")
    parking.close(ended, Ended(code=Code.FINISHED))
    ParkedCall.objects.ended().update(ended_at=timezone.now() - timedelta(seconds=60))
    Elicitation.objects.filter(pk=ended.pk).delete()


def test_a_snapshot(rows: None, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    now = timezone.now()
    with django_assert_num_queries(8):
        taken = metrics.snapshot(now)
    assert taken.taken_at == now
    other = 'a "quoted" \\ name'
    assert taken.elicitations == {
        ("shop", "pending"): 1,
        ("shop", "expired"): 1,
        ("shop", "answered"): 1,
        (other, "pending"): 1,
    }
    assert taken.oldest_waiting["shop"] == pytest.approx(100, abs=5)
    assert taken.undelivered == {"shop": 1}
    assert taken.oldest_undelivered["shop"] == pytest.approx(30, abs=5)
    assert taken.parked_calls == {"shop": 4}
    assert taken.stored_answers == {"shop": 1}
    assert taken.outcomes == {"shop": 1}
    assert taken.oldest_outcome["shop"] == pytest.approx(60, abs=5)


def test_a_question_that_expired_is_counted_once(rows: None, user: User) -> None:
    (asked,) = park(user, call="another")
    Elicitation.objects.filter(pk=asked.pk).update(state="expired", closed_at=timezone.now())
    assert metrics.snapshot().elicitations["shop", "expired"] == 2


def test_an_empty_site_has_empty_families(settings: SettingsWrapper) -> None:
    taken = metrics.snapshot()
    assert (taken.elicitations, taken.undelivered) == ({}, {})
    assert "elicitation_elicitations{" not in metrics.prometheus(taken)


def test_the_prometheus_format(rows: None) -> None:
    now = timezone.now()
    text = metrics.prometheus(metrics.snapshot(now))
    assert text.endswith("\n")
    lines = text.splitlines()
    assert 'elicitation_elicitations{server="shop",state="expired"} 1' in lines
    assert r'elicitation_elicitations{server="a \"quoted\" \\ name",state="pending"} 1' in lines
    assert 'elicitation_undelivered{server="shop"} 1' in lines
    assert 'elicitation_parked_calls{server="shop"} 4' in lines
    assert 'elicitation_stored_answers{server="shop"} 1' in lines
    assert 'elicitation_outcomes{server="shop"} 1' in lines
    assert any(
        line.startswith('elicitation_oldest_outcome_seconds{server="shop"} 6') for line in lines
    )
    assert sum(line.startswith("# TYPE ") for line in lines) == 9
    assert ANSWER not in text


def test_large_numbers_are_written_out() -> None:
    empty: dict[str, int] = {}
    taken = metrics.Snapshot(
        taken_at=timezone.now(),
        elicitations={("shop", "pending"): 12_345_678},
        oldest_waiting={"shop": timedelta(days=20).total_seconds() + 0.12345},
        undelivered=empty,
        oldest_undelivered={},
        parked_calls=empty,
        stored_answers=empty,
        refusals={},
        outcomes=empty,
        oldest_outcome={},
    )
    text = metrics.prometheus(taken)
    assert 'state="pending"} 12345678\n' in text
    assert 'elicitation_oldest_waiting_seconds{server="shop"} 1728000.123\n' in text


class TestView:
    @pytest.fixture
    def reader(self, user: User) -> Client:
        user.user_permissions.add(Permission.objects.get(codename="view_metrics"))
        client = Client()
        client.force_login(user)
        return client

    def test_it_is_off_by_default(self, reader: Client) -> None:
        assert reader.get(ADDRESS).status_code == 404

    def test_it_takes_a_permission(
        self, client: Client, other_user: User, settings: SettingsWrapper
    ) -> None:
        settings.ELICITATION_METRICS = True
        assert client.get(ADDRESS).status_code == 403
        client.force_login(other_user)
        assert client.get(ADDRESS).status_code == 403

    def test_it_answers_in_the_prometheus_format(
        self, reader: Client, rows: None, settings: SettingsWrapper
    ) -> None:
        settings.ELICITATION_METRICS = True
        response = reader.get(ADDRESS)
        assert response.status_code == 200
        assert response["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "no-store" in response["Cache-Control"]
        assert 'elicitation_parked_calls{server="shop"} 4' in response.content.decode()
        assert reader.post(ADDRESS).status_code == 405


def test_rows_of_all_kinds_were_made(rows: None) -> None:
    assert (ParkedCall.objects.parked().count(), StoredFormAnswer.objects.count()) == (4, 1)
