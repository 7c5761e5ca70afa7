"""The database worker of ``django.tasks`` in a process of its own, for a site with that queue."""

from __future__ import annotations

import json
import os

from tests.processes import use_test_database

use_test_database()

from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402

settings.ELICITATION_SERVERS = json.loads(os.environ["SERVERS"])
settings.ELICITATION_QUEUE = "elicitation.calls.queues.tasks"
settings.TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}

if __name__ == "__main__":
    call_command("db_worker", "--interval=0.2", "--no-startup-delay")
