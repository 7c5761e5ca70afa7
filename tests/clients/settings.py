"""Settings of a host: a Django project with the app and nothing else, beside a client."""

from datetime import timedelta

import environ

from project.database import database_from_env

SECRET_KEY = "only-for-tests"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "elicitation",
]
ROOT_URLCONF = "tests.clients.urls"
DATABASES = {"default": database_from_env(environ.Env(), default="sqlite:///:memory:")}
USE_TZ = True

# The answers are given in another process, and nobody has a second to lose here.
ELICITATION_POLL_INTERVAL = timedelta(milliseconds=100)
