"""How often one person may ask."""

from __future__ import annotations

from typing import Any

from rest_framework.settings import api_settings
from rest_framework.throttling import UserRateThrottle


class ElicitationThrottle(UserRateThrottle):
    """A rate for each person over the whole API: a client that looks every second keeps to it.

    ``REST_FRAMEWORK["DEFAULT_THROTTLE_RATES"]["elicitation"]`` sets another one, ``None`` none.
    """

    scope = "elicitation"
    default_rate = "240/min"

    def get_rate(self) -> str | None:
        """Return the project's rate for this scope, else the default one."""
        rates: dict[str, Any] = api_settings.DEFAULT_THROTTLE_RATES
        rate: str | None = rates.get(self.scope, self.default_rate)
        return rate
