"""A command of ``manage.py`` on the database of the running test."""

import sys

from tests.processes import use_test_database

use_test_database()

from django.core.management import execute_from_command_line  # noqa: E402

if __name__ == "__main__":
    execute_from_command_line(["manage.py", *sys.argv[1:]])
