"""The site of ``site`` under ASGI with its static files, on the database of the running test."""

from tests.processes import use_test_database

use_test_database()

from django.conf import settings  # noqa: E402
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402

settings.ROOT_URLCONF = "tests.browser.site"
application = ASGIStaticFilesHandler(get_asgi_application())
