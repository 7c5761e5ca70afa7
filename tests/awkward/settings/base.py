"""What the settings of all these projects begin with."""

import os

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

ROOT_URLCONF = "tests.awkward.urls"

DEFAULT = DATABASES["default"]
ON_SQLITE = DEFAULT["ENGINE"] == "django.db.backends.sqlite3"
if not ON_SQLITE:
    # The run of the tests that started this one has a database of the usual name.
    DEFAULT["TEST"] = {"NAME": f"awkward_{os.getpid()}"}
