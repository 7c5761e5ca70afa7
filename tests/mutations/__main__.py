"""Changes that must not survive the tests: ``python -m tests.mutations [NAME …]``.

Each patch beside this file breaks one rule; its first lines say which, and what tests notice it.
The tests run in a copy of the tree: as it is, where they must pass, and with one patch at a time,
where they must fail. ``DATABASE_URL`` chooses the database, as for the tests.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.processes import BASE_DIR

HERE = Path(__file__).resolve().parent

#: What a test needs of the tree.
PARTS = ("elicitation", "project", "templates", "tests", "docs", "manage.py", "pyproject.toml")

#: How ``pytest`` ends where all tests passed, and where some failed.
PASSED, FAILED = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One change: what it breaks, the tests that notice it, and its patch."""

    name: str
    breaks: str
    tests: tuple[str, ...]
    patch: Path

    @classmethod
    def read(cls, patch: Path) -> Mutation:
        """Read a patch and what its first lines say of it."""
        breaks, tests = patch.read_text().splitlines()[:2]
        word, *names = tests.split()
        assert word == "Tests:", f"the second line of {patch.name} does not name its tests"
        assert names, f"{patch.name} names no tests"
        return cls(name=patch.stem, breaks=breaks, tests=tuple(names), patch=patch)

    def apply(self, tree: Path, *options: str) -> None:
        """Apply the patch to a tree; with ``-R`` take it back.

        Raises:
            subprocess.CalledProcessError: The code has changed, and the patch does not fit.
        """
        subprocess.run(["git", "apply", *options, str(self.patch)], cwd=tree, check=True)


def mutations() -> list[Mutation]:
    """Return all of them, in the order of their names."""
    return [Mutation.read(patch) for patch in sorted(HERE.glob("*.patch"))]


def copy(tree: Path) -> None:
    """Copy what a test needs."""
    for part in PARTS:
        source = BASE_DIR / part
        if source.is_dir():
            shutil.copytree(source, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / part)


def run(tree: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run tests in a tree."""
    # Sources that are rewritten within a second look like their bytecode to Python.
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *tests], cwd=tree, capture_output=True, text=True, check=False
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("names", nargs="*", help="beginnings of names; default: all")
    names = tuple(parser.parse_args().names) or ("",)
    chosen = [each for each in mutations() if each.name.startswith(names)]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as directory:
        tree = Path(directory)
        copy(tree)
        # Folder by folder: pytest 9 does not find a folder's fixtures when it comes back to it.
        unbroken = run(tree, tuple(sorted({test for each in chosen for test in each.tests})))
        if unbroken.returncode != PASSED:
            print(unbroken.stdout, unbroken.stderr, file=sys.stderr)
            raise SystemExit("The tests fail without a mutation.")
        for mutation in chosen:
            mutation.apply(tree)
            code = run(tree, mutation.tests).returncode
            mutation.apply(tree, "-R")
            # Any other code is none of a test that failed.
            verdict = {FAILED: "noticed", PASSED: "SURVIVED"}.get(code, f"pytest ended: {code}")
            survivors += code != FAILED
            print(f"{verdict:<10} {mutation.name}: {mutation.breaks}", flush=True)
    print(f"{len(chosen)} mutations, {survivors} not noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
