"""The export of the audit trail."""

from __future__ import annotations

import csv
import json
import uuid
from collections.abc import Callable
from copy import copy
from datetime import datetime, timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command, load_command_class
from django.utils import timezone

from elicitation import inbox
from elicitation.calls import parking, refusals
from elicitation.calls.ended import Code, Ended
from elicitation.inbox import audit
from elicitation.models import Elicitation, StoredFormAnswer
from tests import processes
from tests.asking import ask_to_open

from .conftest import ANSWER, age, answer, park

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db


def export(since: str = "2000-01-01", **options: Any) -> str:
    out = StringIO()
    call_command("elicitation_audit", since=since, stdout=out, **options)
    return out.getvalue()


def lines(**options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export(**options).splitlines()]


def test_a_record_says_all_that_became_of_a_question(user: User) -> None:
    (asked,) = park(user)
    inbox.shown(asked)
    answer(asked, user)
    StoredFormAnswer.objects.all().delete()
    parking.close(
        asked,
        Ended(code=Code.FINISHED),
        carried=parking.Carried(deliveries={asked.pk: "delivered"}),
    )
    asked.refresh_from_db()
    (record,) = lines()
    assert tuple(record) == audit.FIELDS
    assert asked.first_shown_at
    assert asked.closed_at
    assert asked.delivered_at
    expected = {
        "id": str(asked.pk),
        "parked_call_id": str(asked.parked_call_id),
        "scope": "chat-1",
        "call": "call-1",
        "server": "shop",
        "tool": "buy",
        "round": 1,
        "message": "Who?",
        "respondent": user.pk,
        "state": "answered",
        "asked_at": asked.asked_at.isoformat(),
        "first_shown_at": asked.first_shown_at.isoformat(),
        "closed_at": asked.closed_at.isoformat(),
        "closed_by": user.pk,
        "closed_via": "page",
        "delivered_at": asked.delivered_at.isoformat(),
        "delivery": "delivered",
        "notified_at": None,
    }
    assert {name: record[name] for name in expected} == expected


@pytest.mark.parametrize("how", ["jsonl", "csv"])
def test_no_answer_is_exported(how: str, user: User) -> None:
    (asked,) = park(user)
    answer(asked, user)
    exported = export(format=how)
    assert str(asked.pk) in exported
    assert ANSWER not in exported
    assert Elicitation.objects.get().answer_digest not in exported


def test_pages_are_read_in_order_and_none_twice(user: User) -> None:
    questions = [park(user, call=f"call-{n}")[0] for n in range(7)]
    # Several of one moment: the page may end between them.
    same = timezone.now() - timedelta(hours=1)
    Elicitation.objects.filter(pk__in=[one.pk for one in questions[:5]]).update(asked_at=same)
    for size in (1, 2, 3, 7, 100):
        records = list(audit.records(batch_size=size))
        assert len({record["id"] for record in records}) == len(records) == 7
        moments = [str(record["asked_at"]) for record in records]
        assert moments == sorted(moments)


def test_each_record_is_a_line_and_the_oldest_comes_first(user: User) -> None:
    questions = [park(user, call=f"call-{n}")[0] for n in range(3)]
    for hours, question in enumerate(questions):
        age(question, asked_at=3600 * hours)
    written = export(format="jsonl").splitlines()
    assert [json.loads(line)["id"] for line in written] == [
        str(question.pk) for question in reversed(questions)
    ]
    assert [line.partition(",")[0] for line in export(format="csv").splitlines()] == [
        "id",
        *(json.loads(line)["id"] for line in written),
    ]


def test_since_and_until(user: User, settings: SettingsWrapper) -> None:
    old, new = (park(user, call=f"call-{n}")[0] for n in range(2))
    age(old, asked_at=2 * 86_400)
    yesterday = timezone.localtime() - timedelta(days=1)
    one_day = yesterday.date().isoformat()
    assert [record["id"] for record in lines(since=one_day)] == [str(new.pk)]
    assert [record["id"] for record in lines(until=yesterday.isoformat())] == [str(old.pk)]
    assert lines(since="2999-01-01T00:00:00Z") == []
    for wrong in ("yesterday", "2026-02-30", "2026-02-30T10:00"):
        with pytest.raises(CommandError, match="--since takes"):
            export(since=wrong)


FORMULAS = [
    *("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1"),
    *("＝1", "＋1", "－1", "＠1"),
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_is_a_formula(text: str, user: User) -> None:
    (asked,) = park(user)
    Elicitation.objects.update(message=text, tool=text)
    (row,) = csv.DictReader(StringIO(export(format="csv"), newline=""))
    assert tuple(row) == audit.FIELDS
    assert row["message"] == f"'{text}"
    assert row["tool"] == f"'{text}"
    assert row["id"] == str(asked.pk)
    assert row["closed_at"] == ""


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("before", [";", "; ", ';"', ",", "\t", "\n"])
def test_case_F5_no_part_of_a_cell_is_a_formula_whatever_separates_cells(
    before: str, delimiter: str, user: User
) -> None:
    park(user)
    Elicitation.objects.update(message=f'Hello{before}=HYPERLINK("https://evil.example")')
    exported = export(format="csv")
    assert "HYPERLINK" in exported
    for row in csv.reader(StringIO(exported, newline=""), delimiter=delimiter):
        assert not [cell for cell in row if cell.strip('" \n').startswith("=")]


def test_what_is_no_formula_stays_as_it_is() -> None:
    for value in ("a=b", "1-1", "", 7, "a; b", "a, b=c", "a\nb"):
        assert audit.spreadsheet_cell(value) == value


def test_what_a_terminal_would_obey_is_escaped(user: User) -> None:
    park(user)
    Elicitation.objects.update(message="\x1b[31m\u202e\n")
    exported = export()
    assert exported.isascii()
    assert "\x1b" not in exported
    assert len(exported.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_reader_that_has_read_enough_is_no_error(user: User) -> None:
    park(user, "m" * 1000)
    rows = [copy(Elicitation.objects.all()[0]) for _ in range(300)]
    for row in rows:
        row.pk = uuid.uuid4()
    Elicitation.objects.bulk_create(rows)
    process = processes.start("tests.ops.manage", "elicitation_audit", "--since", "2000-01-01")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("{")
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_case_F9_the_inbox_in_a_terminal_survives_it_as_well(user: User) -> None:
    park(user, "m" * 1000)
    rows = [copy(Elicitation.objects.all()[0]) for _ in range(300)]
    for row in rows:
        row.pk = uuid.uuid4()
    Elicitation.objects.bulk_create(rows)
    process = processes.start("tests.ops.manage", "elicitation", "list")
    assert process.stdout is not None
    assert "301 open requests" in process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


#: Fields of ECS 8.17 that a line has, with their types there.
ECS = {
    "@timestamp": "date",
    "ecs.version": "keyword",
    "event.action": "keyword",
    "event.category": "array",
    "event.code": "keyword",
    "event.dataset": "keyword",
    "event.end": "date",
    "event.id": "keyword",
    "event.kind": "keyword",
    "event.module": "keyword",
    "event.outcome": "keyword",
    "event.reason": "keyword",
    "event.start": "date",
    "event.type": "array",
    "related.user": "array",
    "service.name": "keyword",
    "url.domain": "keyword",
    "user.id": "keyword",
}
IS_TYPE: dict[str, Callable[[Any], bool]] = {
    "date": lambda value: datetime.fromisoformat(value).tzinfo is not None,
    "keyword": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
}


def flat(value: dict[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, inner in value.items():
        path = f"{before}{name}"
        found |= flat(inner, f"{path}.") if isinstance(inner, dict) else {path: inner}
    return found


class TestECS:
    def test_each_line_has_fields_of_ecs_and_its_own_below_one_name(self, user: User) -> None:
        (asked,) = park(user, "m" * 10)
        answer(asked, user)
        ask_to_open(user, "https://login.example.com/t0p5ecr3t")
        refusals.count("shop", "schema", "why", tool="buy")
        lines_of = [*lines(format="ecs"), *lines(format="ecs", refusals=True)]
        assert len(lines_of) == 3
        for line in lines_of:
            own = line.pop("elicitation")
            assert set(own) <= {*audit.FIELDS, *audit.REFUSAL_FIELDS}
            assert None not in own.values()
            for name, value in flat(line).items():
                assert IS_TYPE[ECS[name]](value), name
        assert {name for line in lines_of for name in flat(line)} == set(ECS)
        assert ANSWER not in str(lines_of)
        assert "t0p5ecr3t" not in str(lines_of)

    @pytest.mark.parametrize(
        ("changes", "action", "outcome"),
        [
            ({}, "elicitation-pending", "unknown"),
            ({"state": "answered"}, "elicitation-answered", "unknown"),
            ({"state": "answered", "delivery": "not_sent"}, "elicitation-answered", "unknown"),
            ({"state": "answered", "delivery": "delivered"}, "elicitation-answered", "success"),
            ({"state": "answered", "delivery": "round_lost"}, "elicitation-answered", "unknown"),
            ({"state": "declined", "delivery": "server_error"}, "elicitation-declined", "success"),
            ({"state": "withdrawn", "delivery": "dropped"}, "elicitation-withdrawn", "failure"),
            ({"state": "expired", "delivery": "never_resumed"}, "elicitation-expired", "failure"),
        ],
    )
    def test_the_outcome_says_whether_a_server_has_got_something(
        self, changes: dict[str, str], action: str, outcome: str, user: User
    ) -> None:
        at = None if changes.get("delivery") in (None, "not_sent") else timezone.now()
        closed_at = timezone.now() if changes else None
        row = ask_to_open(user, delivered_at=at, closed_at=closed_at, **changes)
        (line,) = lines(format="ecs")
        assert (line["event"]["action"], line["event"]["outcome"]) == (action, outcome)
        assert line["@timestamp"] == (closed_at or row.asked_at).isoformat()

    def test_an_event_names_who_closed_it_and_everybody_who_had_to_do_with_it(
        self, user: User
    ) -> None:
        grace = User.objects.create_user("grace")
        ask_to_open(user, state="answered", closed_by=grace)
        (line,) = lines(format="ecs")
        assert line["user"]["id"] == str(grace.pk)
        assert line["related"]["user"] == sorted([str(user.pk), str(grace.pk)])


@pytest.mark.parametrize("name", ["audit", "cleanup", "forget", "policy", "restore", "resume"])
def test_every_command_explains_itself(name: str) -> None:
    command = load_command_class("elicitation", f"elicitation_{name}")
    shown = command.create_parser("manage.py", f"elicitation_{name}").format_help()
    assert len(shown.split("options:")[0]) > 200
