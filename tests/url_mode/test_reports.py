"""Error reports of a host whose call breaks: they have the variables of frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.db.models import Model
from django.views.debug import ExceptionReporter
from mcp import MCPError
from mcp.types import ListRootsRequest

from elicitation.core import ElicitationRefusal
from elicitation.mcp.client import InputNotSupportedError, RoundLostError
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, TooLargeError
from tests.asking import schema
from tests.integration.conftest import Host
from tests.integration.scripted import ScriptedServer, ask, form, url
from tests.url_mode.test_calls import ADDRESS, SECRET

ANSWER = "xylophone"
LISTED = {"mode": "url", "message": "Sign in.", "url": ADDRESS}


class Asks:
    """A tool that asks to open an address; the frames of the test itself do not have it."""

    address, message = ADDRESS, "Sign in."

    def __init__(self, why: str) -> None:
        if why == "address":
            self.address = ADDRESS.replace("https", "http")
        if why == "message":
            self.message = "Sign in\u202e."
        self.is_error = why == "error"

    def __call__(self, params: Any) -> Any:
        if self.is_error:
            raise MCPError(-32042, "", {"elicitations": [LISTED, {"mode": "form"}]})
        return ask(k=url(self.message, self.address))


class NoInsert:
    """A database that takes no row of a model."""

    def __init__(self, model: type[Model]) -> None:
        self.statement = f"INTO {connection.ops.quote_name(model._meta.db_table)}"

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if self.statement in sql:
            raise OperationalError("broken")
        return execute(sql, params, many, context)


@pytest.mark.parametrize(
    "why",
    ["address", "domain", "message", "error", "too large", "no question", "no call"],
)
def test_a_report_of_a_call_that_broke_has_nothing_of_the_address(
    host_for: Callable[[ScriptedServer], Host],
    settings: Any,
    why: str,
) -> None:
    settings.DEBUG = False
    match why:
        case "domain":
            ServerPolicy.objects.update(allowed_domains="example.org")
        case "too large":
            settings.ELICITATION_MAX_CALL_BYTES = 100
    model = {"no question": Elicitation, "no call": ParkedCall}.get(why, User)
    with (
        connection.execute_wrapper(NoInsert(model)),
        pytest.raises((ElicitationRefusal, TooLargeError, OperationalError)) as caught,
    ):
        host_for(ScriptedServer(Asks(why))).call()
    assert (caught.type is TooLargeError) is (why == "too large")
    reporter = ExceptionReporter(None, caught.type, caught.value, caught.tb, is_email=True)
    for report in (reporter.get_traceback_html(), reporter.get_traceback_text()):
        assert caught.type.__name__ in report
        assert SECRET not in report


class Breaks:
    """A tool that asks for a word and, given one, does what it should not."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, params: Any) -> Any:
        if params.input_responses is None:
            return ask(k=form("Which word?", schema("word", word={"type": "string"})))
        match self.how:
            case "refuses":
                raise MCPError(-32003, "no")
            case "asks what nobody may":
                return ask(k=url("Sign in.", "javascript:"))
            case "asks what the host has not":
                return ask(k=ListRootsRequest())
        return {"content": 7}


@pytest.mark.parametrize(
    "how", ["refuses", "asks what nobody may", "asks what the host has not", "replies nonsense"]
)
def test_a_report_of_a_retry_that_failed_has_nothing_of_the_answers(
    host_for: Callable[[ScriptedServer], Host], settings: Any, how: str
) -> None:
    settings.DEBUG = False
    host = host_for(ScriptedServer(Breaks(how)))
    pending = host.pending()
    host.answer(pending, word=ANSWER)
    with pytest.raises((ElicitationRefusal, RoundLostError, InputNotSupportedError)) as caught:
        host.resume(pending)
    reporter = ExceptionReporter(None, caught.type, caught.value, caught.tb, is_email=True)
    for report in (reporter.get_traceback_html(), reporter.get_traceback_text()):
        assert caught.type.__name__ in report
        assert ANSWER not in report
