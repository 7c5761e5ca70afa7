"""The demo MCP server: tools that each ask the person something before they act.

``python -m project.demo_server --port 8808`` serves them over streamable HTTP at ``/mcp``. It is
written with the official SDK alone and knows nothing of Django or of this app: it stands for any
server that a host may talk to.
"""

import argparse
import json
import os
from contextlib import suppress
from typing import Annotated, Any, Literal

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
)
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import HTMLResponse

server = MCPServer("demo-shop", title="Demo shop", version="1.0", log_level="WARNING")


# buy: two rounds, the second one built from the answer to the first, the way the SDK offers it: a
# resolver returns a question, and the SDK keeps the answers so far in the request state.


class Order(BaseModel):
    plan: Literal["solo", "team", "company"] = Field(description="What the seats can do")
    seats: int = Field(ge=1, le=50, description="One for each person")


class Purchase(BaseModel):
    confirmed: bool = Field(title="Buy now", description="The order cannot be undone")


async def ask_order() -> Elicit[Order]:
    return Elicit("Which plan do you want, and for how many people?", Order)


async def ask_purchase(
    order: Annotated[ElicitationResult[Order], Resolve(ask_order)],
) -> Elicit[Purchase] | None:
    if not isinstance(order, AcceptedElicitation):
        return None
    return Elicit(f"Buy {order.data.seats} seats of {order.data.plan}?", Purchase)


@server.tool(title="Buy seats")
async def buy(
    order: Annotated[ElicitationResult[Order], Resolve(ask_order)],
    purchase: Annotated[ElicitationResult[Purchase], Resolve(ask_purchase)],
) -> str:
    """Asks for a plan and a number of seats, then once more before it buys."""
    if not isinstance(order, AcceptedElicitation):
        return "Nothing was bought: the request about the plan was declined."
    if not isinstance(purchase, AcceptedElicitation) or not purchase.data.confirmed:
        return "Nothing was bought: the purchase was not confirmed."
    return f"Bought {order.data.seats} seats of {order.data.plan}."


# ship: one round by hand, with the kinds of property that the SDK's models cannot spell.

SHIPMENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "speed": {
            "type": "string",
            "title": "Delivery",
            "oneOf": [
                {"const": "std", "title": "Standard, three to five days"},
                {"const": "exp", "title": "Express, the next day"},
                {"const": "pick", "title": "I collect it myself"},
            ],
        },
        "extras": {
            "type": "array",
            "title": "Extras",
            "maxItems": 2,
            "items": {
                "anyOf": [
                    {"const": "gift", "title": "Gift wrapping"},
                    {"const": "insured", "title": "Insurance"},
                    {"const": "carbon", "title": "Carbon offset"},
                ]
            },
        },
        "email": {
            "type": "string",
            "title": "E-mail",
            "description": "For the tracking number",
            "format": "email",
        },
        "day": {"type": "string", "title": "Delivery day", "format": "date"},
        "call_at": {"type": "string", "title": "When the courier may call", "format": "date-time"},
        "weight": {
            "type": "number",
            "title": "Weight",
            "description": "In kilograms",
            "minimum": 0.1,
            "maximum": 31.5,
        },
        "note": {"type": "string", "title": "Note for the courier", "maxLength": 200},
    },
    "required": ["speed", "email", "day", "weight"],
}


@server.tool(title="Ship a parcel")
async def ship(ctx: Context) -> str | InputRequiredResult:
    """Asks how, where and when to deliver: a form with every kind of question."""
    answer = (ctx.input_responses or {}).get("shipment")
    if answer is None:
        return _ask("shipment", "How should the parcel travel?", SHIPMENT)
    if not isinstance(answer, ElicitResult) or answer.action != "accept":
        return "The parcel stays here: the request was declined."
    return f"The parcel is on its way: {json.dumps(answer.content, ensure_ascii=False)}"


# delete_project: a confirmation. A form without questions: the person accepts or declines.


@server.tool(title="Delete a project")
async def delete_project(ctx: Context, name: str = "Apollo") -> str | InputRequiredResult:
    """Asks for a confirmation, without any question, before it deletes."""
    answer = (ctx.input_responses or {}).get("confirmation")
    if answer is None:
        message = f"Delete the project {name} and its 42 files? This cannot be undone."
        return _ask("confirmation", message, {"type": "object", "properties": {}})
    if not isinstance(answer, ElicitResult) or answer.action != "accept":
        return f"The project {name} was kept."
    return f"The project {name} was deleted."


# connect: URL mode. What no form may ask for is asked on a page of the server's own, so that the
# key goes from the person to this server, past the host and its agent.

KEYS: list[str] = []


@server.tool(title="Connect an account")
async def connect(ctx: Context) -> str | InputRequiredResult:
    """Asks for an API key on a page of its own: the host asks you before you go there."""
    answer = (ctx.input_responses or {}).get("page")
    if KEYS:
        # An honest server keeps it, for the person it belongs to; this one forgets it.
        return f"Connected: the key has {len(KEYS.pop())} characters."
    if isinstance(answer, ElicitResult) and answer.action != "accept":
        return "Not connected: the page was not opened."
    request = ctx.request_context.request
    assert isinstance(request, Request)
    # That the person agreed does not mean that they have finished, so it is asked again.
    params = ElicitRequestURLParams(
        message="Connect your account: enter its API key on our page.",
        url=str(request.url.replace(path="/connect", query="")),
    )
    return InputRequiredResult(
        input_requests={"page": ElicitRequest(params=params)}, request_state="asked page"
    )


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Demo shop: connect your account</title>
</head>
<body>
  <main>
    <h1>Demo shop</h1>
    {content}
  </main>
</body>
</html>
"""
ENTER = """<form method="post">
      <p><label for="key">The API key of your account (any word will do)</label></p>
      <p><input id="key" name="key" type="password" autocomplete="off" required></p>
      <p><button>Connect</button></p>
    </form>"""
THANKS = "<p>Thank you. Go back to the other tab and press Continue.</p>"


@server.custom_route("/connect", methods=["GET", "POST"])  # type: ignore[untyped-decorator]
async def connect_page(request: Request) -> HTMLResponse:
    """Take the key."""
    key = (await request.form()).get("key") if request.method == "POST" else None
    if isinstance(key, str) and key:
        KEYS[:] = [key]
    content = THANKS if key else ENTER
    return HTMLResponse(PAGE.format(content=content), headers={"Cache-Control": "no-store"})


# connect_by_form: what a server must not do. The person never sees this question.


class Connection(BaseModel):
    api_key: str = Field(title="API key", description="Paste the key of your account")


async def ask_connection() -> Elicit[Connection]:
    return Elicit("Connect your account.", Connection)


@server.tool(title="Connect an account by a form")
async def connect_by_form(
    connection: Annotated[ElicitationResult[Connection], Resolve(ask_connection)],
) -> str:
    """Asks for an API key, which no form may do: the host refuses the question."""
    if not isinstance(connection, AcceptedElicitation):
        return "Not connected: no key was given."
    return "Connected."


def _ask(key: str, message: str, schema: dict[str, Any]) -> InputRequiredResult:
    params = ElicitRequestFormParams(message=message, requested_schema=schema)
    # The state says nothing here, since one round needs none; a server usually sends one.
    return InputRequiredResult(
        input_requests={key: ElicitRequest(params=params)}, request_state=f"asked {key}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the demo's MCP tools on this machine.")
    parser.add_argument(
        "--port",
        type=int,
        default=os.environ.get("MCP_PORT", "8808"),
        help="port on 127.0.0.1 (default: the variable MCP_PORT, else 8808)",
    )
    port = parser.parse_args().port
    with suppress(KeyboardInterrupt):
        server.run("streamable-http", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
