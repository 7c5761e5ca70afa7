"""Settings of the demo site. Each can be set in the environment; none has to be."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

import environ

from project.database import database_from_env

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()


def development_key(path: Path) -> str:
    """Return the key kept in ``path``, which git ignores; make one on first use."""
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(50))
    return path.read_text(encoding="ascii")


# On by default nowhere: Django's debug pages show what a page of the app must not.
DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY", default="") or development_key(BASE_DIR / ".secret_key")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "rest_framework.authtoken",
    "elicitation",
    "project.demo",
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

ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
WSGI_APPLICATION = "project.wsgi.application"

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

DATABASES = {"default": database_from_env(env, default=f"sqlite:///{BASE_DIR / 'db.sqlite3'}")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "demo:tools"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en"
TIME_ZONE = env.str("TIME_ZONE", default="UTC")
USE_I18N = True
USE_TZ = True

REST_FRAMEWORK = {
    # A program sends a token, a page of this site its session's cookie.
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
}

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"

# The site may be put behind TLS; on the loopback address, where the demo runs, there is none.
SECURE_COOKIES = env.bool("SECURE_COOKIES", default=False)
SESSION_COOKIE_SECURE = SECURE_COOKIES
CSRF_COOKIE_SECURE = SECURE_COOKIES
CSRF_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "elicitation": {"level": "INFO"},
        "project": {"level": "INFO"},
        # What Django's own handlers would print a second time.
        "django": {"handlers": [], "level": "WARNING"},
        "django.server": {"handlers": [], "level": "CRITICAL"},
    },
}

# The MCP server whose tools the demo's agent calls, and the name this site gives that server.
DEMO_SERVER = "demo-shop"
DEMO_MCP_URL = env.str("DEMO_MCP_URL", default="http://127.0.0.1:8808/mcp")
ELICITATION_SERVERS = {
    DEMO_SERVER: {
        "url": DEMO_MCP_URL,
        "label": "Demo shop",
        "policy": "url_and_form",
        "allow_confirmation": True,
        # The demo's server is on this machine, and the only one it may lead to.
        "allowed_domains": ["127.0.0.1", "localhost"],
        "allow_loopback_http": True,
    },
}
ELICITATION_SCOPE_URL = "project.demo.models.page_of_scope"
