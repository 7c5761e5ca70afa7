"""Tell a person that something waits for them: by e-mail, and by whatever the site adds.

The e-mail has the operator's label for the server and a link, and nothing that a server or a
person wrote: mail is stored by many hands, and a server must not be able to write it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMultiAlternatives, get_connection
from django.template.loader import render_to_string
from django.utils import timezone, translation

from ..conf import settings
from ..core.untrusted import one_line
from ..models import Elicitation, ServerPolicy
from ..transactions import in_transaction, write_alias
from . import access
from .rows import log_fields

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

logger = logging.getLogger("elicitation")

#: How long a mail server may take, in seconds, if ``EMAIL_TIMEOUT`` does not say: the signal is
#: sent in the process that asks, which waits.
PATIENCE = 10


def email_when_asked(elicitation_id: UUID, **kwargs: Any) -> None:
    """Receive ``elicitation_asked``: send the e-mail, if the site wants one."""
    if settings.EMAIL:
        send_email(elicitation_id)


def hook_when_asked(elicitation_id: UUID, **kwargs: Any) -> None:
    """Receive ``elicitation_asked``: call the site's hook, if it has one."""
    hook = settings.NOTIFY
    if hook is not None:
        hook(elicitation_id)


def remind(elicitation_id: UUID) -> bool:
    """Notify people of an open elicitation again: by e-mail and by the hook, if the site has them.

    Returns:
        Whether it can still be answered.

    Raises:
        ImproperlyConfigured: As for ``send_email``.
    """
    rows = Elicitation.objects.using(write_alias()).open().filter(pk=elicitation_id)
    if not in_transaction(lambda: rows.update(notified_at=None)):
        return False
    email_when_asked(elicitation_id)
    hook_when_asked(elicitation_id)
    return True


def send_email(elicitation_id: UUID) -> bool:
    """Send each person who may answer an elicitation one e-mail, if it is open and none was sent.

    By default that is the respondent; ``ELICITATION_ACCESS`` can name more people.

    May be called at any time later, and by several processes: by a task queue, for example.

    Returns:
        Whether it was sent.

    Raises:
        ImproperlyConfigured: The e-mail would have no link: set ``ELICITATION_BASE_URL``, or an
            ``ELICITATION_PAGE_URL`` with a host.
    """
    rows = Elicitation.objects.using(write_alias()).open().filter(pk=elicitation_id)
    elicitation = rows.filter(notified_at=None).first()
    if elicitation is None:
        return False
    people = [person for person in access.access().people(elicitation) if _address(person)]
    if not people:
        logger.info("A person has no e-mail address", extra=log_fields(elicitation))
        return False
    url = _link(elicitation)
    # Marked first: a second sender, or one that dies in the middle, sends no second one.
    if rows.filter(notified_at=None).update(notified_at=timezone.now()) != 1:
        return False
    failed: list[Exception] = []
    for person in people:
        try:
            with translation.override(_language(person)):
                message = _message(elicitation, url, _address(person))
            message.send()
        except Exception as error:
            # The others get theirs. The text of the error may have the address.
            failed.append(error)
            logger.warning(
                "An e-mail about an elicitation could not be sent",
                extra=log_fields(elicitation) | {"error": type(error).__name__},
            )
    if len(failed) == len(people):
        in_transaction(lambda: rows.update(notified_at=None))
        raise failed[-1]
    logger.info("A person was sent an e-mail about an elicitation", extra=log_fields(elicitation))
    return True


def _link(elicitation: Elicitation) -> str:
    url = elicitation.page_url
    if url.startswith("/"):
        url = settings.BASE_URL and f"{settings.BASE_URL}{url}"
    if not url:
        raise ImproperlyConfigured(
            "Set ELICITATION_BASE_URL, or ELICITATION_PAGE_URL with a host, for the links in "
            "e-mails."
        )
    return url


def _connection() -> Any:
    """Return a connection that is not waited for without end; ``None`` for Django's default."""
    # From Django 6.1 on, MAILERS has the time-outs, and EMAIL_TIMEOUT cannot be read beside it.
    if getattr(django_settings, "MAILERS", None):
        return None
    return get_connection(timeout=django_settings.EMAIL_TIMEOUT or PATIENCE)


def _message(elicitation: Elicitation, url: str, address: str) -> EmailMultiAlternatives:
    policy = ServerPolicy.objects.for_server(elicitation.server)
    context = {
        "server_name": one_line(policy.display_name),
        "url": url,
        "language": translation.get_language(),
        "direction": "rtl" if translation.get_language_bidi() else "ltr",
    }
    subject = render_to_string("elicitation/email/asked_subject.txt", context)
    message = EmailMultiAlternatives(
        " ".join(subject.split()),
        render_to_string("elicitation/email/asked.txt", context),
        to=[address],
        headers={"Auto-Submitted": "auto-generated"},
        connection=_connection(),
    )
    html = render_to_string("elicitation/email/asked.html", context)
    message.attach_alternative(html, "text/html")
    return message


def _address(user: AbstractBaseUser) -> str:
    """Return the e-mail address of a user who can still sign in, else nothing."""
    return str(getattr(user, user.get_email_field_name(), "") or "") if user.is_active else ""


def _language(user: AbstractBaseUser) -> str:
    """Return the language to write in; the one that is active now may be another person's."""
    chosen = settings.USER_LANGUAGE
    return str(chosen(user) or "") if chosen else django_settings.LANGUAGE_CODE
