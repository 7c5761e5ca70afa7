"""The site's addresses, and the bare views that the pages are measured against."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import path

from project.urls import urlpatterns as site


def bare(request: HttpRequest) -> HttpResponse:
    assert request.user.is_authenticated
    return render(request, "bench/empty.html")


def bare_json(request: HttpRequest) -> JsonResponse:
    assert request.user.is_authenticated
    return JsonResponse({})


urlpatterns = [path("bench/bare/", bare), path("bench/json/", bare_json), *site]
