"""The OpenAI Agents SDK with its own class of MCP server, which takes no callback."""

from __future__ import annotations

from typing import Any

from agents.mcp import MCPServerStreamableHttp


async def run_tool(
    url: str, tool: str, arguments: dict[str, Any], *, conversation: str, user: Any, timeout: float
) -> str:
    async with MCPServerStreamableHttp({"url": url}) as server:
        result = await server.call_tool(tool, arguments)
    return str(result.content[0].text)
