"""The tests that the page about tests has as examples, run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.integration.conftest import host_for, policy
from tests.processes import BASE_DIR

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client

__all__ = ["host_for", "policy"]

PAGE = (BASE_DIR / "docs" / "testing.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"<!-- test: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


def example(block: str) -> Callable[..., None]:
    names: dict[str, Any] = {}
    exec(BLOCKS[block], names)  # noqa: S102
    (found,) = (thing for name, thing in names.items() if name.startswith("test_"))
    assert callable(found)
    return found


def test_there_is_no_other_code() -> None:
    assert PAGE.count("```") == 2 * len(BLOCKS)


def test_a_rule_of_the_core() -> None:
    example("core")()


def test_what_a_person_does_on_a_page(ada: Client, user: User) -> None:
    example("page")(ada, user)


def test_a_call_whose_server_asks(host_for: Any) -> None:
    example("call")(host_for)


def test_each_place_that_is_named_is_there() -> None:
    for path in re.findall(r"`(tests/[\w/.]+)`", PAGE):
        assert (BASE_DIR / path).exists(), path
