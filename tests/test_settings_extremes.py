"""Case F 4: a setting with an extreme value is refused by ``check``, with a hint, or it works."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.checks import ERROR, run_checks
from django.core.management import call_command
from django.test import Client

from elicitation.conf import NAMES
from elicitation.models import Elicitation
from tests.ops.conftest import answer, park

pytestmark = pytest.mark.django_db(transaction=True)

REFUSED, WORKS = "refused", "works"

DURATIONS = [
    (timedelta.max, REFUSED),
    (timedelta(0), REFUSED),
    (timedelta(-1), REFUSED),
    (timedelta.min, REFUSED),
    (30, REFUSED),
    (timedelta(days=36_500), WORKS),
    (timedelta(microseconds=1), WORKS),
]
NUMBERS = [(0, REFUSED), (-1, REFUSED), (10**30, REFUSED), (1.5, REFUSED), (True, REFUSED)]
LARGE = [*NUMBERS, (2**31, REFUSED), (2**31 - 1, WORKS), (1, WORKS)]
TIMES = [*NUMBERS, (10_001, REFUSED), (10_000, WORKS), (1, WORKS)]
PATHS = [
    *[(path, REFUSED) for path in ("..", "...", "", ".", "a..b", "no.such.module", "os.nothing")],
    ("tests.settings.BASE_DIR", REFUSED),
    (7, REFUSED),
    ("\0", REFUSED),
]
FLAGS = [(1, REFUSED), ("yes", REFUSED), (None, REFUSED), (False, WORKS)]

EXTREMES: dict[str, list[tuple[Any, str]]] = {
    "SERVERS": [([], REFUSED), ({"": {}}, REFUSED), ({1: {}}, REFUSED), ({}, WORKS)],
    "QUEUE": [*PATHS, (None, REFUSED)],
    "QUESTION_TTL": DURATIONS,
    "ANSWER_TTL": DURATIONS,
    "RESUME_LEASE": DURATIONS,
    "ALIVE": DURATIONS,
    "POLL_INTERVAL": DURATIONS,
    "MAX_ROUNDS": TIMES,
    "UNANSWERED": [("accept", REFUSED), ("", REFUSED), (None, REFUSED), ("cancel", WORKS)],
    "WORKING_TTL": DURATIONS,
    "MAX_OPEN": LARGE,
    "MAX_OPEN_PER_PERSON": LARGE,
    "MAX_CALL_BYTES": LARGE[:-1],
    "RESULT_TTL": DURATIONS,
    "MAX_RESULT_BYTES": LARGE,
    "RADIO_LIMIT": LARGE,
    "PAGE_SIZE": LARGE,
    "ACCESS": [*PATHS, (None, REFUSED)],
    "API_MAX_BYTES": LARGE,
    "FORM_CLASS": [*PATHS, (None, REFUSED)],
    "CONTENT_SECURITY_POLICY": [
        ("default-src 'none';\nstyle-src 'self'", REFUSED),
        ("default-src 'none'\r\nX-Evil: 1", REFUSED),
        ("default-src \u201cself\u201d", REFUSED),
        (7, REFUSED),
        ("", WORKS),
        (None, WORKS),
    ],
    "RESUME_AFTER": DURATIONS,
    "RESUME_ATTEMPTS": TIMES,
    "ABANDON_AFTER": DURATIONS,
    "RETENTION_DAYS": [
        *NUMBERS,
        (10**9, REFUSED),
        (1_000_000, REFUSED),
        (36_500, WORKS),
        (1, WORKS),
        (None, WORKS),
    ],
    "METRICS": [*FLAGS, (True, WORKS)],
    "EMAIL": FLAGS,
    "TASKS": [*FLAGS, (True, WORKS)],
    "BASE_URL": [
        ("example.com", REFUSED),
        ("https://example.com/", REFUSED),
        ("https://example.com\n", REFUSED),
        ("https://exa mple.com", REFUSED),
        (None, REFUSED),
        ("", WORKS),
        ("https://example.com", WORKS),
    ],
    "SITE_NAME": [
        ("two\nlines", REFUSED),
        ("x" * 65, REFUSED),
        (7, REFUSED),
        (None, REFUSED),
        ("", WORKS),
        ("x" * 64, WORKS),
        ("<b>Example</b>", WORKS),
    ],
    "PAGE_URL": [
        ("https://example.com/ask", REFUSED),
        ("//example.com/{id}", REFUSED),
        ("/ask/{id}\n", REFUSED),
        ("/ask/{id}/{id}", REFUSED),
        (None, REFUSED),
        ("", WORKS),
        ("/ask/{id}", WORKS),
    ],
    "SCOPE_URL": [*PATHS, (None, WORKS)],
    "RESULT_URL": [*PATHS, (None, WORKS)],
    "NOTIFY": [*PATHS, (None, WORKS)],
    "USER_LANGUAGE": [*PATHS, (None, WORKS)],
}


def test_case_F4_each_setting_has_its_extremes() -> None:
    assert set(EXTREMES) == set(NAMES)


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, each in EXTREMES.items() for value, said in each if said == REFUSED],
    ids=lambda part: part if isinstance(part, str) and part in NAMES else ascii(part)[:30],
)
def test_case_F4_check_refuses_it_and_says_what_to_do(
    name: str, value: Any, settings: Any
) -> None:
    setattr(settings, f"ELICITATION_{name}", value)
    ours = [one for one in run_checks() if one.id in ("elicitation.E001", "elicitation.E003")]
    assert ours
    assert all(one.level >= ERROR and one.hint and name in one.msg for one in ours)


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, each in EXTREMES.items() for value, said in each if said == WORKS],
    ids=lambda part: part if isinstance(part, str) and part in NAMES else ascii(part)[:30],
)
def test_case_F4_or_it_works(
    name: str, value: Any, settings: Any, user: User, client: Client
) -> None:
    setattr(settings, f"ELICITATION_{name}", value)
    assert not [one for one in run_checks() if one.id == "elicitation.E001"]
    client.force_login(user)
    (asked,) = park(user)
    for where in (
        "/elicitation/",
        f"/elicitation/{asked.pk}/",
        f"/api/elicitation/elicitations/{asked.pk}/",
    ):
        assert client.get(where).status_code in (200, 404), where
    if asked.is_open():
        answer(asked, user)
    for command in ("elicitation_resume", "elicitation_cleanup"):
        call_command(command, stdout=StringIO())
    assert Elicitation.objects.exists() or name == "RETENTION_DAYS"
