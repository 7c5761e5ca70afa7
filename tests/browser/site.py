"""A site with a page of its own, on which the app's template tags stand."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.template import RequestContext, Template
from django.urls import path

from elicitation import inbox
from project.urls import urlpatterns as site_urls

PAGE = """{% load elicitation static %}<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Chat</title>
  <link rel="icon" href="{% static "elicitation/icon.svg" %}">
  <link rel="stylesheet" href="{% static "elicitation/elicitation.css" %}">
  <script src="{% static "elicitation/count.js" %}" defer></script>
</head>
<body>
  <main>
    <h1>Chat</h1>
    <p>{% elicitation_count %}</p>
    {% for elicitation in waiting %}{% elicitation_form elicitation %}{% endfor %}
  </main>
</body>
</html>
"""


@login_required
def chat(request: HttpRequest) -> HttpResponse:
    context = RequestContext(request, {"waiting": inbox.waiting(request.user)})
    return HttpResponse(Template(PAGE).render(context))


urlpatterns = [path("chat/", chat), *site_urls]
