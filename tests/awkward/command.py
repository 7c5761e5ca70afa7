"""A process that runs one management command on the database of the running test."""

from __future__ import annotations

import sys

from tests.processes import use_test_database

use_test_database()

from django.core.management import call_command  # noqa: E402

if __name__ == "__main__":
    call_command(*sys.argv[1:])
