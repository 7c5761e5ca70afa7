"""What the tests of the API share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache import cache

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from rest_framework.test import APIClient

    MakeClient = Callable[[User], APIClient]


@pytest.fixture(autouse=True)
def _no_throttling_from_before() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def client_of() -> MakeClient:
    """Return a function that gives a client with a person's token."""
    from rest_framework.authtoken.models import Token
    from rest_framework.test import APIClient

    def make(user: User) -> APIClient:
        token, _ = Token.objects.get_or_create(user=user)
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Token {token.key}")
        return client

    return make


@pytest.fixture
def api(client_of: MakeClient, user: User) -> APIClient:
    """A client with the token of ``user``."""
    return client_of(user)


@pytest.fixture
def without_throttle(settings: Any) -> None:
    settings.REST_FRAMEWORK = {
        **settings.REST_FRAMEWORK,
        "DEFAULT_THROTTLE_RATES": {"elicitation": None},
    }
