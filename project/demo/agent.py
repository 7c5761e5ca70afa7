"""The demo agent: it calls a tool in a thread of its own, as a host's worker would.

The thread ends when the call is parked: nothing waits for the person but rows in the database.
Once the question is closed, another thread (it could be another process) takes the call up again.
"""

import logging
import threading
from uuid import UUID

import anyio
import mcp
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connection, transaction
from mcp.types import CallToolResult, TextContent, Tool

from elicitation import calls
from elicitation.core import ElicitationError, ElicitationPending, ElicitationRefusal
from elicitation.mcp.client import CallInProgressError, aclient_options, call_tool, resume
from elicitation.models import ParkedCall
from project.demo.models import DemoRun

logger = logging.getLogger(__name__)

PROTOCOL = "2026-07-28"
# While another thread works on the same call: the pause in seconds, and how often it is made.
BUSY_PAUSE, BUSY_TRIES = 0.25, 80

State = DemoRun.State


class ServerUnreachable(Exception):
    """The demo MCP server does not answer."""

    def __init__(self) -> None:
        super().__init__(
            f"The demo MCP server does not answer at {settings.DEMO_MCP_URL}. "
            "Start it with “make demo”, or alone with “python -m project.demo_server”."
        )


def list_tools() -> list[Tool]:
    """Ask the server what it offers."""
    return async_to_sync(_list_tools)()


async def _list_tools() -> list[Tool]:
    try:
        async with mcp.Client(settings.DEMO_MCP_URL, mode=PROTOCOL) as client:
            return (await client.list_tools()).tools
    except Exception as error:
        # Whatever ends a connection arrives in the exception groups of the SDK's task groups.
        raise ServerUnreachable from error


def start(run: DemoRun, parked_call_id: UUID | None = None) -> threading.Thread:
    """Work on a run in the background: from its beginning, or from where it was parked."""
    thread = threading.Thread(
        target=_work, args=(run.pk, parked_call_id), name=f"demo-run-{run.pk}", daemon=True
    )
    thread.start()
    return thread


def _work(run_id: UUID, parked_call_id: UUID | None) -> None:
    try:
        run = DemoRun.objects.select_related("user").get(pk=run_id)
        # Not asyncio.run(): async_to_sync sends the database's work back to this very thread,
        # whose connection is then the one to close.
        ended = async_to_sync(_drive)(run, parked_call_id)
        if ended is not None:
            run.close(*ended)
    finally:
        connection.close()


def fetch(scope: str, parked_call_id: UUID) -> None:
    """Keep how a parked call ended, and acknowledge it: both or neither, and once."""
    with transaction.atomic():
        try:
            outcome = calls.outcome(parked_call_id)
        except ParkedCall.DoesNotExist:
            return  # fetched before
        run = DemoRun.of_scope(scope)
        if calls.acknowledge(outcome) and run is not None:
            run.close(*_kept(outcome))


def _kept(outcome: calls.Outcome) -> tuple[State, str]:
    error = outcome.error()
    if error is None:
        result = CallToolResult.model_validate(outcome.result)
        return (State.FAILED if result.is_error else State.FINISHED), _text(result)
    refused = isinstance(error, ElicitationRefusal)
    return (State.REFUSED if refused else State.FAILED), str(error)


async def _drive(run: DemoRun, parked_call_id: UUID | None) -> tuple[State, str] | None:
    """Return how the run ended; None while it waits for a person.

    Of a call that was parked the run knows by ``fetch`` already: then this changes nothing.
    """
    options = await aclient_options(settings.DEMO_SERVER)
    try:
        async with mcp.Client(settings.DEMO_MCP_URL, mode=PROTOCOL, **options) as client:
            return await _call(client.session, run, parked_call_id)
    except Exception:
        # What the call itself raises is dealt with in _call, so this was the connection.
        logger.warning("Run %s: the demo MCP server does not answer", run.pk)
        return State.FAILED, str(ServerUnreachable())


async def _call(
    session: mcp.ClientSession, run: DemoRun, parked_call_id: UUID | None
) -> tuple[State, str] | None:
    for _ in range(BUSY_TRIES):
        try:
            if parked_call_id is not None:
                result = await resume(session, parked_call_id, server=settings.DEMO_SERVER)
            else:
                result = await call_tool(
                    session,
                    server=settings.DEMO_SERVER,
                    tool=run.tool,
                    arguments={},
                    scope=run.scope,
                    scope_label="Demo agent",
                    respondent=run.user,
                )
        except CallInProgressError:
            # Another thread resumes the same call, and may have begun before the question was
            # closed for which this one was started.
            await anyio.sleep(BUSY_PAUSE)
        except (ElicitationPending, ParkedCall.DoesNotExist):
            # It waits for a person, or another thread has already finished it.
            return None
        except ElicitationRefusal as refusal:
            return State.REFUSED, str(refusal)
        except (ElicitationError, mcp.MCPError) as error:
            return State.FAILED, str(error)
        except Exception:
            logger.exception("Run %s broke off", run.pk)
            return State.FAILED, "The call broke off; the site's log says where."
        else:
            return (State.FAILED if result.is_error else State.FINISHED), _text(result)
    return State.FAILED, "Another thread kept the call to itself for too long."


def _text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
