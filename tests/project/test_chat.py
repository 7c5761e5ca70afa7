"""What the chat page asks the demo site itself: to start a run, and how it ended."""

import json

import pytest
from django.urls import reverse

from project.demo.models import DemoRun

from .conftest import work_until

pytestmark = pytest.mark.django_db(transaction=True)

START = reverse("demo:chat_start")


def test_a_tool_that_asks_twice_is_answered_through_the_api(signed_in):
    page = signed_in.get(reverse("demo:chat")).content.decode()
    assert 'data-tool="buy"' in page
    assert f'data-questions="{reverse("elicitation_api:list")}"' in page
    started = signed_in.post(START, {"tool": "buy"})
    run = started.json()["url"]

    def waiting():
        response = signed_in.get(reverse("elicitation_api:list"), {"state": "pending"})
        return response.json()["results"]

    for content in ({"plan": "team", "seats": 3}, {"confirmed": True}):
        work_until(waiting, "the question")
        [question] = waiting()
        assert signed_in.get(run).json()["state"] == "open"
        url = reverse("elicitation_api:answer", args=[question["id"]])
        response = signed_in.post(url, {"content": content}, content_type="application/json")
        assert response.status_code == 200, response.content
    work_until(lambda: signed_in.get(run).json()["state"] != "open", "the end of the run")
    assert signed_in.get(run).json() == {
        "state": "finished",
        "text": "The call has finished. The tool's result:",
        "outcome": "Bought 3 seats of team.",
    }


@pytest.mark.parametrize("sent", [{}, {"tool": ""}, {"tool": "x" * 65}])
def test_a_start_without_a_tool_is_refused(signed_in, sent):
    response = signed_in.post(START, sent)
    assert response.status_code == 400
    assert json.loads(response.content) == {"error": "Name the tool to run."}
    assert not DemoRun.objects.exists()


def test_a_run_is_its_persons_alone(signed_in, admin_user):
    run = DemoRun.objects.create(user=admin_user, tool="buy")
    assert signed_in.get(reverse("demo:chat_run", args=[run.pk])).status_code == 404


def test_the_page_says_when_the_server_does_not_answer(signed_in, settings):
    settings.DEMO_MCP_URL = "http://127.0.0.1:9/mcp"
    assert "does not answer" in signed_in.get(reverse("demo:chat")).content.decode()
