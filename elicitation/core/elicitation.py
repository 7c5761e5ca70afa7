"""An elicitation: what a server asks during a call of one of its tools, and how it is answered."""

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

from .answers import FormAnswerAction, StoredFormAnswer
from .characters import is_clean, scrub
from .errors import AnswerRefusal, ElicitationError, SchemaRefusal
from .kinds import Value
from .schema import FormSchema, parse_requested_schema
from .text import MAX_FORM_TEXT_CHARS
from .url import ElicitationURL

logger = logging.getLogger("elicitation")

MAX_FORM_KEY_CHARS: Final = 200
#: The requested schema of an elicitation that asks for consent alone, as JSON text and parsed.
NO_PROPERTIES_JSON: Final = '{"type":"object","properties":{}}'
NO_PROPERTIES: Final = parse_requested_schema(NO_PROPERTIES_JSON, allow_confirmation=True)
_NAME_CHARS: Final = 128
_NOT_IN_A_KEY: Final = re.compile(r"[^A-Za-z0-9_.-]")
_LINE_BREAKS_AND_TABS: Final = re.compile("[\t\n\r\u2028\u2029]")


def number_identical(asked: Iterable[Hashable]) -> list[int]:
    """Number identical elicitations of one round, from 0 in the order given."""
    seen: Counter[Hashable] = Counter()
    result = []
    for each in asked:
        result.append(seen[each])
        seen[each] += 1
    return result


def form_answer_storage_key(server: str, tool: str) -> str:
    """The key under which an answer for a server's tool is kept.

    Two pairs of server and tool can have the same key. So a record names its server and tool, too.
    """
    parts = (_NOT_IN_A_KEY.sub("_", part) for part in (server, tool))
    return "mcp/elicitation-form/" + "/".join(parts)


def _shown(name: str) -> str:
    """A name on one line. It is cut, because servers choose the names of their tools."""
    return _LINE_BREAKS_AND_TABS.sub(" ", scrub(name[:_NAME_CHARS]))


#: What the texts for hosts and models say of a request by its method (MCP 2026-07-28,
#: basic/patterns/mrtr): what the server does once it has the answer, and what not to do before.
_BEFORE = {
    "tools/call": ("before its tool '{}' can run", "call the tool"),
    "prompts/get": ("before it fills in its prompt '{}'", "get the prompt"),
    "resources/read": ("before its resource '{}' can be read", "read the resource"),
}


class ElicitationPending(ElicitationError):
    """A call waits for a person. This is not a failure: make it again after the answer.

    `questions` are in the order of their names. There are none if the person is asked to open a
    link (`opens_url`). The application that asks a person fills in the optional fields:
    `elicitation_ids` are its rows, `urls` its pages for answering, `parked_call_id` is the row of
    the waiting call, and `deadline` is an aware datetime. `method` says what `tool_name` is: the
    name of a tool (`tools/call`), of a prompt (`prompts/get`), or the URI of a resource
    (`resources/read`). `str()` contains no text of the server.
    """

    def __init__(
        self,
        *,
        server_name: str,
        tool_name: str,
        message: str,
        questions: Sequence[dict[str, Any]],
        fingerprint: str,
        opens_url: bool = False,
        elicitation_ids: Sequence[UUID] = (),
        urls: Sequence[str] = (),
        parked_call_id: UUID | None = None,
        deadline: datetime | None = None,
        method: str = "tools/call",
    ) -> None:
        before, _ = _BEFORE[method]
        super().__init__(
            f"MCP server '{_shown(server_name)}' asks a person something "
            f"{before.format(_shown(tool_name))}.",
            code="pending",
        )
        self.method = method
        self.server_name = server_name
        self.tool_name = tool_name
        self.message = message
        self.questions = list(questions)
        self.fingerprint = fingerprint
        self.opens_url = opens_url
        self.elicitation_ids = tuple(elicitation_ids)
        self.urls = tuple(urls)
        self.parked_call_id = parked_call_id
        self.deadline = deadline

    def as_tool_result(self) -> str:
        """A text for the agent's model. It repeats no text of the server, because a server could
        write instructions for the model."""
        count = len(self.questions)
        what = {0: "to be confirmed", 1: "an answer to 1 question"}.get(
            count, f"answers to {count} questions"
        )
        if self.opens_url:
            visit = "the person to do something on a page of its own"
            what = visit if count == 0 else f"{what} and {visit}"
        until = (
            "" if self.deadline is None else f" They have until {self.deadline:%Y-%m-%d %H:%M %Z}."
        )
        return (
            f"The call waits for a person: MCP server '{_shown(self.server_name)}' needs {what} "
            f"before it goes on. The person has been asked.{until} Do not answer for them and "
            f"do not {_BEFORE[self.method][1]} again until they have answered."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Elicitation:
    """What the requests of both modes have.

    Raises SchemaRefusal if the message or the key is too long or not safe to show.
    """

    server_name: str
    tool_name: str
    key: str
    message: str

    def __post_init__(self) -> None:
        for what, text, limit in (
            ("message", self.message, MAX_FORM_TEXT_CHARS),
            ("key", self.key, MAX_FORM_KEY_CHARS),
        ):
            if type(text) is not str:
                raise SchemaRefusal(f"the {what} is not a string")
            if len(text) > limit:
                raise SchemaRefusal(f"the {what} is longer than {limit} characters")
            if not is_clean(text):
                raise SchemaRefusal(f"the {what} has control characters or bidirectional controls")
        if _LINE_BREAKS_AND_TABS.search(self.key):
            raise SchemaRefusal("the key has control characters")


def _fingerprint(*parts: str | int) -> str:
    encoded = json.dumps(parts, separators=(",", ":"))
    return hashlib.sha256(encoded.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormElicitation(_Elicitation):
    """One `elicitation/create` request in form mode (MCP 2026-07-28, client/elicitation).

    `server_name` is the name that the operator configured. `key` is the request's key in the
    server's reply. Raises SchemaRefusal if the message or the key is too long or not safe to show.
    """

    schema: FormSchema

    def fingerprint(self) -> str:
        """SHA-256, in hex, of the message and the schema's own fingerprint.

        A recorded answer is used only if the fingerprint is unchanged. The key is not part of it,
        because servers make a new key for every call.
        """
        return _fingerprint("elicitation.form", 1, self.message, self.schema.fingerprint())

    def pending(self) -> ElicitationPending:
        """The exception that stops the tool call until a person has answered."""
        return ElicitationPending(
            server_name=self.server_name,
            tool_name=self.tool_name,
            message=self.message,
            questions=self.schema.questions(self.server_name),
            fingerprint=self.fingerprint(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class URLElicitation(_Elicitation):
    """One `elicitation/create` request in URL mode (MCP 2026-07-28, client/elicitation).

    It asks the person for consent to open a link. `url_id` is the `elicitationId` of MCP
    2025-11-25, or blank: a server uses it to say that the person has finished. Raises
    SchemaRefusal if the message, the key or `url_id` is too long or not safe to show.
    """

    url: ElicitationURL
    url_id: str = ""

    def __post_init__(self) -> None:
        # super() without arguments fails here: dataclasses make a second class for slots.
        _Elicitation.__post_init__(self)
        if type(self.url_id) is not str:
            raise SchemaRefusal("its elicitationId is not a string")
        if len(self.url_id) > MAX_FORM_KEY_CHARS or not is_clean(self.url_id):
            raise SchemaRefusal("its elicitationId is too long or has control characters")

    @property
    def schema(self) -> FormSchema:
        """A schema without properties: the person accepts or declines."""
        return NO_PROPERTIES

    def fingerprint(self) -> str:
        """SHA-256, in hex, of the message and the whole URL.

        Recorded consent is used only if both are unchanged.
        """
        return _fingerprint("elicitation.url", 1, self.message, self.url.text)

    def pending(self) -> ElicitationPending:
        """The exception that stops the tool call until a person has consented."""
        return ElicitationPending(
            server_name=self.server_name,
            tool_name=self.tool_name,
            message=self.message,
            questions=[],
            fingerprint=self.fingerprint(),
            opens_url=True,
        )


AnyElicitation: TypeAlias = FormElicitation | URLElicitation


@dataclass(frozen=True, slots=True)
class Accept:
    """Send `accept` with this content, or, in URL mode, with none."""

    content: dict[str, Value] | None

    def __repr__(self) -> str:
        return "Accept(...)"


@dataclass(frozen=True, slots=True)
class Decline:
    """Send `decline`."""


@dataclass(frozen=True, slots=True)
class Ask:
    """No usable answer is recorded: ask a person."""


FormOutcome: TypeAlias = Accept | Decline | Ask


class FormAnswerStore(Protocol):
    """A store of recorded answers, for one scope and one call."""

    def take_form_answer(self, elicitation: FormElicitation, /) -> StoredFormAnswer | None:
        """Remove the recorded answer and return it, so that it is sent at most once."""
        ...


class StoredFormAnswers:
    """Answers form elicitations with recorded answers, and asks if none is recorded."""

    def __init__(self, store: FormAnswerStore) -> None:
        self._store = store

    def answer_form(self, elicitation: FormElicitation) -> FormOutcome:
        """Decide what to do about an elicitation. Removes the recorded answer, usable or not.

        Returns Ask if the store cannot be read: a failure must not turn into an answer.
        """
        try:
            record = self._store.take_form_answer(elicitation)
        except Exception as error:
            self._warn("The store of form answers could not be read", elicitation, type(error))
            return Ask()
        if record is None or not record.applies_to(
            elicitation.server_name,
            elicitation.tool_name,
            elicitation.fingerprint(),
            datetime.now(UTC),
        ):
            return Ask()
        if record.action == FormAnswerAction.DECLINE:
            return Decline()
        try:
            return Accept(elicitation.schema.content_from_answers(record.answers))
        except AnswerRefusal as refusal:
            self._warn("A recorded form answer does not fit", elicitation, type(refusal))
            return Ask()

    @staticmethod
    def _warn(what: str, elicitation: FormElicitation, error: type[Exception]) -> None:
        # Only the class of the error: the text of a database error can quote the row.
        logger.warning(
            "%s; the person is asked again (server %s, tool %s, %s)",
            what,
            _shown(elicitation.server_name),
            _shown(elicitation.tool_name),
            error.__name__,
        )
