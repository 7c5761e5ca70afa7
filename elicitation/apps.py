"""The app's configuration."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ElicitationConfig(AppConfig):
    """Registers checks and receivers. Opens no connection and reads no setting."""

    name = "elicitation"
    verbose_name = _("MCP elicitation")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and connect the app's own receivers."""
        from django.contrib.auth import get_user_model
        from django.contrib.auth.signals import user_logged_out
        from django.db.models.signals import post_save, pre_delete

        from . import checks, signals  # noqa: F401
        from .calls import leaving, queues
        from .inbox import live, notify

        for receiver in (notify.email_when_asked, notify.hook_when_asked):
            uid = f"elicitation.{receiver.__name__}"
            signals.elicitation_asked.connect(receiver, dispatch_uid=uid)
        for signal in (signals.elicitation_closed, signals.call_due):
            signal.connect(queues.go_on_with, dispatch_uid="elicitation.queues")
        for signal in (signals.elicitation_asked, signals.elicitation_closed):
            signal.connect(live.on_change, dispatch_uid="elicitation.live")
        users, uid = get_user_model(), "elicitation.leaving"
        post_save.connect(leaving.on_saved, sender=users, dispatch_uid=uid)
        pre_delete.connect(leaving.on_deleted, sender=users, dispatch_uid=uid)
        user_logged_out.connect(live.on_sign_out, dispatch_uid="elicitation.live")
