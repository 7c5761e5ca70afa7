"""A host's addresses: those of the app."""

from django.urls import include, path

urlpatterns = [path("elicitation/", include("elicitation.urls"))]
