"""Page and API at the same moment: exactly one of them wins."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.test import Client
from django.urls import reverse

from elicitation.models import Elicitation, StoredFormAnswer
from tests.asking import ask, schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User

TIMES = 200
ASKED = schema("name", name={"type": "string"})


def on_the_page(client: Client, elicitation: Elicitation) -> bool:
    data = {"a-0": "page", "fingerprint": elicitation.fingerprint}
    response = client.post(elicitation.get_absolute_url(), data)
    assert response.status_code in (302, 409), response.content
    return response.status_code == 302


def by_the_api(client: Client, elicitation: Elicitation) -> bool:
    url = reverse("elicitation_api:answer", args=[elicitation.pk])
    body = {"content": {"name": "api"}, "fingerprint": elicitation.fingerprint}
    response = client.post(url, body, content_type="application/json")
    assert response.status_code in (200, 409), response.content
    return response.status_code == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("without_throttle")
def test_page_and_api_at_the_same_moment_have_one_winner(user: User) -> None:
    asked = [ask(user, ASKED, f"{number}?") for number in range(TIMES)]
    faces: dict[str, Callable[[Client, Elicitation], bool]] = {
        "page": on_the_page,
        "api": by_the_api,
    }
    barrier = threading.Barrier(len(faces))
    won: dict[str, list[bool]] = {face: [] for face in faces}
    errors: list[BaseException] = []

    def drive(face: str, client: Client) -> None:
        try:
            for elicitation in asked:
                barrier.wait(60)
                won[face].append(faces[face](client, elicitation))
        except BaseException as error:
            errors.append(error)
            barrier.abort()
        finally:
            connections.close_all()

    threads = []
    for face in faces:
        client = Client()
        client.force_login(user)
        threads.append(threading.Thread(target=drive, args=(face, client)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert not errors, errors
    winners = ["page" if page else "api" for page in won["page"]]
    assert [sum(pair) for pair in zip(*won.values(), strict=True)] == [1] * TIMES
    # Both came first now and then, so they did meet.
    assert len(Counter(winners)) == 2, Counter(winners)
    for elicitation, winner in zip(asked, winners, strict=True):
        elicitation.refresh_from_db()
        assert (elicitation.state, elicitation.closed_via) == ("answered", winner)
        answer: Any = StoredFormAnswer.objects.get(elicitation_id=elicitation.pk)
        assert answer.answers["name"].text == winner
