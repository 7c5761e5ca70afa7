"""The API's URLs: ``path("api/elicitation/", include("elicitation.api.urls"))``."""

from __future__ import annotations

from django.urls import path, register_converter

from . import views


class AnyText:
    """Any text as an id, read by the view: a malformed id is answered like an unknown one."""

    regex = "(?s:.+)"

    def to_python(self, value: str) -> str:
        """Return the text of the URL."""
        return value

    def to_url(self, value: object) -> str:
        """Return an id as it stands in a URL."""
        return str(value)


register_converter(AnyText, "elicitation_id")

app_name = "elicitation_api"

urlpatterns = [
    path("events/", views.EventsView.as_view(), name="events"),
    path("answers/", views.AnswersView.as_view(), name="answers"),
    path("history/", views.HistoryView.as_view(), name="history"),
    path("elicitations/", views.ElicitationListView.as_view(), name="list"),
    path(
        "elicitations/<elicitation_id:elicitation_id>/answer/",
        views.AnswerView.as_view(),
        name="answer",
    ),
    path(
        "elicitations/<elicitation_id:elicitation_id>/consent/",
        views.ConsentView.as_view(),
        name="consent",
    ),
    path(
        "elicitations/<elicitation_id:elicitation_id>/continue/",
        views.ContinueView.as_view(),
        name="continue",
    ),
    path(
        "elicitations/<elicitation_id:elicitation_id>/decline/",
        views.DeclineView.as_view(),
        name="decline",
    ),
    path(
        "elicitations/<elicitation_id:elicitation_id>/progress/",
        views.ProgressView.as_view(),
        name="progress",
    ),
    path(
        "elicitations/<elicitation_id:elicitation_id>/",
        views.ElicitationDetailView.as_view(),
        name="detail",
    ),
]
