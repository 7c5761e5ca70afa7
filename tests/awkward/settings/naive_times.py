"""``USE_TZ`` off: times are local and know no zone."""

from .base import *  # noqa: F403

USE_TZ = False
TIME_ZONE = "America/St_Johns"
