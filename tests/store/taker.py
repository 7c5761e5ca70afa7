"""A process that takes recorded answers until it finds none, and prints what it took."""

from __future__ import annotations

import json
import random
import sys

from tests.processes import use_test_database

use_test_database()

from elicitation.store import DatabaseFormAnswerStore  # noqa: E402
from tests.store.conftest import elicitation  # noqa: E402


def main() -> None:
    count = int(sys.argv[1])
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    taken = []
    order = list(range(count))
    random.shuffle(order)
    for number in order:
        store = DatabaseFormAnswerStore(scope="race", call=f"call-{number}")
        if (row := store.take_form_answer(elicitation())) is not None:
            taken.append(row.call)
    print(json.dumps(taken))  # noqa: T201


if __name__ == "__main__":
    main()
