"""The rows: elicitations, stored answers, parked calls and server policies.

Documents (schemas, arguments, requests) are kept as JSON *text*: ``jsonb`` loses the order of
keys, ``1e16`` and ``-0.0``. The text is ASCII, so that no NUL and no lone surrogate ever
reaches a driver.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
import uuid
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, router
from django.db.models.functions import Now
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from .conf import LONGEST
from .conf import settings as app_settings
from .core import (
    DEFAULT_LIMITS,
    WIDE_LIMITS,
    ElicitationError,
    ElicitationPending,
    ElicitationRefusal,
    ElicitationURL,
    FormAnswer,
    FormAnswerAction,
    FormElicitation,
    FormSchema,
    Limits,
    URLRefusal,
    parse_elicitation_url,
    parse_requested_schema,
)
from .core.characters import is_invisible, is_same_name
from .public_suffixes import registrable_domain

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models.sql.compiler import SQLCompiler

#: Longest server and tool name, request key, scope and call id, in characters.
MAX_NAME_CHARS = 200
#: Longest label of a server and of a scope, in characters.
MAX_LABEL_CHARS = 64
#: Longest reason of a refusal that is kept, in characters.
MAX_REASON_CHARS = 200


class InvalidNameError(ElicitationError, ValueError):
    """A scope, call, server or tool name, or a respondent, that a row cannot hold exactly."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}.", code="invalid_name")


class TooLargeError(ElicitationError, ValueError):
    """Arguments, requests or a request state that cannot be stored."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"The {field} cannot be stored: {reason}.", code="too_large")


class URLPolicyRefusal(ElicitationRefusal):
    """The server's policy does not list the host of this URL."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"The server '{server}' asks people to open a URL that its policy does not list. "
            "An operator can change that in the admin, under server policies.",
            code="not_allowed",
            reason="a URL that the policy does not list",
        )


def check_name(field: str, value: object, *, blank: bool = False) -> str:
    """Return ``value``, which identifies a row, if every database can hold it exactly.

    Refused before any query: NUL makes PostgreSQL raise, a lone surrogate every driver, and a
    name longer than the column is cut or refused, depending on the database.

    Raises:
        InvalidNameError: The value is not a string, is blank or too long, or has such a
            character.
    """
    if not isinstance(value, str):
        raise InvalidNameError(field, f"must be a string, not a {type(value).__name__}")
    if not value.strip() and not blank:
        raise InvalidNameError(field, "must not be blank")
    if len(value) > MAX_NAME_CHARS:
        raise InvalidNameError(field, f"is longer than {MAX_NAME_CHARS} characters")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
        raise InvalidNameError(field, "has a control character or an invalid Unicode character")
    return value


def row_key(*parts: str) -> uuid.UUID:
    """Return the primary key that stands for exactly these parts.

    A digest of the length-prefixed parts settles what columns cannot: collations that call
    ``Billing``, ``billing`` and ``Billing `` equal, key lengths, and parts that run together.
    Shaped as a version 5 UUID because MariaDB refuses other 128-bit values.
    """
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return uuid.UUID(bytes=digest.digest()[:16], version=5)


def parked_call_id(
    *, scope: str, call: str, server: str, tool: str, method: str = "tools/call"
) -> uuid.UUID:
    """Return the key of one call: of its parked row, and in its elicitations and answers.

    A prompt or a resource may have the name of a tool.
    """
    kind = () if method == "tools/call" else (method,)
    return row_key(scope, call, server, tool, *kind)


def encode_json(field: str, value: object, max_bytes: int) -> str:
    """Return ``value`` as ASCII JSON text, in its own key order, exactly.

    Raises:
        TooLargeError: The value is not JSON (``NaN`` is not), is nested too deeply, or has more
            than ``max_bytes``.
    """
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        # The text of the cause would repeat the value, which may be secret.
        raise TooLargeError(field, "not valid JSON, or nested too deeply") from None
    if len(text) > max_bytes:
        raise TooLargeError(field, f"more than {max_bytes} bytes of JSON")
    return text


def limits(*, wide: bool) -> Limits:
    """Return the bounds on a requested schema: those of every server, or the wide ones."""
    return WIDE_LIMITS if wide else DEFAULT_LIMITS


class ServerPolicyQuerySet(models.QuerySet["ServerPolicy"]):
    """Look-ups of server policies."""

    def for_server(self, server: str) -> ServerPolicy:
        """Return the policy of the server with this configured name.

        That is its row, or else what ``ELICITATION_SERVERS`` says, or the default policy.
        """
        return self.for_servers([server])[server]

    def for_servers(self, servers: Iterable[str]) -> dict[str, ServerPolicy]:
        """Return the policies of several servers by name, in one query.

        Raises:
            ImproperlyConfigured: What ``ELICITATION_SERVERS`` says of one of them is wrong.
        """
        keys = {server: row_key(server) for server in servers}
        # Read from the primary database: a replica may still have a policy that was withdrawn.
        rows = self.using(router.db_for_write(self.model)).order_by()
        found = {row.pk: row for row in rows.filter(pk__in=set(keys.values()))}
        return {
            server: found.get(key) or ServerPolicy.from_settings(server)
            for server, key in keys.items()
        }


@dataclass(frozen=True, slots=True)
class Retention:
    """How long closed elicitations and refusals are kept: until when they are old, at one moment.

    Servers are known by the keys of their policies.
    """

    #: Of all servers that have no days of their own; ``None``: without end.
    others: datetime | None
    #: Of the servers that have.
    by_server: Mapping[uuid.UUID, datetime]

    @classmethod
    def at(cls, now: datetime) -> Retention:
        """Return what is old at ``now``, by ``ELICITATION_RETENTION_DAYS`` and the policies."""
        days = app_settings.RETENTION_DAYS
        rows = ServerPolicy.objects.using(router.db_for_write(ServerPolicy))
        policies = ServerPolicy.all_from_settings() | {row.server: row for row in rows}
        return cls(
            others=None if days is None else now - timedelta(days=days),
            by_server={
                row_key(server): now - timedelta(days=policy.retention_days)
                for server, policy in policies.items()
                if policy.retention_days is not None
            },
        )

    def is_old(self, moment: str) -> models.Q:
        """Return the condition under which rows with a ``policy`` are old.

        Args:
            moment: The name of the column that counts.
        """
        found = models.Q(pk__in=[])
        if self.others is not None:
            own = models.Q(policy__in=list(self.by_server))
            found |= ~own & models.Q(**{f"{moment}__lte": self.others})
        for key, before in self.by_server.items():
            found |= models.Q(policy=key, **{f"{moment}__lte": before})
        return found


class ServerPolicy(models.Model):
    """An operator's decision about one server: a row, or what ``ELICITATION_SERVERS`` says.

    The row wins as a whole. Without either a server cannot show forms.
    """

    class Policy(models.TextChoices):
        """What a server may put in front of a person (MCP 2026-07-28, client/elicitation)."""

        NONE = "none", _("nothing")
        URL = "url", _("links to open, no forms")
        URL_AND_FORM = "url_and_form", _("links to open, and forms")

    class ToolRule(models.TextChoices):
        """Whether a tool of the server may ask people anything."""

        NEVER = "never", _("never")
        ASK = "ask", _("not before an operator has decided")
        ALLOW = "allow", _("what the server may show")

    id = models.UUIDField(primary_key=True, editable=False)
    server = models.CharField(
        _("server"),
        max_length=MAX_NAME_CHARS,
        help_text=_("The exact name under which this site configured the server."),
    )
    policy = models.CharField(
        _("may show"), max_length=16, choices=Policy.choices, default=Policy.URL
    )
    tools = models.TextField(
        _("rules for tools"),
        blank=True,
        help_text=_(
            "Each line is a rule: allow, ask or never, a space, and the name of a tool, such as "
            "never delete_project. A name with * at its end means all tools that begin so. "
            "The exact name wins, then the longest beginning. A tool without a rule is allowed. "
            "After ask, the tool asks nobody, and its attempts are among the refusals until an "
            "operator has decided."
        ),
    )
    label = models.CharField(
        _("label"),
        max_length=MAX_LABEL_CHARS,
        blank=True,
        help_text=_("The name of the server that people see. Empty: the configured name."),
    )
    allow_confirmation = models.BooleanField(
        _("confirmations"),
        default=False,
        help_text=_("Allow requests without questions: a message to accept or decline."),
    )
    wide_limits = models.BooleanField(
        _("long forms"),
        default=False,
        help_text=_(
            "Allow forms with up to 64 questions instead of 16, lists with up to 500 options "
            "instead of 32, and names of any printable characters instead of ASCII letters and "
            "digits."
        ),
    )
    prefill = models.BooleanField(
        _("prefill"),
        default=False,
        help_text=_("Fill in the answers that the server suggests. People can change them."),
    )
    people_may_stop = models.BooleanField(
        _("stopping"),
        default=False,
        help_text=_(
            "Let people stop a tool call that the server goes on with after their answer. The "
            "server is asked to cancel it."
        ),
    )
    allowed_domains = models.TextField(
        _("allowed domains"),
        blank=True,
        help_text=_(
            "The hosts of the links that the server may ask people to open, one per line: "
            "example.com for this host only, *.example.com for every name below it. Empty: "
            "any host."
        ),
    )
    allow_loopback_http = models.BooleanField(
        _("plain http on this machine"),
        default=False,
        help_text=_("Allow links such as http://localhost:8000/, for development."),
    )
    retention_days = models.PositiveIntegerField(
        _("days kept"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(LONGEST.days)],
        help_text=_(
            "For how many days the closed requests of the server, and its refusals, are kept. "
            "Empty: as long as those of other servers."
        ),
    )

    objects = ServerPolicyQuerySet.as_manager()

    class Meta:
        verbose_name = _("server policy")
        verbose_name_plural = _("server policies")
        ordering = ("server",)

    def __str__(self) -> str:
        return self.server

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save under the key that stands for the server's exact name."""
        if self._state.adding:
            self.id = row_key(check_name("The server", self.server))
        super().save(*args, **kwargs)

    def clean(self) -> None:
        """Refuse a name or label that could be taken for another server's."""
        super().clean()
        self._clean_text()
        if self._state.adding and ServerPolicy.objects.filter(pk=row_key(self.server)).exists():
            raise ValidationError({"server": _("There is already a policy for this server.")})
        rows = {row.server: row for row in ServerPolicy.objects.all()}
        if self.shares_its_name_with(ServerPolicy.all_from_settings() | rows):
            raise ValidationError({"label": _("Another server is already shown under this name.")})

    def _clean_text(self) -> None:
        """Refuse a name, label or list of domains that cannot be what it should be."""
        try:
            check_name("The name", self.server)
        except InvalidNameError as error:
            raise ValidationError({"server": str(error)}) from None
        if any(
            is_invisible(character) or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
            for character in self.label
        ):
            raise ValidationError(
                {
                    "label": _(
                        "A label must be one line, without invisible characters and control "
                        "characters."
                    )
                }
            )
        for line in self._allowed_lines():
            if _allowed_host(line) is None:
                message = _(
                    "Write one host per line, such as example.com or *.example.com, without "
                    "https:// and without a path."
                )
                raise ValidationError({"allowed_domains": message})
        rules = self._tool_lines()
        for number, line in enumerate(rules, 1):
            if _tool_rule(line) is None:
                message = _(
                    "Rule %(number)d is none. Write allow, ask or never, a space, and the name of "
                    "a tool or its beginning and *, such as never delete_*."
                )
                raise ValidationError({"tools": message % {"number": number}})
        names = [name for name, _rule in filter(None, map(_tool_rule, rules))]
        if len(names) != len(set(names)):
            raise ValidationError({"tools": _("There are two rules for the same name.")})

    @classmethod
    def from_settings(cls, server: str) -> Self:
        """Return the policy that ``ELICITATION_SERVERS`` has for a server, or the default one.

        Raises:
            ImproperlyConfigured: It is none. The text names server and key, and no value.
        """
        named = app_settings.server(server)
        decisions = {} if named is None else dict(named.decisions)
        if "allowed_domains" in decisions:
            decisions["allowed_domains"] = "\n".join(decisions["allowed_domains"])
        if "tools" in decisions:
            rules = decisions["tools"].items()
            decisions["tools"] = "\n".join(f"{rule} {name}" for name, rule in rules)
        policy = cls(server=server, **decisions)
        if named is not None:
            try:
                policy.clean_fields(exclude=("id",))
                policy._clean_text()
            except ValidationError as error:
                field, problems = next(iter(error.error_dict.items()))
                where = "" if field == "server" else f"[{field!r}]"
                text = problems[0].messages[0]
                if field == "policy":
                    # Django's own sentence repeats the value.
                    text = f"It must be one of {', '.join(map(repr, cls.Policy.values))}."
                raise ImproperlyConfigured(
                    f"ELICITATION_SERVERS[{server!r}]{where} is wrong. {text}"
                ) from None
        return policy

    @classmethod
    def all_from_settings(cls) -> dict[str, ServerPolicy]:
        """Return the policies of all servers of ``ELICITATION_SERVERS``, by their names."""
        return {server: cls.from_settings(server) for server in app_settings.SERVERS}

    def shares_its_name_with(self, others: Mapping[str, ServerPolicy]) -> bool:
        """Whether people would take another of these servers, given by their names, for it."""
        return any(
            is_same_name(self.display_name, other.display_name)
            for server, other in others.items()
            if server != self.server
        )

    def allows_more_than(self, other: ServerPolicy) -> list[str]:
        """Return the names of the fields in which this policy lets a server do more."""
        ranks = self.Policy.values
        wider = ["policy"] if ranks.index(self.policy) > ranks.index(other.policy) else []
        flags = ("allow_confirmation", "wide_limits", "prefill", "allow_loopback_http")
        wider += [name for name in flags if getattr(self, name) and not getattr(other, name)]
        mine, theirs = set(self._allowed_lines()), set(other._allowed_lines())
        if theirs and not (mine and mine <= theirs):
            wider.append("allowed_domains")
        ranks = self.ToolRule.values
        if any(
            ranks.index(self.tool_rule(name)) > ranks.index(other.tool_rule(name))
            for name in self._telling_names() | other._telling_names()
        ):
            wider.append("tools")
        return wider

    def _tool_lines(self) -> list[str]:
        return [line.strip() for line in self.tools.split("\n") if line.strip()]

    def _telling_names(self) -> set[str]:
        """Return names of tools, so that two policies with the same rule for each are the same."""
        names = {name for name, _rule in filter(None, map(_tool_rule, self._tool_lines()))}
        # A beginning stands for a tool that no exact name is.
        return {"", *names, *(f"{name[:-1]}\x00" for name in names if name.endswith("*"))}

    def tool_rule(self, tool: str) -> str:
        """Return the rule for a tool, a prompt or a resource, one of ``ToolRule``.

        Args:
            tool: Its name, or the URI of a resource.
        """
        rules = [_tool_rule(line) for line in self._tool_lines()]
        # An invalid line allows nothing: nobody knows which tool it forbids.
        found = self.ToolRule.ASK if None in rules else self.ToolRule.ALLOW
        longest = -1
        for name, rule in filter(None, rules):
            if name == tool:
                return rule
            if name.endswith("*") and tool.startswith(name[:-1]) and len(name) > longest:
                found, longest = self.ToolRule(rule), len(name)
        return found

    def set_tool_rule(self, name: str, rule: str) -> None:
        """Set the rule for the tools with this name, in place of the one that there is."""
        self.drop_tool_rule(name)
        self.tools = "\n".join([*self._tool_lines(), f"{rule} {name}"])

    def drop_tool_rule(self, name: str) -> None:
        """Remove the rule for the tools with this name, if there is one."""
        lines = [line for line in self._tool_lines() if (_tool_rule(line) or ("", ""))[0] != name]
        self.tools = "\n".join(lines)

    def for_tool(self, tool: str) -> ServerPolicy:
        """Return the policy as it holds for one tool: *nothing* where its rule is not *allow*."""
        if self.tool_rule(tool) == self.ToolRule.ALLOW:
            return self
        policy = copy(self)
        policy.policy = self.Policy.NONE
        return policy

    @property
    def allows_asking(self) -> bool:
        """Whether the server may ask people anything; if not, its client does not declare it."""
        return self.policy != self.Policy.NONE

    @property
    def allows_forms(self) -> bool:
        """Whether the server may put a form in front of a person."""
        return self.policy == self.Policy.URL_AND_FORM

    @property
    def allows_urls(self) -> bool:
        """Whether the server may ask a person to open a URL."""
        return self.policy in (self.Policy.URL, self.Policy.URL_AND_FORM)

    @property
    def limits(self) -> Limits:
        """The bounds on the forms that the server may show."""
        return limits(wide=self.wide_limits)

    def _allowed_lines(self) -> list[str]:
        return [line.strip() for line in self.allowed_domains.splitlines() if line.strip()]

    def allows_host(self, host: str) -> bool:
        """Whether people may be asked to open URLs of this host.

        Args:
            host: As ``ElicitationURL.host`` has it.
        """
        lines = self._allowed_lines()
        # An invalid line allows nothing. It must not make the list empty: that allows all hosts.
        return not lines or any(
            host.endswith(allowed) if allowed.startswith(".") else host == allowed
            for allowed in filter(None, map(_allowed_host, lines))
        )

    @sensitive_variables("text")
    def parse_url(self, text: object, *, site_host: str = "") -> ElicitationURL:
        """Return a URL that this policy lets the server show.

        Args:
            text: The URL, as the server sent it.
            site_host: The host of this site, for the warning about URLs that imitate it.

        Raises:
            URLRefusal: Browsers could read the URL differently from people.
            URLPolicyRefusal: The policy does not let the server show it.
        """
        try:
            url = parse_elicitation_url(
                text,
                allow_loopback_http=self.allow_loopback_http,
                site_host=site_host,
                registrable_domain=registrable_domain,
            )
        except URLRefusal as refusal:
            # Drop the traceback: its frames hold the URL, and error reports show their variables.
            raise refusal.with_traceback(None) from None
        if not self.allows_urls or not self.allows_host(url.host):
            raise URLPolicyRefusal(self.server)
        return url

    @property
    def display_name(self) -> str:
        """The name people see: the operator's label, else the configured name."""
        return self.label or self.server


def _allowed_host(line: str) -> str | None:
    """Return the host in a line of ``allowed_domains``, or ``.`` and the end of hosts.

    ``None`` if the line is not a host.
    """
    name = line.removeprefix("*.")
    try:
        url = parse_elicitation_url(f"https://{name}")
    except URLRefusal:
        return None
    if url.rest or url.port is not None or name.endswith(":443"):
        return None
    if name == line:
        return url.host
    # A wildcard needs a name with at least two labels.
    return None if "ip_address" in url.warnings or "." not in url.host else f".{url.host}"


def _tool_rule(line: str) -> tuple[str, str] | None:
    """Return the name and the rule in a line of ``tools``; ``None`` if the line is no rule."""
    rule, _space, name = line.partition(" ")
    name = name.strip()
    try:
        check_name("The name", name)
    except InvalidNameError:
        return None
    return (name, rule) if rule in ServerPolicy.ToolRule.values else None


def _policy_of_server() -> models.ForeignKey[ServerPolicy | None, ServerPolicy | None]:
    """Return the field that leads from a row with a ``server`` to the policy of that server.

    There is no database constraint: a server may have no policy row.
    """
    return models.ForeignKey(
        ServerPolicy,
        verbose_name=_("server policy"),
        on_delete=models.DO_NOTHING,
        db_column="server_key",
        db_constraint=False,
        db_index=False,
        null=True,
        editable=False,
        related_name="+",
    )


class DatabaseNow(Now):
    """The moment by the clock of the database, in UTC as Django stores moments.

    ``Now`` is the session's local time on MariaDB and MySQL.
    """

    def as_mysql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> tuple[str, tuple[Any, ...]]:
        sql, params = self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **context)
        return sql, tuple(params)


def is_open(now: datetime | None = None) -> models.Q:
    """Return the condition under which an elicitation can be answered at ``now``.

    One in the middle of a call cannot once the process is gone that waits for it.
    """
    is_alive = models.Q(alive_until=None) | models.Q(alive_until__gt=DatabaseNow())
    return is_alive & models.Q(
        state=Elicitation.State.PENDING, expires_at__gt=now or timezone.now()
    )


class ElicitationQuerySet(models.QuerySet["Elicitation"]):
    """Look-ups of elicitations, as nouns that chain."""

    def pending(self) -> ElicitationQuerySet:
        """Elicitations whose row is not closed; their deadline may have passed."""
        return self.filter(state=Elicitation.State.PENDING)

    def open(self, now: datetime | None = None) -> ElicitationQuerySet:
        """Elicitations that can be answered at ``now``."""
        return self.filter(is_open(now))

    def orphaned(self) -> ElicitationQuerySet:
        """Pending ones in the middle of calls whose processes are gone."""
        return self.pending().filter(alive_until__lte=DatabaseNow())

    def taken_by_the_dead(self) -> ElicitationQuerySet:
        """Closed ones in the middle of calls whose processes took the answer and are gone."""
        answers = StoredFormAnswer.objects.filter(elicitation_id=models.OuterRef("pk"))
        dead = self.undelivered().filter(alive_until__lte=DatabaseNow())
        return dead.exclude(models.Exists(answers))

    def due(self, now: datetime | None = None) -> ElicitationQuerySet:
        """Pending elicitations whose deadline has passed at ``now``."""
        return self.pending().filter(expires_at__lte=now or timezone.now())

    def closed(self) -> ElicitationQuerySet:
        """Elicitations that were answered, declined or withdrawn, or have expired."""
        return self.exclude(state=Elicitation.State.PENDING)

    def in_state(self, state: str, now: datetime | None = None) -> ElicitationQuerySet:
        """Elicitations in a state at ``now``; their rows may not have it yet."""
        if state == Elicitation.State.PENDING:
            return self.open(now)
        found = self.filter(state=state)
        return found | self.due(now) if state == Elicitation.State.EXPIRED else found

    def undelivered(self) -> ElicitationQuerySet:
        """Closed elicitations for which nothing was sent to the server yet."""
        return self.closed().filter(delivered_at=None)

    def strandable(self, now: datetime | None = None) -> ElicitationQuerySet:
        """Closed elicitations whose call no host has resumed in time: the app's outbox.

        Skips calls with another open elicitation, calls that a process is resuming at ``now``, and
        those in the middle of which a live process waits. ``is_parked`` says whether the call is
        still parked.
        """
        now = now or timezone.now()
        calls = ParkedCall.objects.parked().filter(pk=models.OuterRef("parked_call_id"))
        asked = Elicitation.objects.open(now).of_call(models.OuterRef("parked_call_id"))
        return (
            self.undelivered()
            .filter(resume_at__lte=now)
            .exclude(models.Exists(asked))
            .exclude(models.Exists(calls.leased()))
            .exclude(alive_until__gt=DatabaseNow())
            .annotate(is_parked=models.Exists(calls))
            .order_by("resume_at", "id")
        )

    def with_url(self) -> ElicitationQuerySet:
        """Elicitations whose URL is still stored."""
        return self.exclude(url="")

    def going_on(self) -> ElicitationQuerySet:
        """Elicitations in URL mode with a consent, and a call that has not finished.

        The consent was not sent yet, or it was sent and the server asks the same again.
        """
        calls = ParkedCall.objects.parked().filter(pk=models.OuterRef("parked_call_id"))
        consents = StoredFormAnswer.objects.filter(elicitation_id=models.OuterRef("pk"))
        return (
            self.filter(state=Elicitation.State.ANSWERED)
            .exclude(url_host="")
            .filter(models.Exists(calls))
            .filter(models.Q(delivered_at=None) | models.Exists(consents))
        )

    def closed_before(self, moment: datetime) -> ElicitationQuerySet:
        """Elicitations that were closed at ``moment`` or earlier."""
        return self.closed().filter(closed_at__lte=moment)

    def for_respondent(self, user: AbstractBaseUser) -> ElicitationQuerySet:
        """Elicitations whose respondent is this person."""
        return self.filter(respondent=user.pk)

    def saying(self, text: str) -> ElicitationQuerySet:
        """Elicitations with this text in what people see of them; case does not matter."""
        places = ("message", "tool", "scope_label", "server", "policy__label")
        found = models.Q()
        for place in places:
            found |= models.Q(**{f"{place}__icontains": text})
        return self.filter(found)

    def in_scope(self, scope: str | int | uuid.UUID) -> ElicitationQuerySet:
        """Elicitations of one scope, exactly as the host spells it."""
        return self.filter(scope_key=row_key(str(scope)))

    def of_server(self, server: str) -> ElicitationQuerySet:
        """Elicitations of one server, exactly as this site spells its name.

        By its key: MariaDB's collations call ``Shop``, ``shop`` and ``shop `` equal.
        """
        return self.filter(policy=row_key(server))

    def with_policies(self) -> ElicitationQuerySet:
        """The same, each with the policy of its server, in one query."""
        return self.select_related("policy")

    def of_call(self, parked_call_id: uuid.UUID | models.OuterRef) -> ElicitationQuerySet:
        """Elicitations of one tool call, in all its rounds."""
        return self.filter(parked_call_id=parked_call_id)


class Elicitation(models.Model):
    """What a server asked a person in one ``elicitation/create``: the audit trail.

    The row does not hold the answer. ``answer_digest`` is a keyed digest, which recognises the
    same answer sent a second time.
    """

    class State(models.TextChoices):
        """How the elicitation ended; the four ways without an answer are kept apart."""

        PENDING = "pending", pgettext_lazy("state", "open")
        ANSWERED = "answered", _("answered")
        DECLINED = "declined", _("declined")
        EXPIRED = "expired", _("expired")
        WITHDRAWN = "withdrawn", _("withdrawn")

    class Via(models.TextChoices):
        """The interface through which the elicitation was closed."""

        PAGE = "page", _("web page")
        API = "api", _("API")
        ADMIN = "admin", _("admin")
        COMMAND = "command", _("command")
        HOST = "host", _("host application")

    class Delivery(models.TextChoices):
        """What became of the answer, or of the decline, at the server."""

        DELIVERED = "delivered", _("delivered")
        SERVER_ERROR = "server_error", _("delivered; the tool reported an error")
        ROUND_LOST = "round_lost", _("lost: the server refused the answer, or the call broke off")
        NOT_SENT = "not_sent", _("not sent yet: the server cannot be reached")
        DROPPED = "dropped", _("dropped: the server no longer needed the answer")
        SWITCHED_OFF = "switched_off", _("not sent: the policy forbids it")
        NEVER_RESUMED = "never_resumed", _("never sent: the call was not resumed")
        RESTORED = "restored", _("unknown: the database was restored")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # No foreign key: the elicitation stays as a record after the call's row was deleted.
    parked_call_id = models.UUIDField(_("record of the call"), db_index=True, editable=False)
    scope = models.CharField(_("scope"), max_length=MAX_NAME_CHARS)
    scope_key = models.UUIDField(editable=False)
    scope_label = models.CharField(_("conversation"), max_length=MAX_LABEL_CHARS, blank=True)
    call = models.CharField(_("call"), max_length=MAX_NAME_CHARS)
    server = models.CharField(_("server"), max_length=MAX_NAME_CHARS)
    policy = _policy_of_server()
    tool = models.CharField(_("tool"), max_length=MAX_NAME_CHARS)
    #: The method of the call: what ``tool`` is the name of (``calls.values``).
    method = models.CharField(max_length=32, default="tools/call", editable=False)
    key = models.CharField(_("request key"), max_length=MAX_NAME_CHARS, blank=True)
    round = models.PositiveSmallIntegerField(_("round"))
    number = models.PositiveBigIntegerField(_("number among identical requests"), default=0)
    message = models.TextField(_("message"))
    requested_schema = models.TextField(_("requested schema"))
    # The whole URL that a person is asked to open, because the page has to show it whole. It is
    # removed when nobody can open it any more. The host stays, for the audit.
    url = models.TextField(blank=True, editable=False)
    url_host = models.CharField(_("host of the link"), max_length=255, blank=True)
    # MCP 2025-11-25's `elicitationId`, by which a server says that the person has finished.
    url_id = models.CharField(max_length=MAX_NAME_CHARS, blank=True, editable=False)
    # With what the schema was parsed when it was asked: the policy may change in the meantime.
    allow_confirmation = models.BooleanField(default=False, editable=False)
    wide_limits = models.BooleanField(default=False, editable=False)
    fingerprint = models.CharField(_("fingerprint"), max_length=64)
    respondent = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("respondent"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
    )
    #: The person for whom the call is made, where an operator has handed it to somebody else.
    made_for = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("asked at first"),
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
    )
    state = models.CharField(
        _("state"), max_length=9, choices=State.choices, default=State.PENDING
    )
    reason = models.CharField(_("reason"), max_length=32, blank=True)
    asked_at = models.DateTimeField(_("asked at"))
    expires_at = models.DateTimeField(_("deadline"))
    first_shown_at = models.DateTimeField(_("first shown at"), null=True)
    closed_at = models.DateTimeField(_("closed at"), null=True)
    closed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("closed by"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
    )
    closed_via = models.CharField(
        _("closed through"), max_length=7, choices=Via.choices, blank=True
    )
    delivered_at = models.DateTimeField(_("delivered at"), null=True)
    delivery = models.CharField(_("delivery"), max_length=13, choices=Delivery.choices, blank=True)
    #: Whether the server waits for the answer in the middle of a call.
    in_call = models.BooleanField(_("the server waits"), default=False, editable=False)
    #: Until when the process counts as alive that waits for it in the middle of a call, by the
    #: clock of the database; none once it is settled.
    alive_until = models.DateTimeField(null=True, editable=False)
    answer_digest = models.CharField(max_length=64, blank=True, editable=False)
    # When the signal is sent again, unless the call was resumed before; how often it was sent
    # again.
    resume_at = models.DateTimeField(null=True, editable=False)
    resent = models.PositiveSmallIntegerField(_("times sent again"), default=0, editable=False)
    # When a person last pressed *Continue*.
    continued_at = models.DateTimeField(null=True, editable=False)
    # When the app sent the e-mail about it.
    notified_at = models.DateTimeField(null=True, editable=False)
    # Whether the outcome of its call was deleted before anybody had acknowledged it.
    never_fetched = models.BooleanField(_("outcome never fetched"), default=False, editable=False)

    objects = ElicitationQuerySet.as_manager()

    #: The key of the person for whom ``inbox.get`` read this row; ``None`` where it did not.
    read_for: Any = None

    class Meta:
        verbose_name = _("request")
        verbose_name_plural = _("requests")
        ordering = ("expires_at", "id")
        permissions = (
            ("answer_any", "Can answer requests put to anybody"),
            ("withdraw_elicitation", "Can withdraw requests"),
            ("expire_elicitation", "Can let requests expire"),
            ("extend_elicitation", "Can extend the time to answer requests"),
            ("hand_over_elicitation", "Can hand requests to somebody else"),
            ("resend_elicitation", "Can notify people and hosts of requests again"),
            ("view_metrics", "Can read the metrics"),
        )
        indexes = (
            models.Index(fields=("respondent", "state", "expires_at"), name="elicitation_inbox"),
            models.Index(fields=("respondent", "closed_at"), name="elicitation_recent"),
            models.Index(fields=("state", "expires_at"), name="elicitation_due"),
            models.Index(fields=("scope_key", "state"), name="elicitation_scope"),
            models.Index(fields=("asked_at", "id"), name="elicitation_audit"),
            models.Index(fields=("closed_at",), name="elicitation_closed"),
            models.Index(fields=("resume_at",), name="elicitation_outbox"),
            models.Index(fields=("alive_until",), name="elicitation_alive"),
        )

    def __str__(self) -> str:
        # Titles show this, so it has no text of a server, such as the name of the tool.
        return f"{self.server}: {self.short_id} ({self.state})"

    def get_absolute_url(self) -> str:
        """Return the path of the page of this elicitation."""
        return reverse("elicitation:detail", args=(self.pk,))

    def asked_for_call(self) -> list[tuple[uuid.UUID, int, str]]:
        """Return id, round and message of what this call has asked the same person, in order."""
        rows = type(self).objects.using(self._state.db).of_call(self.parked_call_id)
        asked = rows.filter(respondent=self.respondent_id).order_by("round", "asked_at", "id")
        return list(asked.values_list("pk", "round", "message"))

    def call_has_ended(self) -> bool:
        """Whether the server has the answer, and nothing of the call waits any more."""
        if self.delivered_at is None:
            return False
        calls = ParkedCall.objects.using(self._state.db).parked()
        return not calls.filter(pk=self.parked_call_id).exists()

    @property
    def page_url(self) -> str:
        """Where people answer it: what hosts, e-mails and the API give out.

        ``ELICITATION_PAGE_URL`` with the id, or else the path of the app's own page. Nothing,
        where the site has neither.
        """
        if app_settings.PAGE_URL:
            return app_settings.PAGE_URL.replace("{id}", str(self.pk))
        try:
            return self.get_absolute_url()
        except NoReverseMatch:
            return ""

    @property
    def short_id(self) -> str:
        """The beginning of the id, by which people tell one row from another."""
        return str(self.pk)[:8]

    @cached_property
    def schema(self) -> FormSchema:
        """What was asked, parsed again from the stored text."""
        return parse_requested_schema(
            self.requested_schema,
            allow_confirmation=self.allow_confirmation,
            limits=limits(wide=self.wide_limits),
        )

    @property
    def called(self) -> str:
        """What ``tool`` is the name of, as a label for people."""
        if self.method == "prompts/get":
            return gettext("Prompt")
        return gettext("Resource") if self.method == "resources/read" else gettext("Tool")

    @property
    def is_url(self) -> bool:
        """Whether it is in URL mode, and not in form mode."""
        return bool(self.url_host)

    def pending(self) -> ElicitationPending:
        """Return the exception that stops the call until a person has answered."""
        return ElicitationPending(
            server_name=self.server,
            tool_name=self.tool,
            message=self.message,
            questions=self.schema.questions(self.server),
            fingerprint=self.fingerprint,
            # Without the URL: the host does not need it, and it may be removed already.
            opens_url=self.is_url,
            method=self.method,
        )

    @cached_property
    def form_elicitation(self) -> FormElicitation:
        """The elicitation as a value of the core."""
        return FormElicitation(
            server_name=self.server,
            tool_name=self.tool,
            key=self.key,
            message=self.message,
            schema=self.schema,
        )

    @property
    def server_policy(self) -> ServerPolicy:
        """The policy of its server, as it holds for its tool."""
        if Elicitation.policy.is_cached(self):
            policy = self.policy or ServerPolicy.from_settings(self.server)
        else:
            # Not by the foreign key: a router may read it from a replica.
            policy = ServerPolicy.objects.for_server(self.server)
        return policy.for_tool(self.tool)

    @property
    def told(self) -> str:
        """The delivery if the server has got something, or nothing more is sent; else blank."""
        return "" if self.delivery == self.Delivery.NOT_SENT else self.delivery

    def is_expired(self, now: datetime | None = None) -> bool:
        """Whether the deadline passed without an answer; the row may not say so yet."""
        return self.current_state(now) == self.State.EXPIRED

    def is_open(self, now: datetime | None = None) -> bool:
        """Whether it can be answered at ``now``."""
        return self.current_state(now) == self.State.PENDING

    def current_state(self, now: datetime | None = None) -> str:
        """Return the state at ``now``: pending past the deadline is expired."""
        if self.state == self.State.PENDING and self.expires_at <= (now or timezone.now()):
            return self.State.EXPIRED
        return self.state


class ParkedCallQuerySet(models.QuerySet["ParkedCall"]):
    """Look-ups of parked calls, and of those that have ended."""

    def parked(self) -> ParkedCallQuerySet:
        """Calls that have not ended."""
        return self.filter(ended_at=None)

    def ended(self) -> ParkedCallQuerySet:
        """Calls that have ended, and whose outcome nobody has acknowledged."""
        return self.filter(ended_at__isnull=False)

    def in_scope(self, scope: str | int | uuid.UUID) -> ParkedCallQuerySet:
        """Calls of one scope, exactly as the host spells it."""
        return self.filter(scope_key=row_key(str(scope)))

    def unleased(self) -> ParkedCallQuerySet:
        """Calls that no process is resuming now, by the clock of the database."""
        return self.filter(models.Q(lease=None) | models.Q(leased_until__lte=DatabaseNow()))

    def due(self, now: datetime) -> ParkedCallQuerySet:
        """Calls of which the host is to be told at ``now``.

        Those whose server was at work, and those that have ended with nobody's acknowledgement.
        """
        return self.unleased().filter(look_at__lte=now).order_by("look_at")

    def ready(self) -> ParkedCallQuerySet:
        """Calls that can go on: no process has them, and nobody is asked anything."""
        asked = Elicitation.objects.pending().of_call(models.OuterRef("pk"))
        return self.parked().unleased().exclude(models.Exists(asked))

    def untold(self) -> ParkedCallQuerySet:
        """Calls that can go on, and of which the outbox has told nobody again yet."""
        asked = Elicitation.objects.undelivered().of_call(models.OuterRef("pk"))
        fresh = asked.filter(resent=0, in_call=False).exclude(
            delivery=Elicitation.Delivery.NOT_SENT
        )
        return self.ready().filter(models.Q(round=0, looked=0) | models.Exists(fresh))

    def leased(self) -> ParkedCallQuerySet:
        """Calls that a process is resuming now, by the clock of the database."""
        return self.filter(lease__isnull=False, leased_until__gt=DatabaseNow())

    def abandoned(self, since: datetime) -> ParkedCallQuerySet:
        """Calls without an open elicitation since ``since``, which no host has resumed."""
        asked = Elicitation.objects.of_call(models.OuterRef("pk"))
        busy = asked.filter(
            models.Q(state=Elicitation.State.PENDING) | models.Q(closed_at__gt=since)
        )
        return self.parked().filter(received_at__lte=since).exclude(models.Exists(busy))

    def unfetched(self, now: datetime | None = None) -> ParkedCallQuerySet:
        """Calls that have ended, and whose outcome is kept no longer at ``now``."""
        return self.ended().filter(outcome_expires_at__lte=now or timezone.now())


class ParkedCall(models.Model):
    """A tool call that was stopped in a round until people have answered.

    Its key is a digest of scope, call, server and tool: the same call made twice is one row.
    What it asks is in the ``Elicitation`` rows with the same ``parked_call_id``. Round 0 is that
    of a call which a worker is to make: nothing came back from its server yet.

    Once the call has ended the row holds its outcome, until the host acknowledges it.
    """

    class Outcome(models.TextChoices):
        """How a call ended."""

        FINISHED = "finished", _("finished")
        REFUSED = "refused", _("refused: what was asked is put to nobody")
        SWITCHED_OFF = "switched_off", _("refused: the policy forbids it")
        LOST = "lost", _("lost: nobody knows whether the server acted")
        GIVEN_UP = "given_up", _("given up")
        EXPIRED = "expired", _("expired: nobody answered in time")
        CANCELLED = "cancelled", _("cancelled")

    id = models.UUIDField(primary_key=True, editable=False)
    scope = models.CharField(_("scope"), max_length=MAX_NAME_CHARS)
    scope_key = models.UUIDField(editable=False)
    scope_label = models.CharField(_("conversation"), max_length=MAX_LABEL_CHARS, blank=True)
    call = models.CharField(_("call"), max_length=MAX_NAME_CHARS)
    server = models.CharField(_("server"), max_length=MAX_NAME_CHARS)
    policy = _policy_of_server()
    tool = models.CharField(_("tool"), max_length=MAX_NAME_CHARS)
    respondent = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("respondent"),
        on_delete=models.CASCADE,
        related_name="+",
    )
    #: The method of the request: MCP 2026-07-28 lets three of them ask.
    method = models.CharField(max_length=32, default="tools/call", editable=False)
    arguments = models.TextField(_("arguments"), editable=False)
    #: What a retry repeats of the first request (its ``meta``, its time-out), as JSON text.
    options = models.TextField(default="{}", editable=False)
    round = models.PositiveSmallIntegerField(_("round"))
    #: The round's requests by the server's keys, as JSON text.
    requests = models.TextField(_("requests of the round"), editable=False)
    #: The request state as JSON text: ``null`` if the server sent none, ``""`` is a value.
    request_state = models.TextField(_("request state"), editable=False)
    #: When a worker sent the first request of a call that it was to make (round 0).
    called_at = models.DateTimeField(null=True, editable=False)
    #: When it was parked for the first time.
    parked_at = models.DateTimeField(_("parked at"), default=timezone.now)
    received_at = models.DateTimeField(_("round received at"))
    #: Whether the round came as an error, so that its retry is a plain call.
    plain = models.BooleanField(default=False, editable=False)
    #: The task that the server goes on with the call as (``calls.tasks``), as JSON text.
    task = models.TextField(blank=True, editable=False)
    #: Stands for the process that is resuming it, until the moment below.
    lease = models.UUIDField(null=True, editable=False)
    #: By the clock of the database: the clocks of two hosts may differ.
    leased_until = models.DateTimeField(_("reserved for resuming until"), null=True)
    #: How often it was parked with a new question: what ``MAX_ROUNDS`` bounds.
    asked = models.PositiveSmallIntegerField(_("times asked"), default=0)
    #: Why the last request did not reach the server, as a code.
    unsent_reason = models.CharField(max_length=64, blank=True, editable=False)
    #: When the host is told again: that the server is to be looked after, or that the call ended.
    look_at = models.DateTimeField(null=True, editable=False)
    #: Since when the server is at work without asking anything.
    working_since = models.DateTimeField(null=True, editable=False)
    #: How often the host was told again, or the server was looked after, since then.
    looked = models.PositiveSmallIntegerField(default=0, editable=False)
    #: The rounds after which the call was made afresh, because the server had not read the
    #: state, as a JSON list of numbers: once for each round.
    fresh_after = models.TextField(default="[]", editable=False)
    ended_at = models.DateTimeField(_("ended at"), null=True)
    outcome = models.CharField(_("outcome"), max_length=12, choices=Outcome.choices, blank=True)
    #: Why, as a code: that of a refusal, or what came back before a call was lost.
    outcome_reason = models.CharField(_("reason"), max_length=64, blank=True)
    #: The result as JSON text; none where the call ended without one, or it is too large.
    result = models.TextField(blank=True, editable=False)
    #: How many bytes of JSON the result had, kept or not.
    result_bytes = models.PositiveBigIntegerField(_("bytes of the result"), default=0)
    outcome_expires_at = models.DateTimeField(_("outcome kept until"), null=True)

    objects = ParkedCallQuerySet.as_manager()

    class Meta:
        verbose_name = _("parked call")
        verbose_name_plural = _("parked calls")
        ordering = ("received_at",)
        indexes = (
            models.Index(fields=("received_at",), name="elicitation_parked"),
            models.Index(fields=("look_at",), name="elicitation_look_at"),
            models.Index(fields=("scope_key",), name="elicitation_call_scope"),
            models.Index(fields=("outcome_expires_at",), name="elicitation_outcome"),
        )
        permissions = (("view_result", "Can read the results of calls"),)

    def __str__(self) -> str:
        return f"{self.server}: {self.short_id} ({self.outcome or f'round {self.round}'})"

    @property
    def server_policy(self) -> ServerPolicy:
        """The policy of its server, as it was read with the row; else as ``from_settings``."""
        return self.policy or ServerPolicy.from_settings(self.server)

    @property
    def parked_call_id(self) -> uuid.UUID:
        """Its id, by the name that it has in signals and in other rows."""
        return self.pk

    @property
    def fresh_after_rounds(self) -> list[int]:
        """The rounds after which the call was made afresh."""
        found: list[int] = json.loads(self.fresh_after)
        return found

    @property
    def short_id(self) -> str:
        """The beginning of the id, by which people tell one row from another."""
        return str(self.pk)[:8]


class Refusal(models.Model):
    """What a server asked and nobody was asked: which server, why, and how often.

    Nothing of what the server wrote is here but the name of a property, as error texts have it:
    cut, and in plain ASCII. The key is a digest of server, tool, code and property.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    server = models.CharField(_("server"), max_length=MAX_NAME_CHARS)
    policy = _policy_of_server()
    tool = models.CharField(_("tool"), max_length=MAX_NAME_CHARS, blank=True)
    code = models.CharField(_("code"), max_length=64)
    property_name = models.CharField(_("property"), max_length=MAX_NAME_CHARS, blank=True)
    #: In words of this package, of the last time.
    reason = models.CharField(_("reason"), max_length=MAX_REASON_CHARS)
    times = models.PositiveBigIntegerField(_("times"), default=1)
    first_at = models.DateTimeField(_("first time"))
    last_at = models.DateTimeField(_("last time"))

    class Meta:
        verbose_name = _("refusal")
        verbose_name_plural = _("refusals")
        ordering = ("-last_at", "id")
        indexes = (models.Index(fields=("last_at", "id"), name="elicitation_refused"),)

    def __str__(self) -> str:
        return f"{self.server}: {self.code}"

    @property
    def short_id(self) -> str:
        """The beginning of the id, by which people tell one row from another."""
        return str(self.pk)[:8]


class StoredFormAnswerQuerySet(models.QuerySet["StoredFormAnswer"]):
    """Look-ups of stored answers."""

    def expired(self, now: datetime | None = None) -> StoredFormAnswerQuerySet:
        """Answers that can no longer be sent at ``now``."""
        return self.filter(expires_at__lte=now or timezone.now())

    def of_call(self, parked_call_id: uuid.UUID) -> StoredFormAnswerQuerySet:
        """Answers to elicitations of one tool call."""
        return self.filter(parked_call_id=parked_call_id)


class StoredFormAnswer(models.Model):
    """An answer a person gave, until it is taken.

    The key stands for the exact scope, call, server, tool, fingerprint and number; the parts
    are compared again after reading, so that a collision sends no wrong answer.
    """

    class Action(models.TextChoices):
        """What the person did with the questions."""

        ACCEPT = FormAnswerAction.ACCEPT.value, _("accept")
        DECLINE = FormAnswerAction.DECLINE.value, _("decline")

    id = models.UUIDField(primary_key=True, editable=False)
    parked_call_id = models.UUIDField(db_index=True, editable=False)
    scope = models.CharField(_("scope"), max_length=MAX_NAME_CHARS)
    call = models.CharField(_("call"), max_length=MAX_NAME_CHARS)
    server = models.CharField(_("server"), max_length=MAX_NAME_CHARS)
    tool = models.CharField(_("tool"), max_length=MAX_NAME_CHARS)
    fingerprint = models.CharField(_("fingerprint"), max_length=64)
    number = models.PositiveBigIntegerField(_("number among identical requests"), default=0)
    #: The round in which it was asked; 0 where a host recorded it by itself.
    round = models.PositiveSmallIntegerField(default=0, editable=False)
    #: Whether a person gave it. Not where the time ran out, or the question was withdrawn.
    from_person = models.BooleanField(default=True, editable=False)
    #: Whether its server has refused it unread once; a second time it is lost.
    was_unread = models.BooleanField(default=False, editable=False)
    #: The elicitation it answers; ``None`` if a host stored the answer by itself.
    elicitation_id = models.UUIDField(null=True, editable=False)
    respondent = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("respondent"),
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
    )
    action = models.CharField(_("action"), max_length=7, choices=Action.choices)
    answers_json = models.TextField(editable=False)
    recorded_at = models.DateTimeField(_("stored at"))
    expires_at = models.DateTimeField(_("valid until"), db_index=True)

    #: What was found to fit when the answer was taken; no column.
    content: Mapping[str, Any] | None = None

    objects = StoredFormAnswerQuerySet.as_manager()

    class Meta:
        verbose_name = _("stored answer")
        verbose_name_plural = _("stored answers")
        ordering = ("expires_at",)
        permissions = (("view_answer_content", "Can read what people answered"),)

    def __str__(self) -> str:
        return f"{self.server}: {self.short_id}"

    @property
    def short_id(self) -> str:
        """The beginning of the id, by which people tell one row from another."""
        return str(self.pk)[:8]

    @property
    def answers(self) -> dict[str, FormAnswer]:
        """The answers by property name."""
        stored: Mapping[str, Any] = json.loads(self.answers_json)
        return {name: FormAnswer.from_dict(answer) for name, answer in stored.items()}

    def is_expired(self, now: datetime | None = None) -> bool:
        """Whether the answer can no longer be sent at ``now``."""
        return self.expires_at <= (now or timezone.now())

    def applies_to(self, server: str, tool: str, fingerprint: str, now: datetime) -> bool:
        """Whether it answers exactly this elicitation and can be sent at ``now``."""
        return (
            self.server == server
            and self.tool == tool
            and self.fingerprint == fingerprint
            and not self.is_expired(now)
        )
