"""What a server asks in one round: read it, and say what an answer tells the server.

Pure decisions over the wire's own JSON: nothing here knows the SDK or writes a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.views.decorators.debug import sensitive_variables

from ..conf import settings
from ..core import (
    NO_PROPERTIES_JSON,
    AnyElicitation,
    ElicitationRefusal,
    FormAnswerAction,
    FormElicitation,
    SchemaRefusal,
    URLElicitation,
    parse_requested_schema,
)
from ..core.elicitation import number_identical
from ..core.errors import plain
from ..core.schema import check_size
from ..inbox import ElicitationRequest
from ..models import ServerPolicy, StoredFormAnswer, TooLargeError, encode_json
from ..store import DatabaseFormAnswerStore, WantedAnswer

#: The method of the requests that are put to a person.
ELICITATION = "elicitation/create"
#: Most elicitations of one round: each is a form of its own in front of a person.
MAX_ELICITATIONS = 16
#: The code of a refusal where an operator has not decided about a tool.
ASK_OPERATOR = "ask_operator"
#: Up to here a double is exact, so that a whole one can be written as an integer.
MAX_EXACT = 2**53


class PolicyRefusal(ElicitationRefusal):
    """The operator's policy does not let this server, or this tool, ask this way."""


def refusal_by(policy: ServerPolicy, tool: str, mode: str = "any") -> PolicyRefusal:
    """Return why a policy does not let a tool ask: a rule for the tool, or the mode."""
    rule = policy.tool_rule(tool)
    if not policy.allows_asking or rule == ServerPolicy.ToolRule.ALLOW:
        return PolicyRefusal(
            f"The server '{policy.server}' may not ask people in {mode} mode on this site. An "
            "operator decides that in the admin, under server policies.",
            code="not_allowed",
            reason=f"the policy does not allow {mode} mode",
        )
    subject = f"The tool '{plain(tool)}' of the server '{policy.server}' may not ask people"
    where = "in the admin, under server policies, among the rules for tools."
    if rule == ServerPolicy.ToolRule.ASK:
        return PolicyRefusal(
            f"{subject} before an operator of this site has decided about it: {where}",
            code=ASK_OPERATOR,
            reason="an operator has not decided about the tool",
        )
    return PolicyRefusal(
        f"{subject} on this site. An operator decides that {where}",
        code="not_allowed",
        reason="the policy does not allow the tool to ask",
    )


# A refusal goes up to the host, whose error reports have the variables of frames.
@sensitive_variables()
def read_requests(
    requests: Mapping[str, Mapping[str, Any]], *, server: str, tool: str, policy: ServerPolicy
) -> list[ElicitationRequest]:
    """Validate the elicitations of a round; requests of other methods are passed over.

    Args:
        requests: The round's requests by the server's keys, as they came over the wire.
        server: The configured name of the server.
        tool: The tool that was called.
        policy: What the operator decided about the server.

    Returns:
        One for each elicitation, in the server's order.

    Raises:
        ElicitationRefusal: The first elicitation that cannot be put to a person;
            ``PolicyRefusal`` where it is the policy that forbids it.
    """
    elicitations = {
        key: request.get("params")
        for key, request in requests.items()
        if request.get("method") == ELICITATION
    }
    if len(elicitations) > MAX_ELICITATIONS:
        raise SchemaRefusal(
            f"the round has {len(elicitations)} of them; at most {MAX_ELICITATIONS} are accepted"
        )
    asked = [
        _read(key, params, server=server, tool=tool, policy=policy)
        for key, params in elicitations.items()
    ]
    fingerprints = [elicitation.fingerprint() for elicitation, _ in asked]
    return [
        ElicitationRequest(
            elicitation=elicitation,
            requested_schema=requested_schema,
            # A URL is accepted or declined, whatever the policy says of confirmations.
            allow_confirmation=policy.allow_confirmation
            or isinstance(elicitation, URLElicitation),
            wide_limits=policy.wide_limits,
            number=number,
            fingerprint=fingerprint,
        )
        for (elicitation, requested_schema), fingerprint, number in zip(
            asked, fingerprints, number_identical(fingerprints), strict=True
        )
    ]


def _read(
    key: str, params: object, *, server: str, tool: str, policy: ServerPolicy
) -> tuple[AnyElicitation, str]:
    if not isinstance(params, Mapping):
        raise SchemaRefusal("the elicitation has no parameters")
    mode = params.get("mode") or "form"
    may = policy.for_tool(tool)
    if mode == "url":
        if not may.allows_urls:
            raise refusal_by(policy, tool, "URL")
        asked = URLElicitation(
            server_name=server,
            tool_name=tool,
            key=key,
            message=params.get("message"),  # type: ignore[arg-type]  # judged there
            url=policy.parse_url(params.get("url")),
            url_id=params.get("elicitationId") or "",
        )
        return asked, NO_PROPERTIES_JSON
    if mode != "form":
        raise SchemaRefusal("its mode is neither form nor url")
    if not may.allows_forms:
        raise refusal_by(policy, tool, "form")
    requested_schema = params.get("requestedSchema")
    if not isinstance(requested_schema, Mapping):
        raise SchemaRefusal("it has no requested schema")
    # Keywords that are ignored count, too: they are written as text and read again below.
    check_size(requested_schema, policy.limits)
    try:
        text = encode_json("requested schema", requested_schema, settings.MAX_CALL_BYTES)
    except TooLargeError:
        raise SchemaRefusal("its requested schema is too large, or is not JSON") from None
    # Read from the text that is stored: what is asked now can be read again later.
    schema = parse_requested_schema(
        text, allow_confirmation=policy.allow_confirmation, limits=policy.limits
    )
    elicitation = FormElicitation(
        server_name=server,
        tool_name=tool,
        key=key,
        message=params.get("message"),  # type: ignore[arg-type]  # judged there
        schema=schema,
    )
    return elicitation, text


def wanted_answers(
    store: DatabaseFormAnswerStore, requests: Sequence[ElicitationRequest]
) -> list[WantedAnswer]:
    """Return the answers that a round needs, one for each of its elicitations."""
    return store.wanted(
        [request.elicitation for request in requests],
        [request.number for request in requests],
        [request.fingerprint for request in requests],
    )


def response(answer: StoredFormAnswer, request: ElicitationRequest) -> dict[str, Any]:
    """Return what a taken answer tells the server, as the JSON of an ``ElicitResult``.

    Content is part of an ``accept`` alone, and not of the consent to open a URL.
    """
    if answer.action == FormAnswerAction.DECLINE:
        return {"action": unanswered_action(answer)}
    accept: dict[str, Any] = {"action": FormAnswerAction.ACCEPT.value}
    if isinstance(request.elicitation, URLElicitation):
        return accept
    # The take has found that it fits.
    content = answer.content or {}
    return accept | {"content": {name: _on_the_wire(value) for name, value in content.items()}}


def unanswered_action(answer: StoredFormAnswer | None = None) -> str:
    """Return what the server gets if nobody accepted: ``decline``, or ``cancel``.

    ``cancel`` is MCP's word for whatever is no person's decision (``ELICITATION_UNANSWERED``).
    """
    said_no = answer is not None and answer.from_person
    return FormAnswerAction.DECLINE.value if said_no else settings.UNANSWERED


def _on_the_wire(value: Any) -> Any:
    """Return 3.0 as 3: JSON does not tell them apart, but some servers do."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT:
        return int(value)
    return value
