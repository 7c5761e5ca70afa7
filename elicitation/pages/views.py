"""The pages. They hold no rule of their own: what happens to an elicitation is in ``inbox``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, cast

from django.conf import settings as django_settings
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import RequestDataTooBig
from django.core.paginator import Paginator
from django.db import transaction
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
    JsonResponse,
)
from django.middleware.csrf import CsrfViewMiddleware
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import decorator_from_middleware
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from .. import inbox
from ..calls import outcomes
from ..calls.lease import CallInProgressError
from ..conf import settings as app_settings
from ..core import ElicitationRefusal
from ..core.untrusted import mixes_scripts
from ..models import Elicitation, ServerPolicy, TooLargeError
from . import drafts, stream
from .forms import ElicitationForm, form_class
from .listing import Listing
from .presentation import (
    NOT_STORED,
    WARNINGS,
    Item,
    form_context,
    groups,
    outcome,
    shown_name,
    site_name,
    steps,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]

State = Elicitation.State

#: How long a URL to go back to may be; Django refuses to redirect to one of more than 2,048.
MAX_NEXT_CHARS = 2000
#: How many closed elicitations the inbox shows.
RECENT = 10
#: How many digits the number of a page of what is closed may have.
MAX_PAGE_DIGITS = 6
#: For how long the page of a closed elicitation reloads and leads on by itself.
FRESH = timedelta(minutes=2)


class _Csrf(CsrfViewMiddleware):
    """Django's check, answered by a page of ours: it says that nothing was sent."""

    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        return _unsent(request)


def page(
    *methods: str, signed_out: Callable[[HttpRequest], HttpResponse] | None = None
) -> Callable[[View[P]], View[P]]:
    """Make a function one of the app's pages, for signed-in people.

    Every response has the same headers, the refusals included. The CSRF check, the sign-in and
    the 404 are answered here, not by the site's handlers, so that they say what became of the
    answer and a stranger cannot tell one kind of "not found" from another.

    Args:
        methods: What it answers.
        signed_out: What it answers to someone who is not signed in; by default a post is told
            that nothing was sent, and anything else is sent to sign in.
    """

    def decorate(view: View[P]) -> View[P]:
        checked = decorator_from_middleware(_Csrf)(view)

        # The site's own middleware is told to leave these views alone, as they do its work.
        # A transaction round the request would undo what an answer's transaction committed.
        # Django mails what was posted where something breaks; an answer must not be in it.
        @csrf_exempt
        @sensitive_post_parameters()
        @login_not_required
        @transaction.non_atomic_requests
        @wraps(view)
        def wrapper(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            if request.method not in methods:
                return _with_headers(HttpResponseNotAllowed(methods))
            if not request.user.is_authenticated:
                return _with_headers((signed_out or _signed_out)(request))
            try:
                response = cast(HttpResponse, checked(request, *args, **kwargs))
            except (Elicitation.DoesNotExist, inbox.WrongModeError):
                response = render(request, "elicitation/not_found.html", status=404)
            except RequestDataTooBig:
                response = _unsent(request, is_too_large=True)
            return _with_headers(response)

        return cast("View[P]", wrapper)

    return decorate


def _with_headers(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "no-store, private"
    response["X-Frame-Options"] = "DENY"
    # With `no-referrer` browsers send `Origin: null`, and Django refuses the post.
    response["Referrer-Policy"] = "same-origin"
    response["X-Content-Type-Options"] = "nosniff"
    policy = app_settings.CONTENT_SECURITY_POLICY
    if policy is not None:
        response["Content-Security-Policy"] = policy
    return response


def _signed_out(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _unsent(request, signed_out=True)
    return redirect_to_login(request.get_full_path())


@sensitive_variables()
def _unsent(
    request: HttpRequest, *, signed_out: bool = False, is_too_large: bool = False
) -> HttpResponse:
    # A decline is posted to a URL that has no page to open.
    match = request.resolver_match
    here = (
        reverse("elicitation:detail", kwargs=match.kwargs)
        if match is not None and match.kwargs
        else reverse("elicitation:inbox")
    )
    again = redirect_to_login(here)["Location"] if signed_out else here
    context = {
        "signed_out": signed_out,
        "is_too_large": is_too_large,
        "again_url": again,
        "typed": [] if is_too_large else _typed_here(request, signed_out=signed_out),
    }
    status = 413 if is_too_large else 403
    return render(request, "elicitation/unsent.html", context, status=status)


@sensitive_variables()
def _typed_here(request: HttpRequest, *, signed_out: bool) -> list[drafts.Typed]:
    """Return what was typed, if a page of this site sent it, with titles for who may see them."""
    if not drafts.is_from_here(request):
        return []
    match = request.resolver_match
    form = None
    if not signed_out and match is not None and match.kwargs:
        with suppress(Elicitation.DoesNotExist):
            form = _posted_form(request, inbox.get(signed_in(request), **match.kwargs))
    return drafts.typed(request.POST, form)


@sensitive_variables()
def _posted_form(request: HttpRequest, elicitation: Elicitation) -> ElicitationForm | None:
    """Return the form of what was posted; nothing if that was another form, or none."""
    if elicitation.is_url:
        return None
    form = form_class()(elicitation.form_elicitation, request.POST)
    return None if form.is_replaced else form


@page("GET", "HEAD")
def inbox_page(request: HttpRequest) -> HttpResponse:
    """What waits for this person, all or what they search for, and what was closed lately."""
    user = signed_in(request)
    listing = Listing.of(request)
    waiting = inbox.waiting(user)
    shown = Paginator(listing.narrow(waiting), app_settings.PAGE_SIZE).get_page(
        request.GET.get("page")
    )
    recent = [] if listing.is_narrowed else list(inbox.recent(user)[:RECENT])
    offered = inbox.servers(waiting)
    policies = ServerPolicy.objects.for_servers(
        {*offered, *(elicitation.server for elicitation in [*shown, *recent])}
    )
    listing.offer({server: policies[server] for server in offered})
    context = {
        "page": shown,
        "listing": listing,
        "groups": groups(shown, policies),
        "recent": [
            Item(elicitation, policies[elicitation.server], f"r{number}")
            for number, elicitation in enumerate(recent)
        ],
        "ids": "elicitation",
    }
    return render(request, "elicitation/inbox.html", context)


@page("GET", "HEAD")
def history(request: HttpRequest) -> HttpResponse:
    """What is closed, page by page. Nothing is counted: there can be very much of it."""
    listing = Listing.of(request)
    sent = request.GET.get("page", "")
    # A larger number is no offset for every database.
    number = max(int(sent), 1) if sent.isdecimal() and len(sent) <= MAX_PAGE_DIGITS else 1
    size = app_settings.PAGE_SIZE
    start = (number - 1) * size
    rows = list(listing.narrow(inbox.history(signed_in(request)))[start : start + size + 1])
    policies = ServerPolicy.objects.for_servers({row.server for row in rows})
    context = {
        "listing": listing,
        "items": [
            Item(row, policies[row.server], f"h{place}") for place, row in enumerate(rows[:size])
        ],
        "number": number,
        "before": number - 1,
        "after": number + 1,
        "has_more": len(rows) > size,
        "ids": "elicitation",
    }
    return render(request, "elicitation/history.html", context)


@page("GET", "HEAD", "POST")
def detail(request: HttpRequest, elicitation_id: str) -> HttpResponse:
    """The form of an open elicitation, or what became of it."""
    elicitation = inbox.get(signed_in(request), elicitation_id)
    policy = elicitation.server_policy
    if elicitation.is_url:
        if request.method == "POST":
            # Consent has a URL of its own: sending a form never agrees to open one.
            return HttpResponseNotAllowed(["GET", "HEAD"])
        return _url_page(request, elicitation, policy)
    if request.method == "POST":
        return _submit(request, elicitation, policy)
    if not elicitation.is_open():
        return _closed(request, elicitation, policy)
    is_first = inbox.shown(elicitation)
    form = form_class()(elicitation.form_elicitation, prefill=policy.prefill)
    context = form_context(elicitation, policy, form, is_first=is_first, site=site_name(request))
    return render(request, "elicitation/answer.html", context)


@page("POST")
def consent(request: HttpRequest, elicitation_id: str) -> HttpResponse:
    """Agree to open a URL; the page of the elicitation then shows the link."""
    user = signed_in(request)
    elicitation = inbox.get(user, elicitation_id)
    policy = elicitation.server_policy
    try:
        inbox.consent(elicitation, by=user, fingerprint=request.POST.get("fingerprint", ""))
    except inbox.ElicitationClosedError as closed:
        return _closed(request, closed.elicitation, policy, code=closed.code)
    except ElicitationRefusal:
        return _url_page(request, elicitation, policy, status=409)
    return redirect(elicitation)


@page("POST")
def go_on(request: HttpRequest, elicitation_id: str) -> HttpResponse:
    """Say that the person has finished at a URL."""
    user = signed_in(request)
    elicitation = inbox.get(user, elicitation_id)
    inbox.go_on(elicitation, by=user)
    return redirect(elicitation)


@page("POST")
def decline(request: HttpRequest, elicitation_id: str) -> HttpResponse:
    """Decline an elicitation."""
    user = signed_in(request)
    elicitation = inbox.get(user, elicitation_id)
    try:
        inbox.decline(elicitation, by=user)
    except inbox.ElicitationClosedError as closed:
        policy = elicitation.server_policy
        return _closed(request, closed.elicitation, policy, code=closed.code, declining=True)
    return HttpResponseRedirect(_next(request) or elicitation.get_absolute_url())


@page("POST")
def decline_several(request: HttpRequest) -> HttpResponse:
    """Decline what was selected, each by itself, and say what became of each."""
    user = signed_in(request)
    done: list[dict[str, Any]] = []
    # As many as a list shows.
    for key in dict.fromkeys(request.POST.getlist("id")[: app_settings.PAGE_SIZE]):
        # What this person may not see is passed over: nobody learns that it is there.
        with suppress(Elicitation.DoesNotExist):
            elicitation, code = inbox.get(user, key), ""
            policy = elicitation.server_policy
            try:
                elicitation = inbox.decline(elicitation, by=user)
            except inbox.ElicitationClosedError as closed:
                elicitation, code = closed.elicitation, closed.code
            is_own = elicitation.closed_by_id == user.pk
            heading, look = outcome(elicitation, is_own=is_own, code=code, declining=True)
            item = Item(elicitation, policy, f"d{len(done)}")
            done.append({"item": item, "heading": heading, "look": look})
    context = {"done": done, "ids": "elicitation"}
    return render(request, "elicitation/declined.html", context)


@page("GET", "HEAD", "POST")
def sign_out(request: HttpRequest) -> HttpResponse:
    """Sign out; a page asks first, so that a link can lead here."""
    if request.method == "POST":
        logout(request)
        url = django_settings.LOGOUT_REDIRECT_URL or django_settings.LOGIN_URL
        return HttpResponseRedirect(resolve_url(url))
    return render(request, "elicitation/sign_out.html")


@page("POST")
def stop(request: HttpRequest, elicitation_id: str) -> HttpResponse:
    """Cancel what the server goes on with after an answer, where its policy lets people do so."""
    user = signed_in(request)
    elicitation = inbox.get(user, elicitation_id)
    try:
        outcomes.stop(elicitation, by=user)
    except CallInProgressError:
        return _closed(request, elicitation, elicitation.server_policy, is_unstopped=True)
    return redirect(elicitation)


@page("GET", "HEAD", signed_out=lambda request: JsonResponse({"count": None}, status=401))
def count(request: HttpRequest) -> HttpResponse:
    """How many elicitations are open, for a script that polls."""
    response = JsonResponse({"count": inbox.waiting(signed_in(request)).count()})
    stream.leave_session(request)
    return response


@page("GET", signed_out=lambda request: JsonResponse({"waiting": None}, status=401))
def events(request: HttpRequest) -> HttpResponse:
    """What waits for this person and what changes, for scripts: a stream under ASGI."""
    response = stream.events(request, signed_in(request), lambda again: again.user)
    return cast(HttpResponse, response)


@sensitive_variables()
def _submit(request: HttpRequest, elicitation: Elicitation, policy: ServerPolicy) -> HttpResponse:
    form = form_class()(elicitation.form_elicitation, request.POST)
    try:
        if form.is_replaced:
            raise inbox.ElicitationReplacedError(elicitation)
        if form.is_valid() and elicitation.is_open():
            if "change" in request.POST:
                return _form(request, elicitation, policy, form)
            if form.needs_check and "checked" not in request.POST:
                return _form(request, elicitation, policy, form, "elicitation/check.html")
        if form.is_valid():
            inbox.answer(
                elicitation,
                form.checked or form.to_answers(),
                by=signed_in(request),
                fingerprint=form.sent_fingerprint,
            )
            return HttpResponseRedirect(_next(request) or elicitation.get_absolute_url())
        if not elicitation.is_open():
            raise inbox.ElicitationClosedError(elicitation)
    except inbox.AnswerRefusals as refusals:
        form.refuse(refusals.errors)
    except TooLargeError:
        form.add_error(None, _("All answers together are too long to be stored. Shorten them."))
    except inbox.ElicitationClosedError as closed:
        return _closed(request, closed.elicitation, policy, code=closed.code)
    return _form(request, elicitation, policy, form, status=422)


def _form(
    request: HttpRequest,
    elicitation: Elicitation,
    policy: ServerPolicy,
    form: ElicitationForm,
    template: str = "elicitation/answer.html",
    *,
    status: int = 200,
) -> HttpResponse:
    """Answer with a page of what was typed."""
    context = form_context(
        elicitation, policy, form, next_url=_next(request), site=site_name(request)
    )
    return render(request, template, context, status=status)


def _url_page(
    request: HttpRequest, elicitation: Elicitation, policy: ServerPolicy, *, status: int = 200
) -> HttpResponse:
    """Answer with the page that asks for consent, or, once it was given, with the link.

    The link is for whoever agreed, and for as long as the consent lasts.
    """
    user = signed_in(request)
    is_open = elicitation.is_open()
    lasts = inbox.consent_lasts(elicitation)
    agreed = elicitation.state == State.ANSWERED and elicitation.closed_by_id == user.pk
    waits = agreed and inbox.waits_for_completion(elicitation)
    if not is_open and not (agreed and (lasts or waits)):
        return _closed(request, elicitation, policy)
    url = None
    if is_open or lasts:
        # An operator may have changed the policy since it was asked.
        with suppress(ElicitationRefusal):
            url = policy.parse_url(elicitation.url, site_host=request.get_host())
    context: dict[str, Any] = {
        "elicitation": elicitation,
        "server_name": shown_name(policy),
        "mixes_scripts": mixes_scripts(shown_name(policy)),
        "url": url,
        "warnings": [WARNINGS[code] for code in (url.warnings if url else ())],
        "ids": "elicitation",
    }
    if is_open:
        inbox.shown(elicitation)
        return render(request, "elicitation/consent.html", context, status=status)
    context |= {"waits": waits, "lasts": lasts, **_after_consent(elicitation, waits=waits)}
    context |= _of_task(elicitation, policy)
    return render(request, "elicitation/open.html", context)


def _after_consent(elicitation: Elicitation, *, waits: bool) -> dict[str, Any]:
    follow_up = inbox.follow_up(elicitation)
    said = elicitation.continued_at
    fresh = said is not None and timezone.now() - said < FRESH
    assert elicitation.closed_at is not None
    return {
        "continued": waits and said is not None,
        "follow_up": follow_up,
        "leads_on": fresh and follow_up is not None,
        # The page does not reload before the person presses Continue.
        "refresh": ("2" if waits and follow_up is None else "") if fresh else "",
        "link_until": elicitation.closed_at + app_settings.ANSWER_TTL,
        "result_url": inbox.result_url(elicitation),
        "scope_url": inbox.scope_url(elicitation),
    }


def _of_task(elicitation: Elicitation, policy: ServerPolicy) -> dict[str, Any]:
    """Return what the page shows of a task that the server goes on with after the answer."""
    return {"task": outcomes.task_seen(elicitation), "may_stop": policy.people_may_stop}


@sensitive_variables()
def _closed(
    request: HttpRequest,
    elicitation: Elicitation,
    policy: ServerPolicy,
    *,
    code: str = "",
    declining: bool = False,
    is_unstopped: bool = False,
) -> HttpResponse:
    """Answer with the page of a closed elicitation.

    Args:
        request: The request.
        elicitation: The elicitation.
        policy: The policy of its server.
        code: Why nothing was stored.
        is_unstopped: Whether its task was to be stopped, and could not be at this moment.
    """
    state = elicitation.current_state()
    task = _of_task(elicitation, policy)
    fresh = (
        state in (State.ANSWERED, State.DECLINED)
        and not code
        and elicitation.closed_at is not None
        and timezone.now() - elicitation.closed_at < FRESH
    )
    follow_up = inbox.follow_up(elicitation)
    if follow_up is None and state == State.PENDING:
        follow_up = elicitation
    has_ended = elicitation.call_has_ended()
    others = [] if follow_up else inbox.waiting_ids(signed_in(request))
    back = _next(request)
    is_own = elicitation.closed_by_id == signed_in(request).pk
    heading, look = outcome(elicitation, is_own=is_own, code=code, declining=declining)
    context = {
        "elicitation": elicitation,
        "draft": drafts.draft_key(elicitation),
        "typed": drafts.typed(request.POST, _posted_form(request, elicitation)),
        "server_name": shown_name(policy),
        "state": state,
        "is_own": is_own,
        "heading": heading,
        "look": look,
        "not_stored": NOT_STORED.get(code, ""),
        "is_replaced": inbox.REPLACED in (code, elicitation.reason),
        "follow_up": follow_up,
        "leads_on": fresh and follow_up is not None,
        "refresh": fresh and _refresh(elicitation, follow_up, has_ended=has_ended),
        "steps": steps(elicitation, shown_name(policy), has_ended=has_ended),
        "waiting": len(others),
        "next_id": others[0] if others else None,
        "result_url": inbox.result_url(elicitation),
        "scope_url": "" if back else inbox.scope_url(elicitation),
        "leave_url": back or reverse("elicitation:inbox"),
        "leave_text": _("Back") if back else _("All requests"),
        "is_unstopped": is_unstopped,
        **task,
    }
    status = 409 if code or is_unstopped else 200
    return render(request, "elicitation/closed.html", context, status=status)


def _refresh(elicitation: Elicitation, follow_up: Elicitation | None, *, has_ended: bool) -> str:
    """Return when the page is to be loaded again, and from where; nothing where never."""
    if follow_up is not None:
        return f"1; url={follow_up.get_absolute_url()}"
    goes_on = elicitation.delivered_at is None or (
        elicitation.state == State.ANSWERED and not has_ended
    )
    if not goes_on or elicitation.closed_at is None:
        return ""
    young = timezone.now() - elicitation.closed_at < timedelta(seconds=20)
    return "2" if young else "5"


def _next(request: HttpRequest) -> str:
    """Return the URL to go to afterwards; ``""`` if it is another site's."""
    url = request.POST.get("next", "")
    # A name could be that of a view, and Django redirects to no URL that is too long.
    if not url.startswith(("/", "https://", "http://")) or len(url) > MAX_NEXT_CHARS:
        return ""
    return (
        url
        if url_has_allowed_host_and_scheme(
            url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
        )
        else ""
    )


def signed_in(request: HttpRequest) -> AbstractBaseUser:
    """Return the person who is signed in."""
    if not request.user.is_authenticated:
        raise Elicitation.DoesNotExist
    return request.user
