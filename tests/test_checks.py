"""Each system check by its id, and once through ``check``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import metadata
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connections
from django.urls import path

from elicitation import checks, conf
from elicitation.conf import settings as app_settings
from elicitation.models import Elicitation, StoredFormAnswer

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

urlpatterns: list[Any] = []

Ids = Callable[..., dict[str, list[CheckMessage]]]


@pytest.fixture
def ids() -> Ids:
    """Return a function that gives this app's messages by id."""

    def run(*, deploy: bool = False) -> dict[str, list[CheckMessage]]:
        found: dict[str, list[CheckMessage]] = {}
        for message in run_checks(include_deployment_checks=deploy):
            if str(message.id).startswith("elicitation."):
                assert message.hint
                found.setdefault(str(message.id), []).append(message)
        return found

    return run


@pytest.fixture
def database() -> Iterator[dict[str, Any]]:
    """The settings of the database, which are put back afterwards."""
    configured = connections["default"].settings_dict
    before = {**configured, "OPTIONS": {**configured["OPTIONS"]}, "TEST": {**configured["TEST"]}}
    yield configured
    configured.update(before)


def test_a_site_like_that_of_the_tests_has_nothing_to_say(ids: Ids) -> None:
    assert ids() == {}
    assert ids(deploy=True) == {}


def test_they_run_with_the_command(settings: SettingsWrapper) -> None:
    call_command("check", stdout=StringIO())
    settings.USE_TZ = False
    with pytest.raises(CommandError, match=r"elicitation\.E021"):
        call_command("check", stdout=StringIO())


def test_no_check_makes_a_query(ids: Ids) -> None:
    # No database is allowed in this test: one query would fail it.
    assert ids(deploy=True) == {}


WRONG: dict[str, list[Any]] = {
    "QUESTION_TTL": [3600, timedelta(0)],
    "RESUME_ATTEMPTS": ["10", 0, True],
    "RETENTION_DAYS": [0, 1.5, timedelta(days=1)],
    "METRICS": [1, "yes"],
    "EMAIL": [None],
    "BASE_URL": ["example.com", "https://example.com/", None],
    "NOTIFY": [print, "no.such.module", "elicitation.conf.NAMES"],
    "USER_LANGUAGE": ["nothing"],
    "CONTENT_SECURITY_POLICY": [["default-src 'self'"]],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in WRONG.items() for v in vs])
def test_a_setting_of_the_wrong_type(
    name: str, value: Any, ids: Ids, settings: SettingsWrapper
) -> None:
    setattr(settings, f"ELICITATION_{name}", value)
    with pytest.raises(ImproperlyConfigured, match=f"ELICITATION_{name}"):
        getattr(app_settings, name)
    found = ids(deploy=True)
    assert set(found) == {"elicitation.E001"}
    (message,) = found["elicitation.E001"]
    assert f"ELICITATION_{name}" in message.msg


@pytest.mark.parametrize("name", conf.NAMES)
def test_every_setting_is_checked(name: str, ids: Ids, settings: SettingsWrapper) -> None:
    setattr(settings, f"ELICITATION_{name}", object())
    assert "elicitation.E001" in ids()


@pytest.mark.parametrize("path", ["no.such.Form", "django.forms.Form"])
def test_a_form_that_is_none(path: str, ids: Ids, settings: SettingsWrapper) -> None:
    settings.ELICITATION_FORM_CLASS = path
    (message,) = ids()["elicitation.E001"]
    assert "ELICITATION_FORM_CLASS" in message.msg


def test_a_setting_that_is_none(ids: Ids, settings: SettingsWrapper) -> None:
    settings.ELICITATION_QUESTION_TIMEOUT = 3600
    (message,) = ids()["elicitation.W001"]
    assert "ELICITATION_QUESTION_TIMEOUT" in message.msg
    assert "Did you mean ELICITATION_QUESTION_TTL?" in message.hint


def test_a_setting_like_none(ids: Ids, settings: SettingsWrapper) -> None:
    settings.ELICITATION_ZZZ = 3600
    (message,) = ids()["elicitation.W001"]
    assert "docs/settings.md" in message.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"RETENTION_DAYS": 6},
        {"ABANDON_AFTER": timedelta(hours=23)},
        {"RESUME_ATTEMPTS": 5000},
    ],
)
def test_settings_that_contradict_each_other(
    changes: dict[str, Any], ids: Ids, settings: SettingsWrapper
) -> None:
    for name, value in changes.items():
        setattr(settings, f"ELICITATION_{name}", value)
    found = ids()
    assert set(found) == {"elicitation.W002"}
    (message,) = found["elicitation.W002"]
    assert all(f"ELICITATION_{name}" in message.msg for name in changes)


def test_rows_may_be_kept_for_good(ids: Ids, settings: SettingsWrapper) -> None:
    settings.ELICITATION_RETENTION_DAYS = None
    assert ids() == {}


def test_e_mail_without_an_address_for_its_links(ids: Ids, settings: SettingsWrapper) -> None:
    settings.ELICITATION_EMAIL = True
    assert set(ids()) == {"elicitation.E002"}
    settings.ELICITATION_BASE_URL = "https://example.com"
    assert ids() == {}


@pytest.mark.parametrize("mode", [None, "DEFERRED", "immediate", "EXCLUSIVE"])
def test_sqlite_without_immediate_transactions(
    mode: str | None, ids: Ids, database: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "sqlite")
    database["OPTIONS"] = {} if mode is None else {"transaction_mode": mode}
    found = {"elicitation.W010"} if mode in (None, "DEFERRED") else set()
    assert set(ids()) == found


def test_other_databases_need_no_mode(
    ids: Ids, database: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "postgresql")
    database["OPTIONS"] = {}
    assert ids() == {}


def test_a_database_that_never_commits(ids: Ids, database: dict[str, Any]) -> None:
    database["AUTOCOMMIT"] = False
    assert set(ids()) == {"elicitation.E010"}


def test_atomic_requests(ids: Ids, database: dict[str, Any]) -> None:
    database["ATOMIC_REQUESTS"] = True
    (message,) = ids()["elicitation.W011"]
    assert "non_atomic_requests" in str(message.hint)


def test_answers_on_a_replica(
    ids: Ids, database: dict[str, Any], settings: SettingsWrapper
) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.NoAnswers"]
    assert set(ids()) == {"elicitation.E011"}
    settings.DATABASE_ROUTERS = []
    database["TEST"]["MIRROR"] = "primary"
    assert set(ids()) == {"elicitation.E011"}


class NoAnswers:
    """A router whose database for writing is not one on which tables are made."""

    def allow_migrate(self, db: str, app_label: str, model_name: str = "", **hints: Any) -> bool:
        return model_name != "storedformanswer"


class TwoDatabases:
    """A router that parts the questions from the answers."""

    def db_for_write(self, model: type[Any], **hints: Any) -> str | None:
        return "elsewhere" if model is Elicitation else None


def test_rows_in_two_databases(ids: Ids, settings: SettingsWrapper) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.TwoDatabases"]
    (message,) = ids()["elicitation.E012"]
    assert message.obj is Elicitation
    assert StoredFormAnswer.__name__ in message.msg


@pytest.mark.urls(__name__)
def test_addresses_that_are_not_included(ids: Ids, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.urlpatterns", [path("", lambda request: None)])
    (message,) = ids()["elicitation.E020"]
    assert 'include("elicitation.urls")' in str(message.hint)


def test_without_time_zones(ids: Ids, settings: SettingsWrapper) -> None:
    settings.USE_TZ = False
    assert set(ids()) == {"elicitation.E021"}


@pytest.mark.parametrize("version", [None, "1.26.0"])
def test_the_sdk_is_missing_or_old(
    version: str | None, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> str:
        assert name == "mcp"
        if version is None:
            raise metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(checks.metadata, "version", find)
    (message,) = ids()["elicitation.W020"]
    assert (version or "is not installed") in message.msg


def test_the_sdk_is_another_version_than_was_tested(
    ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks.metadata, "version", lambda name: "2.4.0")
    (message,) = ids()["elicitation.W021"]
    assert "2.4.0" in message.msg
    assert message.hint is not None
    assert "2.3" in message.hint


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (100, {"ELICITATION_CONTENT_SECURITY_POLICY": None}),
        (101, {"ELICITATION_CONTENT_SECURITY_POLICY": "script-src 'unsafe-inline'"}),
        (102, {"ELICITATION_BASE_URL": "http://example.com"}),
        (103, {"DEBUG": True}),
    ],
)
def test_the_posture_of_a_deployed_site(
    number: int, changes: dict[str, Any], ids: Ids, settings: SettingsWrapper
) -> None:
    for name, value in changes.items():
        setattr(settings, name, value)
    assert ids() == {}
    assert set(ids(deploy=True)) == {f"elicitation.W{number}"}
