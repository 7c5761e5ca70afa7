"""Each system check by its id, and once through ``check``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import metadata
from io import StringIO
from typing import TYPE_CHECKING, Any

import django
import pytest
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.urls import include, path

from elicitation import checks, conf
from elicitation.conf import settings as app_settings
from elicitation.models import Elicitation, ServerPolicy, StoredFormAnswer
from elicitation.signals import call_finished, elicitation_closed
from tests.processes import BASE_DIR

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


@pytest.fixture(autouse=True)
def servers(settings: SettingsWrapper) -> None:
    """A server by its name, so that somebody goes on with calls."""
    settings.ELICITATION_SERVERS = {"shop": HTTP}


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
    "SITE_NAME": [None, "two\nlines", "x" * 65],
    "BASE_URL": ["example.com", "https://example.com/", None],
    "PAGE_URL": [
        None,
        "/ask/",
        "ask/{id}",
        "//example.com/{id}",
        "javascript:{id}",
        "/{id}/{id}",
        "/{id}/{scope}",
        "/a b/{id}",
    ],
    "SCOPE_URL": [print, "no.such.module"],
    "RESULT_URL": [print, "elicitation.conf.NAMES"],
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


@pytest.mark.urls(__name__)
def test_case_F7_the_api_without_pages_and_without_a_page_of_the_site(
    ids: Ids, monkeypatch: pytest.MonkeyPatch, settings: SettingsWrapper
) -> None:
    api = path("api/", include("elicitation.api.urls"))
    monkeypatch.setattr(f"{__name__}.urlpatterns", [api])
    assert set(ids()) == {"elicitation.W023"}
    settings.ELICITATION_PAGE_URL = "https://app.example.com/ask/{id}"
    assert ids() == {}


@pytest.mark.urls(__name__)
def test_pages_of_the_sites_own_alone(
    ids: Ids, monkeypatch: pytest.MonkeyPatch, settings: SettingsWrapper
) -> None:
    monkeypatch.setattr(f"{__name__}.urlpatterns", [])
    settings.ELICITATION_PAGE_URL = "/ask/{id}"
    assert ids() == {}


@pytest.mark.parametrize(
    ("url", "leads"),
    [
        ("login", True),
        ("/admin/login/?plain=1", True),
        ("https://id.example.com/", True),
        ("/no/such/page/", False),
        ("nowhere", False),
    ],
)
def test_case_F8_a_sign_in_that_leads_nowhere(
    url: str, leads: bool, ids: Ids, settings: SettingsWrapper
) -> None:
    settings.LOGIN_URL = url
    assert set(ids()) == (set() if leads else {"elicitation.W024"})


def test_case_F8_a_site_that_knows_nobody(ids: Ids, settings: SettingsWrapper) -> None:
    known = "django.contrib.auth.middleware.AuthenticationMiddleware"
    settings.MIDDLEWARE = [one for one in settings.MIDDLEWARE if one != known]
    assert "elicitation.W025" in ids()
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.OwnAuthentication"]
    assert ids() == {}


class OwnAuthentication(AuthenticationMiddleware):
    """A site's own."""


def test_case_F8_nobody_goes_on_with_calls(
    ids: Ids, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [one for one in elicitation_closed.receivers if one[0][0] == "elicitation.queues"]
    assert len(own) == 1
    monkeypatch.setattr(elicitation_closed, "receivers", own)
    settings.ELICITATION_SERVERS = {}
    assert set(ids()) == {"elicitation.W026"}
    settings.ELICITATION_QUEUE = "builtins.print"
    assert ids() == {}
    settings.ELICITATION_QUEUE = "elicitation.calls.queues.celery"
    assert set(ids()) == {"elicitation.W026"}
    settings.ELICITATION_SERVERS = {"shop": HTTP}
    assert ids() == {}


def test_case_F8_nobody_fetches_what_calls_end_with(
    ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_finished, "receivers", [])
    monkeypatch.setattr(call_finished, "sender_receivers_cache", {})
    assert set(ids()) == {"elicitation.W022"}


@pytest.mark.django_db(transaction=True)
def test_case_F8_a_table_that_cannot_hold_every_character() -> None:
    def found() -> list[CheckMessage]:
        return checks.check_charset(None, databases=["default"])

    assert found() == []
    if connection.vendor != "mysql":
        return
    table = Elicitation._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"ALTER TABLE {table} MODIFY scope_label varchar(200) CHARACTER SET utf8mb3"
        )
        try:
            (message,) = found()
        finally:
            cursor.execute(
                f"ALTER TABLE {table} MODIFY scope_label varchar(200) CHARACTER SET utf8mb4"
            )
    assert message.id == "elicitation.E013"
    assert table in message.msg


def test_case_F8_a_site_whose_policy_is_djangos_own(ids: Ids, settings: SettingsWrapper) -> None:
    settings.ELICITATION_CONTENT_SECURITY_POLICY = None
    settings.SECURE_CSP = {"default-src": ["'self'"]}
    assert set(ids(deploy=True)) == {"elicitation.W100"}
    if django.VERSION >= (6,):
        csp = "django.middleware.csp.ContentSecurityPolicyMiddleware"
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, csp]
        assert ids(deploy=True) == {}


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
        (102, {"ELICITATION_PAGE_URL": "http://example.com/{id}"}),
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


HTTP: dict[str, Any] = {"url": "https://shop.example/mcp"}
PROGRAM: dict[str, Any] = {"command": "shop-server"}


def token(user: object) -> dict[str, str]:
    return {}


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ("https://shop.example/mcp", "must be a dictionary"),
        ({}, "must have either 'url' or 'command'"),
        (HTTP | PROGRAM, "must have either 'url' or 'command'"),
        (HTTP | {"ulr": "s3cret"}, "['ulr'] has a key that it cannot have"),
        ({"url": "s3cret"}, "['url'] must be a string that begins with https://"),
        ({"url": 1}, "['url'] must be a string that begins with https://"),
        (HTTP | {"headers": {"X": 1}}, "['headers'] must be a dictionary of strings"),
        (HTTP | {"headers": "s3cret"}, "['headers'] must be a dictionary of strings"),
        (HTTP | {"args": ["s3cret"]}, "['args'] does not go with 'url'"),
        (HTTP | {"env": {"KEY": "s3cret"}}, "['env'] does not go with 'url'"),
        (HTTP | {"cwd": "/"}, "['cwd'] does not go with 'url'"),
        ({"command": ""}, "['command'] must be a string"),
        ({"command": ["s3cret"]}, "['command'] must be a string"),
        (PROGRAM | {"args": "--key s3cret"}, "['args'] must be a list of strings"),
        (PROGRAM | {"cwd": 1}, "['cwd'] must be a path"),
        (PROGRAM | {"headers": {}}, "['headers'] does not go with 'command'"),
        (PROGRAM | {"auth": token}, "['auth'] does not go with 'command'"),
        (HTTP | {"auth": None}, "['auth'] must be a callable"),
        (HTTP | {"auth": "no.such.module"}, "['auth'] cannot be imported"),
        (HTTP | {"auth": "elicitation.conf.NAMES"}, "['auth'] must name a function"),
        (HTTP | {"policy": "everything-s3cret"}, "['policy'] is wrong. It must be one of 'none'"),
        (HTTP | {"policy": None}, "['policy'] must be a string"),
        (HTTP | {"label": "s3cret" * 11}, "['label'] is wrong. Ensure"),
        (HTTP | {"label": "s3cret\u202e"}, "['label'] is wrong. A label must be one line"),
        (HTTP | {"label": None}, "['label'] must be a string"),
        (HTTP | {"prefill": "yes"}, "['prefill'] must be True or False"),
        (HTTP | {"allowed_domains": "a.example"}, "['allowed_domains'] must be a list of strings"),
        (HTTP | {"allowed_domains": ["https://s3cret/"]}, "['allowed_domains'] is wrong. Write"),
    ],
)
def test_a_server_that_is_set_wrongly(
    options: Any, where: str, ids: Ids, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_SERVERS = {"shop": options, "fine": HTTP}
    with pytest.raises(ImproperlyConfigured) as caught:
        ServerPolicy.from_settings("shop")
    assert ServerPolicy.from_settings("fine").policy == "url"
    found = ids()
    assert set(found) == {"elicitation.E003"}
    (message,) = found["elicitation.E003"]
    assert message.msg == str(caught.value)
    assert "ELICITATION_SERVERS['shop']" in message.msg
    assert where in message.msg
    assert "s3cret" not in message.msg


@pytest.mark.parametrize(
    "path", ["no.such.queue", "elicitation.backoff", "elicitation.conf.NAMES"]
)
def test_a_queue_that_is_none(path: str, ids: Ids, settings: SettingsWrapper) -> None:
    settings.ELICITATION_QUEUE = path
    (message,) = ids()["elicitation.E001"]
    assert "ELICITATION_QUEUE" in message.msg


@pytest.mark.parametrize("name", ["n" * 201, "two\nlines"])
def test_a_server_whose_name_no_row_can_hold(
    name: str, ids: Ids, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_SERVERS = {name: HTTP}
    (message,) = ids()["elicitation.E003"]
    assert repr(name) in message.msg


@pytest.mark.parametrize("name", ["", 7])
def test_a_server_without_a_name(name: Any, ids: Ids, settings: SettingsWrapper) -> None:
    settings.ELICITATION_SERVERS = {name: HTTP}
    (message,) = ids()["elicitation.E001"]
    assert "ELICITATION_SERVERS" in message.msg


def test_two_servers_that_people_would_take_for_one(ids: Ids, settings: SettingsWrapper) -> None:
    settings.ELICITATION_SERVERS = {"shop": HTTP, "other": PROGRAM | {"label": "SHOP"}}
    (message,) = ids()["elicitation.E003"]
    assert "ELICITATION_SERVERS['other']" in message.msg


def test_servers_that_are_set_well(ids: Ids, settings: SettingsWrapper) -> None:
    settings.ELICITATION_SERVERS = {
        "shop": HTTP
        | {
            "headers": {"X-Site": "1"},
            "auth": f"{__name__}.token",
            "label": "The shop",
            "policy": "url_and_form",
            "allow_confirmation": True,
            "wide_limits": True,
            "prefill": True,
            "allowed_domains": ["example.com", "*.example.org"],
            "allow_loopback_http": True,
        },
        "files": PROGRAM | {"args": ["--all"], "env": {"KEY": "v"}, "cwd": BASE_DIR},
    }
    assert ids() == {}
    policy = ServerPolicy.from_settings("shop")
    assert (policy.display_name, policy.policy) == ("The shop", "url_and_form")
    assert (policy.allow_confirmation, policy.wide_limits, policy.prefill) == (True, True, True)
    assert policy.allows_host("www.example.org")
    assert not policy.allows_host("www.example.com")
    shop, files = app_settings.server("shop"), app_settings.server("files")
    assert shop is not None
    assert shop.auth is token
    assert files is not None
    assert (files.args, files.env, files.cwd) == (("--all",), {"KEY": "v"}, BASE_DIR)
    assert app_settings.server("Shop") is None
    # A repr may end in a log.
    assert "X-Site" not in repr(shop)
    assert "KEY" not in repr(files)
