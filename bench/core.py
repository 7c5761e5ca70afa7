"""What it costs to read a requested schema, beside what it costs `jsonschema` to check that it
is a schema at all. Run as `python -m bench.core`.
"""

import statistics
import sys
import timeit
from collections.abc import Callable

from jsonschema import Draft202012Validator

from elicitation.core import parse_requested_schema

SCHEMA = {
    "type": "object",
    "properties": {
        "plan": {
            "type": "string",
            "title": "Plan",
            "enum": ["pro", "team"],
            "enumNames": ["Pro", "Team"],
            "description": "Which plan to buy",
        },
        "seats": {"type": "integer", "title": "Seats", "minimum": 1, "maximum": 50},
        "notify": {"type": "boolean", "title": "Notify me", "default": True},
        "email": {"type": "string", "format": "email"},
    },
    "required": ["plan", "seats"],
}


def read() -> None:
    schema = parse_requested_schema(SCHEMA)
    schema.questions("billing")
    schema.fingerprint()


def check() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def seconds(call: Callable[[], None], *, number: int, repeats: int = 15) -> float:
    """The median time of one call."""
    call()
    return statistics.median(timeit.repeat(call, number=number, repeat=repeats)) / number


def main() -> None:
    ours, theirs = seconds(read, number=500), seconds(check, number=50)
    sys.stdout.write(
        f"elicitation: parse, questions, fingerprint  {ours * 1e6:8.1f} µs\n"
        f"jsonschema:  check_schema                   {theirs * 1e6:8.1f} µs\n"
        f"ratio                                       {theirs / ours:8.1f}\n"
    )


if __name__ == "__main__":
    main()
