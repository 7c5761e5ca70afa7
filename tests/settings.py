"""Settings of the tests; ``DATABASE_URL`` chooses the database, SQLite where it is not set."""

import os
import tempfile
from pathlib import Path

import django
import environ

from project.database import database_from_env

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = "only-for-tests"
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "rest_framework.authtoken",
    "drf_spectacular",
    "elicitation",
    "project.demo",
    # The database backend of the tasks that ELICITATION_QUEUE can name.
    *(() if django.VERSION >= (6,) else ("django_tasks",)),
    "django_tasks_db",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "tests.urls"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": database_from_env(environ.Env(), default="sqlite:///:memory:")}
# Each run of the tests has a database of its own, so that two runs do not meet: a test runs other
# tests (tests/mutations), and Django deletes a database of the same name without a word.
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, which several processes can open (one in memory they cannot share).
    name = str(Path(tempfile.gettempdir()) / f"elicitation-test-{os.getpid()}.sqlite3")
else:
    name = f"test_{DATABASES['default']['NAME']}_{os.getpid()}"
DATABASES["default"]["TEST"] = {"NAME": name}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Real hashing would take most of the tests' time.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "demo:tools"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en"
# Neither UTC nor the zone of the tests' browser: a time taken in the wrong zone must show.
TIME_ZONE = "Asia/Kathmandu"
USE_I18N = True
USE_TZ = True

REST_FRAMEWORK = {
    # A program sends a token, a page of this site its session's cookie.
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "MCP elicitation",
    "DESCRIPTION": "Questions that MCP servers ask people, and the answers.",
    "VERSION": "1",
}

if django.VERSION >= (6, 1):
    # The successor of EMAIL_BACKEND, and to have none is deprecated. Tests send to memory anyway.
    MAILERS = {"default": {"BACKEND": "django.core.mail.backends.smtp.EmailBackend"}}

STATIC_URL = "static/"

# Most tests name no server: their hosts hold sessions of their own.
SILENCED_SYSTEM_CHECKS = ["elicitation.W026"]

DEMO_SERVER = "demo-shop"
# Nobody listens there; tests that need the server start one and say where it is.
DEMO_MCP_URL = "http://127.0.0.1:9/mcp"
