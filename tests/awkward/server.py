"""The site under ASGI, as a server imports it, on the database of the running test.

``PER_PROCESS`` names what the server does with its connections: ``closed`` after each request,
or ``pool``, psycopg's.
"""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

from django.conf import settings

from tests.processes import use_test_database

if os.environ["PER_PROCESS"] == "pool":
    settings.DATABASES["default"].setdefault("OPTIONS", {})["pool"] = {"max_size": 4}
settings.DATABASES["default"]["CONN_MAX_AGE"] = 0
settings.REST_FRAMEWORK["DEFAULT_THROTTLE_RATES"] = {"elicitation": None}

use_test_database()

from django.core.asgi import get_asgi_application  # noqa: E402

application = get_asgi_application()
