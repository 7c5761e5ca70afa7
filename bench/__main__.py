"""Every benchmark: ``python -m bench --database-url URL --database-url URL``.

Prints the tables; with ``--write`` they and a picture go into ``docs/performance.md``, with the
machine and the commit; ``--check`` fails where a ratio that must hold does not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from . import core, report

BASE_DIR = Path(__file__).resolve().parent.parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--database-url", action="append", help="can be repeated; default: DATABASE_URL, or SQLite"
    )
    parser.add_argument("--rows", help="sizes of the tables, such as 1000,100000,1000000")
    parser.add_argument("--runs", help="runs in a round")
    parser.add_argument("--rounds", help="rounds of each measurement")
    parser.add_argument("--results", type=Path, nargs="*", help="write up these instead")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    parser.add_argument("--check", action="store_true", help="fail where a ratio does not hold")
    return parser.parse_args()


def measure(options: argparse.Namespace, url: str, result: Path) -> None:
    """Measure on one database, in a process of its own: Django has one set of settings."""
    command = [sys.executable, "-m", "bench.database", "--database-url", url]
    for name in ("rows", "runs", "rounds"):
        if (value := getattr(options, name)) is not None:
            command += [f"--{name}", value]
    subprocess.run([*command, "--json", str(result)], cwd=BASE_DIR, check=True)


def main() -> int:
    options = arguments()
    core.main()
    found = [json.loads(path.read_text()) for path in options.results or ()]
    if not found:
        default = os.environ.get("DATABASE_URL", "sqlite:///:memory:")
        with tempfile.TemporaryDirectory() as directory:
            for number, url in enumerate(options.database_url or [default]):
                result = Path(directory) / f"{number}.json"
                measure(options, url, result)
                found.append(json.loads(result.read_text()))
    if options.write:
        report.write(found, BASE_DIR / "docs")
    lines = [line for one in found for line in [*one["results"], *one["growth"]]]
    return 1 if options.check and not all(line["holds"] for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
