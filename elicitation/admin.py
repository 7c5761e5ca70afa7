"""What operators see: what is asked, of whom, and how it ended.

Only server policies can be added and changed here. Reading an answer needs a permission of its
own, and leaves an entry in the admin's log. What a server or a person wrote is escaped, and
invisible characters are written out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, cast
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db import connections, models, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, path, reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from . import inbox, metrics
from .calls import outbox, switching
from .calls.requests import ASK_OPERATOR
from .core.untrusted import one_line, visible
from .inbox import notify
from .models import Elicitation, ParkedCall, Refusal, ServerPolicy, StoredFormAnswer
from .transactions import write_alias

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    BaseAdmin = admin.ModelAdmin[Any]
else:
    BaseAdmin = admin.ModelAdmin

logger = logging.getLogger("elicitation")

#: How many properties of a form its row in the list names.
SHOWN_FIELDS = 4
#: How many characters of a message its row in the list shows.
SHOWN_CHARS = 60
#: A longer schema, in characters, is not read for its row in the list.
MAX_LISTED_CHARS = 20_000


def _said(text: str) -> SafeString:
    """Return text of a server or a person as a block of its own."""
    return format_html('<div class="elicitation-said" dir="auto">{}</div>', visible(text))


def _moment(moment: datetime | None) -> str | None:
    """Return a time in the reader's zone, with the zone."""
    if moment is None:
        return None
    local = timezone.localtime(moment)
    return f"{date_format(local, 'DATETIME_FORMAT')} {date_format(local, 'T')}"


def _when(name: str, text: Any) -> Callable[[BaseAdmin, models.Model], str | None]:
    """Return a column that shows the time ``name`` of a row."""

    @admin.display(description=text, ordering=name)
    def column(self: BaseAdmin, row: models.Model) -> str | None:
        return _moment(getattr(row, name))

    return column


def _policy_of(row: Any) -> ServerPolicy:
    """Return the policy of a row's server, as ``LabelledChangeList`` has read it if it has."""
    # Not ``row.policy``: there is no row where the settings have the policy.
    policy: ServerPolicy | None = getattr(row, "shown_policy", None)
    return ServerPolicy.objects.for_server(row.server) if policy is None else policy


def _figures(server: str) -> list[tuple[Any, Any, str]]:
    """Return the figures of a server: what each is, its value, and the list behind it."""
    found = metrics.figures(server)
    rows = reverse("admin:elicitation_elicitation_changelist")
    refusals = reverse("admin:elicitation_refusal_changelist", query={"server": server})

    def where(**filters: str) -> str:
        return f"{rows}?{urlencode({'server': server, **filters})}"

    median = (
        None if found.median is None else timedelta(seconds=round(found.median.total_seconds()))
    )
    return [
        (_("waiting"), found.waiting, where(state__exact=Elicitation.State.PENDING)),
        (_("answered"), found.answered, where(state__exact=Elicitation.State.ANSWERED)),
        (_("declined"), found.declined, where(state__exact=Elicitation.State.DECLINED)),
        (_("expired"), found.expired, where(state__exact=Elicitation.State.EXPIRED)),
        (_("withdrawn"), found.withdrawn, where(state__exact=Elicitation.State.WITHDRAWN)),
        (_("lost"), found.lost, where(delivery__exact=Elicitation.Delivery.ROUND_LOST)),
        (_("refused"), found.refused, refusals),
        (_("last refusal"), _moment(found.last_refused_at) or "—", ""),
        (_("median time to answer"), median or "—", ""),
    ]


def _policy_link(policy: ServerPolicy) -> str:
    """Return where the policy of a server is changed, or where one is added."""
    if policy.pk is None:
        return reverse("admin:elicitation_serverpolicy_add", query={"server": policy.server})
    return reverse("admin:elicitation_serverpolicy_change", args=[policy.pk])


def _links_of_server(request: HttpRequest, policy: ServerPolicy) -> list[tuple[Any, str]]:
    """Return where an operator goes on from the figures of a server."""
    links: list[tuple[Any, str]] = [(_("server policy"), _policy_link(policy))]
    for model in (Elicitation, ParkedCall, Refusal):
        if request.user.has_perm(f"elicitation.view_{model._meta.model_name}"):
            name = f"admin:elicitation_{model._meta.model_name}_changelist"
            where = reverse(name, query={"server": policy.server})
            links.append((model._meta.verbose_name_plural, where))
    return links


class ServerFilter(admin.SimpleListFilter):
    """A filter for the rows of one server that has a policy, in the admin or in the settings."""

    title = _("server")
    parameter_name = "from_server"

    def lookups(self, request: HttpRequest, model_admin: BaseAdmin) -> Iterable[tuple[str, str]]:
        """Offer the servers by their labels, read from the settings and the short table."""
        rows = {row.server: row for row in ServerPolicy.objects.all()}
        policies = ServerPolicy.all_from_settings() | rows
        return [(name, one_line(policy.display_name)) for name, policy in policies.items()]

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[Any]
    ) -> models.QuerySet[Any]:
        """Return the rows of the chosen server."""
        return queryset if self.value() is None else queryset.filter(server=self.value())


class LabelledChangeList(ChangeList):
    """A list that reads the labels of all its servers in one query."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the rows of the page, and the policies of their servers."""
        super().get_results(request)
        rows: list[Any] = list(self.result_list)
        policies = ServerPolicy.objects.for_servers({row.server for row in rows})
        for row in rows:
            row.shown_policy = policies[row.server]
        self.result_list = rows
        if not connections[self.queryset.db].features.has_zoneinfo_database:
            # Without its tables of time zones MariaDB cannot group times by day.
            self.date_hierarchy = None


class ClosedLookups(BaseAdmin):
    """A list that its URL can filter by what is listed here, and by nothing else.

    Django allows every column of the row, with every lookup: a query tells letter by letter what
    is in a column that no page shows.
    """

    #: Further parameters, with their lookups. Those of the list's own filters need no mention.
    allowed_lookups: tuple[str, ...] = ()

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Whether the list can be filtered this way by its URL."""
        return lookup in self.allowed_lookups or lookup in self._filters(request)

    def _filters(self, request: HttpRequest) -> set[str]:
        """Return the parameters of the list's own filters, and of the list by days."""
        allowed = set()
        for one in self.get_list_filter(request):
            if isinstance(one, str):
                allowed.add(f"{one}__exact")
            elif isinstance(one, type) and issubclass(one, admin.SimpleListFilter):
                allowed.add(str(one.parameter_name))
        if self.date_hierarchy:
            allowed |= {f"{self.date_hierarchy}__{part}" for part in ("year", "month", "day")}
        return allowed


class RecordAdmin(ClosedLookups):
    """Rows that are read-only in the admin."""

    # What names a row, as a whole: an operator may have it from a log.
    allowed_lookups: tuple[str, ...] = ("server", "tool", "scope", "call")

    list_select_related: ClassVar[bool | tuple[str, ...]] = ("respondent",)
    # To count a million rows takes longer than to read one page of them.
    show_full_result_count = False

    class Media:
        css = {"all": ("elicitation/admin.css",)}  # noqa: RUF012  # Django's own way

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that knows the servers' labels."""
        return LabelledChangeList

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Search by respondent, server, tool, conversation and id, not by what was asked."""
        name = get_user_model().USERNAME_FIELD
        here = {field.name for field in self.opts.get_fields()}
        names = ("server", "tool", "scope", "scope_label", "call")
        label = ("policy__label",) if "policy" in here else ()
        return (f"respondent__{name}", *(each for each in names if each in here), *label, "^id")

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[Any], search_term: str
    ) -> tuple[models.QuerySet[Any], bool]:
        """Search by the labels of the settings, too."""
        found, may_repeat = super().get_search_results(request, queryset, search_term)
        term = search_term.strip().casefold()
        policies = ServerPolicy.all_from_settings()
        servers = [name for name in policies if term in policies[name].label.casefold()]
        if term and servers:
            found |= queryset.filter(server__in=servers)
        return found, may_repeat

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Rows cannot be added."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows cannot be changed."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny deleting on these pages, and allow it when a user's account is deleted.

        Deleting an account deletes the person's calls and answers, and Django asks here.
        """
        own = f"{self.opts.app_label}_{self.opts.model_name}_"
        match = request.resolver_match
        here = match is not None and (match.url_name or "").startswith(own)
        return not here and super().has_delete_permission(request, obj)

    @admin.display(description=_("id"))
    def short_id(self, row: Elicitation | ParkedCall | Refusal | StoredFormAnswer) -> str:
        """The beginning of the id."""
        return row.short_id

    @admin.display(description=_("server"), ordering="server")
    def server_label(self, row: Any) -> str:
        """The label that people see for the server."""
        return one_line(_policy_of(row).display_name)

    @admin.display(description=_("tool"), ordering="tool")
    def tool_name(self, row: Any) -> str:
        """The tool, as a server may have called it."""
        return one_line(row.tool, 200)

    @admin.display(description=_("scope"))
    def scope_name(self, row: Any) -> str:
        """The host's id of the conversation, with its label."""
        label = getattr(row, "scope_label", "")
        return visible(f"{row.scope} ({label})" if label else row.scope)

    @admin.display(description=_("call"))
    def call_name(self, row: Any) -> str:
        """The host's id of the tool call."""
        return visible(row.call)


class SecretAdmin(RecordAdmin):
    """Rows with something private; to read it takes a permission, and is logged."""

    #: The field that shows it, and the permission that it takes.
    secret: str
    permission: str
    #: What the admin's log and the app's say of a reading.
    note: Any
    message: str

    def shown_fields(self) -> tuple[str, ...]:
        """Return the fields that everybody sees who may see the row."""
        raise NotImplementedError

    def has_secret(self, row: Any) -> bool:
        """Whether the row has something private."""
        return True

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Show what is private to users who may read it."""
        fields = self.shown_fields()
        is_shown = obj is None or self.has_secret(obj)
        return (*fields, self.secret) if is_shown and self.may_read(request) else fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """All fields are read-only."""
        return self.get_fields(request, obj)

    def may_read(self, request: HttpRequest) -> bool:
        """Whether this user may read what is private."""
        return request.user.has_perm(f"elicitation.{self.permission}")

    def log_fields(self, row: Any) -> dict[str, str]:
        """Return what names the row in the app's log."""
        raise NotImplementedError

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        """Log who reads what is private, before it is shown."""
        if self.secret in self.get_fields(request, obj):
            self.log_change(request, obj, str(self.note))
            fields = {"server": obj.server, "tool": obj.tool, "user_id": str(request.user.pk)}
            logger.info(self.message, extra=fields | self.log_fields(obj))
        return super().render_change_form(request, context, add, change, form_url, obj)


def _steps(row: Elicitation) -> list[tuple[datetime, str]]:
    """Return what became of an elicitation, in the order of time."""
    steps: list[tuple[datetime | None, str]] = [
        (row.asked_at, gettext("asked")),
        (row.notified_at, gettext("e-mail sent")),
        (row.first_shown_at, gettext("shown for the first time")),
    ]
    if row.closed_at is not None:
        via = row.get_closed_via_display()
        by = "" if row.closed_by is None else row.closed_by.get_username()
        text = gettext("%(state)s by %(person)s, through: %(via)s") if by else "%(state)s: %(via)s"
        said = text % {"state": row.get_state_display(), "person": by, "via": via}
        steps.append((row.closed_at, f"{said} ({row.reason})" if row.reason else said))
    if row.continued_at is not None:
        steps.append((row.continued_at, gettext("the person pressed Continue")))
    if row.delivered_at is not None:
        steps.append((row.delivered_at, str(row.get_delivery_display() or gettext("delivered"))))
    call = ParkedCall.objects.ended().filter(pk=row.parked_call_id).first()
    if call is not None:
        outcome = gettext("the call ended: %(outcome)s")
        steps.append((call.ended_at, outcome % {"outcome": call.get_outcome_display()}))
    found = [(at, text) for at, text in steps if at is not None]
    return sorted(found, key=lambda step: step[0])


def _remind(row: Elicitation) -> bool:
    """Notify people of an open elicitation again; return whether that could be done."""
    try:
        return notify.remind(row.pk)
    except Exception as error:
        # A mail server that is away, or a hook of the site. The text may have an address.
        fields = {"elicitation_id": str(row.pk), "error": type(error).__name__}
        logger.warning("A person could not be notified again", extra=fields)
        return False


def _as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


class HandOverForm(forms.Form):
    """To whom requests are handed."""

    person = forms.CharField(
        label=_("user name"), help_text=_("The person who answers from now on.")
    )

    def clean_person(self) -> Any:
        """Return the user with this name, who can sign in."""
        users = get_user_model()
        named = {users.USERNAME_FIELD: self.cleaned_data["person"]}
        person = users._default_manager.filter(**named).first()
        if person is None or not person.is_active:
            raise forms.ValidationError(_("There is no active user with this name."))
        return person


@admin.register(Elicitation)
class ElicitationAdmin(RecordAdmin):
    """The audit trail: what was asked, and how it ended."""

    date_hierarchy = "asked_at"
    ordering = ("-asked_at", "-id")
    list_display = (
        "short_id",
        "server_label",
        "tool_name",
        "respondent",
        "message_short",
        "state_now",
        "fields_asked",
        "asked",
    )
    list_filter = ("state", "delivery", "closed_via", "never_fetched", ServerFilter)
    actions = (
        "resend_selected",
        "extend_selected",
        "hand_over_selected",
        "withdraw_selected",
        "expire_selected",
    )
    readonly_fields = fields = (
        "id",
        "timeline",
        "related",
        "server_label",
        "tool_name",
        "scope_name",
        "call_name",
        "round",
        "respondent",
        "made_for",
        "message_text",
        "url_host",
        "schema_text",
        "fingerprint",
        "state_now",
        "reason",
        "asked",
        "deadline",
        "first_shown",
        "closed",
        "closed_by",
        "closed_via",
        "delivered",
        "delivery",
        "resent",
        "never_fetched",
        "notified",
    )

    asked = _when("asked_at", _("asked at"))
    deadline = _when("expires_at", _("deadline"))
    closed = _when("closed_at", _("closed at"))
    first_shown = _when("first_shown_at", _("first shown at"))
    delivered = _when("delivered_at", _("delivered at"))
    notified = _when("notified_at", _("e-mail sent at"))

    def view_on_site(self, obj: Elicitation) -> str | None:
        """Return where people answer it, for the link of the page; nothing if there is none."""
        return obj.page_url or None

    @admin.display(description=_("state"), ordering="state")
    def state_now(self, row: Elicitation) -> str:
        """The state now: past its deadline an elicitation is expired, also before its row is."""
        return str(Elicitation.State(row.current_state()).label)

    @admin.display(description=_("questions"))
    def fields_asked(self, row: Elicitation) -> str:
        """The names of the properties, which are letters, digits, `_`, `.` and `-`.

        In URL mode: the host.
        """
        if row.is_url:
            return row.url_host
        # Not the parsed schema: nothing but names is shown, and a list has a hundred rows.
        if len(row.requested_schema) > MAX_LISTED_CHARS:
            return "…"
        names = sorted(json.loads(row.requested_schema).get("properties") or {})
        more = "…" if len(names) > SHOWN_FIELDS else ""
        return ", ".join(names[:SHOWN_FIELDS]) + more

    @admin.display(description=_("message"))
    def message_short(self, row: Elicitation) -> str:
        """The beginning of what the server wrote, on one line."""
        return one_line(row.message, SHOWN_CHARS)

    @admin.display(description=_("timeline"))
    def timeline(self, row: Elicitation) -> SafeString:
        """What became of it, step by step, with times in the reader's zone."""
        steps = format_html_join(
            "",
            '<li class="elicitation-step"><time datetime="{}">{}</time> {}</li>',
            ((at.isoformat(), _moment(at), text) for at, text in _steps(row)),
        )
        return format_html('<ol class="elicitation-timeline">{}</ol>', steps)

    @admin.display(description=_("related"))
    def related(self, row: Elicitation) -> SafeString:
        """Links to the policy of its server, its person, its call, and what else that asked."""
        links = [(_policy_link(_policy_of(row)), gettext("server policy"))]
        if row.respondent_id:
            user = get_user_model()._meta
            with suppress(NoReverseMatch):
                name = f"admin:{user.app_label}_{user.model_name}_change"
                links.append((reverse(name, args=[row.respondent_id]), gettext("respondent")))
        if ParkedCall.objects.filter(pk=row.parked_call_id).exists():
            where = reverse("admin:elicitation_parkedcall_change", args=[row.parked_call_id])
            links.append((where, gettext("call")))
        same = reverse("admin:elicitation_elicitation_changelist", query={"call": row.call})
        links.append((same, gettext("requests of the same call")))
        return format_html_join(" · ", '<a href="{}">{}</a>', links)

    @admin.display(description=_("message"))
    def message_text(self, row: Elicitation) -> SafeString:
        """What the server wrote."""
        return _said(row.message)

    @admin.display(description=_("requested schema"))
    def schema_text(self, row: Elicitation) -> SafeString:
        """What the server wrote, as readable JSON."""
        parsed = json.loads(row.requested_schema)
        return _said(json.dumps(parsed, indent=2, ensure_ascii=False))

    def has_withdraw_permission(self, request: HttpRequest) -> bool:
        """Whether this user may withdraw elicitations."""
        return request.user.has_perm("elicitation.withdraw_elicitation")

    def has_expire_permission(self, request: HttpRequest) -> bool:
        """Whether this user may end the time to answer."""
        return request.user.has_perm("elicitation.expire_elicitation")

    @admin.action(description=_("Withdraw the selected requests"), permissions=["withdraw"])
    def withdraw_selected(
        self, request: HttpRequest, queryset: models.QuerySet[Elicitation]
    ) -> None:
        """Withdraw elicitations; their servers receive ``decline``."""
        self._close(request, queryset, inbox.withdraw, gettext("Withdrawn."))

    @admin.action(
        description=_("End the time to answer the selected requests now"),
        permissions=["expire"],
    )
    def expire_selected(
        self, request: HttpRequest, queryset: models.QuerySet[Elicitation]
    ) -> None:
        """Let elicitations expire before their deadline."""
        self._close(request, queryset, inbox.expire_now, gettext("Expired before its deadline."))

    def has_resend_permission(self, request: HttpRequest) -> bool:
        """Whether this user may notify people and hosts again."""
        return request.user.has_perm("elicitation.resend_elicitation")

    def has_extend_permission(self, request: HttpRequest) -> bool:
        """Whether this user may give people more time."""
        return request.user.has_perm("elicitation.extend_elicitation")

    def has_hand_over_permission(self, request: HttpRequest) -> bool:
        """Whether this user may hand elicitations to somebody else."""
        return request.user.has_perm("elicitation.hand_over_elicitation")

    @admin.action(description=_("Notify again of the selected requests"), permissions=["resend"])
    def resend_selected(
        self, request: HttpRequest, queryset: models.QuerySet[Elicitation]
    ) -> None:
        """Notify people of what is open, and hosts of what is closed and was not sent."""

        def resend(row: Elicitation) -> bool:
            return _remind(row) if row.is_open() else outbox.resend(row.pk)

        self._each(request, queryset, resend, gettext("Notified again."))

    @admin.action(
        description=_("Extend the time to answer the selected requests"), permissions=["extend"]
    )
    def extend_selected(
        self, request: HttpRequest, queryset: models.QuerySet[Elicitation]
    ) -> None:
        """Let elicitations be answered as long as new ones, from now on."""

        def extend(row: Elicitation) -> bool:
            with suppress(inbox.ElicitationClosedError, Elicitation.DoesNotExist):
                inbox.extend(row.pk)
                return True
            return False

        self._each(request, queryset, extend, gettext("The time to answer was extended."))

    @admin.action(
        description=_("Hand the selected requests to somebody else"), permissions=["hand_over"]
    )
    def hand_over_selected(
        self, request: HttpRequest, queryset: models.QuerySet[Elicitation]
    ) -> HttpResponse:
        """Lead to the page that asks to whom."""
        keys = urlencode([("id", str(row.pk)) for row in queryset])
        return redirect(f"{reverse('admin:elicitation_elicitation_hand_over')}?{keys}")

    def get_urls(self) -> list[Any]:
        """Add the page that hands elicitations to somebody else."""
        view = self.admin_site.admin_view(self.hand_over_view)
        name = "elicitation_elicitation_hand_over"
        return [path("hand-over/", view, name=name), *super().get_urls()]

    def hand_over_view(self, request: HttpRequest) -> HttpResponse:
        """Ask to whom elicitations are handed, and hand them over."""
        if not (self.has_view_permission(request) and self.has_hand_over_permission(request)):
            raise PermissionDenied
        sent = request.POST if request.method == "POST" else request.GET
        keys = [key for text in sent.getlist("id") if (key := _as_uuid(text)) is not None]
        rows = self.get_queryset(request).filter(pk__in=keys)
        form = HandOverForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            person = form.cleaned_data["person"]

            def hand_over(row: Elicitation) -> bool:
                with suppress(inbox.ElicitationClosedError, inbox.WrongModeError):
                    inbox.hand_over(row.pk, to=person)
                    _remind(row)
                    return True
                return False

            self._each(request, rows, hand_over, gettext("Handed to somebody else."))
            return redirect("admin:elicitation_elicitation_changelist")
        context = self.admin_site.each_context(request) | {
            "title": gettext("Hand requests to somebody else"),
            "opts": self.opts,
            "rows": rows,
            "form": form,
        }
        return render(request, "admin/elicitation/elicitation/hand_over.html", context)

    def _each(
        self,
        request: HttpRequest,
        rows: models.QuerySet[Elicitation],
        act: Callable[[Elicitation], bool],
        note: str,
    ) -> None:
        """Do something with each row, log it, and say how many were skipped."""
        done = [row for row in rows if act(row)]
        for row in done:
            self.log_change(request, row, note)
        if done:
            self.message_user(request, f"{note} ({len(done)})", messages.SUCCESS)
        if skipped := len(rows) - len(done):
            text = ngettext(
                "%d request was skipped: that cannot be done with it.",
                "%d requests were skipped: that cannot be done with them.",
                skipped,
            )
            self.message_user(request, text % skipped, messages.WARNING)

    def _close(
        self,
        request: HttpRequest,
        queryset: models.QuerySet[Elicitation],
        close: Callable[..., Elicitation],
        note: str,
    ) -> None:
        done = skipped = 0
        for elicitation in queryset:
            try:
                if not elicitation.is_open():
                    raise inbox.ElicitationClosedError(elicitation)
                closed = close(elicitation.pk, by=request.user, via=Elicitation.Via.ADMIN)
            except (inbox.ElicitationClosedError, Elicitation.DoesNotExist):
                skipped += 1
            else:
                self.log_change(request, closed, note)
                done += 1
        if done:
            text = ngettext("%d request was closed.", "%d requests were closed.", done)
            self.message_user(request, text % done, messages.SUCCESS)
        if skipped:
            text = ngettext(
                "%d request was skipped: it is already closed.",
                "%d requests were skipped: they are already closed.",
                skipped,
            )
            self.message_user(request, text % skipped, messages.WARNING)


@admin.register(ParkedCall)
class ParkedCallAdmin(SecretAdmin):
    """Parked calls, and those that have ended with nobody's acknowledgement."""

    list_display = (
        "short_id",
        "server_label",
        "tool_name",
        "respondent",
        "received",
        "outcome",
        "ended",
    )
    list_filter = ("outcome", ServerFilter)
    secret, permission = "result_text", "view_result"
    note, message = _("The result was read."), "A result was read in the admin"

    received = _when("received_at", _("round received at"))
    claimed = _when("leased_until", _("reserved for resuming until"))
    ended = _when("ended_at", _("ended at"))
    kept = _when("outcome_expires_at", _("outcome kept until"))

    def shown_fields(self) -> tuple[str, ...]:
        """Return the fields without arguments, requests, request state and result."""
        return (
            "id",
            "server_label",
            "tool_name",
            "scope_name",
            "call_name",
            "respondent",
            "round",
            "received",
            "claimed",
            "outcome",
            "outcome_reason",
            "ended",
            "kept",
            "result_bytes",
        )

    def has_secret(self, row: ParkedCall) -> bool:
        """Whether the call has ended with a result."""
        return bool(row.result)

    def log_fields(self, row: ParkedCall) -> dict[str, str]:
        """Return what names the call in the app's log."""
        return {"parked_call_id": str(row.pk)}

    @admin.display(description=_("result"))
    def result_text(self, row: ParkedCall) -> SafeString:
        """What the server returned, as readable JSON."""
        return _said(json.dumps(json.loads(row.result), indent=2, ensure_ascii=False))


@admin.register(StoredFormAnswer)
class StoredFormAnswerAdmin(SecretAdmin):
    """Stored answers; their content needs a permission of its own."""

    list_display = (
        "short_id",
        "server_label",
        "tool_name",
        "respondent",
        "recorded",
        "usable_until",
    )
    list_filter = (ServerFilter,)
    secret, permission = "content", "view_answer_content"
    note, message = _("The answer was read."), "An answer was read in the admin"

    recorded = _when("recorded_at", _("stored at"))
    usable_until = _when("expires_at", _("valid until"))

    def shown_fields(self) -> tuple[str, ...]:
        """Return the fields without the answer."""
        return (
            "id",
            "server_label",
            "tool_name",
            "scope_name",
            "call_name",
            "respondent",
            "recorded",
            "usable_until",
        )

    def log_fields(self, row: StoredFormAnswer) -> dict[str, str]:
        """Return what names the answer in the app's log."""
        return {"elicitation_id": str(row.elicitation_id)}

    @admin.display(description=_("answer"))
    def content(self, row: StoredFormAnswer) -> SafeString:
        """What the person answered, by property."""
        if row.action == StoredFormAnswer.Action.DECLINE:
            return format_html("{}", gettext("Declined."))
        lines = []
        for name, answer in row.answers.items():
            said = [*answer.selected, *([answer.other_text] if answer.other_text else [])]
            lines.append((name, _said("\n".join(said) if said else "—")))
        return format_html("<dl>{}</dl>", format_html_join("", "<dt>{}</dt><dd>{}</dd>", lines))


@admin.register(Refusal)
class RefusalAdmin(RecordAdmin):
    """What servers asked and nobody was asked, and where that is decided."""

    list_select_related = False
    allowed_lookups = ("server", "tool", "code")
    list_display = (
        "server_label",
        "tool_name",
        "code",
        "property_name",
        "reason",
        "times",
        "last",
        "its_policy",
    )
    list_filter = ("code", ServerFilter)
    readonly_fields = fields = (
        "server_label",
        "tool_name",
        "code",
        "property_name",
        "reason",
        "times",
        "first",
        "last",
        "its_policy",
    )

    first = _when("first_at", _("first time"))
    last = _when("last_at", _("last time"))

    actions = ("allow_tools",)

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Search by server, tool, code and property."""
        return ("server", "tool", "code", "property_name")

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """Whether this user may decide about servers."""
        may = (f"elicitation.{verb}_serverpolicy" for verb in ("add", "change"))
        return request.user.has_perms(tuple(may))

    @admin.action(
        description=_("Let the tools of the selected refusals ask"), permissions=["decide"]
    )
    def allow_tools(self, request: HttpRequest, queryset: models.QuerySet[Refusal]) -> None:
        """Allow the tools about which an operator had not decided, and no others."""
        waiting = {(row.server, row.tool) for row in queryset if row.code == ASK_OPERATOR}
        for server, tool in sorted(waiting):
            policy = ServerPolicy.objects.for_server(server)
            policy.set_tool_rule(tool, ServerPolicy.ToolRule.ALLOW)
            policy.save(using=write_alias())
            self.log_change(request, policy, gettext("A tool was allowed to ask."))
        text = ngettext("%d tool may ask now.", "%d tools may ask now.", len(waiting))
        level = messages.SUCCESS if waiting else messages.WARNING
        self.message_user(request, text % len(waiting), level)

    @admin.display(description=_("server policy"))
    def its_policy(self, row: Refusal) -> SafeString:
        """A link to the policy of the server, or to where one is added."""
        policy = _policy_of(row)
        return format_html(
            '<a href="{}">{}</a>', _policy_link(policy), policy.get_policy_display()
        )


@admin.register(ServerPolicy)
class ServerPolicyAdmin(ClosedLookups):
    """Server policies: which server may show what, and switching servers off."""

    list_display = ("server", "label", "policy", "allow_confirmation", "prefill")
    list_filter = ("policy",)
    search_fields = ("server", "label")
    actions = ("switch_off_selected", "delete_selected")

    def get_readonly_fields(
        self, request: HttpRequest, obj: ServerPolicy | None = None
    ) -> tuple[str, ...]:
        """Make the name of the server read-only: the key of the row is made of it."""
        return ("server",) if obj else ()

    def save_model(self, request: HttpRequest, obj: ServerPolicy, form: Any, change: bool) -> None:
        """Save, and stop what the server, or a tool of it, has under way and may not any more."""
        super().save_model(request, obj, form, change)
        if not obj.allows_asking or obj.tools:
            transaction.on_commit(lambda: self._stop(request, obj.server), using=write_alias())

    # --- Switching off -----------------------------------------------------------------------

    def get_urls(self) -> list[Any]:
        """Add the page that switches servers off."""
        where = "elicitation_serverpolicy"
        off = self.admin_site.admin_view(self.switch_off_view)
        servers = self.admin_site.admin_view(self.servers_view)
        return [
            path("switch-off/", off, name=f"{where}_switch_off"),
            path("servers/", servers, name=f"{where}_servers"),
            *super().get_urls(),
        ]

    # --- Figures -----------------------------------------------------------------------------

    def servers_view(self, request: HttpRequest) -> HttpResponse:
        """Show the figures of the server that the query names, or else a list of all servers."""
        if not (
            self.has_view_permission(request)
            and request.user.has_perm("elicitation.view_elicitation")
        ):
            raise PermissionDenied
        known = switching.under_way()
        server = request.GET.get("server", "")
        if server and server not in known:
            raise Http404
        policies = ServerPolicy.objects.for_servers([server] if server else known)
        context = self.admin_site.each_context(request) | {
            "title": one_line(policies[server].display_name) if server else gettext("Servers"),
            "opts": self.opts,
            "server": server,
        }
        if server:
            context |= {
                "figures": _figures(server),
                "links": _links_of_server(request, policies[server]),
            }
        else:
            context["servers"] = [
                known[name]._asdict()
                | {
                    "label": one_line(policy.display_name),
                    "policy": policy,
                    "query": urlencode({"server": name}),
                }
                for name, policy in policies.items()
            ]
        return render(request, "admin/elicitation/serverpolicy/servers.html", context)

    @admin.action(description=_("Switch the selected servers off now"), permissions=["change"])
    def switch_off_selected(
        self, request: HttpRequest, queryset: models.QuerySet[ServerPolicy]
    ) -> HttpResponse:
        """Lead to the page that says what it will do."""
        names = [("server", row.server) for row in queryset]
        return redirect(
            f"{reverse('admin:elicitation_serverpolicy_switch_off')}?{urlencode(names)}"
        )

    def switch_off_view(self, request: HttpRequest) -> HttpResponse:
        """Say what switching servers off will do, and do it when it is confirmed.

        The query names the servers; without one it is every server that this site knows.
        """
        # A server that has no row yet gets one.
        if not (self.has_change_permission(request) and self.has_add_permission(request)):
            raise PermissionDenied
        known = switching.under_way()
        if request.method == "POST":
            # Those that the page named, and no other that appeared since.
            for server in request.POST.getlist("server"):
                if server in known:
                    self._switch_off(request, server)
            return redirect("admin:elicitation_serverpolicy_changelist")
        chosen = request.GET.getlist("server") or list(known)
        names = [name for name in chosen if name in known]
        servers: list[dict[str, Any]] = [
            {"name": name, "label": one_line(policy.display_name), "policy": policy}
            | known[name]._asdict()
            for name, policy in ServerPolicy.objects.for_servers(names).items()
        ]
        context = self.admin_site.each_context(request) | {
            "title": gettext("Switch servers off"),
            "opts": self.opts,
            "servers": servers,
            "is_everything": not request.GET.getlist("server"),
            "total": {name: sum(each[name] for each in servers) for name in ("waiting", "calls")},
        }
        return render(request, "admin/elicitation/serverpolicy/switch_off.html", context)

    def _switch_off(self, request: HttpRequest, server: str) -> None:
        by = cast("User", request.user)
        done = switching.switch_off(server, by=by, via=Elicitation.Via.ADMIN)
        row = ServerPolicy.objects.for_server(server)
        self.log_change(request, row, gettext("Switched off."))
        self._say(request, row, done)

    def _stop(self, request: HttpRequest, server: str) -> None:
        by = cast("User", request.user)
        done = switching.stop(server, by=by, via=Elicitation.Via.ADMIN)
        policy = ServerPolicy.objects.for_server(server)
        # With rules for tools alone, most often nothing has to stop.
        if any(done) or not policy.allows_asking:
            self._say(request, policy, done)

    def _say(
        self, request: HttpRequest, policy: ServerPolicy, done: switching.SwitchedOff
    ) -> None:
        counts = {"server": one_line(policy.display_name), **done._asdict()}
        if policy.allows_asking:
            text = gettext(
                "%(server)s: some tools may not ask any more. Requests withdrawn: %(withdrawn)d. "
                "Calls ended: %(ended)d."
            )
        else:
            text = gettext(
                "%(server)s is off. Requests withdrawn: %(withdrawn)d. Calls ended: %(ended)d."
            )
        if done.in_progress:
            text += " " + gettext(
                "Calls that go on right now: %(in_progress)d. They end before they send anything."
            )
        self.message_user(request, text % counts, messages.SUCCESS)

    # --- Reset to the default ----------------------------------------------------------------

    @admin.action(
        permissions=["delete"],
        description=_("Reset the selected server policies to the default"),
    )
    def delete_selected(
        self, request: HttpRequest, queryset: models.QuerySet[ServerPolicy]
    ) -> HttpResponse | None:
        """Do what Django's action of this name does, and call it what it is."""
        return delete_selected(self, request, queryset)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show no button *Delete*; *Reset to the default* is among the page's tools."""
        context = {"show_delete": False, **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

    def get_deleted_objects(
        self, objs: Iterable[ServerPolicy], request: HttpRequest
    ) -> tuple[list[Any], dict[Any, int], set[Any], list[str]]:
        """Return what a reset does, in place of the rows that are deleted for it."""
        lines = [self._reset(row) for row in objs]
        denied = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        return lines, {self.opts.verbose_name_plural: len(lines)}, denied, []

    def _reset(self, row: ServerPolicy) -> str:
        try:
            default = ServerPolicy.from_settings(row.server)
        except ImproperlyConfigured:
            # The server cannot ask anything until its settings are put right.
            default = ServerPolicy(server=row.server)
        text = gettext("%(server)s may show after the reset: %(then)s. Now: %(now)s.") % {
            "server": one_line(row.display_name),
            "then": default.get_policy_display(),
            "now": row.get_policy_display(),
        }
        if wider := default.allows_more_than(row):
            names = (str(getattr(self.opts.get_field(name), "verbose_name", "")) for name in wider)
            text += " " + gettext("Warning: the reset allows more than now (%(fields)s).") % {
                "fields": ", ".join(names)
            }
        return text
