"""One process that goes one step with a request, says how that ended, and is gone.

``python -m tests.methods.step SERVERS METHOD USER_ID [PARKED_CALL_ID]`` prints one JSON object.
SERVERS is ``ELICITATION_SERVERS`` as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.processes import use_test_database

use_test_database()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402

from elicitation import calls  # noqa: E402
from elicitation.core import ElicitationPending  # noqa: E402
from tests.methods.asking import request  # noqa: E402


def main() -> dict[str, Any]:
    servers, method, user_id, *parked = sys.argv[1:]
    settings.ELICITATION_SERVERS = json.loads(servers)
    try:
        if parked:
            result = calls.resume_sync(parked[0])
        else:
            result = request(method, User.objects.get(pk=user_id))
    except ElicitationPending as pending:
        return {"parked": str(pending.parked_call_id)}
    return {"kind": type(result).__name__, "result": result.model_dump(mode="json")}


if __name__ == "__main__":
    print(json.dumps(main()))  # noqa: T201
