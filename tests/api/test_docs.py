"""The code of the API's page, run as it stands there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.test import override_settings
from django.urls import resolve

from elicitation.api.views import AnswerView
from elicitation.inbox.access import RespondentAccess
from elicitation.models import Elicitation
from tests.asking import ask, ask_to_open, schema
from tests.docs.test_hosts import blocks_of
from tests.processes import BASE_DIR

from .test_elicitations import address, post

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from rest_framework.test import APIClient

PAGE = (BASE_DIR / "docs" / "api.md").read_text()
BLOCKS = blocks_of("docs/api.md")
EXAMPLES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


def run(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(BLOCKS[block], names)  # noqa: S102
    return names


def test_every_python_block_is_tested() -> None:
    # The settings are tested by test_openapi.py, with `check --deploy`.
    assert set(BLOCKS) == {"settings", "urls", "views", "access"}
    assert PAGE.count("```python") == len(BLOCKS)


def test_its_urls_and_its_own_view() -> None:
    with override_settings(ROOT_URLCONF=tuple(run("urls")["urlpatterns"])):
        view_name = resolve("/api/elicitation/elicitations/").view_name
    assert view_name == "elicitation_api:list"
    assert issubclass(run("views")["SiteAnswerView"], AnswerView)


@pytest.mark.django_db
def test_its_own_rule(user: User, other_user: User) -> None:
    rule: RespondentAccess = run("access")["SupportAccess"]()
    ask(user, schema(), server="shop")
    ask(user, schema(), server="bank")
    assert not rule.visible(Elicitation.objects.all(), other_user)
    other_user.groups.add(Group.objects.create(name="support"))
    assert [e.server for e in rule.visible(Elicitation.objects.all(), other_user)] == ["shop"]


@pytest.mark.django_db
def test_its_examples(api: APIClient, user: User) -> None:
    resource, answers, content, progress, parts, error = EXAMPLES
    asked = schema(
        "seats",
        seats={
            "type": "integer",
            "title": "Seats",
            "description": "One each",
            "minimum": 1,
            "maximum": 50,
        },
    )
    elicitation = ask(user, asked, "How many seats?", scope_label="Chat about seats")
    shown = api.get(address(elicitation)).json()
    assert list(shown) == list(resource)
    assert shown["questions"] == resource["questions"]
    assert list(api.get(f"{address(elicitation)}progress/").json()) == list(progress)
    opens = ask_to_open(user, parts["text"])
    assert api.get(address(opens)).json()["url"] == parts
    plan = {"oneOf": [{"const": "t", "title": "Team"}, {"const": "s"}]}
    wide = schema(**asked["properties"], plan=plan)
    for body in (answers, content):
        elicitation = ask(user, schema(**wide["properties"], note={"type": "string"}))
        body["fingerprint"] = elicitation.fingerprint
        assert post(api, elicitation, body).status_code == 200
    elicitation = ask(user, asked)
    assert post(api, elicitation, {"content": {"seats": 51}}).json() == error
