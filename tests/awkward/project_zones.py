"""Times, with and without zones, round the hour that comes twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.utils import timezone

from elicitation import inbox
from tests import asking
from tests.awkward.urls import ASKED, QUESTION, store

pytestmark = pytest.mark.django_db(transaction=True)


def test_times_are_of_one_kind(user: User) -> None:
    question = asking.ask(user, QUESTION)
    assert timezone.is_aware(question.expires_at) is django_settings.USE_TZ
    row = store().record_form_answer(
        ASKED, "accept", ASKED.schema.answers_from_content({"plan": "team"})
    )
    assert timezone.is_aware(row.expires_at) is django_settings.USE_TZ
    assert row.expires_at - row.recorded_at == timedelta(minutes=30)


@pytest.mark.parametrize("hour", [0, 12, 23])
def test_a_time_limit_is_as_long_in_every_zone(user: User, hour: int, settings: Any) -> None:
    settings.ELICITATION_QUESTION_TTL = timedelta(minutes=10)
    moment = datetime(2026, 1, 15, hour, 30, tzinfo=UTC)
    now = moment if django_settings.USE_TZ else timezone.make_naive(moment)
    with patch("django.utils.timezone.now", return_value=now):
        question = asking.ask(user, QUESTION)
    with patch("django.utils.timezone.now", return_value=now + timedelta(minutes=9)):
        assert inbox.get(user, question.pk).is_open()
        assert inbox.expire_due() == 0
    with patch("django.utils.timezone.now", return_value=now + timedelta(minutes=11)):
        assert not inbox.get(user, question.pk).is_open()
        assert inbox.expire_due() == 1
