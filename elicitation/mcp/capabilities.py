"""What a client declares of elicitation: the modes that the operator's policy allows.

The SDK 2.3 declares form and URL mode together for every client that has a callback. A server then
asks in a mode that the policy forbids, where it could have done without (MCP 2026-07-28,
client/elicitation, "Capabilities").
"""

from __future__ import annotations

import logging
from functools import wraps
from typing import Any

from mcp import ClientSession
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.types import (
    ElicitationCapability,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    UrlElicitationCapability,
)

logger = logging.getLogger("elicitation")

#: The method of the SDK's session that says what is declared. It is private to the SDK.
_METHOD = "_build_capabilities"


class URLModeOnly:
    """An elicitation callback whose client declares URL mode and no forms.

    Args:
        callback: What answers a server that asks in the middle of a call.
    """

    #: Whether the log says already that an SDK declares both; once in a process.
    complained = False

    def __init__(self, callback: ElicitationFnT) -> None:
        self.callback = callback
        self._install()

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        """Answer as the callback does."""
        return await self.callback(context, params)

    @classmethod
    def _install(cls) -> None:
        """Let sessions that have such a callback declare what it says."""
        build = getattr(ClientSession, _METHOD, None)
        if build is None:
            if not cls.complained:
                cls.complained = True
                logger.warning(
                    "This release of the MCP SDK does not let the modes of elicitation be "
                    "declared: it declares forms, too, where a policy allows URLs alone"
                )
        elif not hasattr(build, "declares_modes"):
            setattr(ClientSession, _METHOD, _declaring_modes(build))


def _declaring_modes(build: Any) -> Any:
    @wraps(build)
    def build_capabilities(session: ClientSession, *args: Any, **options: Any) -> Any:
        declared = build(session, *args, **options)
        if not isinstance(getattr(session, "_elicitation_callback", None), URLModeOnly):
            return declared
        return declared.model_copy(
            update={"elicitation": ElicitationCapability(url=UrlElicitationCapability())}
        )

    build_capabilities.declares_modes = True  # type: ignore[attr-defined]
    return build_capabilities
