"""A real ASGI server, and forty people's worth of requests at once."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from elicitation.models import Elicitation, StoredFormAnswer
from tests import asking, processes

QUESTION = {"type": "object", "properties": {"plan": {"type": "string"}}, "required": ["plan"]}
QUESTIONS, AT_ONCE = 20, 16
#: psycopg has a pool; the other drivers have none.
CONNECTIONS = ["closed", "pool"] if connection.vendor == "postgresql" else ["closed"]


@pytest.mark.parametrize("connections", CONNECTIONS)
@pytest.mark.django_db(transaction=True)
def test_of_two_answers_at_the_same_moment_one_wins(
    user: User, connections: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking.allow()
    keys = [asking.ask(user, QUESTION, call=f"call-{n}").pk for n in range(QUESTIONS)]
    client = Client()
    client.force_login(user)
    cookie = f"sessionid={client.cookies['sessionid'].value}; csrftoken={'x' * 32}"
    headers = {
        "Content-Type": "application/json",
        "Cookie": cookie,
        "Host": "localhost",
        "X-CSRFToken": "x" * 32,
    }
    port = processes.free_port()

    def answer(sent: tuple[object, str]) -> int:
        key, plan = sent
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"content": {"plan": plan}})
        asked.request("POST", f"/api/elicitation/elicitations/{key}/answer/", body, headers)
        status = asked.getresponse().status
        asked.close()
        return status

    monkeypatch.setenv("PER_PROCESS", connections)
    server = processes.start(
        "uvicorn",
        "tests.awkward.server:application",
        *("--port", str(port), "--log-level", "error", "--lifespan", "off"),
    )
    try:
        processes.wait_until(lambda: processes.answers(port), "the ASGI server")
        with ThreadPoolExecutor(AT_ONCE) as people:
            both = [(key, plan) for key in keys for plan in ("solo", "team")]
            statuses = Counter(people.map(answer, both))
    finally:
        server.terminate()
        server.communicate(timeout=30)
    assert statuses == {200: QUESTIONS, 409: QUESTIONS}
    assert Elicitation.objects.filter(state="answered").count() == QUESTIONS
    assert StoredFormAnswer.objects.count() == QUESTIONS
