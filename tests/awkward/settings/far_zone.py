"""``USE_TZ`` on, far from UTC, in a zone with a summer time of half an hour."""

from .base import *  # noqa: F403

USE_TZ = True
TIME_ZONE = "Australia/Lord_Howe"
