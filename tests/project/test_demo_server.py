"""The demo MCP server, spoken to by the official SDK's client over streamable HTTP."""

import json
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp
from mcp.types import CallToolResult, ElicitRequest, ElicitResult, InputRequiredResult


async def _never_called(*args: object) -> ElicitResult:
    raise AssertionError("the tests answer the rounds themselves")


# Not a fixture: pytest-asyncio ends those in another task than they began in, and the SDK's task
# groups do not bear that.
@asynccontextmanager
async def connected(url: str) -> AsyncIterator[mcp.ClientSession]:
    async with mcp.Client(url, mode="2026-07-28", elicitation_callback=_never_called) as client:
        yield client.session


class ToolCall:
    """One call, answered round by round by hand."""

    def __init__(self, session: mcp.ClientSession, tool: str, **arguments: Any) -> None:
        self.session = session
        self.tool = tool
        self.arguments = arguments
        self.asked: InputRequiredResult | None = None
        self.result: CallToolResult | None = None

    async def send(self, answer: ElicitResult | None = None) -> "ToolCall":
        sent: dict[str, Any] = {}
        if answer is not None:
            assert self.asked is not None
            [key] = self.asked.input_requests or {}
            sent = {"input_responses": {key: answer}, "request_state": self.asked.request_state}
        reply = await self.session.call_tool(
            self.tool, self.arguments, allow_input_required=True, **sent
        )
        self.asked = reply if isinstance(reply, InputRequiredResult) else None
        self.result = reply if isinstance(reply, CallToolResult) else None
        return self

    async def accept(self, **content: Any) -> "ToolCall":
        return await self.send(ElicitResult(action="accept", content=content))

    async def decline(self) -> "ToolCall":
        return await self.send(ElicitResult(action="decline"))

    @property
    def params(self) -> dict[str, Any]:
        assert self.asked is not None
        assert self.asked.request_state
        [request] = (self.asked.input_requests or {}).values()
        assert isinstance(request, ElicitRequest)
        return request.params.model_dump(mode="json", by_alias=True, exclude_none=True)

    @property
    def text(self) -> str:
        assert self.result is not None
        assert not self.result.is_error
        [block] = self.result.content
        assert block.type == "text"
        return block.text


async def test_lists_its_tools(mcp_url):
    async with connected(mcp_url) as session:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == [
            "buy",
            "ship",
            "delete_project",
            "connect",
            "connect_by_form",
        ]
        assert all(tool.title and tool.description for tool in tools)


async def test_buy_asks_twice_and_says_what_it_bought(mcp_url):
    async with connected(mcp_url) as session:
        call = await ToolCall(session, "buy").send()
        properties = call.params["requestedSchema"]["properties"]
        assert properties["plan"]["enum"] == ["solo", "team", "company"]
        assert (properties["seats"]["minimum"], properties["seats"]["maximum"]) == (1, 50)

        await call.accept(plan="team", seats=3)
        assert call.params["message"] == "Buy 3 seats of team?"
        assert call.params["requestedSchema"]["properties"]["confirmed"]["type"] == "boolean"

        await call.accept(confirmed=True)
        assert call.text == "Bought 3 seats of team."


async def test_buy_buys_nothing_that_was_not_confirmed(mcp_url):
    async with connected(mcp_url) as session:
        call = await ToolCall(session, "buy").send()
        await call.accept(plan="solo", seats=1)
        await call.accept(confirmed=False)
        assert call.text == "Nothing was bought: the purchase was not confirmed."

        call = await ToolCall(session, "buy").send()
        await call.accept(plan="solo", seats=1)
        await call.decline()
        assert call.text == "Nothing was bought: the purchase was not confirmed."

        call = await ToolCall(session, "buy").send()
        await call.decline()
        assert call.text == "Nothing was bought: the request about the plan was declined."


async def test_ship_says_what_it_got(mcp_url):
    async with connected(mcp_url) as session:
        call = await ToolCall(session, "ship").send()
        properties = call.params["requestedSchema"]["properties"]
        assert [one["const"] for one in properties["speed"]["oneOf"]] == ["std", "exp", "pick"]
        assert properties["extras"]["type"] == "array"
        assert {properties[name]["format"] for name in ("email", "day", "call_at")} == {
            "email",
            "date",
            "date-time",
        }

        content = {
            "speed": "exp",
            "extras": ["gift", "carbon"],
            "email": "ada@example.test",
            "day": "2026-12-24",
            "weight": 2.5,
        }
        await call.accept(**content)
        assert json.loads(call.text.removeprefix("The parcel is on its way: ")) == content

        call = await ToolCall(session, "ship").send()
        await call.decline()
        assert call.text == "The parcel stays here: the request was declined."


async def test_delete_project_asks_for_a_confirmation_without_fields(mcp_url):
    async with connected(mcp_url) as session:
        call = await ToolCall(session, "delete_project", name="Gemini").send()
        assert call.params["requestedSchema"]["properties"] == {}
        assert "Gemini" in call.params["message"]
        await call.accept()
        assert call.text == "The project Gemini was deleted."

        call = await ToolCall(session, "delete_project").send()
        await call.decline()
        assert call.text == "The project Apollo was kept."


def visit(url: str, **form: str) -> str:
    """Open the server's own page, or send its form."""
    data = urllib.parse.urlencode(form).encode() if form else None
    with urllib.request.urlopen(url, data) as response:
        return response.read().decode()


async def agree(call: ToolCall) -> None:
    await call.send(ElicitResult(action="accept"))


async def test_connect_takes_the_key_on_a_page_of_its_own(mcp_url):
    async with connected(mcp_url) as session:
        call = await ToolCall(session, "connect").send()
        assert call.params["mode"] == "url"
        page = call.params["url"]
        assert page == mcp_url.replace("/mcp", "/connect")

        # Whoever agreed has not finished yet: the same address is asked for again.
        await agree(call)
        assert call.params["url"] == page
        assert 'name="key"' in visit(page)
        assert 'name="key"' in visit(page, key="")
        assert "press Continue" in visit(page, key="my secret")
        await agree(call)
        assert call.text == "Connected: the key has 9 characters."

        call = await ToolCall(session, "connect").send()
        await call.decline()
        assert call.text == "Not connected: the page was not opened."


async def test_connect_by_form_asks_for_a_key_and_bears_a_no(mcp_url):
    async with connected(mcp_url) as session:
        call = await ToolCall(session, "connect_by_form").send()
        assert list(call.params["requestedSchema"]["properties"]) == ["api_key"]
        await call.decline()
        assert call.text == "Not connected: no key was given."

        # No host sends this. The server is an honest one all the same: it repeats no key.
        call = await ToolCall(session, "connect_by_form").send()
        await call.accept(api_key="not a key")
        assert call.text == "Connected."
