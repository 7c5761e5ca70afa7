"""The Celery app of a site with that queue: ``celery -A tests.workers.celery_app worker``."""

from __future__ import annotations

import json
import os

from tests.processes import use_test_database

use_test_database()

from celery import Celery  # noqa: E402
from django.conf import settings  # noqa: E402

REDIS = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")

settings.ELICITATION_SERVERS = json.loads(os.environ["SERVERS"])
settings.ELICITATION_QUEUE = "elicitation.calls.queues.celery"

app = Celery("site", broker=REDIS)
app.conf.task_default_queue = os.environ["QUEUE"]
app.conf.imports = ["elicitation.calls.queues.celery"]
