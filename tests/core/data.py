"""The shared test data: what the reference's own code said, and schemas of real servers."""

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"


def lines(name: str) -> list[Any]:
    with (DATA / f"{name}.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def form(**properties: Any) -> dict[str, Any]:
    """A requested schema with these properties, none of them required."""
    return {"type": "object", "properties": properties}
