"""The way to ``elicitation.mcp.servers``, which stands above this room and imports the SDK."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.core.exceptions import ImproperlyConfigured


def servers() -> Any:
    """Return ``elicitation.mcp.servers``.

    Raises:
        ImproperlyConfigured: The MCP SDK is not installed.
    """
    try:
        return import_module("elicitation.mcp.servers")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("elicitation"):
            raise
        raise ImproperlyConfigured(
            "elicitation.calls needs the MCP SDK to call a server: "
            "pip install 'django-mcp-elicitation[mcp]'."
        ) from error
