"""A URL mode elicitation as a value, without Django."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from elicitation.core import (
    ElicitationPending,
    FormElicitation,
    SchemaRefusal,
    URLElicitation,
    parse_elicitation_url,
    parse_requested_schema,
)

ADDRESS = "https://login.example.com/start?token=t0p"


def asks(address: str = ADDRESS, **changes: Any) -> URLElicitation:
    values: dict[str, Any] = {
        "server_name": "shop",
        "tool_name": "connect",
        "key": "k",
        "message": "Sign in.",
        "url": parse_elicitation_url(address),
    }
    return URLElicitation(**values | changes)


def test_the_fingerprint_covers_message_and_address_and_not_the_key() -> None:
    one = asks()
    assert one.fingerprint() == asks(key="other", url_id="e-1").fingerprint()
    others = [asks(message="Pay."), asks(ADDRESS + "2"), asks(ADDRESS.replace("login", "LOGIN"))]
    assert len({one.fingerprint(), *(other.fingerprint() for other in others)}) == 4


def test_it_is_never_taken_for_a_confirmation_with_the_same_message() -> None:
    schema = parse_requested_schema({"type": "object", "properties": {}}, allow_confirmation=True)
    form = FormElicitation(
        server_name="shop", tool_name="connect", key="k", message="Sign in.", schema=schema
    )
    assert asks().schema == schema
    assert asks().fingerprint() != form.fingerprint()


@pytest.mark.parametrize(
    "changes",
    [
        {"url_id": 7},
        {"url_id": "x" * 201},
        {"url_id": "a\u202eb"},
        {"message": None},
        {"message": "\x00"},
        {"key": "a\nb"},
    ],
)
def test_what_is_not_safe_to_keep_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SchemaRefusal):
        asks(**changes)
    with pytest.raises(SchemaRefusal):
        replace(asks(), **changes)


def test_pending_says_that_a_page_is_to_be_opened_and_repeats_nothing() -> None:
    pending = asks().pending()
    assert pending.opens_url
    assert pending.questions == []
    told = pending.as_tool_result()
    assert "needs the person to do something on a page of its own before" in told
    for text in (told, str(pending), repr(asks())):
        assert "t0p" not in text


def test_pending_of_a_form_and_an_address_names_both() -> None:
    pending = ElicitationPending(
        server_name="shop",
        tool_name="connect",
        message="",
        questions=[{}],
        fingerprint="",
        opens_url=True,
    )
    assert "an answer to 1 question and the person to do" in pending.as_tool_result()
