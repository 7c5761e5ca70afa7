from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.person import Person, site

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@pytest.fixture
def person(transactional_db: None, user: User) -> Iterator[Person]:
    """Ada, who is signed in to the site and has its pages open."""
    with site() as address:
        person = Person(address)
        person.sign_in("ada", "pw")
        yield person
