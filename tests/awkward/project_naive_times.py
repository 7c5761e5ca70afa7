"""``USE_TZ`` off: the app says no before anything is shown to anybody."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError


@pytest.mark.django_db
def test_the_checks_refuse_it() -> None:
    with pytest.raises(SystemCheckError, match=r"elicitation\.E021.*USE_TZ"):
        call_command("check", fail_level="ERROR")
