"""The code of the page about templates, run as it stands there."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.template import engines
from django.template.backends.django import DjangoTemplates
from django.test import RequestFactory

from elicitation.pages import forms
from tests.asking import ask, schema
from tests.processes import BASE_DIR

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db

PAGE = (BASE_DIR / "docs" / "templates.md").read_text()
BLOCKS = [
    (language, code) for language, code in re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
]
FRAME, SAID, PARTS = [code for language, code in BLOCKS if language == "django"]
FORMS, SETTING = [code for language, code in BLOCKS if language == "python"]
(STYLES,) = [code for language, code in BLOCKS if language == "css"]

SLUG = schema(handle={"type": "string", "title": "Handle", "format": "slug"})


def render(user: User, code: str, **context: Any) -> str:
    request = RequestFactory().get("/chat/")
    request.user = user
    engine = engines["django"]
    assert isinstance(engine, DjangoTemplates)
    return str(engine.from_string(code).render(context, request))


def test_there_is_no_other_code() -> None:
    assert len(BLOCKS) == 6


def test_the_pages_in_the_sites_frame(user: User) -> None:
    # The demo site's own base.html has the blocks that most sites have.
    assert "<html" in render(user, FRAME)


def test_what_a_server_wrote_in_a_template_of_the_site(user: User) -> None:
    question = SimpleNamespace(title="<b>\u202e</b>")
    assert "&lt;b&gt;U+202E&lt;/b&gt;" in render(user, SAID, question=question)


def test_the_parts_in_the_sites_own_pages(user: User) -> None:
    question = ask(user, SLUG, message="Your handle?", scope="chat-1")
    shown = render(user, PARTS, conversation=SimpleNamespace(id="chat-1"), elicitation=question)
    assert shown.count("Your handle?") == 2
    assert question.get_absolute_url() in shown


def test_the_styles_are_properties_that_the_style_sheet_has() -> None:
    path = finders.find("elicitation/elicitation.css")
    assert isinstance(path, str)
    with open(path, encoding="utf-8") as file:
        sheet = file.read()
    for name in re.findall(r"--[\w-]+", STYLES):
        assert f"var({name})" in sheet, name


def test_another_form(
    user: User, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("shop.forms")
    exec(FORMS, vars(module))  # noqa: S102
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.forms", module)
    names: dict[str, Any] = {}
    exec(SETTING, names)  # noqa: S102
    settings.ELICITATION_FORM_CLASS = names["ELICITATION_FORM_CLASS"]
    form = forms.form_class()(ask(user, SLUG).form_elicitation)
    assert type(form).__name__ == "ShopForm"
    assert "SlugField" in [type(field).__name__ for field in form.fields.values()]
