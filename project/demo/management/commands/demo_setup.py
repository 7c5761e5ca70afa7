from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand
from django.db import transaction

from elicitation.models import ServerPolicy
from project.demo.models import DemoRun


class Command(BaseCommand):
    help = (
        "Prepare the demo: the users demo and admin, whose passwords are their names, and leave "
        "for the demo MCP server to ask. For a demonstration on your own machine only."
    )

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        for name, create in (
            ("demo", User.objects.create_user),
            ("admin", User.objects.create_superuser),
        ):
            if not User.objects.filter(username=name).exists():
                create(name, password=name)
        policy, _ = ServerPolicy.objects.get_or_create(
            server=settings.DEMO_SERVER,
            defaults={
                "policy": ServerPolicy.Policy.URL_AND_FORM,
                "label": "Demo shop",
                "allow_confirmation": True,
                # The demo's server is on this machine, and the only one it may lead to.
                "allowed_domains": "127.0.0.1\nlocalhost",
                "allow_loopback_http": True,
            },
        )
        for run in DemoRun.objects.filter(state=DemoRun.State.OPEN):
            if run.question is None:
                run.close(
                    DemoRun.State.FAILED,
                    "The site was stopped in the middle of this call. Run the tool again.",
                )
        if options["verbosity"]:
            self.stdout.write(
                "Users demo (password demo) and admin (password admin). "
                f"{policy.display_name} may show: {policy.get_policy_display()}."
            )
