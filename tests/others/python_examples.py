"""Serves the examples of the Python SDK over HTTP, each under a path of its own.

``python -m tests.others.python_examples PORT``
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

import uvicorn
from starlette.applications import Starlette

from tests.conformance.packages import PYTHON_EXAMPLES

#: Where each server, or what makes it, is in the SDK's source distribution.
EXAMPLES = {
    "everything": "mcp_everything_server.server:mcp",
    "snippet": "examples.snippets.servers.elicitation:mcp",
    "mrtr": "stories.mrtr.server:build_server",
    "mrtr-lowlevel": "stories.mrtr.server_lowlevel:build_server",
    "legacy": "stories.legacy_elicitation.server:build_server",
    "legacy-lowlevel": "stories.legacy_elicitation.server_lowlevel:build_server",
    "refunds": "stories.refund_desk.server:build_server",
    "notes": "stories.stickynotes.server:build_server",
    "notes-lowlevel": "stories.stickynotes.server_lowlevel:build_server",
    "bistro": "docs_src.elicitation.tutorial001:mcp",
    "deposits": "docs_src.elicitation.tutorial002:mcp",
    "files": "docs_src.elicitation.tutorial004:mcp",
    "bookshop": "docs_src.dependencies.tutorial003:mcp",
    "copies": "docs_src.legacy_clients.tutorial001:mcp",
    "provisioner": "docs_src.mrtr.tutorial001:server",
    "briefing": "docs_src.mrtr.tutorial004:mcp",
    "billing": "docs_src.deploy.tutorial002:make_server",
    "library": "docs_src.client_callbacks.tutorial001:mcp",
    "confirmed": "docs_src.troubleshooting.tutorial006:mcp",
    "resolved": "docs_src.troubleshooting.tutorial007:mcp",
}


def load(place: str) -> Any:
    """Return the server at ``module:name``."""
    module, _, name = place.partition(":")
    found = getattr(import_module(module), name)
    return found() if callable(found) else found


def main() -> None:
    folders = (".", "examples", "examples/servers/everything-server")
    sys.path += [str(PYTHON_EXAMPLES / folder) for folder in folders]
    apps = [
        load(place).streamable_http_app(streamable_http_path=f"/{name}")
        for name, place in EXAMPLES.items()
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in apps:
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    routes = [route for app in apps for route in app.routes]
    together = Starlette(routes=routes, lifespan=lifespan)
    uvicorn.run(together, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")


if __name__ == "__main__":
    main()
