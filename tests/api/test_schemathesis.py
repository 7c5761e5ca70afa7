"""What the OpenAPI document promises, tried by a tool that knows nothing but the document."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from rest_framework.authtoken.models import Token

from elicitation import inbox
from elicitation.core import FormAnswer
from elicitation.models import Elicitation
from tests.asking import allow, ask, ask_to_open, schema

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django.live_server_helper import LiveServer

HERE = Path(__file__).parent
DOCUMENT = HERE.parent.parent / "docs" / "openapi.yaml"
#: How many questions wait; answering one closes it.
WAITS = 40


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("without_throttle")
def test_schemathesis_finds_nothing(live_server: LiveServer, user: User, other_user: User) -> None:
    """All checks, 100 examples an operation, a fixed seed, a token; questions in every state, and
    somebody else's. The rest is in ``schemathesis.toml``."""
    allow(prefill=True)
    text = schema("name", name={"type": "string", "default": "Ada"}, age={"type": "integer"})
    for number in range(WAITS):
        # The document says nothing of a question's own names: only an empty answer can fit.
        ask(user, schema(name={"type": "string"}, age={"type": "integer"}), f"{number}?")
        ask_to_open(user, call=str(number))
    inbox.decline(ask(user, text).pk, by=user)
    inbox.withdraw(ask(user, text).pk)
    inbox.answer(
        ask(user, schema("a", a={"type": "string"})).pk, {"a": FormAnswer(other_text="b")}, by=user
    )
    ask(user, text, expires_at=timezone.now() - timedelta(hours=1))
    ask(other_user, text)
    token = Token.objects.create(user=user)
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("st")),
            "--config-file",
            str(HERE / "schemathesis.toml"),
            "--no-color",
            "run",
            str(DOCUMENT),
            f"--url={live_server.url}",
            f"--header=Authorization: Token {token.key}",
            "--checks=all",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # It came as far as closing questions.
    assert Elicitation.objects.filter(closed_via="api").exists()
