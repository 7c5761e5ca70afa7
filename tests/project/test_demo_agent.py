"""The demo agent's pages, through Django's test client, with the real MCP server behind them."""

import io
import re
import urllib.parse
import urllib.request

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from elicitation import inbox
from elicitation.core import FormAnswer
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from project.demo import agent
from project.demo.models import DemoRun, page_of_scope

from .conftest import work_until

pytestmark = pytest.mark.django_db(transaction=True)

REFRESH = re.compile(r'<meta http-equiv="refresh"')


def start(client, tool):
    """Press "Run" and work until the call is parked or has ended."""
    response = client.post(reverse("demo:start"), {"tool": tool})
    assert response.status_code == 302
    run = DemoRun.objects.get()
    assert response["Location"] == run.get_absolute_url()
    work_until(lambda: settled(run), f"the run of {tool}")
    return run


def settled(run):
    run.refresh_from_db()
    return run.question or not run.is_open


def ended(run):
    run.refresh_from_db()
    return not run.is_open


def page(client, run):
    response = client.get(run.get_absolute_url())
    assert response.status_code == 200
    return response.content.decode()


def test_lists_what_the_server_offers(signed_in):
    content = signed_in.get("/").content.decode()
    for tool in ("buy", "ship", "delete_project", "connect", "connect_by_form"):
        assert f'name="tool" value="{tool}"' in content
    assert "Asks for a confirmation, without any question, before it deletes." in content


def test_says_that_the_server_is_down(client, user, settings):
    settings.DEMO_MCP_URL = "http://127.0.0.1:9/mcp"
    client.force_login(user)
    response = client.get("/")
    assert response.status_code == 200
    content = response.content.decode()
    assert "does not answer at http://127.0.0.1:9/mcp" in content
    assert "make demo" in content


def test_a_run_waits_for_a_server_that_is_down(signed_in, demo, settings):
    server = settings.ELICITATION_SERVERS[settings.DEMO_SERVER]
    up, server["url"] = server["url"], "http://127.0.0.1:9/mcp"
    run = DemoRun.objects.create(user=demo, tool="connect_by_form")
    agent.start(run)
    call_command("elicitation_worker", once=True, stdout=io.StringIO())
    assert "The call is running." in page(signed_in, run)
    assert ParkedCall.objects.get().ended_at is None
    server["url"] = up
    ParkedCall.objects.update(look_at=timezone.now())
    work_until(lambda: ended(run), "the end")


def test_a_run_waits_for_the_person_and_goes_on_by_itself(signed_in, demo):
    run = start(signed_in, "buy")
    content = page(signed_in, run)
    assert "The call waits for you." in content
    assert run.question.get_absolute_url() in content
    assert REFRESH.search(content)

    first = run.question
    inbox.answer(
        first.pk,
        {"plan": FormAnswer(selected=("team",)), "seats": FormAnswer(other_text="3")},
        by=demo,
    )
    work_until(lambda: run.question and run.question.pk != first.pk, "the second question")
    assert run.question.message == "Buy 3 seats of team?"
    assert run.question.get_absolute_url() in page(signed_in, run)

    inbox.answer(run.question.pk, {"confirmed": FormAnswer(selected=("Yes",))}, by=demo)
    work_until(lambda: ended(run), "the result")
    content = page(signed_in, run)
    assert "Bought 3 seats of team." in content
    assert not REFRESH.search(content)


def test_the_questions_are_answered_on_the_pages(signed_in):
    run = start(signed_in, "buy")
    first = run.question
    submit(signed_in, first, {"a-0": "1", "a-1": "3"})
    work_until(lambda: run.question and run.question.pk != first.pk, "the second question")
    submit(signed_in, run.question, {"a-0": "0"})
    work_until(lambda: ended(run), "the result")
    assert run.outcome == "Bought 3 seats of team."


def submit(client, question, fields):
    url = question.get_absolute_url()
    content = client.get(url).content.decode()
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', content))
    response = client.post(url, hidden | fields)
    assert response.status_code in (200, 302, 303), response.content.decode()
    question.refresh_from_db()
    assert question.state == Elicitation.State.ANSWERED, response.content.decode()


def test_a_declined_question_ends_the_run_with_the_servers_word(signed_in, demo):
    run = start(signed_in, "delete_project")
    inbox.decline(run.question.pk, by=demo)
    work_until(lambda: ended(run), "the result")
    assert run.state == DemoRun.State.FINISHED
    assert "The project Apollo was kept." in page(signed_in, run)


def test_a_confirmation_without_fields_is_accepted(signed_in, demo):
    run = start(signed_in, "delete_project")
    inbox.answer(run.question.pk, {}, by=demo)
    work_until(lambda: ended(run), "the result")
    assert "The project Apollo was deleted." in page(signed_in, run)


def test_connect_waits_until_the_key_was_taken_elsewhere(signed_in, demo, mcp_url):
    run = start(signed_in, "connect")
    question = run.question
    shown = signed_in.get(question.get_absolute_url()).content.decode()
    page_of_its_own = mcp_url.replace("/mcp", "/connect")
    assert page_of_its_own in shown
    assert f'href="{page_of_its_own}"' not in shown
    signed_in.post(
        reverse("elicitation:consent", args=[question.pk]), {"fingerprint": question.fingerprint}
    )
    shown = signed_in.get(question.get_absolute_url()).content.decode()
    assert f'href="{page_of_its_own}"' in shown
    assert "The call waits for you." in page(signed_in, run)

    data = urllib.parse.urlencode({"key": "my secret"}).encode()
    with urllib.request.urlopen(page_of_its_own, data) as response:
        assert b"press Continue" in response.read()
    signed_in.post(reverse("elicitation:continue", args=[question.pk]))
    work_until(lambda: ended(run), "the result")
    assert "Connected: the key has 9 characters." in page(signed_in, run)
    for model in (Elicitation, StoredFormAnswer, ParkedCall, DemoRun):
        assert "my secret" not in str(list(model.objects.values()))


def test_connect_by_form_is_refused_and_the_page_says_why(signed_in):
    run = start(signed_in, "connect_by_form")
    assert run.state == DemoRun.State.REFUSED
    assert not Elicitation.objects.exists()
    content = page(signed_in, run)
    assert "The request was refused." in content
    assert "(credential)" in content


def test_an_unknown_tool_fails_with_the_servers_word(signed_in):
    run = start(signed_in, "sell")
    assert run.state == DemoRun.State.FAILED
    assert "sell" in run.outcome


def test_a_run_needs_a_tool(signed_in):
    assert signed_in.post(reverse("demo:start"), {"tool": ""}).status_code == 400
    assert not DemoRun.objects.exists()


def test_a_run_is_its_persons_alone(signed_in, client, other_user):
    run = start(signed_in, "connect_by_form")
    client.force_login(other_user)
    response = client.get(run.get_absolute_url())
    assert response.status_code == 404
    assert run.outcome not in response.content.decode()
    assert "connect_by_form, " not in client.get("/").content.decode()


def test_signing_in_leads_back(client, demo):
    run = DemoRun.objects.create(user=demo, tool="buy")
    response = client.get(run.get_absolute_url())
    assert response.status_code == 302
    sign_in = response["Location"]
    assert sign_in == f"/accounts/login/?next={run.get_absolute_url()}"

    content = client.get(sign_in).content.decode()
    assert f'name="next" value="{run.get_absolute_url()}"' in content
    response = client.post(sign_in, {"username": "demo", "password": "wrong"})
    assert "<title>Error: Sign in" in response.content.decode()
    form = {"username": "demo", "password": "demo", "next": run.get_absolute_url()}
    response = client.post("/accounts/login/", form)
    assert response["Location"] == run.get_absolute_url()


def test_setup_can_be_repeated(demo, capsys):
    ServerPolicy.objects.create(server="demo-shop", label="Shop", policy=ServerPolicy.Policy.NONE)
    call_command("demo_setup")
    assert "demo (password demo)" in capsys.readouterr().out
    # What an operator decides in the admin stays decided.
    assert ServerPolicy.objects.for_server("demo-shop").policy == ServerPolicy.Policy.NONE


def test_the_page_of_an_answered_request_leads_back_to_its_run(signed_in, demo):
    run = start(signed_in, "delete_project")
    question = run.question
    inbox.answer(question.pk, {}, by=demo)
    content = signed_in.get(question.get_absolute_url()).content.decode()
    assert f'href="{run.get_absolute_url()}"' in content


def test_calls_of_other_hosts_are_left_alone(demo):
    assert DemoRun.of_scope("conversation-1") is None
    assert page_of_scope("conversation-1") is None
