"""A process that ends a call and dies when it would tell its host, as if its machine did."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from typing import Any

from tests.processes import use_test_database

use_test_database()

from elicitation.calls import parking  # noqa: E402
from elicitation.calls.ended import Ended  # noqa: E402
from elicitation.signals import call_finished  # noqa: E402


def die(**kwargs: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    call_finished.send_robust = die  # type: ignore[method-assign]
    row = parking.rows().get(pk=uuid.UUID(sys.argv[1]))
    parking.close(row, Ended(code="finished", result={"content": []}))


if __name__ == "__main__":
    main()
