from typing import cast
from uuid import UUID

from django import forms
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from project.demo import agent
from project.demo.models import DemoRun

RECENT_RUNS = 10

#: What the agent says in the chat when a run has ended.
ENDED = {
    DemoRun.State.FINISHED: "The call has finished. The tool's result:",
    DemoRun.State.REFUSED: "The request was refused, and you were not asked. The reason:",
    DemoRun.State.FAILED: "The call has failed.",
}


class RunForm(forms.Form):
    tool = forms.CharField(max_length=64)


@login_required
@never_cache
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    """List what the server offers, and what was run lately."""
    context: dict[str, object] = {
        "runs": DemoRun.objects.filter(user=_person(request))[:RECENT_RUNS]
    }
    try:
        context["tools"] = agent.list_tools()
    except agent.ServerUnreachable as error:
        context["problem"] = str(error)
    return render(request, "demo/tools.html", context)


@login_required
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Have a tool called and show its run."""
    form = RunForm(request.POST)
    if not form.is_valid():
        return HttpResponseBadRequest("Name the tool to run.")
    run = DemoRun.objects.create(user=_person(request), tool=form.cleaned_data["tool"])
    agent.start(run)
    return redirect(run)


@login_required
@never_cache
@require_safe
def run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Show how a run is doing; the page loads itself anew until the run has ended."""
    run = get_object_or_404(DemoRun, pk=run_id, user=_person(request))
    return render(request, "demo/run.html", {"run": run, "question": run.question})


@login_required
@never_cache
@require_safe
def chat(request: HttpRequest) -> HttpResponse:
    """A conversation with the agent; its questions come from the API (see ``chat.js``)."""
    context: dict[str, object] = {}
    try:
        context["tools"] = agent.list_tools()
    except agent.ServerUnreachable as error:
        context["problem"] = str(error)
    return render(request, "demo/chat.html", context)


@login_required
@require_POST
def chat_start(request: HttpRequest) -> HttpResponse:
    """Have a tool called; the script asks the address it gets how it ended."""
    form = RunForm(request.POST)
    if not form.is_valid():
        return JsonResponse({"error": "Name the tool to run."}, status=400)
    run = DemoRun.objects.create(user=_person(request), tool=form.cleaned_data["tool"])
    agent.start(run)
    return JsonResponse({"url": reverse("demo:chat_run", args=[run.pk])})


@login_required
@never_cache
@require_safe
def chat_run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Tell whether a run has ended, and how."""
    run = get_object_or_404(DemoRun, pk=run_id, user=_person(request))
    state = DemoRun.State(run.state)
    return JsonResponse({"state": state, "text": ENDED.get(state, ""), "outcome": run.outcome})


def _person(request: HttpRequest) -> User:
    return cast("User", request.user)
