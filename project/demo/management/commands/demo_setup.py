from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand
from django.db import transaction

from elicitation.models import ServerPolicy


class Command(BaseCommand):
    help = (
        "Prepare the demo: the users demo and admin, whose passwords are their names. For a "
        "demonstration on your own machine only."
    )

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        for name, create in (
            ("demo", User.objects.create_user),
            ("admin", User.objects.create_superuser),
        ):
            if not User.objects.filter(username=name).exists():
                create(name, password=name)
        if options["verbosity"]:
            policy = ServerPolicy.objects.for_server(settings.DEMO_SERVER)
            self.stdout.write(
                "Users demo (password demo) and admin (password admin). "
                f"{policy.display_name} may show: {policy.get_policy_display()}."
            )
