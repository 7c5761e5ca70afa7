"""What becomes of what waits for people who leave, and of what is theirs."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import transaction
from django.utils import timezone

from elicitation import inbox
from elicitation.calls import parking
from elicitation.calls.ended import Code, Ended
from elicitation.inbox import audit
from elicitation.metrics import snapshot
from elicitation.models import Elicitation, ParkedCall, StoredFormAnswer
from tests.asking import ask, ask_to_open

from .conftest import ANSWER, NAME, answer, claimed, park

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def other(django_user_model: Any) -> User:
    found: User = django_user_model.objects.create_user("grace")
    return found


def forget(*words: str) -> str:
    out = StringIO()
    call_command("elicitation_forget", *words, stdout=out)
    return out.getvalue()


class TestLeaving:
    def test_what_waits_for_somebody_who_is_deactivated_is_withdrawn(
        self, user: User, other: User, sent: list[dict[str, Any]]
    ) -> None:
        (asked,) = park(user)
        kept = ask(other, NAME)
        user.is_active = False
        user.save()
        asked.refresh_from_db()
        assert (asked.state, asked.reason) == ("withdrawn", "person_gone")
        assert [each["elicitation_id"] for each in sent] == [asked.pk]
        assert StoredFormAnswer.objects.get().action == "decline"
        assert list(Elicitation.objects.pending()) == [kept]

    def test_so_it_is_for_somebody_whose_account_is_deleted(
        self, user: User, sent: list[dict[str, Any]]
    ) -> None:
        (asked,) = park(user)
        user.delete()
        asked.refresh_from_db()
        assert (asked.state, asked.reason, asked.respondent) == ("withdrawn", "person_gone", None)
        assert [each["elicitation_id"] for each in sent] == [asked.pk]
        assert not ParkedCall.objects.exists()

    def test_nothing_happens_before_the_commit(self, user: User) -> None:
        park(user)
        with transaction.atomic():
            user.is_active = False
            user.save()
            assert Elicitation.objects.pending().exists()
            transaction.set_rollback(True)
        assert Elicitation.objects.pending().exists()

    def test_saving_an_active_user_asks_the_database_nothing(
        self, user: User, django_assert_num_queries: Any
    ) -> None:
        with django_assert_num_queries(1):
            user.save()


class TestForgetting:
    def test_records_stay_and_say_nothing_of_the_person(self, user: User, other: User) -> None:
        (asked,) = park(user, "Which doctor do you see?")
        inbox.shown(asked)
        answer(asked, user)
        StoredFormAnswer.objects.all().delete()
        parking.close(
            asked,
            Ended(code=Code.FINISHED),
            carried=parking.Carried(deliveries={asked.pk: "delivered"}),
        )
        ask(other, NAME, "Of another", scope="elsewhere")
        before = snapshot().elicitations
        said = forget("ada", "--yes")
        assert "emptied records 1" in said
        emptied, kept = sorted(audit.records(), key=lambda record: str(record["message"]))
        assert kept["message"] == "Of another"
        assert (emptied["server"], emptied["tool"], emptied["state"]) == (
            "shop",
            "buy",
            "answered",
        )
        assert (emptied["delivery"], emptied["closed_via"]) == ("delivered", "page")
        assert emptied["asked_at"]
        assert emptied["first_shown_at"]
        for name in ("message", "scope", "scope_label", "call", "fingerprint"):
            assert emptied[name] == "", name
        assert emptied["respondent"] is emptied["closed_by"] is None
        assert emptied["parked_call_id"] == emptied["id"]
        assert "doctor" not in str(Elicitation.objects.values())
        assert str(asked.parked_call_id) not in str(Elicitation.objects.values())
        assert snapshot().elicitations == before
        assert Elicitation.objects.get(pk=asked.pk).answer_digest == ""

    def test_what_is_under_way_ends(self, user: User, sent: list[dict[str, Any]]) -> None:
        park(user, call="waits")
        (given,) = park(user, call="answered")
        answer(given, user)
        ask_to_open(user, in_call=True, alive_until=timezone.now() + timedelta(hours=1))
        said = forget("ada", "--yes")
        assert "withdrawn requests 1, cancelled calls 2" in said
        assert not Elicitation.objects.pending().exists()
        assert not ParkedCall.objects.parked().exists()
        assert ANSWER not in str(StoredFormAnswer.objects.values())
        # The process that waits in the middle of a call tells its server.
        assert StoredFormAnswer.objects.get().action == "decline"

    def test_results_are_deleted(self, user: User) -> None:
        (asked,) = park(user)
        answer(asked, user)
        parking.close(asked, Ended(code=Code.FINISHED, result={"content": ["private"]}))
        assert "deleted outcomes 1" in forget("ada", "--yes")
        assert not ParkedCall.objects.exists()

    def test_an_answer_for_somebody_else_names_nobody(self, user: User, other: User) -> None:
        asked = ask(user, NAME)
        Elicitation.objects.filter(pk=asked.pk).update(state="answered", closed_by=other)
        assert "records without the name of who answered 1" in forget("grace", "--yes")
        row = Elicitation.objects.get()
        assert (row.closed_by, row.respondent, row.message) == (None, user, "Please answer.")

    def test_a_call_that_goes_on_right_now_is_said_and_left(self, user: User) -> None:
        (asked,) = park(user)
        answer(asked, user)
        lease = claimed(asked.parked_call_id)
        with pytest.raises(CommandError, match="go on right now: 1"):
            forget("ada", "--yes")
        assert Elicitation.objects.get().respondent == user
        lease.release()
        assert "emptied records 1" in forget("ada", "--yes")

    def test_without_yes_it_only_counts(self, user: User) -> None:
        park(user)
        assert "records 1, waiting 1, calls 1" in forget("ada")
        assert Elicitation.objects.get().state == "pending"

    def test_nobody_of_this_name(self) -> None:
        with pytest.raises(CommandError, match="no user of this name"):
            forget("nobody", "--yes")

    def test_many_records_take_several_transactions(
        self, user: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("elicitation.calls.leaving.BATCH", 2)
        for number in range(5):
            ask(user, NAME, f"{number}", state="expired")
        assert "emptied records 5" in forget("ada", "--yes")
