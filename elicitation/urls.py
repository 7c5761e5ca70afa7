"""The app's URLs: ``path("elicitation/", include("elicitation.urls"))``."""

from django.urls import path

from . import metrics
from .pages import views

app_name = "elicitation"

# The pattern accepts any text as an id: the view answers a malformed id like an unknown one.
urlpatterns = [
    path("", views.inbox_page, name="inbox"),
    path("history/", views.history, name="history"),
    path("decline/", views.decline_several, name="decline_several"),
    path("count/", views.count, name="count"),
    path("events/", views.events, name="events"),
    path("sign-out/", views.sign_out, name="sign_out"),
    path("metrics", metrics.view, name="metrics"),
    path("<str:elicitation_id>/", views.detail, name="detail"),
    path("<str:elicitation_id>/consent/", views.consent, name="consent"),
    path("<str:elicitation_id>/continue/", views.go_on, name="continue"),
    path("<str:elicitation_id>/decline/", views.decline, name="decline"),
    path("<str:elicitation_id>/stop/", views.stop, name="stop"),
]
