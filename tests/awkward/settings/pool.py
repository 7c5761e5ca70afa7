"""Django's psycopg pool; connections go back to it after each request."""

from .base import *  # noqa: F403
from .base import DEFAULT

DEFAULT["CONN_MAX_AGE"] = 0
DEFAULT.setdefault("OPTIONS", {})["pool"] = {"min_size": 1, "max_size": 4, "timeout": 20}
