"""Every request is a transaction."""

from .base import *  # noqa: F403
from .base import DEFAULT

DEFAULT["ATOMIC_REQUESTS"] = True
