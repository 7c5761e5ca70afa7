"""Callbacks for the clients that a server asks in the middle of a call.

One callable for each shape that clients want, all of them round ``in_call.answer_in_call``. Of
the SDK only types are used that ``mcp`` 1.x and 2.x both have; of a framework nothing is
imported (see ``docs/clients.md``).
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from asgiref.sync import sync_to_async
from mcp.types import ElicitRequestParams, ElicitResult

from ..calls.in_call import answer_in_call
from ..calls.values import TOOL
from ..models import ServerPolicy

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from mcp.client.session import ElicitationFnT

__all__ = ["acan_ask", "can_ask", "elicitation_callback", "elicitation_handler"]


def can_ask(server: str, respondent: AbstractBaseUser | None) -> bool:
    """Return whether anybody can be asked what this server asks.

    A client that is given a callback declares the capability ``elicitation``. It must not where
    nobody is there, or the operator's policy is ``none``: then give it ``None``.
    """
    return respondent is not None and ServerPolicy.objects.for_server(server).allows_asking


acan_ask = sync_to_async(can_ask)


def elicitation_callback(
    server: str,
    tool: str,
    scope: str,
    respondent: AbstractBaseUser | None,
    timeout: float = 300,
    *,
    call: str = "",
    scope_label: str = "",
    method: str = TOOL,
) -> ElicitationFnT:
    """Return an ``elicitation_callback`` that asks the person and waits for the answer.

    It is what the SDK's clients take, of ``mcp`` 2.x (``mcp.Client``) and 1.x
    (``mcp.ClientSession``), and every framework that hands it on to them. The arguments are
    those of ``elicitation.calls.in_call.answer_in_call``.

    Make one for each call: without a call id, what comes through one callback counts as one call,
    which has at most ``ELICITATION_MAX_ROUNDS`` rounds.
    """
    counted_as = f"callback:{uuid.uuid4()}"

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(
            **await answer_in_call(
                params.model_dump(by_alias=True, mode="json", exclude_none=True),
                server=server,
                tool=tool,
                scope=scope,
                respondent=respondent,
                timeout=timeout,
                call=call,
                scope_label=scope_label,
                counted_as=counted_as,
                method=method,
            )
        )

    return answer


def elicitation_handler(
    server: str,
    tool: str,
    scope: str,
    respondent: AbstractBaseUser | None,
    timeout: float = 300,
    *,
    call: str = "",
    scope_label: str = "",
) -> Callable[[str, Any, ElicitRequestParams, Any], Awaitable[ElicitResult]]:
    """Return the same as an ``elicitation_handler``, which FastMCP's clients take.

    FastMCP makes a class of the requested schema; the person is asked by the schema itself.
    """

    answer = elicitation_callback(
        server, tool, scope, respondent, timeout, call=call, scope_label=scope_label
    )

    async def handle(
        message: str, response_type: Any, params: ElicitRequestParams, context: Any
    ) -> ElicitResult:
        # The callback never refuses by an error.
        return cast(ElicitResult, await answer(context, params))

    return handle
