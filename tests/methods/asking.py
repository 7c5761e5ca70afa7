"""The three requests of the tests, by their methods."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from elicitation import calls

#: Longer than a column for names.
URI = "review://files/" + "a" * 300
ARGUMENTS = {"tone": "kind"}


def request(method: str, user: User, **options: Any) -> Any:
    """Make a request, all of one host's id and by the same name."""
    common: dict[str, Any] = {"scope": "chat", "user": user, "call": "c1"} | options
    if method == "prompts/get":
        return calls.get_prompt_sync("shop", "review", ARGUMENTS, **common)
    if method == "resources/read":
        return calls.read_resource_sync("shop", URI, **common)
    return calls.call_sync("shop", "review", ARGUMENTS, **common)
