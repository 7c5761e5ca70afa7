"""The same flow over the queues of others: a real worker of each, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings as django_settings
from django.db import connection

from elicitation import calls
from elicitation.calls import queues
from elicitation.models import ParkedCall
from tests.named.conftest import Serve
from tests.processes import BASE_DIR, DATABASE, WAIT_SECONDS

from .test_worker import answer, begin, ended, text

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

REDIS = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")


@pytest.fixture
def redis() -> None:
    """Redis, without which no Celery worker of the tests has work; CI has it."""
    import redis

    try:
        redis.Redis.from_url(REDIS).ping()
    except redis.ConnectionError:
        reason = "THE CELERY WORKER DID NOT RUN: no Redis answers (REDIS_URL says where)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[None]:
    """Run a worker on the database of the test."""
    servers = json.dumps(django_settings.ELICITATION_SERVERS, default=str)
    named = {DATABASE: str(connection.settings_dict["NAME"]), "SERVERS": servers}
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=BASE_DIR,
        env=os.environ | named | environment,
        stdin=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def flow(user: User) -> None:
    """One call is started, asked, answered, and ends; another asks nothing."""
    key, other = begin(user), begin(user, "say", "2")
    answer(user)
    assert text(ended(key)) == "blue"
    assert text(ended(other)) == "said"


@pytest.mark.usefixtures("redis")
def test_celery(serve: Serve, user: User, settings: SettingsWrapper) -> None:
    from celery import Celery

    serve("shop", "http")
    settings.ELICITATION_QUEUE = "elicitation.calls.queues.celery"
    app = Celery("web", broker=REDIS)
    app.conf.task_default_queue = queue = f"elicitation-{uuid.uuid4()}"
    app.set_current()
    arguments = (
        "celery",
        "-A",
        "tests.workers.celery_app",
        "worker",
        "--pool=solo",
        "-l",
        "ERROR",
    )
    try:
        with running(*arguments, QUEUE=queue):
            flow(user)
    finally:
        with app.connection_for_write() as broker:
            broker.default_channel.queue_delete(queue)
        app.close()


def test_django_tasks(serve: Serve, user: User, settings: SettingsWrapper) -> None:
    try:
        from django.tasks import task_backends
    except ImportError:
        from django_tasks import task_backends

    serve("shop", "http")
    settings.ELICITATION_QUEUE = "elicitation.calls.queues.tasks"
    settings.TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
    backends: Any = task_backends
    # It has read the settings before.
    backends._settings = backends.settings = backends.configure_settings(None)
    backends["default"] = backends.create_connection("default")
    with running("tests.workers.tasks_worker"):
        flow(user)


def test_a_queue_that_is_down(serve: Serve, user: User, settings: SettingsWrapper) -> None:
    serve("shop", "http")

    def broken(key: uuid.UUID) -> None:
        raise ConnectionError("redis://:s3cret@away")

    settings.ELICITATION_QUEUE = f"{__name__}.taken"
    taken.side = broken  # type: ignore[attr-defined]
    key = begin(user)
    # Nobody is disturbed, and the call waits to be told of again.
    assert ParkedCall.objects.get(pk=key).look_at is not None
    told: list[uuid.UUID] = []
    taken.side = told.append  # type: ignore[attr-defined]
    queues.go_on_with(parked_call_id=key)
    assert told == [key]
    calls.cancel(key)
    queues.go_on_with(parked_call_id=key)
    assert told == [key]


def taken(key: uuid.UUID) -> None:
    taken.side(key)  # type: ignore[attr-defined]
