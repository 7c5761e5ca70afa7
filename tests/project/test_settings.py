"""The parts of the demo site's settings that decide something."""

import stat

import environ
import pytest

from project.database import database_from_env


def database(url: str) -> dict:
    env = environ.Env()
    env.ENVIRON = {"DATABASE_URL": url}
    return database_from_env(env, default="sqlite:////tmp/default.sqlite3")


def test_sqlite_writes_ahead_and_locks_early():
    config = database("")
    assert config["ENGINE"] == "django.db.backends.sqlite3"
    assert config["NAME"] == "/tmp/default.sqlite3"
    assert config["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode=WAL" in config["OPTIONS"]["init_command"]
    assert config["OPTIONS"]["timeout"] == 20


def test_what_the_url_says_stays_said():
    config = database("sqlite:////tmp/other.sqlite3?timeout=3")
    assert config["OPTIONS"]["timeout"] == 3
    assert config["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


@pytest.mark.parametrize(
    ("url", "engine", "options"),
    [
        ("postgres://someone@127.0.0.1:5432/app", "django.db.backends.postgresql", {}),
        ("mysql://root@127.0.0.1:3306/app", "django.db.backends.mysql", {"charset": "utf8mb4"}),
    ],
)
def test_other_databases_get_what_they_need(url, engine, options):
    config = database(url)
    assert config["ENGINE"] == engine
    assert config["HOST"] == "127.0.0.1"
    assert config["OPTIONS"] == options


def test_the_key_is_made_once_and_read_by_its_owner_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "only-for-tests")
    from project.settings import development_key

    path = tmp_path / "key"
    key = development_key(path)
    assert len(key) >= 50
    assert development_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert development_key(tmp_path / "other") != key
