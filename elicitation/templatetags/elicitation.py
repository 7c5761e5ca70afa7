"""Template tags: untrusted text shown safely, and the app's parts inside a site's own pages."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import template
from django.middleware.csrf import get_token
from django.template import Context, RequestContext
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timesince import timeuntil
from django.utils.translation import gettext

from elicitation import inbox
from elicitation.conf import settings as app_settings
from elicitation.core import ElicitationURL
from elicitation.core.untrusted import visible
from elicitation.models import Elicitation, ServerPolicy
from elicitation.pages import drafts, presentation
from elicitation.pages.forms import form_class
from elicitation.pages.localised import moment_text

if TYPE_CHECKING:
    from django.http import HttpRequest

register = template.Library()


@register.filter
def elicitation_text(text: str) -> str:
    """Show text that a server wrote: what cannot be seen in it becomes ``U+XXXX``.

    The result is a plain string, also if ``text`` is marked safe: the template escapes it.
    """
    return visible(str(text))


@register.simple_tag
def elicitation_time(moment: datetime) -> SafeString:
    """Show a moment as date, time and zone, in a ``<time>`` that machines can read."""
    iso = timezone.localtime(moment).isoformat(timespec="seconds")
    return format_html('<time datetime="{}">{}</time>', iso, moment_text(moment))


@register.simple_tag
def elicitation_left(moment: datetime) -> str:
    """Say how much time is left until a moment, in one unit; nothing once it is over."""
    if moment <= timezone.now():
        return ""
    left = timeuntil(moment, depth=1).replace("\xa0", " ")
    return gettext("(%(left)s left)") % {"left": left}


@register.simple_tag
def elicitation_url(url: ElicitationURL) -> SafeString:
    """Show a whole URL as text; the registrable domain stands out, if it is known.

    Each label stands by itself, so that letters which are written from right to left cannot
    change the order of the labels.
    """
    own = url.registrable_domain
    if own is None:
        host = _labels(url.unicode_host)
    else:
        host = format_html("<strong>{}</strong>", _labels(own))
        if url.subdomain:
            host = format_html("{}.{}", _labels(url.subdomain.removesuffix(".")), host)
    port = "" if url.port is None else f":{url.port}"
    return format_html("{}://{}{}{}", url.scheme, host, port, url.rest)


def _labels(name: str) -> SafeString:
    if name.isascii():
        return format_html("{}", name)
    return format_html_join(".", "<bdi>{}</bdi>", ((label,) for label in name.split(".")))


@register.simple_tag(takes_context=True)
def elicitation_person(context: RequestContext) -> str:
    """Return what stands for the signed-in person in their browser; nothing for nobody."""
    user = context.request.user
    return drafts.person_key(user.pk) if user.is_authenticated else ""


@register.inclusion_tag("elicitation/bar.html", takes_context=True)
def elicitation_bar(context: RequestContext) -> dict[str, str]:
    """Show which site this is, who is signed in, and the ways to the inbox and out."""
    request = context.request
    user = request.user
    return {
        "site": presentation.site_name(request),
        "username": user.get_username() if user.is_authenticated else "",
    }


@register.inclusion_tag("elicitation/count.html", takes_context=True)
def elicitation_count(context: Context) -> dict[str, Any]:
    """Show how many open elicitations the signed-in person has, as a link to the inbox."""
    request: HttpRequest = context["request"]
    if not request.user.is_authenticated:
        return {}
    return {"is_shown": True, "count": inbox.waiting(request.user).count()}


@register.inclusion_tag("elicitation/part_inbox.html", takes_context=True)
def elicitation_inbox(context: Context, scope: str | int | UUID | None = None) -> dict[str, Any]:
    """List the open elicitations of the signed-in person: all, or those of one scope."""
    request: HttpRequest = context["request"]
    if not request.user.is_authenticated:
        return {}
    waiting = inbox.waiting(request.user)
    if scope is not None:
        waiting = waiting.in_scope(scope)
    found = list(waiting[: app_settings.PAGE_SIZE])
    policies = ServerPolicy.objects.for_servers({elicitation.server for elicitation in found})
    return {
        "is_shown": True,
        "groups": presentation.groups(found, policies),
        "ids": "elicitation-part",
    }


@register.inclusion_tag("elicitation/part_form.html", takes_context=True)
def elicitation_form(context: Context, elicitation: Elicitation, level: int = 2) -> dict[str, Any]:
    """Show the form of an elicitation. After sending, it leads back to the page it stands on.

    People agree to a URL on the elicitation's own page. The tag shows nothing to people who may
    not answer. If an answer does not fit, the elicitation's own page says so, and leads back
    from there.
    """
    request: HttpRequest = context["request"]
    if not request.user.is_authenticated:
        return {}
    try:
        elicitation = inbox.get(request.user, elicitation.pk)
    except Elicitation.DoesNotExist:
        return {}
    policy = elicitation.server_policy
    if elicitation.is_url or not elicitation.is_open():
        item = presentation.Item(elicitation, policy, elicitation.pk.hex)
        return {"item": item, "ids": "elicitation", "is_open": False}
    is_first = inbox.shown(elicitation)
    ids = f"elicitation-{elicitation.pk.hex}"
    form = form_class()(elicitation.form_elicitation, prefill=policy.prefill, auto_id=f"{ids}-%s")
    return {
        **presentation.form_context(
            elicitation,
            policy,
            form,
            next_url=request.get_full_path(),
            ids=ids,
            is_first=is_first,
            site=presentation.site_name(request),
        ),
        "csrf_token": get_token(request),
        "is_open": True,
        "level": level,
        "sublevel": level + 1,
    }
