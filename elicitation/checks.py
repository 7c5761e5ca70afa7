"""System checks: what would go wrong later, and what to do about it.

No check makes a query. Each has an id that can be silenced with ``SILENCED_SYSTEM_CHECKS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from difflib import get_close_matches
from importlib import metadata
from typing import Any

from django.apps import AppConfig
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.urls import NoReverseMatch, reverse

from . import backoff
from .calls.parking import LONGEST_PAUSE
from .conf import NAMES, settings
from .inbox.access import access
from .models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from .pages.forms import form_class
from .signals import call_finished
from .transactions import write_alias

#: The major version of the SDK that the integration is written for.
MCP_MAJOR = "2"
#: The minor version that was tested (``mcp.dispatcher`` wraps a private part of it).
MCP_TESTED = "2.3"

Messages = list[CheckMessage]


@register(Tags.compatibility)
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> Messages:
    """Read every setting once, and look for those that contradict each other."""
    messages: Messages = []
    for name in NAMES:
        try:
            getattr(settings, name)
            # Import the class now: otherwise the first page that needs it would fail.
            if name == "ACCESS":
                access()
            elif name == "FORM_CLASS":
                form_class()
            elif name == "QUEUE":
                settings.enqueue()
        except ImproperlyConfigured as error:
            messages.append(
                Error(
                    str(error),
                    hint="See the table in docs/settings.md.",
                    id="elicitation.E001",
                )
            )
    for name in sorted(dir(django_settings)):
        if name.startswith("ELICITATION_") and name.removeprefix("ELICITATION_") not in NAMES:
            messages.append(
                Warning(
                    f"{name} is not a setting of this app.",
                    hint=_nearest_setting(name),
                    id="elicitation.W001",
                )
            )
    # Settings can only be compared if each of them can be read.
    if not any(isinstance(message, Error) for message in messages):
        messages += _contradictions()
    return messages


def _nearest_setting(name: str) -> str:
    """Return a hint with the setting that the name was probably meant to be."""
    names = [f"ELICITATION_{one}" for one in NAMES]
    if nearest := get_close_matches(name, names, n=1):
        return f"Did you mean {nearest[0]}? All settings are in docs/settings.md."
    return "Remove it, or look for the right name in docs/settings.md."


def _contradictions() -> Messages:
    messages: Messages = []

    def contradiction(text: str, hint: str) -> None:
        messages.append(Warning(text, hint=hint, id="elicitation.W002"))

    days = settings.RETENTION_DAYS
    if days is not None and timedelta(days=days) < settings.ABANDON_AFTER:
        contradiction(
            "ELICITATION_RETENTION_DAYS is shorter than ELICITATION_ABANDON_AFTER: elicitations "
            "are deleted while their calls can still be resumed.",
            "Set ELICITATION_RETENTION_DAYS higher, or ELICITATION_ABANDON_AFTER lower.",
        )
    if settings.ABANDON_AFTER < settings.QUESTION_TTL:
        contradiction(
            "ELICITATION_ABANDON_AFTER is shorter than ELICITATION_QUESTION_TTL: a call may be "
            "closed right after its last elicitation.",
            "Set ELICITATION_ABANDON_AFTER higher than ELICITATION_QUESTION_TTL.",
        )
    pauses = (
        backoff.pause(times, settings.RESUME_AFTER, LONGEST_PAUSE)
        for times in range(min(settings.RESUME_ATTEMPTS, 1000))
    )
    if sum(pauses, timedelta(0)) > settings.ABANDON_AFTER:
        contradiction(
            "ELICITATION_ABANDON_AFTER is shorter than all attempts of elicitation_resume "
            "(ELICITATION_RESUME_AFTER, ELICITATION_RESUME_ATTEMPTS) take: parked "
            "calls are closed while elicitation_resume still sends their signals.",
            "Set ELICITATION_ABANDON_AFTER higher, or ELICITATION_RESUME_ATTEMPTS lower.",
        )
    if settings.EMAIL and not settings.BASE_URL:
        messages.append(
            Error(
                "ELICITATION_EMAIL is on, and ELICITATION_BASE_URL is not set: the app sends no "
                "e-mails, because their links would lead nowhere.",
                hint="Set it to the URL of the site, such as 'https://example.com'.",
                id="elicitation.E002",
            )
        )
    return messages


@register(Tags.compatibility)
def check_servers(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> Messages:
    """Read every server of ``ELICITATION_SERVERS``, and look for two with one name for people."""
    messages: Messages = []

    def wrong(text: str, hint: str) -> None:
        messages.append(Error(text, hint=hint, id="elicitation.E003"))

    try:
        names = list(settings.SERVERS)
    except ImproperlyConfigured:
        return messages  # said by check_settings
    policies: dict[str, ServerPolicy] = {}
    for name in names:
        try:
            policy = ServerPolicy.from_settings(name)
        except ImproperlyConfigured as error:
            wrong(str(error), "See ELICITATION_SERVERS in docs/settings.md.")
            continue
        if policy.shares_its_name_with(policies):
            wrong(
                f"ELICITATION_SERVERS[{name!r}] is shown to people under the name of another "
                "server.",
                "Give one of them another label.",
            )
        policies[name] = policy
    return messages


# Not Tags.database: such checks run with "check --database" only.
@register(Tags.compatibility)
def check_databases(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> Messages:
    """Look at the settings of the database that the app writes to; open no connection."""
    messages: Messages = []
    alias = write_alias()
    connection = connections[alias]
    configured = connection.settings_dict
    if connection.vendor == "sqlite":
        mode = (configured.get("OPTIONS") or {}).get("transaction_mode")
        if str(mode).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
            messages.append(
                Warning(
                    f"DATABASES[{alias!r}] is SQLite with deferred transactions: if two "
                    'people answer at the same time, one of them gets "database is locked".',
                    hint='Set "OPTIONS": {"transaction_mode": "IMMEDIATE"}.',
                    id="elicitation.W010",
                )
            )
    if not configured["AUTOCOMMIT"]:
        messages.append(
            Error(
                f"DATABASES[{alias!r}] has AUTOCOMMIT off: nothing that this app stores "
                "would be committed.",
                hint="Remove AUTOCOMMIT from the settings of this database.",
                id="elicitation.E010",
            )
        )
    mirrored = (configured.get("TEST") or {}).get("MIRROR")
    if mirrored or not router.allow_migrate_model(alias, StoredFormAnswer):
        messages.append(
            Error(
                f"Answers would be written to {alias!r}, which is a replica, or to which the "
                "database router does not migrate their table.",
                hint="Let db_for_write() of DATABASE_ROUTERS name the primary database.",
                id="elicitation.E011",
            )
        )
    for model in (Elicitation, ParkedCall):
        if router.db_for_write(model) != alias:
            messages.append(
                Error(
                    f"{model.__name__} is written to another database than StoredFormAnswer: "
                    "the app has to change both in one transaction.",
                    hint="Let DATABASE_ROUTERS name one database for this whole app.",
                    obj=model,
                    id="elicitation.E012",
                )
            )
    if configured["ATOMIC_REQUESTS"]:
        messages.append(
            Warning(
                f"DATABASES[{alias!r}] has ATOMIC_REQUESTS on. The app's own views are exempt. "
                "A view of yours that calls call_tool() or resume() is refused, because a "
                "rollback would send an answer twice; the app's signals wait for the end of a "
                "request in which you call its functions.",
                hint="Mark such views with transaction.non_atomic_requests, then silence this.",
                id="elicitation.W011",
            )
        )
    return messages


@register(Tags.urls)
def check_urls(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> Messages:
    """Look for the URLs of the app's pages."""
    try:
        reverse("elicitation:inbox")
    except NoReverseMatch:
        return [
            Error(
                "The app's pages have no URLs: people could not answer.",
                hint='Add path("elicitation/", include("elicitation.urls")) to your urlpatterns.',
                id="elicitation.E020",
            )
        ]
    return []


@register(Tags.compatibility)
def check_environment(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> Messages:
    """Look for time zones and for the SDK."""
    messages: Messages = []
    if not django_settings.USE_TZ:
        messages.append(
            Error(
                "USE_TZ is off: deadlines would be wrong by an hour twice a year, and for "
                "everybody in another time zone.",
                hint="Set USE_TZ = True.",
                id="elicitation.E021",
            )
        )
    try:
        version = metadata.version("mcp")
    except metadata.PackageNotFoundError:
        version = ""
    if version.split(".")[0] != MCP_MAJOR:
        found = f"is version {version}" if version else "is not installed"
        messages.append(
            Warning(
                f"The MCP SDK {found}: elicitation.mcp.client cannot be used.",
                hint=(
                    "pip install 'django-mcp-elicitation[mcp]'. A site that does not use "
                    "elicitation.mcp.client can silence this."
                ),
                id="elicitation.W020",
            )
        )
    elif not version.startswith(f"{MCP_TESTED}."):
        messages.append(
            Warning(
                f"The MCP SDK is version {version}; elicitation was tested with {MCP_TESTED}. Two "
                "rules of MCP are kept through a private part of the SDK, which another version "
                "may not have.",
                hint=(
                    f"pip install 'mcp=={MCP_TESTED}.*'. A site that has tested another version "
                    "can silence this."
                ),
                id="elicitation.W021",
            )
        )
    return messages


@register(Tags.compatibility)
def check_receivers(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> Messages:
    """Look for somebody who fetches what calls end with."""
    if call_finished.has_listeners(ParkedCall):
        return []
    return [
        Warning(
            "Nothing listens to the signal call_finished: nobody fetches the result of a call "
            "that was parked, and nobody hears that one was lost or given up.",
            hint=(
                "Connect a receiver in the ready() of one of your apps: docs/signals.md has one. "
                "A site that asks in the middle of calls only can silence this."
            ),
            id="elicitation.W022",
        )
    ]


@register(Tags.security, deploy=True)
def check_deployment(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> Messages:
    """Look at what a site on the internet should have, beside Django's own such checks."""
    messages: Messages = []

    def insecure(number: int, text: str, hint: str) -> None:
        messages.append(Warning(text, hint=hint, id=f"elicitation.W{number}"))

    try:
        policy, base_url = settings.CONTENT_SECURITY_POLICY, settings.BASE_URL
    except ImproperlyConfigured:
        return messages  # said by check_settings
    if policy is None:
        insecure(
            100,
            "ELICITATION_CONTENT_SECURITY_POLICY is None: the app sends no policy for the pages "
            "that show what servers wrote.",
            "Leave the setting out, unless the whole site has a policy that is as strict.",
        )
    elif "'unsafe-inline'" in policy or "'unsafe-eval'" in policy:
        insecure(
            101,
            "ELICITATION_CONTENT_SECURITY_POLICY allows inline or evaluated code.",
            "Take 'unsafe-inline' and 'unsafe-eval' out; the app's pages need neither.",
        )
    if base_url.startswith("http://"):
        insecure(
            102,
            "ELICITATION_BASE_URL is not https: e-mails would lead people to a connection "
            "on which others can read their answers.",
            "Let it begin with https://.",
        )
    if django_settings.DEBUG:
        insecure(
            103,
            "DEBUG is on: Django keeps, shows and may log every SQL statement, answers included.",
            "Set DEBUG = False.",
        )
    return messages
