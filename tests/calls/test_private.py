"""A result can be private: it is in its row and with its host, and nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse
from django.views.debug import ExceptionReporter

from elicitation import calls, metrics
from elicitation.calls import outbox
from elicitation.inbox import audit
from elicitation.mcp.client import RoundLostError
from elicitation.models import Elicitation, ParkedCall
from tests.calls.test_ends import Tool
from tests.integration.conftest import Host
from tests.integration.scripted import ScriptedServer, said, text

pytestmark = pytest.mark.django_db(transaction=True)

HostFor = Callable[[ScriptedServer], Host]
Finished = list[dict[str, Any]]

#: What the tool returns.
MARKER = "Zanzibar-Result-7361"


@pytest.fixture
def host(host_for: HostFor) -> Host:
    return host_for(ScriptedServer(Tool(lambda params: text(MARKER))))


def ended(host: Host) -> ParkedCall:
    pending = host.pending()
    host.answer(pending, plan="team")
    assert said(host.resume(pending)) == MARKER
    row = ParkedCall.objects.get()
    assert MARKER in row.result
    return row


def reports(caught: pytest.ExceptionInfo[BaseException]) -> str:
    reporter = ExceptionReporter(None, caught.type, caught.value, caught.tb, is_email=True)
    return reporter.get_traceback_html() + reporter.get_traceback_text()


def test_it_is_in_no_log_record_signal_audit_metric_or_repr(
    host: Host, finished: Finished, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        row = ended(host)
        host.call()
        outbox.resend_due(now=row.look_at)
        outcome = calls.outcome(row.pk)
        calls.acknowledge(outcome)
    ours = [vars(each) for each in caplog.records if each.name == "elicitation"]
    assert len(ours) > 3
    assert len(finished) == 2
    told = [ours, finished, list(audit.records()), metrics.prometheus(metrics.snapshot())]
    assert MARKER not in f"{told} {outcome!r} {row!r} {row}"
    assert MARKER in str(outcome.result)


def test_it_is_on_no_page_of_the_person_and_in_no_reply_of_the_api(
    host: Host, ada: Client
) -> None:
    ended(host)
    (asked,) = Elicitation.objects.all()
    for where in (
        reverse("elicitation:inbox"),
        asked.get_absolute_url(),
        reverse("elicitation_api:list"),
        reverse("elicitation_api:detail", args=[asked.pk]),
    ):
        response = ada.get(where)
        assert response.status_code == 200, where
        assert MARKER not in response.content.decode()


class NoUpdate:
    """A database that takes no end of a call."""

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "outcome_expires_at" in sql and sql.startswith("UPDATE"):
            raise OperationalError("broken")
        return execute(sql, params, many, context)


def test_no_error_report_has_it(host: Host, settings: Any, user: User) -> None:
    settings.DEBUG = False
    row = ended(host)
    with connection.execute_wrapper(NoUpdate()), pytest.raises(OperationalError) as caught:
        write_again(row)
    assert "OperationalError" in reports(caught)
    assert MARKER not in reports(caught)
    lost = {"outcome": "lost", "outcome_reason": "error -32000"}
    ParkedCall.objects.update(ended_at=row.ended_at, **lost)
    with pytest.raises(RoundLostError) as handed_out:
        host.call()
    assert MARKER not in reports(handed_out)
    with pytest.raises(ZeroDivisionError) as host_broke:
        use(calls.outcome(row.pk))
    assert MARKER not in reports(host_broke)


def write_again(row: ParkedCall) -> None:
    """Let the call end once more, with the same result."""
    from elicitation.calls import parking
    from elicitation.calls.ended import Ended

    again = Ended(code="finished", result={"content": [MARKER]})
    ParkedCall.objects.update(ended_at=None)
    parking.close(row, again)


def use(outcome: calls.Outcome) -> None:
    """A host that breaks with an outcome in its hands."""
    assert outcome
    1 / 0  # noqa: B018
