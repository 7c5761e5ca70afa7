"""System checks: what would go wrong later, and what to do about it.

None makes a query, but for one that Django runs with ``migrate`` alone. Each has an id that can be
silenced with ``SILENCED_SYSTEM_CHECKS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from difflib import get_close_matches
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig, apps
from django.conf import settings as django_settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve
from django.utils.module_loading import import_string

from . import backoff
from .calls.parking import LONGEST_PAUSE
from .conf import NAMES, settings
from .inbox.access import access
from .models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from .pages.forms import form_class
from .signals import call_finished, elicitation_closed
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
    if settings.EMAIL and not settings.BASE_URL and not settings.PAGE_URL.startswith("http"):
        messages.append(
            Error(
                "ELICITATION_EMAIL is on, and ELICITATION_BASE_URL is not set: the app sends no "
                "e-mails, because their links would lead nowhere.",
                hint=(
                    "Set it to the URL of the site, such as 'https://example.com'. On a site with "
                    "pages of its own, ELICITATION_PAGE_URL can have the host instead."
                ),
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
    """Look for a page on which people answer, and for what it needs to know who they are."""
    if not _leads_somewhere("elicitation:inbox"):
        return _without_pages()
    messages: Messages = []
    if not _has_middleware(AuthenticationMiddleware):
        messages.append(
            Warning(
                "MIDDLEWARE has no AuthenticationMiddleware: the app's pages cannot know who is "
                "signed in, and answer with an error.",
                hint=(
                    "Add 'django.contrib.auth.middleware.AuthenticationMiddleware' after the "
                    "session's. If a middleware of yours sets request.user, silence this."
                ),
                id="elicitation.W025",
            )
        )
    if not _leads_somewhere(django_settings.LOGIN_URL):
        messages.append(
            Warning(
                "LOGIN_URL leads to no page of this site: people who are not signed in get an "
                "error when they follow a link to answer.",
                hint=(
                    "Set LOGIN_URL to the path or the name of your sign-in page. If another "
                    "server of the same host has that page, silence this."
                ),
                id="elicitation.W024",
            )
        )
    return messages


def _without_pages() -> Messages:
    try:
        page_url = settings.PAGE_URL
    except ImproperlyConfigured:
        return []  # said by check_settings
    if page_url:
        return []
    if _leads_somewhere("elicitation_api:list"):
        return [
            Warning(
                "Only the app's API has URLs, and ELICITATION_PAGE_URL is not set: hosts, e-mails "
                "and the API have no link to give to people.",
                hint="Set ELICITATION_PAGE_URL, such as 'https://app.example.com/ask/{id}'.",
                id="elicitation.W023",
            )
        ]
    return [
        Error(
            "The app's pages have no URLs: people could not answer.",
            hint=(
                'Add path("elicitation/", include("elicitation.urls")) to your urlpatterns. On a '
                "site with pages of its own, set ELICITATION_PAGE_URL."
            ),
            id="elicitation.E020",
        )
    ]


def _leads_somewhere(url: str) -> bool:
    """Whether this is the name of a URL, another site's URL, or a path that this site has."""
    try:
        parts = urlsplit(resolve_url(url))
        if not parts.netloc:
            resolve("/" + parts.path.removeprefix(get_script_prefix()))
    except (NoReverseMatch, Resolver404):
        return False
    return True


def _has_middleware(wanted: type) -> bool:
    for path in django_settings.MIDDLEWARE:
        # What cannot be imported stops the site by itself, and what is no class is another's.
        with suppress(ImportError):
            found = import_string(path)
            if isinstance(found, type) and issubclass(found, wanted):
                return True
    return False


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
    """Look for somebody who goes on with calls, and who fetches what they end with."""
    messages: Messages = []
    with suppress(ImproperlyConfigured):  # said by check_settings
        # The app's own receiver gives calls to the queue. A queue of the site's own can go on with
        # any call, the app's with those of the servers by name.
        queues_any = not settings.QUEUE.startswith("elicitation.")
        has_receiver = len(elicitation_closed.receivers) > 1
        if not (settings.SERVERS or queues_any or has_receiver):
            messages.append(
                Warning(
                    "Nothing listens to the signal elicitation_closed, and ELICITATION_SERVERS "
                    "is empty, so no worker can go on with a call: answers reach nobody.",
                    hint=(
                        "Write your servers into ELICITATION_SERVERS, or connect a receiver that "
                        "resumes the call: docs/hosts.md has both. A site that asks in the middle "
                        "of calls only can silence this."
                    ),
                    id="elicitation.W026",
                )
            )
    if not call_finished.has_listeners(ParkedCall):
        messages.append(
            Warning(
                "Nothing listens to the signal call_finished: nobody fetches the result of a call "
                "that was parked, and nobody hears that one was lost or given up.",
                hint=(
                    "Decorate a function with elicitation.calls.receive_outcomes: docs/hosts.md "
                    "has one. A site that asks in the middle of calls only can silence this."
                ),
                id="elicitation.W022",
            )
        )
    return messages


@register(Tags.database)
def check_charset(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None, **kwargs: Any
) -> Messages:
    """Look, on MariaDB, for columns of the app that cannot hold every character.

    Django runs this with ``migrate`` and ``check --database``, and never at the start.
    """
    alias = write_alias()
    connection = connections[alias]
    if alias not in (databases or ()) or connection.vendor != "mysql":
        return []
    tables = [model._meta.db_table for model in apps.get_app_config("elicitation").get_models()]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = "
            "DATABASE() AND table_name IN %s AND character_set_name NOT IN ('utf8mb4', 'ascii')",
            [tables],
        )
        wrong = sorted(name for (name,) in cursor.fetchall())
    return [
        Error(
            f"The table {name} has a character set that cannot hold every character: what a "
            "server asks with an emoji in it cannot be stored.",
            hint=f"ALTER TABLE {name} CONVERT TO CHARACTER SET utf8mb4.",
            id="elicitation.E013",
        )
        for name in wrong
    ]


def _site_has_a_policy() -> bool:
    """Whether Django itself sends a Content-Security-Policy, as it can from 6.0 on."""
    middleware = "django.middleware.csp.ContentSecurityPolicyMiddleware"
    is_sent = middleware in django_settings.MIDDLEWARE
    return is_sent and bool(getattr(django_settings, "SECURE_CSP", None))


@register(Tags.security, deploy=True)
def check_deployment(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> Messages:
    """Look at what a site on the internet should have, beside Django's own such checks."""
    messages: Messages = []

    def insecure(number: int, text: str, hint: str) -> None:
        messages.append(Warning(text, hint=hint, id=f"elicitation.W{number}"))

    try:
        policy = settings.CONTENT_SECURITY_POLICY
        links = {"BASE_URL": settings.BASE_URL, "PAGE_URL": settings.PAGE_URL}
    except ImproperlyConfigured:
        return messages  # said by check_settings
    if policy is None and _site_has_a_policy():
        pass
    elif policy is None:
        insecure(
            100,
            "ELICITATION_CONTENT_SECURITY_POLICY is None: the app sends no policy for the pages "
            "that show what servers wrote.",
            "Leave the setting out. Or let the whole site have a policy: SECURE_CSP and Django's "
            "ContentSecurityPolicyMiddleware, or silence this if another program sends it.",
        )
    elif "'unsafe-inline'" in policy or "'unsafe-eval'" in policy:
        insecure(
            101,
            "ELICITATION_CONTENT_SECURITY_POLICY allows inline or evaluated code.",
            "Take 'unsafe-inline' and 'unsafe-eval' out; the app's pages need neither.",
        )
    for name, url in links.items():
        if url.startswith("http://"):
            insecure(
                102,
                f"ELICITATION_{name} is not https: e-mails would lead people to a connection on "
                "which others can read their answers.",
                "Let it begin with https://.",
            )
    if django_settings.DEBUG:
        insecure(
            103,
            "DEBUG is on: Django keeps, shows and may log every SQL statement, answers included.",
            "Set DEBUG = False.",
        )
    return messages
