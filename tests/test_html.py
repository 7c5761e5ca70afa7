"""The bytes of every page, through the Nu HTML checker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from elicitation import inbox as inbox_of
from elicitation.models import Elicitation, ServerPolicy
from tests.asking import allow, ask, ask_to_open, schema

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db

BASE_DIR = Path(__file__).resolve().parent.parent
#: Where `npm install vnu-jar` puts the checker; VNU_JAR names another place.
JAR = Path(os.environ.get("VNU_JAR") or BASE_DIR / "node_modules/vnu-jar/build/dist/vnu.jar")

State = Elicitation.State

EVERY_KIND = schema(
    "plan",
    "when",
    plan={"enum": ["free", "pro"], "enumNames": ["Free", "Pro"], "description": "a\nb"},
    country={"type": "string", "title": "<Country>", "enum": [f"Country {n}" for n in range(9)]},
    extras={"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 2},
    insured={"type": "boolean", "title": "Insure it?", "default": True},
    note={"type": "string", "title": "Note", "default": "two\nlines"},
    mail={"type": "string", "format": "email"},
    seats={"type": "integer", "minimum": 1},
    day={"type": "string", "format": "date"},
    when={"type": "string", "format": "date-time", "default": "2026-07-01T12:00:00Z"},
)


def every_page(user: User, language: str) -> dict[str, Any]:
    """Return every page of the app by its name, as for a browser that wants this language."""
    headers = {"accept-language": language}
    client, stranger = Client(headers=headers), Client(headers=headers)
    strict = Client(enforce_csrf_checks=True, headers=headers)
    for each in (client, strict):
        each.force_login(user)
    inbox = reverse("elicitation:inbox")
    pages = {"empty inbox": client.get(inbox)}
    allow("prefilled", prefill=True)
    asked = {
        "form": ask(user, EVERY_KIND, "Hello", scope_label="Budget", round=2),
        "prefilled": ask(user, EVERY_KIND, server="prefilled"),
        "warning": ask(user, schema(x={"type": "string"}), "Your password?", server="Pаypal"),
        "confirmation": ask(user, schema(), "Delete it?"),
    }
    addresses = {
        "address": ask_to_open(user, "https://bücher.example.com:8443/a?b='&c=%3E"),
        "agreed": ask_to_open(user, call="2", parked=True),
        "finished": ask_to_open(user, "https://10.0.0.1/", call="3", parked=True),
        "agreed, call ended": ask_to_open(user, call="4"),
    }
    for name, each in addresses.items():
        if name != "address":
            inbox_of.consent(each.pk, by=user)
    inbox_of.go_on(addresses["finished"].pk, by=user)
    asked |= addresses
    pages["inbox"] = client.get(inbox)
    pages |= {name: client.get(each.get_absolute_url()) for name, each in asked.items()}
    address = asked["form"].get_absolute_url()
    sent = {"fingerprint": asked["form"].fingerprint}
    pages["errors"] = client.post(address, sent)
    whole = {"a-0": "0", "a-8_0": "2026-07-01T12:00", "a-8_1": "UTC", "a-4": "<two>\r\nlines"}
    pages["check"] = client.post(address, sent | whole)
    pages["replaced"] = client.post(address)
    pages["not sent"] = strict.post(address)
    pages["signed out"] = stranger.post(address)
    pages["sign out"] = client.get(reverse("elicitation:sign_out"))
    pages["not found"] = client.get(inbox + "nonsense/")
    for state in (State.ANSWERED, State.DECLINED, State.EXPIRED, State.WITHDRAWN):
        done = ask(user, schema(x={"type": "string"}), state=state, closed_at=timezone.now())
        pages[state] = client.get(done.get_absolute_url())
        follow_up = ask(user, schema(), parked_call_id=done.parked_call_id)
        pages[f"{state}, more to come"] = client.get(done.get_absolute_url())
        pages[f"late, {state}"] = client.post(
            done.get_absolute_url(), {"fingerprint": done.fingerprint, "a-0": "x"}
        )
        follow_up.delete()
    pages["searched"] = client.get(inbox, {"search": "<b>?", "server": "shop"})
    pages["several declined"] = client.post(
        reverse("elicitation:decline_several"), {"id": [each.pk for each in asked.values()]}
    )
    pages["history"] = client.get(reverse("elicitation:history"))
    return pages


def test_line_13_the_html_checker_finds_nothing(user: User, tmp_path: Path) -> None:
    if not JAR.exists() or shutil.which("java") is None:
        reason = f"THE HTML CHECKER DID NOT RUN: it needs java and {JAR} (npm install vnu-jar)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    for language in ("en", "de", "ar"):
        Elicitation.objects.all().delete()
        ServerPolicy.objects.all().delete()
        pages = every_page(user, language)
        assert len(pages) == 32
        for name, response in pages.items():
            assert f'lang="{language}"'.encode() in response.content
            (tmp_path / f"{name}, {language}.html").write_bytes(response.content)
    command = ["java", "-jar", str(JAR), "--format", "json", "--stdout", str(tmp_path)]
    checked = subprocess.run(command, capture_output=True, check=False, timeout=120)
    found = [
        f"{Path(each['url']).name}:{each.get('lastLine')}: {each['message']}"
        for each in json.loads(checked.stdout)["messages"]
    ]
    assert not found
