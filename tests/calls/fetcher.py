"""A process that acknowledges outcomes until it finds none, and prints which it got."""

from __future__ import annotations

import json
import random
import sys
import uuid

from tests.processes import use_test_database

use_test_database()

from elicitation import calls  # noqa: E402


def main() -> None:
    keys = [uuid.UUID(key) for key in json.loads(sys.stdin.readline())]
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    random.shuffle(keys)
    print(json.dumps([str(key) for key in keys if calls.acknowledge(key)]))  # noqa: T201


if __name__ == "__main__":
    main()
