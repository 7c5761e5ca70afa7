"""The pages, through Django's test client: each numbered line of the rules is a test here or in
``tests/browser``."""

from __future__ import annotations

import gzip
import html
import json
import re
import threading
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import AnonymousUser
from django.contrib.staticfiles import finders
from django.db import connection
from django.forms import TextInput
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.safestring import SafeString
from django.views.debug import ExceptionReporter

from elicitation.core import ElicitationRefusal, FormAnswer, names_a_credential
from elicitation.core.untrusted import mixes_scripts, one_line, speaks_of_secrets, visible
from elicitation.models import Elicitation, StoredFormAnswer
from elicitation.pages import forms
from elicitation.pages.fields import TextField
from elicitation.pages.forms import ElicitationForm
from elicitation.urls import urlpatterns
from tests.asking import SERVER, allow, ask, park, schema
from tests.reading_html import Page, page

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django import DjangoAssertNumQueries
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db

State = Elicitation.State

PLAN = {"type": "string", "title": "Plan", "enum": ["free", "pro"], "enumNames": ["Free", "Pro"]}
SEATS = {"type": "integer", "title": "Seats", "minimum": 1, "maximum": 5}
BUY = schema("plan", "seats", plan=PLAN, seats=SEATS)


def send(client: Client, elicitation: Elicitation, **answers: Any) -> Any:
    """Send the form of a question; ``a0`` stands for ``a-0``."""
    data = {"fingerprint": elicitation.fingerprint}
    data |= {re.sub(r"^a(?=\d)", "a-", name): value for name, value in answers.items()}
    return client.post(elicitation.get_absolute_url(), data)


def decline(client: Client, elicitation: Elicitation, **data: Any) -> Any:
    return client.post(reverse("elicitation:decline", args=(elicitation.pk,)), data)


class CredulousForm(ElicitationForm):
    """A site's own form that judges nothing."""

    def clean(self) -> dict[str, Any]:
        return self.cleaned_data


def assert_look(shown: Page, look: str) -> None:
    """The icon, and the class that gives its colour, say the same."""
    assert shown.all("div", class_=f"elicitation-outcome-{look}")
    tick = "m5 12.5 4.5 4.5L19 7.5"
    ticks = [each for each in shown.all("path") if each.attrs["d"] == tick]
    assert bool(ticks) is (look == "answered")


def closed(user: User, state: str, **changes: Any) -> Elicitation:
    return ask(
        user, BUY, state=state, **{"closed_at": timezone.now(), "closed_by": user, **changes}
    )


def in_site(source: str, user: Any, path: str = "/chat/", **context: Any) -> str:
    """Render a template of a site's own, as for a request by this person."""
    request = RequestFactory().get(path)
    request.user = user
    return Template("{% load elicitation %}" + source).render(
        Context({"request": request, **context})
    )


# --- The frame -------------------------------------------------------------------------------


class TestFrame:
    def test_line_01_the_frame_names_the_operators_label_and_what_happens(
        self, ada: Client, user: User
    ) -> None:
        allow(label="Acme Shop")
        shown = page(ada.get(ask(user, BUY).get_absolute_url()))
        assert " ".join(shown.one("h1").text.split()) == "Acme Shop asks you"
        assert "An external server asks this. This site does not." in shown.text
        assert (
            "Your answer goes to Acme Shop. The AI agent that uses this server for you"
            in shown.text
        )
        assert "Never enter passwords, keys or card numbers" in shown.text
        assert SERVER not in shown.text

    def test_line_01_without_a_label_it_is_the_configured_name(
        self, ada: Client, user: User
    ) -> None:
        assert f"{SERVER} asks you" in page(ada.get(ask(user, BUY).get_absolute_url())).text

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("a\nb\tc", "a b c"),
            ("a\u200bb\u202ec", "aU+200BbU+202Ec"),
            ("x" * 65, "x" * 63 + "…"),
            ("x" * 64, "x" * 64),
        ],
    )
    def test_line_01_a_name_is_one_visible_line_of_64_characters(
        self, name: str, shown: str
    ) -> None:
        assert one_line(name) == shown

    @pytest.mark.parametrize(
        "text",
        [
            "Your password",
            "the API key",
            "apiKey",
            "access_token",
            "Enter the code",
            "PIN?",
            "pass\u200bword",
            "ＰＡＳＳＷＯＲＤ",
            "Ihr Kennwort",
            "votre mot de passe",
            "كلمة المرور",
        ],
    )
    @pytest.mark.parametrize("where", ["message", "title", "description"])
    def test_line_01_the_warning_stands_out_where_a_secret_is_spoken_of(
        self, where: str, text: str, ada: Client, user: User
    ) -> None:
        prop = {"type": "string", where: text} if where != "message" else {"type": "string"}
        if where == "title" and names_a_credential(text):
            # The core refuses such a title outright.
            with pytest.raises(ElicitationRefusal):
                ask(user, schema(x=prop))
            return
        elicitation = ask(user, schema(x=prop), text if where == "message" else "Hello")
        shown = page(ada.get(elicitation.get_absolute_url()))
        (warning,) = shown.all("div", class_="elicitation-notice-warning")
        assert "Never enter passwords, keys or card numbers" in warning.text

    @pytest.mark.parametrize("text", ["Which plan?", "monkey business", "the codec", "pinned"])
    def test_line_01_and_only_there(self, text: str, ada: Client, user: User) -> None:
        shown = page(ada.get(ask(user, BUY, text).get_absolute_url()))
        assert not shown.all("div", class_="elicitation-notice-warning")
        assert not speaks_of_secrets(text)

    @pytest.mark.parametrize(
        ("name", "mixed"),
        [
            ("Pаypal", True),
            ("Paypal", False),
            ("東京 Tower カフェ", False),
            ("Ωmega", True),
            ("銀行", False),
            ("a1-b_2", False),
        ],
    )
    def test_line_01_a_name_in_mixed_scripts_is_flagged(
        self, name: str, mixed: bool, ada: Client, user: User
    ) -> None:
        assert mixes_scripts(name) is mixed
        shown = page(ada.get(ask(user, BUY, server=name).get_absolute_url()))
        assert ("mixes letters of several scripts" in shown.text) is mixed

    def test_line_31_the_site_has_a_name(
        self, ada: Client, user: User, settings: SettingsWrapper
    ) -> None:
        for name, shown_as in (("", "testserver"), ("Example <b>", "Example <b>")):
            settings.ELICITATION_SITE_NAME = name
            shown = page(ada.get(ask(user, BUY).get_absolute_url()))
            assert f"This is {shown_as}. An external server asks this." in shown.text
            assert shown.one("span", class_="elicitation-site").text == shown_as
        for address in (reverse("elicitation:inbox"), reverse("elicitation:detail", args=("x",))):
            shown = Page(ada.get(address).content.decode())
            assert shown.one("span", class_="elicitation-site").text == "Example <b>"

    def test_line_31_who_is_signed_in_and_a_way_out(
        self, ada: Client, user: User, settings: SettingsWrapper
    ) -> None:
        elicitation = ask(user, BUY)
        shown = page(ada.get(elicitation.get_absolute_url()))
        assert shown.one("span", class_="elicitation-user").text == "ada"
        (way_out,) = [each for each in shown.all("a") if each.text == "Sign out"]
        asks = page(ada.get(way_out.attrs["href"]))
        form = asks.one("form")
        assert "data-elicitation-sign-out" in form.attrs
        # To look at the page changes nothing.
        assert ada.get(elicitation.get_absolute_url()).status_code == 200
        assert ada.post(form.attrs["action"]).url == reverse("login")
        assert ada.get(elicitation.get_absolute_url()).status_code == 302
        nobody = Page(ada.post(elicitation.get_absolute_url()).content.decode())
        assert not nobody.all("span", class_="elicitation-user")

    def test_line_02_no_untrusted_text_in_title_ids_classes_or_aria_labels(
        self, ada: Client, user: User
    ) -> None:
        mark = "Zebra"
        everywhere = schema(
            Zebra1={
                "type": "string",
                "title": "Zebra2",
                "description": "Zebra3",
                "enum": ["Zebra4"],
            },
            Zebra5={"type": "array", "items": {"anyOf": [{"const": "Zebra6", "title": "Zebra7"}]}},
            Zebra8={"type": "string", "format": "Zebra9"},
        )
        elicitation = ask(user, everywhere, "Zebra", tool="Zebra10", scope_label="Zebra11")
        for response in (
            ada.get(elicitation.get_absolute_url()),
            ada.get(reverse("elicitation:inbox")),
        ):
            shown = page(response)
            assert mark in shown.text
            assert mark not in shown.one("title").text
            assert not [
                (element.tag, name)
                for element in shown.elements
                for name, value in element.attrs.items()
                if mark in value
            ]

    def test_line_02_addresses_and_markdown_stay_text(self, ada: Client, user: User) -> None:
        text = "https://evil.example [x](https://evil.example) **b** call +15551234567"
        shown = page(ada.get(ask(user, BUY, text).get_absolute_url()))
        assert text in shown.text
        assert not [link for link in shown.all("a") if "evil" in link.attrs["href"]]
        assert not shown.all("strong")
        assert "telephone=no" in shown.one("meta", name="format-detection").attrs["content"]

    def test_line_03_nothing_goes_through_help_text_or_label(self, user: User) -> None:
        requested = schema(x={"type": "string", "title": "<b>", "description": "<i>"})
        form = ElicitationForm(ask(user, requested).form_elicitation)
        assert not [field.help_text for field in form.fields.values() if field.help_text]
        for rendered in (form.as_p(), form.as_div(), form.as_table(), form.as_ul()):
            assert "<b>" not in rendered
            assert "<i>" not in rendered

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("a\u202eb\u2066c\u2069", "aU+202EbU+2066cU+2069"),
            ("\u200f\u200e\u061c", "U+200FU+200EU+061C"),
            ("zero\u200bwidth\ufeff", "zeroU+200BwidthU+FEFF"),
            ("نمی\u200cخواهم", "نمی\u200cخواهم"),
            ("a\u200cb", "aU+200Cb"),
            ("\u200c", "U+200C"),
            ("👩\u200d💻", "👩\u200d💻"),
            ("❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥"),
            ("क्\u200dष", "क्\u200dष"),
            ("a\ufe0f\ufe0f", "a\ufe0fU+FE0F"),
            ("\ufe0f", "U+FE0F"),
            ("tag\U000e0041", "tagU+E0041"),
            ("\u3164\u2800\u115f", "U+3164U+2800U+115F"),
            ("a\r\nb\rc\td", "a\nb\nc\td"),
            ("\x00\x1b\x7f\x85", "U+0000U+001BU+007FU+0085"),
            ("\u2028\u2029", "U+2028U+2029"),
            ("plain é 日本 😀", "plain é 日本 😀"),
        ],
    )
    def test_line_04_what_cannot_be_seen_is_written_out(self, text: str, shown: str) -> None:
        assert visible(text) == shown

    def test_line_04_untrusted_text_stands_in_blocks_of_its_own(
        self, ada: Client, user: User
    ) -> None:
        requested = schema(x={**PLAN, "description": "Which?"}, y={"type": "string"})
        shown = page(ada.get(ask(user, requested, "Hello", tool="buy").get_absolute_url()))
        blocks = [element for element in shown.elements if "elicitation-said" in element.classes]
        assert {"Hello", "buy", "Plan", "Which?", "Free", "y"} <= {block.text for block in blocks}
        assert {block.attrs["dir"] for block in blocks} == {"auto"}
        path = finders.find("elicitation/elicitation.css")
        with open(path, encoding="utf-8") as sheet:
            rule = re.search(r"^\.elicitation-said \{(.*?)\}", sheet.read(), re.M | re.S)
        assert rule is not None
        for declaration in (
            "display: block",
            "white-space: pre-line",
            "overflow-wrap: anywhere",
            "unicode-bidi: isolate",
            "overflow: hidden",
        ):
            assert declaration in rule[1]


# --- The form --------------------------------------------------------------------------------


class TestForm:
    def test_line_05_inputs_are_named_by_position_and_options_by_index(
        self, ada: Client, user: User
    ) -> None:
        names = ("action", "csrfmiddlewaretoken", "__proto__", "fingerprint", "next")
        options = {"oneOf": [{"const": "", "title": "none"}, {"const": "a\nb", "title": "two"}]}
        elicitation = ask(user, schema(*names, **dict.fromkeys(names, options)))
        shown = page(ada.get(elicitation.get_absolute_url()))
        assert {each.attrs["name"] for each in shown.all("input", type="radio")} == {
            f"a-{position}" for position in range(5)
        }
        assert {each.attrs["value"] for each in shown.all("input", type="radio")} == {"0", "1"}
        response = send(ada, elicitation, a0="0", a1="1", a2="0", a3="1", a4="0")
        assert response.status_code == 302
        stored = StoredFormAnswer.objects.get()
        content = elicitation.schema.content_from_answers(stored.answers)
        assert content == dict(zip(names, ["", "a\nb", "", "a\nb", ""], strict=True))

    def test_line_06_nothing_is_preselected_or_prefilled(self, ada: Client, user: User) -> None:
        elicitation = ask(user, DEFAULTS)
        shown = page(ada.get(elicitation.get_absolute_url() + "?a-0=1&plan=pro&a-1=Query"))
        assert not chosen(shown)
        assert "recommended" not in shown.text.lower()

    def test_line_06_the_operators_policy_prefills(self, ada: Client, user: User) -> None:
        allow(prefill=True)
        elicitation = ask(user, DEFAULTS)
        shown = page(ada.get(elicitation.get_absolute_url()))
        assert chosen(shown) == ["a-0=1", "a-1=Ada", "a-2=1", "a-3=0"]
        assert send(ada, elicitation, a0="0", a1="Bob", a2=["0"], a3="1").status_code == 302

    @pytest.mark.parametrize(
        ("default", "local", "zone"),
        [
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00", "UTC"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59", "UTC"),
            ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00", "UTC+14:00"),
            ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59", "UTC-12:00"),
            ("2026-07-01T12:00:00.5+02:00", "2026-07-01T12:00:00.500", "UTC+02:00"),
            ("2026-07-01T12:00:00.123456Z", "2026-07-01T12:00:00.123456", "UTC"),
            ("2026-07-01T12:00:00+05:17", "2026-07-01T06:43:00", "UTC"),
        ],
    )
    def test_case_E1_a_moment_that_is_prefilled_is_sent_as_it_is(
        self, default: str, local: str, zone: str, ada: Client, user: User
    ) -> None:
        allow(prefill=True)
        moment = {"type": "string", "format": "date-time", "default": default}
        elicitation = ask(user, schema("at", at=moment))
        shown = page(ada.get(elicitation.get_absolute_url()))
        box = shown.one("input", name="a-0_0")
        assert box.attrs["value"] == local
        # The browser's control reads no more than milliseconds.
        assert box.attrs["type"] == ("text" if "123456" in local else "datetime-local")
        (here,) = [each for each in shown.all("option") if "selected" in each.attrs]
        assert here.attrs["value"] == zone
        assert send(ada, elicitation, a0_0=local, a0_1=zone).status_code == 302
        (answer,) = StoredFormAnswer.objects.get().answers.values()
        assert datetime.fromisoformat(answer.text) == datetime.fromisoformat(default)

    def test_line_07_how_each_kind_is_asked(self, ada: Client, user: User) -> None:
        many = {"type": "string", "enum": [f"option {number}" for number in range(8)]}
        few = {"type": "string", "enum": [f"option {number}" for number in range(7)]}
        some = {"type": "array", "items": few, "minItems": 1, "maxItems": 3}
        requested = schema("some", few=few, many=many, some=some, ok={"type": "boolean"})
        shown = page(ada.get(ask(user, requested).get_absolute_url()))
        assert len(shown.all("input", type="radio", name="a-0")) == 8
        select = shown.one("select", name="a-1")
        assert select.text.split("\n")[1].strip() == "No answer"
        assert shown.all("option")[0].attrs == {"value": "", "selected": ""}
        assert len(shown.all("input", type="checkbox", name="a-2")) == 7
        assert "Choose 1 to 3 options." in shown.text
        assert len(shown.all("input", type="radio", name="a-3")) == 3
        assert len(shown.all("fieldset")) == 3
        assert shown.text.count("No answer") == 3
        assert shown.text.count("(optional)") == 3
        assert not [each for each in shown.all("input") if "checked" in each.attrs]

    def test_line_07_a_blank_optional_property_is_left_out(self, ada: Client, user: User) -> None:
        requested = schema(a=PLAN, b={"type": "string"}, c={"type": "boolean"}, d=SEATS)
        elicitation = ask(user, requested)
        assert send(ada, elicitation, a0="", a1=" ", a3="").status_code == 302
        answers = StoredFormAnswer.objects.get().answers
        assert elicitation.schema.content_from_answers(answers) == {}

    def test_line_08_the_browser_judges_nothing(self, ada: Client, user: User) -> None:
        requested = schema(
            "name", "mail", "site", "age", "size", "day", "cold",
            name={"type": "string", "minLength": 2, "maxLength": 9, "pattern": "^x"},
            mail={"type": "string", "format": "email"},
            site={"type": "string", "format": "uri"},
            age={"type": "integer", "minimum": 1, "maximum": 9},
            size={"type": "number", "minimum": 0.5, "multipleOf": 0.5},
            day={"type": "string", "format": "date"},
            cold={"type": "number", "minimum": -5},
            at={"type": "string", "format": "date-time"},
        )  # fmt: skip
        shown = page(ada.get(ask(user, requested).get_absolute_url()))
        forbidden = {"required", "min", "max", "maxlength", "minlength", "pattern", "novalidate"}
        assert not [each for each in shown.elements if forbidden & each.attrs.keys()]
        kinds = {
            each.attrs["name"]: (each.attrs["type"], each.attrs.get("inputmode"))
            for each in shown.all("input")
            if each.attrs["type"] != "hidden"
        }
        assert kinds == {
            "a-0": ("text", None),
            "a-1": ("text", "email"),
            "a-2": ("text", "url"),
            "a-3": ("text", "numeric"),
            "a-4": ("text", "decimal"),
            "a-5": ("date", None),
            # The number keyboards of some phones have no minus.
            "a-6": ("text", "text"),
            "a-7_0": ("datetime-local", None),
        }
        for words in (
            "2 to 9 characters.",
            "A whole number, from 1 to 9.",
            "A number, at least 0.5, a multiple of 0.5.",
        ):
            assert words in shown.text

    def test_line_09_lengths_count_code_points_after_line_breaks(
        self, ada: Client, user: User
    ) -> None:
        requested = schema("x", x={"type": "string", "maxLength": 10})
        elicitation = ask(user, requested)
        assert send(ada, elicitation, a0="😀" * 11).status_code == 422
        assert send(ada, elicitation, a0="1234\r\n67890\r\n").status_code == 302
        (answer,) = StoredFormAnswer.objects.get().answers.values()
        assert answer.text == "1234\n67890"

    def test_line_10_a_moment_shows_its_zone_and_carries_its_offset(
        self, ada: Client, user: User
    ) -> None:
        elicitation = ask(user, schema("at", at={"type": "string", "format": "date-time"}))
        shown = page(ada.get(elicitation.get_absolute_url()))
        # Neither the site's zone nor another one is chosen; a browser's script chooses its own.
        (here,) = [each for each in shown.all("option") if "selected" in each.attrs]
        assert here.attrs["value"] == ""
        unchosen = page(send(ada, elicitation, a0_0="2026-03-29T02:30", a0_1=""), 422)
        assert "Choose a time zone from the list." in unchosen.text
        gap = page(send(ada, elicitation, a0_0="2026-03-29T02:30", a0_1="Europe/Berlin"), 422)
        assert "This time does not exist on that day in this time zone" in gap.text
        fold = page(send(ada, elicitation, a0_0="2026-10-25T02:30", a0_1="Europe/Berlin"), 422)
        assert "This time exists twice" in fold.text
        assert shown.one("input", type="datetime-local").attrs["name"] == "a-0_0"
        assert fold.one("input", type="datetime-local").attrs["value"] == "2026-10-25T02:30"
        send(ada, elicitation, a0_0="2026-10-25T02:30", a0_1="UTC+01:00")
        (answer,) = StoredFormAnswer.objects.get().answers.values()
        assert answer.text == "2026-10-25T02:30:00+01:00"

    def test_line_11_decline_is_a_form_of_its_own_after_the_answer_form(
        self, ada: Client, user: User
    ) -> None:
        elicitation = ask(user, BUY)
        shown = page(ada.get(elicitation.get_absolute_url()))
        answer, declining = shown.all("form")
        assert answer.attrs["action"] == elicitation.get_absolute_url()
        assert declining.attrs["action"] == elicitation.get_absolute_url() + "decline/"
        assert "Decline" not in answer.text
        buttons = [" ".join(each.text.split()) for each in shown.all("button")]
        assert buttons == ["Send answer", "Decline"]
        (leave,) = [each for each in shown.all("a") if each.text == "Leave it for now"]
        assert leave.attrs["href"] == reverse("elicitation:inbox")
        last = shown.elements[shown.elements.index(declining) :]
        assert {each.attrs["name"] for each in last if each.tag == "input"} == {
            "csrfmiddlewaretoken"
        }

    def test_line_11_a_decline_carries_no_answers(self, ada: Client, user: User) -> None:
        elicitation = ask(user, BUY)
        response = decline(ada, elicitation, **{"a-0": "1", "a-1": "2"})
        assert response.url == elicitation.get_absolute_url()
        stored = StoredFormAnswer.objects.get()
        assert stored.action == "decline"
        assert stored.answers == {}
        assert "You declined" in page(ada.get(response.url)).text
        assert decline(ada, elicitation).status_code == 302

    def test_line_11_a_confirmation_is_accepted_or_declined(self, ada: Client, user: User) -> None:
        elicitation = ask(user, schema(), "Delete it?")
        shown = page(ada.get(elicitation.get_absolute_url()))
        assert [" ".join(each.text.split()) for each in shown.all("button")] == [
            "Yes, go on",
            "No, decline",
        ]
        assert send(ada, elicitation, checked="1").status_code == 302
        assert StoredFormAnswer.objects.get().action == "accept"

    def test_line_26_above_five_questions_the_answers_are_shown_first(
        self, ada: Client, user: User
    ) -> None:
        text = {"type": "string"}
        requested = schema(
            "plan", "when", plan={**PLAN, "enum": ["p1", "p2"]}, seats=SEATS,
            tags={"type": "array", "items": {"type": "string", "enum": ["x", "<y>"]}},
            ok={"type": "boolean"}, note={**text, "maxLength": 500},
            when={**text, "format": "date-time"}, none=text,
        )  # fmt: skip
        elicitation = ask(user, requested, "Which?")
        typed = {"a0": "1", "a1": " 3 ", "a2": ["0", "1"], "a3": "1", "a4": "two\r\nlines",
                 "a5_0": "2026-07-01T12:00", "a5_1": "Europe/Berlin", "a6": ""}  # fmt: skip
        shown = page(send(ada, elicitation, **typed))
        assert shown.one("h1").text == "Check before it goes"
        listed = [" ".join(each.text.split()) for each in shown.all("li")]
        assert [each.partition("of 7")[2].removesuffix(" Change") for each in listed] == [
            "Plan Pro", "Seats(optional) 3", "tags(optional) x<y>", "ok(optional) No",
            "note(optional) two lines", "when 2026-07-01T12:00:00+02:00",
            "none(optional) No answer",
        ]  # fmt: skip
        assert not StoredFormAnswer.objects.exists()
        # Everything goes again, and each question has a way back to it.
        again = [
            (each.attrs["name"], each.attrs["value"])
            for each in shown.all("input", type="hidden")
            if each.attrs["name"] != "csrfmiddlewaretoken"
        ]
        data: dict[str, list[str]] = {}
        for name, value in again:
            data.setdefault(name, []).append(value)
        ways = [each.attrs for each in shown.all("button", name="change")]
        assert [each["formaction"].partition("#")[2] for each in ways] == [
            "id_a-0_0", "id_a-1", "id_a-2_0", "id_a-3_0", "id_a-4", "id_a-5_0", "id_a-6",
        ]  # fmt: skip
        address = elicitation.get_absolute_url()
        back = page(ada.post(address, data | {"change": "1"}))
        assert back.one("textarea", name="a-4").text.split() == ["two", "lines"]
        assert not back.all("div", class_="elicitation-summary")
        assert ada.post(address, data | {"checked": "1"}).status_code == 302
        stored = StoredFormAnswer.objects.get().answers
        assert elicitation.schema.content_from_answers(stored) == {
            "plan": "p2", "seats": 3, "tags": ["x", "<y>"], "ok": False, "note": "two\nlines",
            "when": "2026-07-01T12:00:00+02:00",
        }  # fmt: skip

    def test_line_26_a_confirmation_is_shown_first_and_five_questions_are_not(
        self, ada: Client, user: User
    ) -> None:
        confirmation = ask(user, schema(), "Delete it?")
        shown = page(send(ada, confirmation))
        assert shown.one("h1").text == "Check before it goes"
        assert "Delete it?" in shown.one("div", class_="elicitation-quote").text
        assert [" ".join(each.text.split()) for each in shown.all("button")] == [
            "Yes, go on",
            "No, decline",
        ]
        assert not StoredFormAnswer.objects.exists()
        five = ask(user, schema(**{name: {"type": "string"} for name in "abcde"}))
        assert send(ada, five, a0="x").status_code == 302
        # What was closed in the meantime is not shown to be checked.
        gone = closed(user, State.WITHDRAWN, requested_schema=confirmation.requested_schema)
        assert send(ada, gone).status_code == 409

    def test_line_12_errors_come_first_and_name_their_fields(
        self, ada: Client, user: User
    ) -> None:
        requested = schema("plan", "seats", plan=PLAN, seats=SEATS, note={"type": "string"})
        elicitation = ask(user, requested)
        shown = page(send(ada, elicitation, a1="99", a2="keep <me>"), 422)
        assert shown.one("title").text.startswith("Error:")
        summary = shown.one("div", class_="elicitation-summary")
        assert summary.attrs["tabindex"] == "-1"
        assert "autofocus" in summary.attrs
        assert "Question 1: Choose one of the options." in summary.text
        assert "Question 2: Write a smaller number: at most 5." in summary.text
        assert "Plan" in summary.text
        alert = shown.one("div", role="alert")
        assert shown.elements.index(summary) < shown.elements.index(alert)
        assert shown.elements.index(alert) < shown.elements.index(shown.one("h1"))
        ids = {each.attrs.get("id") for each in shown.elements}
        links = [each for each in shown.all("a") if each.attrs["href"].startswith("#id_")]
        assert [each.attrs["href"] for each in links] == ["#id_a-0_0", "#id_a-1"]
        assert {each.attrs["href"][1:] for each in links} <= ids
        assert shown.one("input", name="a-1").attrs["value"] == "99"
        assert shown.one("input", name="a-1").attrs["aria-invalid"] == "true"
        assert shown.one("input", name="a-2").attrs["value"] == "keep <me>"
        assert not StoredFormAnswer.objects.exists()

    def test_line_12_a_credential_is_refused_and_not_repeated(
        self, ada: Client, user: User
    ) -> None:
        elicitation = ask(user, schema(x={"type": "string"}))
        token = "ghp_" + "a1B2" * 9
        shown = page(send(ada, elicitation, a0=token), 422)
        assert "looks like a password, a key or a token" in shown.text
        assert token not in shown.one("div", class_="elicitation-summary").text
        assert token not in shown.one("div", class_="elicitation-error").text

    def test_what_a_sites_own_form_lets_through_is_refused_all_the_same(
        self, ada: Client, user: User, settings: SettingsWrapper
    ) -> None:
        settings.ELICITATION_FORM_CLASS = f"{__name__}.CredulousForm"
        elicitation = ask(user, schema("n", n=SEATS))
        shown = page(send(ada, elicitation, a0="6"), 422)
        assert "Write a smaller number: at most 5." in shown.text
        assert not StoredFormAnswer.objects.exists()
        assert send(ada, elicitation, a0="5").status_code == 302

    def test_line_13_hints_and_errors_are_tied_to_their_inputs(
        self, ada: Client, user: User
    ) -> None:
        plan, seats = {**PLAN, "description": "Which?"}, {**SEATS, "description": "How many?"}
        elicitation = ask(user, schema("a", "b", a=plan, b=seats))
        shown = page(send(ada, elicitation), 422)
        tied = [shown.one("fieldset"), shown.one("input", name="a-1")]
        texts = {each.attrs["id"]: each.text for each in shown.elements if "id" in each.attrs}
        said = [
            " ".join(" ".join(texts[id] for id in each.attrs["aria-describedby"].split()).split())
            for each in tied
        ]
        assert said == [
            "Which? Question 1: Choose one of the options.",
            "How many? A whole number, from 1 to 5. Question 2: Enter a number.",
        ]
        assert "Plan" in shown.one("legend").text


DEFAULTS = schema(
    plan={**PLAN, "default": "pro"},
    name={"type": "string", "maxLength": 20, "default": "Ada"},
    tags={"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["b"]},
    ok={"type": "boolean", "default": True},
)


def chosen(shown: Page) -> list[str]:
    """Return what is selected or filled in."""
    return [
        f"{each.attrs['name']}={each.attrs['value']}"
        for each in shown.all("input")
        if "checked" in each.attrs or (each.attrs["type"] == "text" and each.attrs.get("value"))
    ]


# --- The states ------------------------------------------------------------------------------


class TestStates:
    @pytest.mark.parametrize(
        ("state", "heading"),
        [
            (State.ANSWERED, "Your answer was stored"),
            (State.DECLINED, "You declined"),
            (State.WITHDRAWN, "This request was withdrawn"),
            (State.EXPIRED, "The time to answer is over"),
        ],
    )
    def test_line_15_each_state_has_a_page_with_nothing_to_press(
        self, state: str, heading: str, ada: Client, user: User
    ) -> None:
        elicitation = closed(user, state)
        shown = page(ada.get(elicitation.get_absolute_url()))
        assert shown.one("h1").text == heading
        assert shown.one("title").text == heading
        for tag in ("form", "button", "input", "select", "textarea"):
            assert not shown.all(tag)
        if state == State.EXPIRED:
            assert "decline" not in shown.text.lower()

    @pytest.mark.parametrize(
        ("state", "heading"),
        [
            (State.ANSWERED, "This request was answered"),
            (State.DECLINED, "This request was declined"),
        ],
    )
    def test_line_15_what_somebody_else_did_is_not_called_yours(
        self, state: str, heading: str, ada: Client, user: User, other_user: User
    ) -> None:
        for other in (other_user, None):
            elicitation = closed(user, state, closed_by=other)
            shown = page(ada.get(elicitation.get_absolute_url()))
            assert shown.one("h1").text == heading
            assert "you declined" not in shown.text

    @pytest.mark.parametrize("language", ["en", "de"])
    def test_line_15_the_deadline_is_an_absolute_time_with_its_zone(
        self, language: str, ada: Client, user: User
    ) -> None:
        deadline = (timezone.now() + timedelta(days=40)).replace(year=2099, month=7, day=1)
        deadline = deadline.replace(hour=20, minute=0, second=5, tzinfo=UTC)
        elicitation = ask(user, BUY, expires_at=deadline)
        response = ada.get(elicitation.get_absolute_url(), headers={"accept-language": language})
        time = page(response).one("time")
        assert time.attrs["datetime"] == "2099-07-02T01:45:05+05:45"
        assert "2099" in time.text
        assert "(Asia/Kathmandu, UTC+05:45)" in time.text

    def test_line_15_the_deadline_is_checked_at_submit(self, ada: Client, user: User) -> None:
        elicitation = ask(user, BUY, expires_at=timezone.now() - timedelta(seconds=1))
        shown = page(send(ada, elicitation, a0="0", a1="1"), 409)
        assert shown.one("h1").text == "The time to answer is over"
        assert "It was not stored" in shown.text
        assert "declin" not in shown.text
        elicitation.refresh_from_db()
        assert elicitation.state == State.EXPIRED
        assert not StoredFormAnswer.objects.filter(action="accept").exists()
        # What does not fit is told the same.
        late = ask(user, BUY, expires_at=timezone.now() - timedelta(seconds=1))
        shown = page(send(ada, late), 409)
        assert shown.one("h1").text == "The time to answer is over"
        assert "It was not stored" in shown.text
        assert page(decline(ada, late), 409).one("h1").text == "The time to answer is over"
        assert page(ada.get(late.get_absolute_url())).one("h1").text.startswith("The time")

    @pytest.mark.parametrize(
        ("delivery", "text"),
        [
            ("", "as soon as the tool call goes on"),
            ("delivered", "shop received the answer."),
            ("server_error", "The tool then reported an error"),
            ("round_lost", "It is not known whether the server received the answer"),
            ("dropped", "the server no longer needed it"),
            ("never_resumed", "did not go on in time"),
            ("restored", "The database of this site was restored"),
            ("not_sent", "shop cannot be reached. This site tries again."),
            ("switched_off", "an operator of this site no longer lets the server ask this"),
        ],
    )
    def test_line_15_an_answered_page_says_how_it_ended(
        self, delivery: str, text: str, ada: Client, user: User
    ) -> None:
        is_open_end = delivery in ("", "not_sent")
        at = None if is_open_end else timezone.now()
        elicitation = closed(user, State.ANSWERED, delivery=delivery, delivered_at=at)
        shown = page(ada.get(elicitation.get_absolute_url()))
        assert text in shown.text
        assert bool(shown.all("meta", **{"http-equiv": "refresh"})) is is_open_end

    @pytest.mark.parametrize(
        ("delivery", "learns"),
        [
            ("", True),
            ("delivered", True),
            ("not_sent", True),
            ("switched_off", False),
            ("dropped", False),
            ("never_resumed", False),
            ("restored", False),
        ],
    )
    def test_line_15_a_declined_page_says_what_the_server_learns(
        self, delivery: str, learns: bool, ada: Client, user: User
    ) -> None:
        elicitation = closed(user, State.DECLINED, delivery=delivery, closed_by=user)
        shown = page(ada.get(elicitation.get_absolute_url())).text
        assert ("The server learns" in shown) is learns
        assert ("The request was declined. No answer was sent" in shown) is not learns
        assert ("an operator of this site" in shown) is (delivery == "switched_off")

    @pytest.mark.parametrize(
        ("delivery", "heading", "look"),
        [
            ("", "Your answer was stored", "stored"),
            ("delivered", "Sent: the server has the answer", "answered"),
            ("server_error", "Sent: the server has the answer", "answered"),
            ("round_lost", "It is not known whether the server has the answer", "unsent"),
            ("not_sent", "Not sent yet: the server cannot be reached", "unsent"),
            ("switched_off", "Not sent: this site has switched the server off", "unsent"),
            ("dropped", "Not sent: the server no longer needed the answer", "unsent"),
            ("never_resumed", "Not sent: the tool call did not go on in time", "unsent"),
        ],
    )
    def test_line_21_only_what_the_server_has_gets_a_tick(
        self, delivery: str, heading: str, look: str, ada: Client, user: User
    ) -> None:
        elicitation = closed(user, State.ANSWERED, delivery=delivery)
        shown = page(ada.get(elicitation.get_absolute_url()))
        assert shown.one("h1").text == shown.one("title").text == heading
        assert_look(shown, look)

    @pytest.mark.parametrize("pressed", [send, decline])
    @pytest.mark.parametrize(
        ("state", "by", "said"),
        [
            (State.ANSWERED, "tab", "you answered the request at 9:40 p.m. in another tab"),
            (State.ANSWERED, "api", "the request was answered at 9:40 p.m."),
            (State.ANSWERED, "other", "the request was answered at 9:40 p.m."),
            (State.DECLINED, "tab", "you declined the request at 9:40 p.m. in another tab"),
            (State.WITHDRAWN, "other", "the request was withdrawn"),
        ],
    )
    def test_line_21_case_E5_the_heading_says_what_became_of_this_press(
        self,
        state: str,
        by: str,
        said: str,
        pressed: Any,
        ada: Client,
        user: User,
        other_user: User,
    ) -> None:
        # Declining again what one has declined succeeds.
        if pressed is decline and state == State.DECLINED:
            return
        at = timezone.localtime().replace(hour=21, minute=40)
        person = other_user if by == "other" else user
        via = "api" if by == "api" else "page"
        elicitation = closed(user, state, closed_by=person, closed_via=via, closed_at=at)
        shown = page(pressed(ada, elicitation), 409)
        begins = "Not declined: " if pressed is decline else "Not sent: "
        assert shown.one("h1").text == begins + said
        assert_look(shown, "unsent" if state == State.ANSWERED else state)

    def test_line_27_three_steps_say_how_far_the_answer_is(self, ada: Client, user: User) -> None:
        allow(label="Acme")
        elicitation = closed(user, State.ANSWERED)
        call = park(user, elicitation.parked_call_id)

        def shown() -> list[str]:
            steps = page(ada.get(elicitation.get_absolute_url())).all("li")
            return [
                f"{' '.join(each.text.split())}: {max(each.classes).rpartition('-')[2]}"
                for each in steps
            ]

        def looks_again() -> bool:
            shown = page(ada.get(elicitation.get_absolute_url()))
            return bool(shown.all("meta", **{"http-equiv": "refresh"}))

        assert shown() == [
            "The request is answered: stored",
            "Acme receives the answer: now",
            "The tool finishes: later",
        ]
        Elicitation.objects.update(delivered_at=timezone.now(), delivery="delivered")
        assert shown() == [
            "The request is answered: stored",
            "Acme has received the answer: done",
            "The tool finishes: now",
        ]
        assert looks_again()
        call.delete()
        assert shown()[2] == "The tool has finished: done"
        assert not looks_again()
        Elicitation.objects.update(delivery="server_error")
        assert shown()[2] == "The tool has reported an error: done"
        for delivery in ("dropped", "switched_off", "round_lost", "never_resumed"):
            Elicitation.objects.update(delivery=delivery)
            assert shown() == []

    def test_line_27_the_message_and_what_waits_next(self, ada: Client, user: User) -> None:
        done = ask(user, BUY, "Which <plan>?")
        late, soon = (
            ask(user, BUY, expires_at=timezone.now() + timedelta(hours=hours)) for hours in (9, 1)
        )
        shown = page(ada.get(send(ada, done, a0="0", a1="1").url))
        assert "Which <plan>?" in shown.one("div", class_="elicitation-quote").text
        (following,) = shown.all("p", class_="elicitation-next")
        assert following.text == "Next (2 waiting)"
        assert soon.get_absolute_url() in {each.attrs["href"] for each in shown.all("a")}
        decline(ada, soon)
        assert "Next (1 waiting)" in page(ada.get(decline(ada, soon).url)).text
        assert "waiting)" not in page(ada.get(decline(ada, late).url)).text

    def test_line_28_the_time_left_stands_beside_the_deadline(
        self, ada: Client, user: User
    ) -> None:
        for left, said, is_soon in (
            (timedelta(hours=23, minutes=30), "(23 hours left)", False),
            (timedelta(minutes=9, seconds=30), "(9 minutes left)", True),
        ):
            elicitation = ask(user, BUY, expires_at=timezone.now() + left)
            shown = page(ada.get(elicitation.get_absolute_url()))
            assert said in shown.one("p", class_="elicitation-deadline").text
            (notice,) = [each for each in shown.elements if each.attrs.get("role") == "status"]
            assert notice.text == "Less than ten minutes are left to answer."
            assert ("hidden" not in notice.attrs) is is_soon

    def test_line_16_the_same_again_succeeds_and_other_content_does_not(
        self, ada: Client, user: User
    ) -> None:
        elicitation = ask(user, BUY)
        for _again in range(2):
            response = send(ada, elicitation, a0="0", a1="3")
            assert response.status_code == 302
            assert response.url == elicitation.get_absolute_url()
        shown = page(send(ada, elicitation, a0="1", a1="3"), 409)
        assert "The request was already answered" in shown.text
        assert "not stored" in shown.one("title").text.lower()
        assert "already answered" in page(decline(ada, elicitation), 409).text
        assert page(send(ada, elicitation), 409)
        assert StoredFormAnswer.objects.count() == 1

    def test_line_17_a_replaced_form_says_so_and_stores_nothing(
        self, ada: Client, user: User
    ) -> None:
        elicitation = ask(user, BUY)
        for fingerprint in ("", "0" * 64):
            data = {"a-0": "0", "a-1": "1", "fingerprint": fingerprint}
            shown = page(ada.post(elicitation.get_absolute_url(), data), 409)
            assert "changed the request while this form was open" in shown.text
            (again,) = shown.all("p", class_="elicitation-next")
            assert again.text == "Open the current version of the request"
        assert not StoredFormAnswer.objects.exists()

    def test_line_17_a_question_that_was_replaced_leads_to_the_new_one(
        self, ada: Client, user: User
    ) -> None:
        old = closed(user, State.WITHDRAWN, reason="replaced")
        new = ask(user, BUY, "Really?", parked_call_id=old.parked_call_id)
        shown = page(ada.get(old.get_absolute_url()))
        assert "The server has changed the request since then" in shown.text
        assert new.get_absolute_url() in {each.attrs["href"] for each in shown.all("a")}
        shown = page(send(ada, old, a0="0", a1="1"), 409)
        assert "changed the request while this form was open" in shown.text
        assert not StoredFormAnswer.objects.exists()

    @pytest.mark.parametrize("kind", ["detail", "decline"])
    def test_line_18_a_stale_token_says_not_sent(self, kind: str, user: User) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(user)
        elicitation = ask(user, BUY)
        address = reverse(f"elicitation:{kind}", args=(elicitation.pk,))
        strict.get(elicitation.get_absolute_url())
        data = {"csrfmiddlewaretoken": "a" * 64, "a-0": "secret answer"}
        shown = page(strict.post(address, data), 403)
        assert shown.one("h1").text == "Not sent"
        assert "secret answer" not in shown.text
        (again,) = shown.all("p", class_="elicitation-next")
        assert elicitation.get_absolute_url() in {each.attrs["href"] for each in shown.all("a")}
        assert again.text == "Open the request again"
        elicitation.refresh_from_db()
        assert elicitation.state == State.PENDING

    def test_line_18_a_fresh_token_is_taken(self, user: User) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(user)
        elicitation = ask(user, BUY)
        shown = page(strict.get(elicitation.get_absolute_url()))
        tokens = shown.all("input", name="csrfmiddlewaretoken")
        data = {"csrfmiddlewaretoken": tokens[0].attrs["value"], "a-0": "0", "a-1": "1"}
        data["fingerprint"] = elicitation.fingerprint
        assert strict.post(elicitation.get_absolute_url(), data).status_code == 302

    def test_line_18_an_expired_session_says_not_sent(self, client: Client, user: User) -> None:
        elicitation = ask(user, BUY)
        shown = page(send(client, elicitation, a0="0", a1="1"), 403)
        assert shown.one("h1").text == "Not sent"
        assert "no longer signed in" in shown.text
        addresses = {each.attrs["href"] for each in shown.all("a")}
        assert f"/accounts/login/?next={elicitation.get_absolute_url()}" in addresses
        assert not StoredFormAnswer.objects.exists()
        response = client.get(elicitation.get_absolute_url())
        assert response.url == f"/accounts/login/?next={elicitation.get_absolute_url()}"

    def test_line_18_where_the_site_lets_nobody_in_by_itself(
        self, client: Client, user: User, settings: SettingsWrapper
    ) -> None:
        """Under LoginRequiredMiddleware a post of someone signed out is still told "not sent"."""
        settings.MIDDLEWARE = [
            *settings.MIDDLEWARE,
            "django.contrib.auth.middleware.LoginRequiredMiddleware",
        ]
        elicitation = ask(user, BUY)
        assert page(send(client, elicitation, a0="0"), 403).one("h1").text == "Not sent"
        assert client.get(reverse("elicitation:count")).status_code == 401
        assert client.get(elicitation.get_absolute_url()).status_code == 302

    def test_line_18_where_the_site_checks_no_tokens(
        self, user: User, settings: SettingsWrapper
    ) -> None:
        settings.MIDDLEWARE = [each for each in settings.MIDDLEWARE if "Csrf" not in each]
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(user)
        elicitation = ask(user, BUY)
        assert send(strict, elicitation, a0="0", a1="1").status_code == 403
        shown = page(strict.get(elicitation.get_absolute_url()))
        token = shown.all("input", name="csrfmiddlewaretoken")[0].attrs["value"]
        data = {"csrfmiddlewaretoken": token, "fingerprint": elicitation.fingerprint}
        answers = {**data, "a-0": "0", "a-1": "1"}
        assert strict.post(elicitation.get_absolute_url(), answers).status_code == 302

    def test_line_22_what_another_site_posted_is_not_shown(self, user: User) -> None:
        elicitation = ask(user, BUY)
        data = {"fingerprint": elicitation.fingerprint, "a-0": "1", "a-1": "typed here"}
        for signed_in in (True, False):
            strict = Client(enforce_csrf_checks=True)
            if signed_in:
                strict.force_login(user)
            for origin, is_shown in (
                ("http://testserver", True),
                ("https://testserver", False),
                ("https://evil.example", False),
                ("null", False),
            ):
                answer = strict.post(
                    elicitation.get_absolute_url(), data, headers={"origin": origin}
                )
                shown = page(answer, 403)
                assert ("typed here" in shown.text) is is_shown, origin
                assert ("Plan" in shown.text) is (is_shown and signed_in), origin

    def test_line_22_a_form_that_was_replaced_shows_what_was_typed(
        self, ada: Client, user: User
    ) -> None:
        elicitation = ask(user, BUY)
        data = {"fingerprint": "0" * 64, "a-0": "1", "a-1": "<b>typed", "a-x": "no", "b": "no"}
        shown = page(ada.post(elicitation.get_absolute_url(), data), 409)
        # The titles of today are not those of the form that was sent.
        listed = shown.one("section").text.split()
        assert listed == [
            "What",
            "you",
            "typed",
            "Question",
            "1",
            "1",
            "Question",
            "2",
            "<b>typed",
        ]

    def test_case_E2_answers_that_are_too_long_together_are_shown_again(
        self, ada: Client, user: User
    ) -> None:
        text = {"type": "string", "maxLength": 100_000}
        elicitation = ask(user, schema("a", "b", a=text, b=text))
        texts = {"a0": "\u4e2d" * 90_000, "a1": "\u6587" * 90_000}
        shown = page(send(ada, elicitation, **texts), 422)
        assert "All answers together are too long to be stored." in shown.text
        assert shown.text.count("\u4e2d") == shown.text.count("\u6587") == 90_000
        # What Django itself refuses to read says so, too, and a draft in the browser stays.
        shown = page(send(ada, elicitation, a0="\u4e2d" * 900_000), 413)
        assert "Your answers are too long for this site" in shown.text
        assert [each for each in shown.elements if "data-elicitation-refused" in each.attrs]
        elicitation.refresh_from_db()
        assert elicitation.state == State.PENDING

    def test_the_first_page_is_small(self, ada: Client, user: User) -> None:
        text = {"type": "string"}
        requested = schema(plan=PLAN, seats=SEATS, note=text, day={**text, "format": "date"})
        response = ada.get(ask(user, requested).get_absolute_url())
        files = [
            each.attrs["src"] if each.tag == "script" else each.attrs["href"]
            for each in page(response).elements
            if each.tag == "script" or each.attrs.get("rel") == "stylesheet"
        ]
        texts = [response.content]
        for path in files:
            found = finders.find(path.removeprefix("/static/"))
            texts.append(Path(found).read_bytes())
        assert sum(len(gzip.compress(text)) for text in texts) <= 14_000

    @pytest.mark.parametrize(
        ("method", "name"), [("get", "detail"), ("post", "detail"), ("post", "decline")]
    )
    def test_line_19_what_is_not_yours_does_not_exist(
        self, method: str, name: str, ada: Client, user: User, other_user: User
    ) -> None:
        theirs = ask(other_user, BUY)
        answers = set()
        for id in (theirs.pk, uuid.uuid4(), "nonsense", "0", theirs.pk.hex[:-1], "%00", "é"):
            response = getattr(ada, method)(reverse(f"elicitation:{name}", args=(id,)))
            assert response.status_code == 404
            headers = sorted(response.headers.items())
            answers.add((response.content, str([each for each in headers if each[0] != "Vary"])))
        assert len(answers) == 1
        theirs.refresh_from_db()
        assert theirs.state == State.PENDING
        assert theirs.first_shown_at is None

    def test_line_19_get_changes_nothing(self, ada: Client, user: User) -> None:
        elicitation = ask(user, BUY)
        before = Elicitation.objects.values().get()
        for method in (ada.get, ada.head):
            method(elicitation.get_absolute_url() + "?a-0=1&a-1=2&action=decline")
        assert ada.get(elicitation.get_absolute_url() + "decline/").status_code == 405
        after = Elicitation.objects.values().get()
        # When it was first shown is noted for the audit.
        assert after.pop("first_shown_at") is not None
        before.pop("first_shown_at")
        assert after == before
        assert not StoredFormAnswer.objects.exists()

    def test_line_19_methods(self, ada: Client, user: User) -> None:
        elicitation = ask(user, BUY)
        assert ada.put(elicitation.get_absolute_url()).status_code == 405
        assert ada.post(reverse("elicitation:inbox")).status_code == 405
        assert ada.post(reverse("elicitation:count")).status_code == 405


@pytest.mark.django_db(transaction=True)
def test_line_16_of_two_submits_at_the_same_moment_one_wins(user: User) -> None:
    for _round in range(5):
        elicitation = ask(user, BUY)
        statuses: list[int] = []
        start = threading.Barrier(2)

        def submit(
            plan: str,
            elicitation: Elicitation = elicitation,
            start: threading.Barrier = start,
            statuses: list[int] = statuses,
        ) -> None:
            client = Client()
            try:
                client.force_login(user)
                start.wait()
                statuses.append(send(client, elicitation, a0=plan, a1="1").status_code)
            finally:
                connection.close()

        threads = [threading.Thread(target=submit, args=(plan,)) for plan in ("0", "1")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [302, 409]
        elicitation.refresh_from_db()
        assert elicitation.state == State.ANSWERED
        assert StoredFormAnswer.objects.filter(elicitation_id=elicitation.pk).count() == 1


def test_no_page_runs_in_a_transaction_of_the_request() -> None:
    pages = [
        pattern.callback
        for pattern in urlpatterns
        if pattern.callback.__module__ == "elicitation.pages.views"
    ]
    assert len(pages) == 11
    assert all("default" in page._non_atomic_requests for page in pages)


# --- The headers -----------------------------------------------------------------------------


class TestHeaders:
    def responses(self, client: Client, user: User) -> dict[str, Any]:
        waiting, done = ask(user, BUY), closed(user, State.ANSWERED)
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(user)
        address = waiting.get_absolute_url()
        return {
            "inbox": client.get(reverse("elicitation:inbox")),
            "count": client.get(reverse("elicitation:count")),
            "events": client.get(reverse("elicitation:events")),
            "question": client.get(address),
            "errors": send(client, waiting),
            "closed": client.get(done.get_absolute_url()),
            "conflict": send(client, done, a0="0", a1="1"),
            "not found": client.get(reverse("elicitation:detail", args=("x",))),
            "method": client.put(address),
            "unsent": strict.post(address),
            "signed out": Client().get(address),
            "session over": Client().post(address),
            "answered": send(client, waiting, a0="0", a1="1"),
        }

    def test_line_20_every_response_has_the_headers(
        self, ada: Client, user: User, settings: SettingsWrapper
    ) -> None:
        wanted = {
            "Cache-Control": "no-store, private",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
        }
        for name, response in self.responses(ada, user).items():
            assert wanted.items() <= dict(response.headers).items(), name
            policy = response["Content-Security-Policy"]
            assert "unsafe" not in policy, name
            assert "form-action 'self'" in policy, name
        settings.ELICITATION_CONTENT_SECURITY_POLICY = None
        for name, response in self.responses(ada, user).items():
            assert "Content-Security-Policy" not in response.headers, name
            assert wanted.items() <= dict(response.headers).items(), name

    def test_line_20_other_pages_of_the_site_keep_theirs(self, ada: Client) -> None:
        response = ada.get("/accounts/login/")
        assert "Content-Security-Policy" not in response.headers
        assert response["Cache-Control"] != "no-store, private"

    def test_line_20_no_inline_script_or_style_anywhere(self, ada: Client, user: User) -> None:
        for name, response in self.responses(ada, user).items():
            if not response["Content-Type"].startswith("text/html"):
                continue
            shown = Page(response.content.decode())
            assert not shown.all("style"), name
            assert all(each.attrs.get("src") and not each.text for each in shown.all("script")), (
                name
            )
            for element in shown.elements:
                assert "style" not in element.attrs, name
                assert not [each for each in element.attrs if each.startswith("on")], name


# --- The inbox -------------------------------------------------------------------------------


class TestInbox:
    def test_an_empty_inbox_says_what_will_appear(self, ada: Client) -> None:
        shown = page(ada.get(reverse("elicitation:inbox")))
        assert "No open requests" in shown.text
        assert "the request appears here" in shown.text

    def test_the_most_urgent_comes_first_by_conversation(self, ada: Client, user: User) -> None:
        now = timezone.now()
        for message, label, scope, hours in (
            ("third", "Budget", "s1", 3),
            ("first", "Budget", "s1", 1),
            ("second", "", "s2", 2),
            ("fourth", "Budget", "s3", 4),
            ("fifth", "", "s4", 5),
        ):
            ask(user, BUY, message, scope=scope, scope_label=label,
                expires_at=now + timedelta(hours=hours))  # fmt: skip
        shown = page(ada.get(reverse("elicitation:inbox")))
        headings = [" ".join(each.text.split()) for each in shown.all("h2")]
        # Two conversations may have one label; they are not one group.
        assert headings == ["Budget", "Other requests", "Budget"]
        # Links with one name are told apart by what they describe.
        links = [each for each in shown.all("a") if "aria-describedby" in each.attrs]
        texts = {each.attrs["id"]: each.text for each in shown.elements if "id" in each.attrs}
        assert {texts[each.attrs["aria-describedby"]] for each in links} == {
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
        }
        messages = [each.text for each in shown.all("div", class_="elicitation-said")]
        assert messages == ["first", "third", "second", "fifth", "fourth"]
        assert "5 open requests, the most urgent first" in shown.text

    def test_what_was_closed_lately(self, ada: Client, user: User, other_user: User) -> None:
        for state in (State.ANSWERED, State.DECLINED, State.EXPIRED, State.WITHDRAWN):
            closed(user, state)
        ask(user, BUY, expires_at=timezone.now() - timedelta(hours=1))
        closed(other_user, State.ANSWERED)
        shown = page(ada.get(reverse("elicitation:inbox")))
        badges = [
            " ".join(each.text.split()) for each in shown.all("span", class_="elicitation-badge")
        ]
        assert sorted(badges) == [
            "Answered", "Declined", "Expired", "Expired", "Withdrawn",
        ]  # fmt: skip
        assert "No open requests" in shown.text

    def test_pages(self, ada: Client, user: User, settings: SettingsWrapper) -> None:
        settings.ELICITATION_PAGE_SIZE = 2
        for _number in range(5):
            ask(user, BUY)
        address = reverse("elicitation:inbox")
        first, last = page(ada.get(address)), page(ada.get(address + "?page=99"))
        assert len(first.all("li", class_="elicitation-item-waiting")) == 2
        assert len(last.all("li", class_="elicitation-item-waiting")) == 1
        assert "Page 3 of 3" in last.text
        assert [each.attrs["href"] for each in first.all("a", rel="next")] == ["?page=2"]
        assert [each.attrs["href"] for each in last.all("a", rel="prev")] == ["?page=2"]

    def test_as_many_queries_for_1_as_for_200(
        self,
        ada: Client,
        user: User,
        settings: SettingsWrapper,
        django_assert_num_queries: DjangoAssertNumQueries,
    ) -> None:
        settings.ELICITATION_PAGE_SIZE = 200
        for many in (1, 199):
            for number in range(many):
                ask(user, BUY, server=f"server-{many}-{number}")
                closed(user, State.DECLINED)
            # Session, user, count, page, closed ones, servers, policies.
            with django_assert_num_queries(7):
                shown = page(ada.get(reverse("elicitation:inbox")))
        assert len(shown.all("li", class_="elicitation-item-waiting")) == 200

    def test_line_32_a_row_is_told_by_its_message(self, ada: Client, user: User) -> None:
        read = ask(user, BUY, "<b>Which plan?</b>", tool="buy", scope_label="Budget",
                   first_shown_at=timezone.now(),
                   expires_at=timezone.now() + timedelta(hours=5, minutes=1))  # fmt: skip
        ask(user, BUY, "Second", scope_label="Trip")
        shown = page(ada.get(reverse("elicitation:inbox")))
        first, second = shown.all("li", class_="elicitation-item-waiting")
        for text in ("<b>Which plan?</b>", "shop asks you", "Tool buy", "(5 hours left)"):
            assert text in " ".join(first.text.split())
        assert ("New" in first.text, "New" in second.text) == (False, True)
        # A server's text is no link.
        texts = {each.attrs["href"]: each.text for each in shown.all("a")}
        assert texts[read.get_absolute_url()].strip() == "shop asks you"
        assert not any("Which plan?" in text for text in texts.values())

    @pytest.mark.parametrize("text", ["WHICH pl", "Demo", "budg", "purchase", "%", "_"])
    def test_line_32_it_is_searched_by_what_a_person_sees(
        self, text: str, ada: Client, user: User, other_user: User
    ) -> None:
        allow("shop", label="Demo shop")
        ask(user, BUY, "Which plan? 5 % _", tool="purchase", scope_label="Budget")
        ask(user, BUY, "Another", server="kitchen")
        ask(other_user, BUY, "Which plan? 5 % _", tool="purchase", scope_label="Budget")
        shown = page(ada.get(reverse("elicitation:inbox"), {"search": text}))
        (found,) = shown.all("li", class_="elicitation-item-waiting")
        assert "Which plan?" in found.text
        assert shown.one("input", name="search").attrs["value"] == text

    @pytest.mark.parametrize("text", ["nothing like it", "a\0b", "x" * 300, "\ud800"])
    def test_line_32_what_finds_nothing_says_so(self, text: str, ada: Client, user: User) -> None:
        ask(user, BUY)
        query = "search=" + quote(text, errors="surrogatepass")
        for name in ("inbox", "history"):
            shown = page(ada.get(reverse(f"elicitation:{name}") + "?" + query))
            assert "Nothing was found." in shown.text
            hrefs = [each.attrs["href"] for each in shown.all("a")]
            assert reverse(f"elicitation:{name}") in hrefs

    def test_line_32_it_is_narrowed_to_a_server(
        self, ada: Client, user: User, settings: SettingsWrapper
    ) -> None:
        settings.ELICITATION_PAGE_SIZE = 1
        allow("shop", label="Demo shop")
        for _number in range(2):
            ask(user, BUY, "Which plan?")
        address = reverse("elicitation:inbox")
        # One server is no choice.
        assert not page(ada.get(address)).all("select", name="server")
        ask(user, BUY, "Which dish?", server="kitchen")
        shown = page(ada.get(address, {"server": "shop", "search": "plan"}))
        options = {each.attrs["value"]: each for each in shown.all("option")}
        assert {value: each.text for value, each in options.items()} == {
            "": "All servers", "shop": "Demo shop", "kitchen": "kitchen",
        }  # fmt: skip
        assert "selected" in options["shop"].attrs
        assert "2 open requests" in shown.text
        (following,) = shown.all("a", rel="next")
        shown = page(ada.get(address + following.attrs["href"]))
        assert "Page 2 of 2" in shown.text

    def test_line_32_several_are_declined_each_with_its_own_outcome(
        self, ada: Client, user: User, other_user: User
    ) -> None:
        asked = [ask(user, BUY, f"Number {number}") for number in range(3)]
        left = ask(user, BUY, "Left")
        foreign = ask(other_user, BUY, "Not yours")
        shown = page(ada.get(reverse("elicitation:inbox")))
        boxes = {each.attrs["value"]: each for each in shown.all("input", name="id")}
        assert boxes.keys() == {str(each.pk) for each in [*asked, left]}
        assert not any("checked" in box.attrs for box in boxes.values())
        send(ada, asked[1], a0="0", a1="1")
        keys = [str(each.pk) for each in [*asked, foreign, asked[0]]]
        address = reverse("elicitation:decline_several")
        response = ada.post(address, {"id": [*keys, "nonsense", str(uuid.uuid4())]})
        shown = page(response)
        became = [each.text.split("asked you")[-1].split() for each in shown.all("li")]
        assert [words[:2] for words in became] == [
            ["You", "declined"],
            ["Not", "declined:"],
            ["You", "declined"],
        ]
        assert "Not yours" not in shown.text
        states = [Elicitation.objects.get(pk=each.pk).state for each in [*asked, left, foreign]]
        assert states == ["declined", "answered", "declined", "pending", "pending"]

    def test_line_32_nothing_selected_declines_nothing(self, ada: Client, user: User) -> None:
        ask(user, BUY)
        shown = page(ada.post(reverse("elicitation:decline_several")))
        assert "Nothing was selected" in shown.text
        assert Elicitation.objects.pending().count() == 1

    def test_line_32_what_is_closed_has_pages_of_its_own(
        self, ada: Client, user: User, other_user: User, settings: SettingsWrapper
    ) -> None:
        settings.ELICITATION_PAGE_SIZE = 2
        address = reverse("elicitation:history")
        for number in range(5):
            moment = timezone.now() - timedelta(hours=number)
            ask(user, BUY, f"Number {number}", state=State.ANSWERED, closed_at=moment)
        ask(user, BUY, "It waits")
        closed(other_user, State.ANSWERED)
        seen: list[str] = []
        shown = page(ada.get(address))
        assert not shown.all("a", rel="prev")
        while True:
            seen += [each.text for each in shown.all("div", class_="elicitation-said")]
            following = shown.all("a", rel="next")
            if not following:
                break
            shown = page(ada.get(address + following[0].attrs["href"]))
        assert seen == [f"Number {number}" for number in range(5)]
        assert len(shown.all("a", rel="prev")) == 1
        for odd in ("0", "-1", "x", "9" * 5000, "\u0663", "999999"):
            assert ada.get(address, {"page": odd}).status_code == 200

    def test_line_32_as_many_queries_for_what_is_closed(
        self, ada: Client, user: User, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        for many in (1, 30):
            for number in range(many):
                closed(user, State.DECLINED, server=f"server-{many}-{number}")
            # Session, user, the page, policies.
            with django_assert_num_queries(4):
                ada.get(reverse("elicitation:history"))

    def test_a_question_costs_a_constant_number_of_queries(
        self, ada: Client, user: User, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        elicitation = ask(user, BUY)
        ada.get(elicitation.get_absolute_url())
        # Session, user, the question with its policy, what its call has asked.
        with django_assert_num_queries(4):
            ada.get(elicitation.get_absolute_url())


# --- The next question -----------------------------------------------------------------------


class TestFollowUp:
    def test_the_page_leads_on_to_what_the_same_call_asks_next(
        self, ada: Client, user: User
    ) -> None:
        first = ask(user, BUY)
        address = send(ada, first, a0="0", a1="2").url
        assert not page(ada.get(address)).all("p", class_="elicitation-next")
        second = ask(user, BUY, "Sure?", round=2, parked_call_id=first.parked_call_id)
        shown = page(ada.get(address))
        refresh = shown.one("meta", **{"http-equiv": "refresh"})
        assert refresh.attrs["content"] == f"1; url={second.get_absolute_url()}"
        (state,) = [each for each in shown.elements if each.attrs.get("role") == "status"]
        assert state.attrs["data-elicitation-next"] == second.get_absolute_url()
        assert "has another request" in shown.text
        assert (
            "This is the next request of the same tool call"
            in page(ada.get(second.get_absolute_url())).text
        )

    def test_line_25_which_step_of_the_task_and_which_of_several(
        self, ada: Client, user: User, other_user: User
    ) -> None:
        call = uuid.uuid4()

        def asked(message: str, round: int, person: User = user) -> Elicitation:
            return ask(person, BUY, message, round=round, parked_call_id=call)

        first = asked("Which <plan>?", 1)
        where = page(ada.get(first.get_absolute_url()))
        assert not where.all("p", class_="elicitation-place")
        send(ada, first, a0="0", a1="4")
        # In rounds 2 and 3 the server asked nobody, or somebody else.
        asked("For grace", 3, other_user)
        several = [asked(f"Number {number}", 4) for number in range(3)]
        seen = set()
        for each in several:
            shown = page(ada.get(each.get_absolute_url()))
            seen.add(" ".join(shown.one("p", class_="elicitation-place").text.split()))
            before = shown.one("ol", class_="elicitation-before").text
            assert " ".join(before.split()) == "Which <plan>?"
        assert seen == {f"Step 2 of this task{number} of 3" for number in (1, 2, 3)}

    def test_an_old_page_stays_where_it_is(self, ada: Client, user: User) -> None:
        old = closed(user, State.ANSWERED, closed_at=timezone.now() - timedelta(minutes=5))
        ask(user, BUY, parked_call_id=old.parked_call_id)
        shown = page(ada.get(old.get_absolute_url()))
        assert not shown.all("meta", **{"http-equiv": "refresh"})
        assert shown.all("p", class_="elicitation-next")
        later = closed(user, State.ANSWERED, closed_at=timezone.now() - timedelta(seconds=30))
        shown = page(ada.get(later.get_absolute_url()))
        assert shown.one("meta", **{"http-equiv": "refresh"}).attrs["content"] == "5"


# --- Inside the site's own pages -------------------------------------------------------------


class TestTags:
    def test_the_count(self, user: User, other_user: User) -> None:
        for _number in range(3):
            ask(user, BUY)
        ask(other_user, BUY)
        ask(user, BUY, expires_at=timezone.now() - timedelta(seconds=1))
        shown = Page(in_site("{% elicitation_count %}", user))
        assert shown.one("span").text == "3"
        assert shown.one("span").attrs["data-elicitation-count"] == reverse("elicitation:count")
        assert shown.one("a").attrs["href"] == reverse("elicitation:inbox")
        assert not in_site("{% elicitation_count %}", AnonymousUser()).strip()

    def test_the_inbox_of_one_scope(self, user: User) -> None:
        ask(user, BUY, "here", scope="chat-1")
        ask(user, BUY, "there", scope="chat-2")
        assert "there" not in in_site("{% elicitation_inbox scope='chat-1' %}", user)
        both = in_site("{% elicitation_inbox %}", user)
        assert "here" in both
        assert "there" in both
        assert "No open requests" in in_site("{% elicitation_inbox scope='chat-9' %}", user)
        assert not in_site("{% elicitation_inbox %}", AnonymousUser()).strip()

    @pytest.mark.parametrize("key", [7, uuid.UUID(int=7)])
    def test_case_E7_the_inbox_of_a_scope_that_is_a_number_or_a_uuid(
        self, key: int | uuid.UUID, user: User
    ) -> None:
        ask(user, BUY, "here", scope=str(key))
        ask(user, BUY, "there", scope="8")
        shown = in_site("{% elicitation_inbox scope=key %}", user, key=key)
        assert "here" in shown
        assert "there" not in shown

    def test_the_form_comes_back_to_its_page(self, ada: Client, user: User) -> None:
        allow(label="Acme")
        first, second = ask(user, BUY), ask(user, BUY)
        source = "{% elicitation_form first %}{% elicitation_form second %}"
        shown = Page(in_site(source, user, "/chat/7/?tab=1", first=first, second=second))
        ids = [each.attrs["id"] for each in shown.elements if "id" in each.attrs]
        assert len(ids) == len(set(ids))
        assert len(shown.all("h2")) == 2
        assert not shown.all("h1")
        back = [each.attrs["value"] for each in shown.all("input", name="next")]
        assert back == ["/chat/7/?tab=1"] * 4
        wrong = page(send(ada, first, next="/chat/7/"), 422)
        assert [each.attrs["value"] for each in wrong.all("input", name="next")] == [
            "/chat/7/"
        ] * 2
        assert send(ada, first, a0="0", a1="1", next="/chat/7/?tab=1").url == "/chat/7/?tab=1"
        assert decline(ada, second, next="/chat/7/").url == "/chat/7/"
        conflict = page(send(ada, first, a0="1", a1="1", next="/chat/7/"), 409)
        assert "/chat/7/" in {each.attrs["href"] for each in conflict.all("a")}
        elicitation = Elicitation.objects.get(pk=first.pk)
        closed_one = in_site("{% elicitation_form e %}", user, e=elicitation)
        assert "Answered" in closed_one
        assert "<form" not in closed_one

    @pytest.mark.parametrize(
        "address",
        ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example", ""],
    )
    def test_the_form_never_leads_to_another_site(
        self, address: str, ada: Client, user: User
    ) -> None:
        elicitation = ask(user, BUY)
        response = send(ada, elicitation, a0="0", a1="1", next=address)
        assert response.url == elicitation.get_absolute_url()

    @pytest.mark.parametrize("address", ["foo", "elicitation:inbox", "/?" + "x" * 2_100])
    def test_case_E4_what_is_no_url_to_go_back_to_costs_no_answer(
        self, address: str, ada: Client, user: User
    ) -> None:
        for press in (lambda each: send(ada, each, a0="0", a1="1", next=address),
                      lambda each: decline(ada, each, next=address)):  # fmt: skip
            elicitation = ask(user, BUY)
            response = press(elicitation)
            assert response.status_code == 302
            assert response.url == elicitation.get_absolute_url()

    @pytest.mark.parametrize(("scheme", "is_followed"), [("https", True), ("http", False)])
    def test_the_form_never_leads_from_an_encrypted_page_to_one_that_is_not(
        self, scheme: str, is_followed: bool, ada: Client, user: User
    ) -> None:
        elicitation = ask(user, BUY)
        back = f"{scheme}://testserver/chat/7/"
        data = {"fingerprint": elicitation.fingerprint, "a-0": "0", "a-1": "1", "next": back}
        response: Any = ada.post(elicitation.get_absolute_url(), data, secure=True)
        assert response.url == (back if is_followed else elicitation.get_absolute_url())

    def test_nobody_else_is_shown_the_form(self, user: User, other_user: User) -> None:
        elicitation = ask(user, BUY)
        for stranger in (other_user, AnonymousUser()):
            assert not in_site("{% elicitation_form e %}", stranger, e=elicitation).strip()

    def test_untrusted_text_that_claims_to_be_safe_is_escaped(self, user: User) -> None:
        shown = in_site("{{ text|elicitation_text }}", user, text=SafeString("<b>\u202e"))
        assert shown == "&lt;b&gt;U+202E"
        assert html.unescape(shown) == "<b>U+202E"


class TestCount:
    def test_how_many_wait(self, ada: Client, user: User) -> None:
        ask(user, BUY)
        response = ada.get(reverse("elicitation:count"))
        assert json.loads(response.content) == {"count": 1}

    def test_signed_out(self, client: Client) -> None:
        response = client.get(reverse("elicitation:count"))
        assert response.status_code == 401
        assert json.loads(response.content) == {"count": None}

    def test_it_does_not_prolong_the_session(self, ada: Client, settings: SettingsWrapper) -> None:
        settings.SESSION_SAVE_EVERY_REQUEST = True
        assert "sessionid" in ada.get(reverse("elicitation:inbox")).cookies
        assert "sessionid" not in ada.get(reverse("elicitation:count")).cookies
        assert "sessionid" in ada.get(reverse("elicitation:inbox")).cookies


# --- Languages -------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["de", "fr", "ar"])
class TestLanguages:
    def test_a_page_is_in_the_language(self, language: str, ada: Client, user: User) -> None:
        elicitation = ask(user, schema("x", x={**PLAN, "title": "Plan"}), "Hello")
        english = page(ada.get(elicitation.get_absolute_url()))
        response = ada.get(elicitation.get_absolute_url(), headers={"accept-language": language})
        shown = page(response)
        assert shown.one("html").attrs == {
            "lang": language,
            "dir": "rtl" if language == "ar" else "ltr",
        }
        # What the server wrote is never translated.
        assert "Hello" in shown.text
        assert "Plan" in shown.one("legend").text
        ours = {" ".join(each.text.split()) for each in english.all("li")}
        assert not ours & {" ".join(each.text.split()) for each in shown.all("li")}
        with translation.override(language):
            assert translation.gettext("Never enter passwords, keys or card numbers here.") in (
                shown.text
            )

    def test_numbers_are_read_as_the_language_writes_them(
        self, language: str, ada: Client, user: User
    ) -> None:
        elicitation = ask(user, schema("x", x={"type": "number"}))
        data = {"fingerprint": elicitation.fingerprint, "a-0": "1,5"}
        headers = {"accept-language": language}
        response = ada.post(elicitation.get_absolute_url(), data, headers=headers)
        assert response.status_code == 302
        assert StoredFormAnswer.objects.get().answers == {"x": FormAnswer(other_text="1.5")}


# --- What a site can replace -----------------------------------------------------------------


class TestTemplates:
    FOLDER = Path(forms.__file__).parents[1]

    def test_every_class_is_documented_and_none_else(self) -> None:
        used = set()
        for sheet in self.FOLDER.glob("static/**/*.css"):
            used |= set(re.findall(r"\.(elicitation[a-z-]*)", sheet.read_text(encoding="utf-8")))
        for source in [
            *self.FOLDER.glob("templates/**/*.html"),
            *self.FOLDER.glob("pages/*.py"),
        ]:
            for classes in re.findall(r'class"?[=:] ?"([^"]*)"', source.read_text("utf-8")):
                # Where the state of a question follows, the class is in the style sheet or below.
                used |= set(re.findall(r"elicitation(?:-[a-z]+)*(?![\w-])", classes))
        by_state = {
            f"elicitation-{place}-{state}"
            for place in ("outcome", "badge")
            for state in (State.ANSWERED, State.DECLINED, State.EXPIRED, State.WITHDRAWN)
        } | {
            "elicitation-outcome-pending",
            "elicitation-outcome-stored",
            "elicitation-step-later",
        }
        styles = self.documentation().partition("## Styles")[2].partition("## Another")[0]
        documented = set(re.findall(r"`(elicitation[a-z-]*)`", styles))
        assert used - documented == set()
        assert documented - used - by_state == set()

    def test_every_template_is_documented(self) -> None:
        table = self.documentation()
        # Those of the admin are no part of what a site is told to replace.
        for template in self.FOLDER.glob("templates/elicitation/**/*.html"):
            assert template.name in table, template.name

    def documentation(self) -> str:
        path = self.FOLDER.parent / "docs" / "templates.md"
        return path.read_text(encoding="utf-8")

    def test_a_site_overrides_the_frame_by_one_file(
        self, ada: Client, user: User, settings: SettingsWrapper, tmp_path: Path
    ) -> None:
        (tmp_path / "elicitation").mkdir()
        (tmp_path / "elicitation" / "base.html").write_text(
            "<!DOCTYPE html><html lang=en><head><title>Mine: {% block title %}{% endblock %}"
            "</title>{% block extra_head %}{% endblock %}</head><body><main>"
            "{% block content %}{% endblock %}</main></body></html>"
        )
        settings.TEMPLATES = with_folder(settings.TEMPLATES, tmp_path)
        elicitation, done = ask(user, BUY), closed(user, State.DECLINED)
        for address in (
            elicitation.get_absolute_url(),
            done.get_absolute_url(),
            reverse("elicitation:inbox"),
        ):
            shown = page(ada.get(address))
            assert shown.one("title").text.startswith("Mine: ")
            assert shown.one("link", rel="stylesheet")
            assert shown.one("h1")
            assert not shown.all("header")

    def test_a_site_overrides_the_template_of_one_kind(
        self, ada: Client, user: User, settings: SettingsWrapper, tmp_path: Path
    ) -> None:
        (tmp_path / "elicitation" / "fields").mkdir(parents=True)
        (tmp_path / "elicitation" / "fields" / "number.html").write_text(
            "<p class=own>{{ question.title }}: {{ question }}</p>"
        )
        settings.TEMPLATES = with_folder(settings.TEMPLATES, tmp_path)
        shown = page(ada.get(ask(user, BUY).get_absolute_url()))
        assert "Seats:" in shown.one("p", class_="own").text
        assert shown.one("legend")

    def test_a_site_overrides_the_form(
        self, ada: Client, user: User, settings: SettingsWrapper
    ) -> None:
        settings.ELICITATION_FORM_CLASS = f"{__name__}.LoudForm"
        elicitation = ask(user, schema("x", x={"type": "string"}))
        shown = page(ada.get(elicitation.get_absolute_url()))
        assert shown.one("input", name="a-0").attrs["class"] == "loud"
        assert "class=&quot;loud" not in in_site("{% elicitation_form e %}", user, e=elicitation)
        assert 'class="loud"' in in_site("{% elicitation_form e %}", user, e=elicitation)
        assert send(ada, elicitation, a0="quiet").status_code == 302
        assert StoredFormAnswer.objects.get().answers == {"x": FormAnswer(other_text="QUIET")}


class LoudField(TextField):
    def make_widget(self) -> Any:
        return TextInput(attrs={"class": "loud"})

    def read(self, value: Any) -> FormAnswer | None:
        return super().read(str(value or "").upper())


class LoudForm(ElicitationForm):
    def field_for(self, prop: Any, position: int) -> Any:
        return LoudField(prop, position)


def with_folder(templates: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    (engine,) = templates
    return [{**engine, "DIRS": [folder, *engine["DIRS"]]}]


def test_a_server_that_waits_is_said_to(client: Client, user: User) -> None:
    """Its answer cannot outlive the request, so the page says until when it helps."""
    client.force_login(user)
    waits, parked = ask(user, BUY), ask(user, BUY, message="Later?")
    Elicitation.objects.filter(pk=waits.pk).update(in_call=True)
    says = "The server waits for your answer until then"
    assert says in client.get(waits.get_absolute_url()).content.decode()
    assert says not in client.get(parked.get_absolute_url()).content.decode()


def test_what_was_typed_is_in_no_error_report(
    ada: Client, user: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Django mails the administrators what was posted, and each frame's variables."""

    def fail(*args: object, **kwargs: object) -> None:
        raise LookupError("the database is gone")

    note = schema("note", note={"type": "string"})
    question = ask(user, note)
    monkeypatch.setattr("elicitation.inbox.closing.in_transaction", fail)
    ada.raise_request_exception = False
    # Not in one piece: a report quotes the lines of this test, too.
    typed = "-".join(("Zanzibar", "canary"))
    response = send(ada, question, a0=typed)
    assert response.status_code == 500
    (record,) = [each for each in caplog.records if each.name == "django.request"]
    assert record.exc_info
    reporter = ExceptionReporter(record.request, *record.exc_info)  # type: ignore[attr-defined]
    report = reporter.get_traceback_html() + reporter.get_traceback_text()
    assert "LookupError" in report
    assert typed not in report
