"""Several answers in one request."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User

from elicitation.models import StoredFormAnswer
from tests import asking

if TYPE_CHECKING:
    from rest_framework.test import APIClient

URL = "/api/elicitation/answers/"
QUESTION = asking.schema("plan", plan={"type": "string", "maxLength": 4})


def post(api: APIClient, *sent: Any) -> Any:
    return api.post(URL, {"elicitations": list(sent)}, format="json")


def test_each_is_answered_or_refused_by_itself(
    api: APIClient, user: User, other_user: User
) -> None:
    first, second, third, done = (asking.ask(user, QUESTION) for _ in range(4))
    theirs = asking.ask(other_user, QUESTION)
    type(done).objects.filter(pk=done.pk).update(state="withdrawn")
    response = post(
        api,
        {"id": str(first.pk), "answers": {"plan": {"other_text": "solo"}}},
        {"id": str(second.pk), "content": {"plan": "much longer s3cret"}},
        {"id": str(third.pk), "decline": True},
        {"id": str(done.pk), "content": {"plan": "solo"}},
        {"id": str(theirs.pk), "decline": True},
        {"id": str(uuid.uuid4()), "decline": True},
    )
    assert response.status_code == 200
    results = response.json()["results"]
    assert [result["status"] for result in results] == [200, 400, 200, 410, 404, 404]
    assert results[0]["elicitation"]["state"] == "answered"
    assert results[0]["error"] is None
    assert results[1]["error"]["errors"]["plan"]["code"] == "too_long"
    assert results[2]["elicitation"]["state"] == "declined"
    assert results[3]["error"]["code"] == "withdrawn"
    assert results[4]["error"] == results[5]["error"]
    assert "s3cret" not in response.content.decode()
    states = {one.pk: one.state for one in type(first).objects.all()}
    assert (states[first.pk], states[second.pk]) == ("answered", "pending")
    assert (states[third.pk], states[theirs.pk]) == ("declined", "pending")
    assert StoredFormAnswer.objects.count() == 2


@pytest.mark.parametrize(
    "sent",
    [
        [],
        ["x"],
        [{}],
        [{"id": 1}],
        [{"id": "a"}, {"id": "a"}],
        [{"id": str(n)} for n in range(17)],
    ],
)
def test_what_is_no_round_is_refused(api: APIClient, sent: list[Any]) -> None:
    response = post(api, *sent)
    assert (response.status_code, set(response.json()["errors"])) == (400, {"elicitations"})
