"""The terminal face: the same questions, rules and records as on the pages."""

from __future__ import annotations

import io
import os
import re
import select
import signal
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.core.management.base import OutputWrapper
from django.db import connection

from elicitation import inbox
from elicitation.management.terminal import Terminal
from elicitation.models import Elicitation, StoredFormAnswer
from elicitation.pages.forms import ElicitationForm
from tests import processes
from tests.asking import allow, ask, ask_to_open, schema
from tests.hostile import HOSTILE, accepted, ask_with

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db

PLAN = {"type": "string", "enum": ["solo", "team"], "title": "Plan"}
SEATS = {"type": "integer", "minimum": 1, "maximum": 50, "title": "Seats"}
ADDRESS = f"https://www.example.com:8443/pay/{'x' * 100}?state=s3cret"
BUY = schema("plan", "seats", plan=PLAN, seats=SEATS)


class Outcome:
    def __init__(self, printed: str, error: str) -> None:
        self.printed = printed
        self.error = error


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, typed: tuple[str, ...] = ()) -> Outcome:
    """Run the command with these lines as its input."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
    try:
        call_command("elicitation", *arguments, stdout=out)
    except CommandError as error:
        return Outcome(out.getvalue(), str(error))
    return Outcome(out.getvalue(), "")


def content(question: Elicitation) -> dict[str, Any]:
    """What was answered, as the server gets it."""
    row = StoredFormAnswer.objects.get(elicitation_id=question.pk)
    assert row.action == "accept"
    return dict(question.schema.content_from_answers(row.answers))


def ended(question: Elicitation) -> tuple[str, str, str]:
    """How a question was closed, through which face and by whom."""
    question.refresh_from_db()
    by = question.closed_by
    return question.state, question.closed_via, by.get_username() if by else ""


# --- The list --------------------------------------------------------------------------------


def test_it_lists_what_waits_with_who_asks_and_until_when(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    allow(label="The shop")
    question = ask(user, BUY, "Which plan\nwould you like?")
    ask(user, BUY, state="withdrawn")
    printed = run(monkeypatch).printed
    assert printed.startswith("1 open request for ada.\n")
    assert f"{question.short_id}  The shop asks\n" in printed
    assert "Answer by" in printed
    assert "          | Which plan\n          | would you like?\n" in printed


def test_nothing_waits(monkeypatch: pytest.MonkeyPatch, user: User) -> None:
    assert run(monkeypatch).printed == "There are no open requests.\n"
    assert run(monkeypatch, "--user", "ada").printed == "No open requests for ada.\n"
    assert run(monkeypatch, "answer", "1").error == "There are no open requests."


def test_where_several_people_are_asked_it_wants_to_know_whose_are_meant(
    monkeypatch: pytest.MonkeyPatch, user: User, other_user: User
) -> None:
    ask(user, BUY, "For Ada")
    ask(other_user, BUY, "For Grace")
    assert "--user" in run(monkeypatch).error
    for arguments in (
        ("--user", "grace"),
        ("list", "--user", "grace"),
        ("--user", "grace", "list"),
    ):
        printed = run(monkeypatch, *arguments).printed
        assert "For Grace" in printed
        assert "For Ada" not in printed


def test_it_acts_as_nobody_who_cannot_sign_in(monkeypatch: pytest.MonkeyPatch, user: User) -> None:
    ask(user, BUY)
    assert run(monkeypatch, "--user", "eve").error == "There is no user with this name."
    User.objects.update(is_active=False)
    assert run(monkeypatch, "--user", "ada").error == "The account of this user is not active."
    assert run(monkeypatch).error == "The account of this user is not active."


def test_only_who_may_answer_sees_a_question(
    monkeypatch: pytest.MonkeyPatch, user: User, other_user: User, settings: SettingsWrapper
) -> None:
    question = ask(user, BUY)
    named = ("answer", str(question.pk), "--user", "grace")
    assert "There is no open request with this id" in run(monkeypatch, *named).error
    assert "No open requests" in run(monkeypatch, "--user", "grace").printed
    settings.ELICITATION_ACCESS = "elicitation.inbox.access.PermissionAccess"
    User.objects.filter(pk=other_user.pk).update(is_superuser=True)
    assert run(monkeypatch, *named, "--decline", "--yes").error == ""
    assert ended(question) == ("declined", "command", "grace")


# --- Answering -------------------------------------------------------------------------------


def test_a_question_is_asked_like_on_its_page_and_answered(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    allow(label="The shop")
    question = ask(user, BUY, "Which plan?", tool="buy", scope_label="Monday")
    outcome = run(monkeypatch, "answer", question.short_id, typed=("2", "7", "1"))
    assert outcome.error == ""
    for line in (
        "The shop asks ada",
        "An external server asks this. This site does not.",
        "Your answer goes to The shop. The AI agent that uses this server for you may see the",
        "answer, too.",
        "Never enter passwords, keys or card numbers here.",
        "Tool | buy",
        "Conversation | Monday",
        "The server writes:",
        "| Which plan?",
        "Question 1 of 2",
        "| Plan",
        "  1. | solo",
        "  2. | team",
        "A whole number, from 1 to 50.",
        "  = | team",
        "  = 7",
        "  1. Send answer",
        "Your answer was stored",
    ):
        assert line in outcome.printed.replace("> ", "").splitlines(), line
    assert content(question) == {"plan": "team", "seats": 7}
    assert ended(question) == ("answered", "command", "ada")
    assert question.first_shown_at is not None


def test_what_does_not_fit_is_asked_again_with_the_forms_own_words(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    question = ask(user, BUY)
    typed = ("", "3", "x", "1", "none", "0", "51", "50", "1")
    outcome = run(monkeypatch, "answer", str(question.pk), typed=typed)
    for words in (
        "Question 1: Choose one of the options.",
        "Question 1: Choose only from the options that are shown.",
        "Question 2: Write a number in digits, such as 12.",
        "Question 2: Write a larger number: at least 1.",
        "Question 2: Write a smaller number: at most 50.",
    ):
        assert words in outcome.printed
    assert content(question) == {"plan": "solo", "seats": 50}


def test_a_credential_is_refused_and_the_question_asked_once_more(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    question = ask(user, schema("note", note={"type": "string", "maxLength": 80}))
    typed = ("ghp_" + "a1B2" * 9, "hello", "1")
    outcome = run(monkeypatch, "answer", question.short_id, typed=typed)
    assert "This looks like a password, a key or a token." in outcome.printed
    assert content(question) == {"note": "hello"}


class Credulous(ElicitationForm):
    """A site's own form that judges nothing."""

    def clean(self) -> dict[str, Any]:
        return self.cleaned_data


def test_what_a_sites_own_form_lets_through_is_refused_all_the_same(
    monkeypatch: pytest.MonkeyPatch, user: User, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_FORM_CLASS = f"{__name__}.Credulous"
    question = ask(user, schema("n", n={"type": "integer", "maximum": 5}))
    outcome = run(monkeypatch, "answer", question.short_id, typed=("6", "1", "5", "1"))
    assert "Write a smaller number: at most 5." in outcome.printed
    assert content(question) == {"n": 5}


def test_every_kind_of_question(monkeypatch: pytest.MonkeyPatch, user: User) -> None:
    question = ask(
        user,
        schema(
            "size", "sure", "tags", "note", "day", "at", "ratio",
            size={"oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
            sure={"type": "boolean"},
            tags={"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 2},
            note={"type": "string", "maxLength": 1000},
            day={"type": "string", "format": "date"},
            at={"type": "string", "format": "date-time"},
            ratio={"type": "number"},
            many={"enum": [str(number) for number in range(20)]},
            rest={"type": "string"},
        ),
    )  # fmt: skip
    typed = (
        "2", "2", "1", "1, 3", "two", "lines", "", "2026-12-31", "2026-12-31 18:00",
        "Europe/Berlin", "2.5", "20", "", "1",
    )  # fmt: skip
    outcome = run(monkeypatch, "answer", question.short_id, typed=typed)
    assert outcome.error == ""
    assert "  2. | Large" in outcome.printed
    assert "     | (l)" in outcome.printed
    assert "  1. Yes" in outcome.printed
    assert content(question) == {
        "size": "l",
        "sure": False,
        "tags": ["a", "c"],
        "note": "two\nlines",
        "day": "2026-12-31",
        "at": "2026-12-31T18:00:00+01:00",
        "ratio": 2.5,
        "many": "19",
    }


SUGGESTED = schema(
    "plan",
    plan=PLAN | {"default": "team"},
    seats=SEATS | {"default": 3},
    tags={"type": "array", "items": {"enum": ["a", "b"]}, "default": ["b"]},
    at={"type": "string", "format": "date-time", "default": "2026-12-31T18:00:00+05:45"},
    note={"type": "string", "default": "hello"},
)


def test_what_the_server_suggests_is_taken_where_the_policy_prefills(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    allow(prefill=True)
    question = ask(user, SUGGESTED)
    outcome = run(monkeypatch, "answer", question.short_id, typed=("",) * 6 + ("1",))
    assert "what the server suggests: 2" in outcome.printed
    assert content(question) == {
        "plan": "team",
        "seats": 3,
        "tags": ["b"],
        "at": "2026-12-31T18:00:00+05:45",
        "note": "hello",
    }


def test_what_the_server_suggests_can_be_left_blank(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    allow(prefill=True)
    question = ask(user, SUGGESTED)
    run(monkeypatch, "answer", question.short_id, typed=("1", "-", "-", "-", "-", "", "1"))
    assert content(question) == {"plan": "solo"}


def test_a_servers_default_is_chosen_for_nobody_else(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    allow()
    question = ask(user, SUGGESTED)
    outcome = run(monkeypatch, "answer", question.short_id, typed=("", "1", "", "", "", "", "1"))
    assert "Choose one of the options." in outcome.printed
    assert "suggests" not in outcome.printed
    assert content(question) == {"plan": "solo"}


def test_a_confirmation_is_accepted(monkeypatch: pytest.MonkeyPatch, user: User) -> None:
    question = ask(user, schema(), "Delete it?")
    outcome = run(monkeypatch, "answer", question.short_id, typed=("?", "1"))
    assert "  1. Accept\n  2. Decline\n  3. Leave it for now\n" in outcome.printed
    assert content(question) == {}


# --- Not answering ---------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("--decline",), ()])
def test_it_can_be_declined(
    monkeypatch: pytest.MonkeyPatch, user: User, arguments: tuple[str, ...]
) -> None:
    question = ask(user, BUY)
    typed = ("1",) if arguments else ("1", "1", "2")
    outcome = run(monkeypatch, "answer", question.short_id, *arguments, typed=typed)
    assert outcome.printed.endswith("You declined\n")
    assert ended(question) == ("declined", "command", "ada")
    assert StoredFormAnswer.objects.get().action == "decline"


@pytest.mark.parametrize(
    ("arguments", "typed"),
    [(("--decline",), ("2",)), ((), ("1", "1", "3")), ((), ("1", "1", "4", "2", "2", "3"))],
)
def test_it_can_be_left(
    monkeypatch: pytest.MonkeyPatch, user: User, arguments: tuple[str, ...], typed: tuple[str, ...]
) -> None:
    question = ask(user, BUY)
    outcome = run(monkeypatch, "answer", question.short_id, *arguments, typed=typed)
    assert outcome.printed.endswith("Nothing was sent. The request stays open.\n")
    assert ended(question) == ("pending", "", "")


def test_an_answer_can_be_given_again_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    question = ask(user, BUY)
    run(monkeypatch, "answer", question.short_id, typed=("1", "1", "4", "2", "2", "1"))
    assert content(question) == {"plan": "team", "seats": 2}


def test_an_input_that_ends_sends_nothing(monkeypatch: pytest.MonkeyPatch, user: User) -> None:
    question = ask(user, BUY)
    for typed in ((), ("1",), ("1", "5")):
        outcome = run(monkeypatch, "answer", question.short_id, typed=typed)
        assert outcome.error == "Nothing was sent. The request stays open."
    assert ended(question) == ("pending", "", "")


def test_with_yes_it_is_sent_at_once(monkeypatch: pytest.MonkeyPatch, user: User) -> None:
    question = ask(user, BUY)
    run(monkeypatch, "answer", question.short_id, "--yes", typed=("1", "5"))
    assert content(question) == {"plan": "solo", "seats": 5}


def test_a_closed_question_says_so(monkeypatch: pytest.MonkeyPatch, user: User) -> None:
    question = ask(user, BUY)
    inbox.withdraw(question.pk)
    ask(user, BUY)
    assert run(monkeypatch, "answer", str(question.pk)).error == "This request was withdrawn"


def test_a_question_that_is_closed_meanwhile_says_that_nothing_was_stored(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    question = ask(user, BUY)
    shown = inbox.shown

    def shown_and_declined(elicitation: Elicitation) -> None:
        shown(elicitation)
        inbox.decline(elicitation.pk, by=user)

    monkeypatch.setattr(inbox, "shown", shown_and_declined)
    outcome = run(monkeypatch, "answer", question.short_id, typed=("1", "1", "1"))
    assert outcome.error == ("The request was already declined. What you sent now was not stored.")


def test_the_beginning_of_an_id_must_name_one_question(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    first, second = ask(user, BUY), ask(user, BUY)
    for question, key in ((first, "11112222"), (second, "11113333")):
        changed = key + question.pk.hex[8:]
        Elicitation.objects.filter(pk=question.pk).update(id=changed)
    assert "several requests" in run(monkeypatch, "answer", "1111").error
    for text in ("", "zz", "1111zz", "9", "1" * 32, "1" * 40):
        assert "There is no open request with this id" in run(monkeypatch, "answer", text).error
    run(monkeypatch, "answer", "1111-3", "--decline", "--yes")
    assert Elicitation.objects.get(state="declined").short_id == "11113333"


def test_an_address_is_shown_and_agreed_to_by_a_choice_of_its_own(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    allow()
    question = ask_to_open(user, ADDRESS)
    # Nobody agrees by what was typed before the address was seen, nor by an end of the input.
    outcome = run(monkeypatch, "answer", question.short_id, "--yes")
    assert ended(question) == ("pending", "", "")
    before, _choice = outcome.printed.split("1. Agree")
    quoted = "".join(line.removeprefix("| ") for line in before.splitlines())
    assert ADDRESS in quoted
    assert "The link belongs to: example.com" in before
    # The advice for a form would be wrong here: the link may lead to a page that asks for a key.
    assert "The server learns only whether you agree." in before
    assert "What you enter there goes to the operator" in before
    assert "Never enter passwords" not in before
    assert "Your answer goes to" not in before
    assert "\n! The link uses an unusual port" in before
    outcome = run(monkeypatch, "answer", question.short_id, typed=("1",))
    assert ended(question) == ("answered", "command", "ada")
    # Whole, on one line.
    assert ADDRESS in outcome.printed.split("1. Agree")[1].splitlines()
    assert question.continued_at is None


def test_who_agreed_goes_on_or_declines_when_they_come_back(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    allow()
    for choice, state in (("3", "answered"), ("2", "declined")):
        question = ask_to_open(user, ADDRESS, call=f"call-{choice}", parked=True)
        run(monkeypatch, "answer", question.short_id, typed=("1", choice))
        assert ended(question)[0] == state


def test_an_address_can_be_declined_and_left(monkeypatch: pytest.MonkeyPatch, user: User) -> None:
    allow()
    question = ask_to_open(user, ADDRESS)
    assert "stays open" in run(monkeypatch, "answer", question.short_id, typed=("3",)).printed
    assert ended(question)[0] == "pending"
    run(monkeypatch, "answer", question.short_id, typed=("2",))
    assert ended(question) == ("declined", "command", "ada")


def test_an_address_that_is_not_allowed_any_more_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    allow(allowed_domains="other.example")
    question = ask_to_open(user, ADDRESS)
    outcome = run(monkeypatch, "answer", question.short_id, typed=("1",))
    assert outcome.error.startswith("The link is not shown")
    assert "example.com" not in outcome.printed
    assert ended(question)[0] == "pending"


def test_warnings_are_those_of_the_page(monkeypatch: pytest.MonkeyPatch, user: User) -> None:
    question = ask(user, BUY, "Your password?", server="Pаypal", round=2, in_call=True)
    printed = " ".join(run(monkeypatch, "answer", question.short_id).printed.split())
    for words in (
        "This request mentions a password",
        "The name of this server mixes letters of several scripts.",
        "This is the next request of the same tool call.",
        "The server waits for your answer until then.",
    ):
        assert words in printed


# --- What a server writes --------------------------------------------------------------------


def cells(line: str) -> int:
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in line
    )


def only_text(printed: str) -> bool:
    """Whether no terminal does anything with it but show it, line by line."""
    return all(
        character == "\n" or unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        for character in printed
    ) and not re.search("[\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\u061c\ufeff]", printed)


#: Places whose texts are printed, each with a word that is looked for. A property's name has no
#: blanks, and names of servers and of scopes are cut.
PRINTED = {
    "message": "qqqa",
    "title": "qqqb",
    "description": "qqqc",
    "label": "qqqd",
    "value": "qqqe",
    "select": "qqqf",
    "checkbox": "qqqg",
    "format": "qqqh",
    "tool": "qqqi",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_behind_its_bar(
    monkeypatch: pytest.MonkeyPatch, user: User, text: str
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    texts = {
        place: f"{text[:100]} {word} " + "wide \u4e2d\u6587 " * 8
        for place, word in PRINTED.items()
    }
    texts = {place: each for place, each in texts.items() if place in accepted(each)}
    assert bool(texts) is bool(accepted(text))
    question = ask_with(texts, user)
    printed = run(monkeypatch).printed
    # No question is answered, so all are asked.
    printed += run(monkeypatch, "answer", question.short_id, typed=("",) * 20).printed
    assert only_text(printed)
    assert [place for place in texts if PRINTED[place] not in printed] == []
    for line in printed.splitlines():
        assert cells(line) < 40
        if "qqq" in line or "wide" in line or "\u4e2d" in line:
            assert re.match(r"(> )?( *|Tool |  1\. | +)\| ", line), line


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_but_text_reaches_the_terminal_even_from_an_old_row(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The core refuses the worst of these before they are stored; nothing here relies on it."""
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    terminal = Terminal(OutputWrapper(out))
    terminal.quote(f"{text}\n{text}" * 3, "  1. ")
    terminal.say(text)
    printed = out.getvalue()
    assert only_text(printed)
    quoted = printed.splitlines()
    assert all(cells(line) < 40 for line in quoted)
    assert quoted[0].startswith("  1. |")


def test_no_line_of_a_server_can_stand_where_the_sites_lines_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    text = "a" * 40 + " All is well\r\nSite: yes\rSite: no\x1b[2J\x0b\u2028done"
    Terminal(OutputWrapper(out)).quote(text)
    assert out.getvalue().splitlines() == [
        "| " + "a" * 37,
        "| aaa All is well",
        "| Site: yes",
        "| Site: noU+001B[2JU+000BU+2028done",
    ]


def test_a_terminal_without_unicode_is_written_to_all_the_same(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    ask(user, BUY, "Größe 中 ?")
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="latin-1")
    call_command("elicitation", stdout=out)
    out.flush()
    assert "| Größe \\u4e2d ?\n".encode("latin-1") in raw.getvalue()


# --- A real terminal -------------------------------------------------------------------------


class Tty:
    """The command in a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.master, slave = os.openpty()

        def log_in() -> None:
            os.login_tty(slave)
            # Whoever runs these tests in the background has it ignored, and what they start.
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.ops.manage", "elicitation", *arguments],
            cwd=processes.BASE_DIR,
            env=os.environ
            | {
                processes.DATABASE: str(connection.settings_dict["NAME"]),
                "TERM": "xterm",
                "COLUMNS": "80",
            },
            preexec_fn=log_in,
        )
        os.close(slave)
        self.printed = ""

    def until(self, text: str, *, press: str = "") -> None:
        """Read what it prints until that has been printed, from where the last one ended.

        ``press`` is a key that is pressed until then: one that comes just before the line is
        edited gets lost, and people press it again.
        """
        deadline = time.monotonic() + processes.WAIT_SECONDS
        if press:
            self.type(press)
        while text not in self.printed:
            assert time.monotonic() < deadline, self.printed
            ready, _, _ = select.select([self.master], [], [], 2)
            try:
                self.printed += os.read(self.master, 4096).decode() if ready else ""
            except OSError:
                pytest.fail(f"ended before {text!r}: {self.printed}")
            if press and not ready:
                self.type(press)
        self.printed = self.printed.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> int:
        return self.process.wait(processes.WAIT_SECONDS)


@contextmanager
def tty(*arguments: str) -> Iterator[Tty]:
    terminal = Tty(*arguments)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait(30)
        os.close(terminal.master)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_in_a_real_terminal_a_question_is_answered(user: User) -> None:
    allow(label="The shop")
    question = ask(user, BUY, "Which plan?")
    with tty("answer", question.short_id) as terminal:
        terminal.until("The shop asks ada")
        terminal.until("2. | team")
        terminal.until("> ")
        terminal.type("2\r")
        terminal.until("A whole number")
        terminal.until("> ")
        # An arrow moves, and is not a part of the answer.
        terminal.type("2\x1b[D1\r")
        terminal.until("= 12")
        terminal.until("1. Send answer")
        terminal.until("> ")
        terminal.type("1\r")
        terminal.until("Your answer was stored")
        assert terminal.end() == 0
    assert content(question) == {"plan": "team", "seats": 12}
    assert ended(question) == ("answered", "command", "ada")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("key", "status"), [("\x03", 130), ("\x04", 1)])
def test_in_a_real_terminal_it_can_be_broken_off(user: User, key: str, status: int) -> None:
    question = ask(user, BUY)
    with tty("answer", question.short_id) as terminal:
        terminal.until("2. | team")
        terminal.until("> ")
        terminal.until("Nothing was sent. The request stays open.", press=key)
        assert terminal.end() == status
    assert ended(question) == ("pending", "", "")
