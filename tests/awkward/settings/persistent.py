"""Connections that outlive a request, with a health check."""

from .base import *  # noqa: F403
from .base import DEFAULT

DEFAULT["CONN_MAX_AGE"] = 60
DEFAULT["CONN_HEALTH_CHECKS"] = True
