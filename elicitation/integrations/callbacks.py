"""Callbacks for the clients that a server asks in the middle of a call.

One callable for each shape that clients want, all of them round ``in_call.answer_in_call``. Of
the SDK only types are used that ``mcp`` 1.x and 2.x both have; of a framework nothing is
imported (see ``docs/clients.md``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mcp.types import ElicitRequestParams, ElicitResult

from ..in_call import answer_in_call

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

__all__ = ["elicitation_callback", "elicitation_handler"]


def elicitation_callback(
    server: str,
    tool: str,
    scope: str,
    respondent: AbstractBaseUser | None,
    timeout: float = 300,
    *,
    call: str = "",
    scope_label: str = "",
) -> Callable[[Any, ElicitRequestParams], Awaitable[ElicitResult]]:
    """Return an ``elicitation_callback`` that asks the person and waits for the answer.

    It is what the SDK's clients take, of ``mcp`` 2.x (``mcp.Client``) and 1.x
    (``mcp.ClientSession``), and every framework that hands it on to them. The arguments are
    those of ``elicitation.in_call.answer_in_call``.
    """

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        told = await answer_in_call(
            params.model_dump(by_alias=True, mode="json", exclude_none=True),
            server=server,
            tool=tool,
            scope=scope,
            respondent=respondent,
            timeout=timeout,
            call=call,
            scope_label=scope_label,
        )
        return ElicitResult(**told)

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
        return await answer(context, params)

    return handle
