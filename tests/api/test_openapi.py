"""The OpenAPI document, and the app without what it is made with."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.docs.test_hosts import blocks_of

BASE_DIR = Path(__file__).resolve().parent.parent.parent
DOCUMENT = BASE_DIR / "docs" / "openapi.yaml"


def test_the_document_is_valid_and_the_one_that_is_checked_in(tmp_path: Path) -> None:
    made = tmp_path / "openapi.yaml"
    call_command("spectacular", file=str(made), validate=True, fail_on_warn=True)
    assert made.read_text() == DOCUMENT.read_text(), (
        "The API has changed. Make docs/openapi.yaml anew: python manage.py spectacular "
        "--settings tests.settings --validate --fail-on-warn --file docs/openapi.yaml"
    )


def test_the_command_is_clean() -> None:
    command = ("manage.py", "spectacular", "--validate", "--fail-on-warn")
    done = run("-W", "error", *command, "--settings", "tests.settings")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == DOCUMENT.read_text().strip()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "project.settings", **environment}
    # Browser tests that ran before set it, and Django refuses to deploy with it.
    env.pop("DJANGO_ALLOW_ASYNC_UNSAFE", None)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=BASE_DIR,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


BLOCKED = """
import importlib, sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Block())

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="only-for-tests",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "elicitation",
    ],
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    USE_TZ=True,
)
django.setup()
for name in {modules!r}:
    importlib.import_module(name)
print(sorted(name for name in sys.modules if name in {blocked!r}))
"""


@pytest.mark.parametrize(
    ("blocked", "modules"),
    [
        (
            ("rest_framework", "drf_spectacular"),
            (
                "elicitation.urls",
                "elicitation.inbox",
                "elicitation.inbox.access",
                "elicitation.checks",
            ),
        ),
        (("drf_spectacular",), ("elicitation.urls", "elicitation.api.urls")),
    ],
)
def test_the_app_imports_without(blocked: tuple[str, ...], modules: tuple[str, ...]) -> None:
    done = run("-W", "error", "-c", BLOCKED.format(blocked=blocked, modules=modules))
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


SITE = """from tests.settings import *
SECRET_KEY = "k" * 40 + "abcdefghij0123456789"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "elicitation",
    "deployed_app.Site",
]
ROOT_URLCONF = "deployed_urls"
del REST_FRAMEWORK, SPECTACULAR_SETTINGS
"""
APP = """from django.apps import AppConfig
def fetch(**kwargs):
    pass
class Site(AppConfig):
    name = "deployed_app"
    path = "."
    def ready(self):
        from elicitation.signals import call_finished, elicitation_closed
        call_finished.connect(fetch)
        elicitation_closed.connect(fetch)
"""
URLS = """from django.contrib.auth.views import LoginView
from django.urls import include, path
urlpatterns = [
    path("login/", LoginView.as_view(), name="login"),
    path("elicitation/", include("elicitation.urls")),
    path("api/elicitation/", include("elicitation.api.urls")),
]
"""


def test_check_deploy_has_no_warning_of_ours_with_the_documented_settings(tmp_path: Path) -> None:
    """``docs/api.md`` says which settings the API wants: they are put after those of a site that
    knows nothing of it."""
    settings = blocks_of("docs/api.md")["settings"]
    (tmp_path / "deployed.py").write_text(SITE + settings)
    (tmp_path / "deployed_urls.py").write_text(URLS)
    (tmp_path / "deployed_app.py").write_text(APP)
    done = run(
        "-m",
        "django",
        "check",
        "--deploy",
        DJANGO_SETTINGS_MODULE="deployed",
        PYTHONPATH=os.pathsep.join([str(tmp_path), str(BASE_DIR)]),
    )
    assert done.returncode == 0, done.stderr
    for app in ("elicitation", "rest_framework", "drf_spectacular"):
        assert f"({app}." not in done.stderr, done.stderr
    # The checks did run: this is what Django says of a site without HTTPS.
    assert "(security.W" in done.stderr


def test_the_list_says_what_may_be_filtered() -> None:
    out = StringIO()
    call_command("spectacular", stdout=out)
    for name in ("cursor", "scope", "server", "state"):
        assert f"name: {name}\n" in out.getvalue()
