"""The admin looks as django-unfold makes it."""

from tests.settings import *  # noqa: F403

INSTALLED_APPS = ["unfold", *INSTALLED_APPS]  # noqa: F405
