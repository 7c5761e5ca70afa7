"""The tests' site as an ASGI server imports it, on the database of the running test."""

from tests.processes import use_test_database

use_test_database()

from django.core.asgi import get_asgi_application  # noqa: E402

application = get_asgi_application()
