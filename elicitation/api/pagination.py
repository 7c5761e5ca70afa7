"""Pages of a list that changes while it is read."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination

from ..conf import settings as app_settings

if TYPE_CHECKING:
    from rest_framework.pagination import Cursor
    from rest_framework.request import Request


class DeadlinePagination(CursorPagination):
    """Cursor pages, the oldest deadline first; ``ELICITATION_PAGE_SIZE`` elicitations a page."""

    ordering = ("expires_at", "id")

    def get_page_size(self, request: Request) -> int:
        """Return the size of every page: clients do not choose it."""
        return app_settings.PAGE_SIZE

    def decode_cursor(self, request: Request) -> Cursor | None:
        """Return the cursor that was sent.

        Raises:
            NotFound: It is none of ours. DRF itself would look for any text as a deadline, which
                is an error of the database's.
        """
        try:
            cursor = super().decode_cursor(request)
        except NotFound:
            raise _invalid_cursor() from None
        if cursor is not None and cursor.position is not None:
            try:
                position = parse_datetime(str(cursor.position))
                if position is None or timezone.is_aware(position) != settings.USE_TZ:
                    raise _invalid_cursor()
                position.astimezone(UTC)
            except (ValueError, OverflowError):
                raise _invalid_cursor() from None
        return cursor


class ClosedPagination(DeadlinePagination):
    """Cursor pages of what is closed, the latest first."""

    ordering = ("-closed_at", "id")


def _invalid_cursor() -> NotFound:
    return NotFound("There is no such page.", "invalid_cursor")
