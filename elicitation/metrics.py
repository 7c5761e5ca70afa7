"""How much is asked and how long it stays open: for dashboards and alarms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.db import models
from django.db.models import Count, Min, Sum
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from .conf import settings
from .models import Elicitation, ParkedCall, Refusal, StoredFormAnswer, row_key
from .transactions import write_alias

State = Elicitation.State
Model = TypeVar("Model", bound=models.Model)

#: The Prometheus text format that the view writes.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Counts and ages at one moment, by the configured names of servers.

    ``elicitations`` counts them by server and state. Past its deadline an elicitation
    counts as expired, also before its row says so. ``oldest_waiting`` is the age of the oldest
    open elicitation in seconds. ``undelivered`` counts closed elicitations for which nothing
    was sent to the server yet; ``oldest_undelivered`` is the time since the oldest of them was
    closed, in seconds. ``parked_calls`` and ``stored_answers`` count rows. ``refusals``
    counts what was asked and put to nobody, by server and code. ``outcomes`` counts calls that
    have ended with nobody's acknowledgement; ``oldest_outcome`` is the time since the first of
    them ended, in seconds.
    """

    taken_at: datetime
    elicitations: Mapping[tuple[str, str], int]
    oldest_waiting: Mapping[str, float]
    undelivered: Mapping[str, int]
    oldest_undelivered: Mapping[str, float]
    parked_calls: Mapping[str, int]
    stored_answers: Mapping[str, int]
    refusals: Mapping[tuple[str, str], int]
    outcomes: Mapping[str, int]
    oldest_outcome: Mapping[str, float]


def snapshot(now: datetime | None = None) -> Snapshot:
    """Return the counts and ages at ``now``, by default at this moment."""
    now = now or timezone.now()
    alias = write_alias()
    rows = Elicitation.objects.using(alias).order_by()
    elicitations: Counter[tuple[str, str]] = Counter()
    waiting = rows.open(now).values_list("server").annotate(Count("pk"), Min("asked_at"))
    oldest_waiting = {}
    for server, number, asked_at in waiting:
        elicitations[server, State.PENDING.value] = number
        oldest_waiting[server] = (now - asked_at).total_seconds()
    for server, number in _by_server(rows.due(now)).items():
        elicitations[server, State.EXPIRED.value] += number
    closed = rows.closed().values_list("server", "state").annotate(Count("pk"))
    for server, state, number in closed:
        elicitations[server, state] += number
    undelivered = rows.undelivered().values_list("server")
    waits = list(undelivered.annotate(Count("pk"), Min("closed_at")))
    calls = ParkedCall.objects.using(alias).order_by()
    ended = calls.ended().values_list("server").annotate(Count("pk"), Min("ended_at"))
    outcomes = list(ended)
    rows_of_refusals = Refusal.objects.using(alias).order_by().values_list("server", "code")
    refused = list(rows_of_refusals.annotate(Sum("times")))
    return Snapshot(
        taken_at=now,
        elicitations=dict(elicitations),
        oldest_waiting=oldest_waiting,
        undelivered={server: number for server, number, _ in waits},
        oldest_undelivered={
            server: (now - closed_at).total_seconds() for server, _, closed_at in waits
        },
        parked_calls=_by_server(calls.parked()),
        stored_answers=_by_server(StoredFormAnswer.objects.using(alias).order_by()),
        refusals={(server, code): number for server, code, number in refused},
        outcomes={server: number for server, number, _ in outcomes},
        oldest_outcome={
            server: (now - ended_at).total_seconds() for server, _, ended_at in outcomes
        },
    )


class Figures(NamedTuple):
    """What the records that are kept say of one server."""

    #: Requests that wait for people.
    waiting: int
    answered: int
    declined: int
    expired: int
    withdrawn: int
    #: Requests of which nobody knows whether the server acted on the answer.
    lost: int
    #: How often it asked what is put to nobody.
    refused: int
    last_refused_at: datetime | None
    #: How long half of the answers took at most.
    median: timedelta | None


def figures(server: str, now: datetime | None = None) -> Figures:
    """Return the figures of the server with this configured name."""
    rows = Elicitation.objects.using(write_alias()).of_server(server).order_by()
    states = dict(rows.closed().values_list("state").annotate(Count("pk")))
    refused = Refusal.objects.using(write_alias()).filter(policy=row_key(server))
    took = models.ExpressionWrapper(
        models.F("closed_at") - models.F("asked_at"), models.DurationField()
    )
    answered = rows.filter(state=State.ANSWERED)
    # Half of them, rounded up, took this long or less.
    middle = max(states.get(State.ANSWERED, 0) - 1, 0) // 2
    durations = answered.annotate(took=took).order_by("took").values_list("took", flat=True)
    return Figures(
        waiting=rows.open(now).count(),
        answered=states.get(State.ANSWERED, 0),
        declined=states.get(State.DECLINED, 0),
        expired=states.get(State.EXPIRED, 0) + rows.due(now).count(),
        withdrawn=states.get(State.WITHDRAWN, 0),
        lost=rows.filter(delivery=Elicitation.Delivery.ROUND_LOST).count(),
        median=next(iter(durations[middle : middle + 1]), None),
        **refused.aggregate(
            refused=Coalesce(Sum("times"), 0), last_refused_at=models.Max("last_at")
        ),
    )


def prometheus(taken: Snapshot) -> str:
    """Return a snapshot in the Prometheus text format."""
    lines: list[str] = []

    def family(name: str, text: str, values: Mapping[str, float]) -> None:
        lines.extend((f"# HELP {name} {text}", f"# TYPE {name} gauge"))
        # Not ":g", which writes 1234567 as 1.23457e+06.
        lines.extend(f"{name}{{{labels}}} {round(values[labels], 3)}" for labels in sorted(values))

    def by_server(values: Mapping[str, float]) -> dict[str, float]:
        return {_label("server", server): value for server, value in values.items()}

    family(
        "elicitation_elicitations",
        "Elicitations in the database, by state.",
        {
            f"{_label('server', server)},{_label('state', state)}": number
            for (server, state), number in taken.elicitations.items()
        },
    )
    family(
        "elicitation_oldest_waiting_seconds",
        "Seconds since the oldest open elicitation was asked.",
        by_server(taken.oldest_waiting),
    )
    family(
        "elicitation_undelivered",
        "Closed elicitations for which nothing was sent to the server yet.",
        by_server(taken.undelivered),
    )
    family(
        "elicitation_oldest_undelivered_seconds",
        "Seconds since the oldest undelivered elicitation was closed.",
        by_server(taken.oldest_undelivered),
    )
    family(
        "elicitation_parked_calls",
        "Parked calls.",
        by_server(taken.parked_calls),
    )
    family(
        "elicitation_stored_answers",
        "Answers that are stored and not sent yet.",
        by_server(taken.stored_answers),
    )
    family(
        "elicitation_refusals",
        "How often servers asked and nobody was asked, by the code of the refusal.",
        {
            f"{_label('server', server)},{_label('code', code)}": number
            for (server, code), number in taken.refusals.items()
        },
    )
    family(
        "elicitation_outcomes",
        "Calls that have ended and whose outcome was not acknowledged yet.",
        by_server(taken.outcomes),
    )
    family(
        "elicitation_oldest_outcome_seconds",
        "Seconds since the first call ended whose outcome was not acknowledged yet.",
        by_server(taken.oldest_outcome),
    )
    return "\n".join(lines) + "\n"


# The view checks the permission itself: a scraper cannot use a page for signing in.
@login_not_required
@require_safe
@never_cache
def view(request: HttpRequest) -> HttpResponse:
    """Return the metrics, if they are on, to users who may read them."""
    if not settings.METRICS:
        raise Http404
    if not request.user.has_perm("elicitation.view_metrics"):
        raise PermissionDenied
    return HttpResponse(prometheus(snapshot()), content_type=CONTENT_TYPE)


def _by_server(rows: models.QuerySet[Model]) -> dict[str, int]:
    return dict(rows.values_list("server").annotate(Count("pk")))


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{escaped}"'
