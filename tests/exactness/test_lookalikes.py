"""Names that a database's collation, or a person, calls equal never meet: at every level above
the store, which has its own test of this."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from elicitation import inbox
from elicitation.calls import parking
from elicitation.calls.values import Call, Round
from elicitation.core import ElicitationPending, form_answer_storage_key
from elicitation.mcp.client import call_tool
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from elicitation.store import DatabaseFormAnswerStore
from tests import asking
from tests.integration.scripted import ScriptedServer, accepted, ask, form, said, text
from tests.store.test_store import LOOKALIKES

pytestmark = pytest.mark.django_db(transaction=True)

#: One of each kind: case, blanks, accents and their normal forms, folding, planes above the first.
FEW = ["Billing", "billing", "Billing ", "B\u00edlling", "Bi\u0301lling", "Billing/x", "Billing_x"]
PLAN = asking.schema("plan", plan={"type": "string"})


def test_a_policy_is_for_exactly_one_name() -> None:
    for name in LOOKALIKES:
        policy = ServerPolicy.objects.create(server=name, policy="url_and_form", label="")
        for other in LOOKALIKES:
            found = ServerPolicy.objects.for_server(other)
            assert found.server == other
            assert found.allows_forms is (other == name), (name, other)
        policy.delete()


def test_policies_of_names_that_look_the_same_stand_side_by_side() -> None:
    for number, name in enumerate(LOOKALIKES):
        ServerPolicy.objects.create(server=name, policy="url", label=str(number))
    found = ServerPolicy.objects.for_servers(LOOKALIKES)
    assert [found[name].label for name in LOOKALIKES] == [str(n) for n in range(len(LOOKALIKES))]


def test_questions_are_of_exactly_one_scope(user: User) -> None:
    for name in LOOKALIKES:
        asking.ask(user, PLAN, scope=name)
    for name in LOOKALIKES:
        [found] = Elicitation.objects.in_scope(name)
        assert found.scope == name


def made(user: User, **names: str) -> Call:
    options = {"scope": "s", "server": "v", "tool": "t", "call": "c"} | names
    return Call(arguments={}, respondent_id=user.pk, **options)


@pytest.mark.parametrize("part", ["scope", "server", "tool", "call"])
def test_a_parked_call_is_found_under_exactly_its_names(user: User, part: str) -> None:
    for name in LOOKALIKES:
        round = Round(number=1, requests={}, request_state=name)
        assert parking.park(made(user, **{part: name}), round).lease is not None
    assert ParkedCall.objects.count() == len(LOOKALIKES)
    for name in LOOKALIKES:
        call = made(user, **{part: name})
        assert parking.find(call)
        assert Round.of(ParkedCall.objects.get(pk=call.parked_call_id)).request_state == name


@pytest.mark.parametrize("part", ["scope", "server", "tool", "call"])
def test_an_answer_reaches_only_the_call_it_was_given_to(user: User, part: str) -> None:
    """The whole way: a call is parked under each name, one is answered, and only that goes on."""

    def tool(params: Any) -> Any:
        if answer := accepted(params, "k"):
            return text(answer["plan"])
        return ask(k=form("Which plan?", PLAN))

    server = ScriptedServer(tool)
    names = {"scope": "s", "server": "v", "tool": "t", "call": "c"}
    for name in FEW if part == "server" else ["v"]:
        ServerPolicy.objects.create(server=name, policy="url_and_form")

    async def run(name: str) -> Any:
        async with server.connect() as session:
            try:
                return await call_tool(session, respondent=user, **names | {part: name})
            except ElicitationPending as pending:
                return pending

    call = async_to_sync(run)
    waiting = {name: call(name) for name in FEW}
    ids = {pending.elicitation_ids for pending in waiting.values()}
    assert len(ids) == len(FEW)
    for name in FEW:
        [key] = waiting[name].elicitation_ids
        question = inbox.get(user, key)
        inbox.answer(key, question.schema.answers_from_content({"plan": name.strip()}), by=user)
        for other in FEW[FEW.index(name) + 1 :]:
            assert isinstance(call(other), ElicitationPending)
        assert said(call(name)) == name.strip()
    assert not StoredFormAnswer.objects.exists()
    assert not ParkedCall.objects.parked().exists()


def test_names_that_fold_to_one_storage_key_are_told_apart() -> None:
    folded = ["Billing/x", "Billing_x", "Billing x", "Billing:x"]
    assert len({form_answer_storage_key(name, "t") for name in folded}) == 1
    for name, other in permutations(folded, 2):
        answers = asking.form_elicitation(PLAN, "Which?").schema.answers_from_content(
            {"plan": "a"}
        )
        place = DatabaseFormAnswerStore(scope="s", call="c")
        mine = asking.form_elicitation(PLAN, "Which?", server=name)
        theirs = asking.form_elicitation(PLAN, "Which?", server=other)
        place.record_form_answer(mine, "accept", answers)
        assert place.take_form_answer(theirs) is None
        assert place.take_form_answer(mine) is not None
