import uuid
from typing import Self

from django.conf import settings
from django.db import models
from django.urls import reverse

from elicitation.models import Elicitation

SCOPE_PREFIX = "demo-run/"


def page_of_scope(scope: str) -> str | None:
    """Return the page of the run that ``scope`` names: where people are led back to."""
    run = DemoRun.of_scope(scope)
    return None if run is None else run.get_absolute_url()


class DemoRun(models.Model):
    """One tool call that the demo agent made for a person.

    Whether it waits for the person is not written here: the app knows that, and the two could only
    contradict each other.
    """

    class State(models.TextChoices):
        OPEN = "open", "Not finished"
        FINISHED = "finished", "Finished"
        REFUSED = "refused", "Refused"
        FAILED = "failed", "Failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    tool = models.CharField(max_length=64)
    state = models.CharField(max_length=8, choices=State, default=State.OPEN)
    outcome = models.TextField(blank=True)
    started_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-started_at",)

    def __str__(self) -> str:
        return f"Run {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("demo:run", args=[self.pk])

    @property
    def scope(self) -> str:
        return f"{SCOPE_PREFIX}{self.pk}"

    @classmethod
    def of_scope(cls, scope: str) -> Self | None:
        """Return the run that ``scope`` names; other hosts name other things."""
        if not scope.startswith(SCOPE_PREFIX):
            return None
        return cls.objects.filter(pk=scope.removeprefix(SCOPE_PREFIX)).first()

    @property
    def is_open(self) -> bool:
        return self.state == self.State.OPEN

    @property
    def question(self) -> Elicitation | None:
        """The question that the run waits for, if it waits for one."""
        if not self.is_open:
            return None
        rows = Elicitation.objects.in_scope(self.scope).order_by("asked_at")
        # An address that the person agreed to open is waited for until they have finished there.
        return rows.pending().first() or rows.going_on().last()

    def close(self, state: State, outcome: str) -> None:
        type(self).objects.filter(pk=self.pk, state=self.State.OPEN).update(
            state=state, outcome=outcome
        )
