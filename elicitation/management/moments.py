"""Moments as operators write them."""

from __future__ import annotations

from datetime import datetime, time

from django.core.management.base import CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

#: For the help of an option.
MOMENT = "an ISO date, or date and time; without a zone, in the time zone of the site"


def moment(option: str, text: str) -> datetime:
    """Return the moment that an option names.

    Raises:
        CommandError: It names none.
    """
    try:
        found = parse_datetime(text)
        if found is None and (day := parse_date(text)) is not None:
            found = datetime.combine(day, time())
    except ValueError:
        found = None
    if found is None:
        raise CommandError(
            f"{option} takes an ISO date, or date and time, such as 2026-12-31 or "
            "2026-12-31T23:59."
        )
    return timezone.make_aware(found) if timezone.is_naive(found) else found
