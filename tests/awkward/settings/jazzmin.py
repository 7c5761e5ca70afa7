"""The admin looks as django-jazzmin makes it."""

from tests.settings import *  # noqa: F403

INSTALLED_APPS = ["jazzmin", *INSTALLED_APPS]  # noqa: F405
