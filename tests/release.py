"""Is a release what it should be? ``python -m tests.release``, or ``make release-check``.

Builds the sdist and the wheel, looks into them, installs each into an empty environment on the
oldest and on the newest Python and Django, and does the tutorial there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
DIST = BASE_DIR / "dist"

#: Each Python that is tried, with the Django on it: the oldest of both, and the newest.
TRIED = (("3.11", "django>=5.2,<5.3"), ("3.13", "django>=6,<7"))

#: What no distribution may have in it.
FOREIGN = ("tests/", "project/", "bench/", "templates/", "docs/site/", ".ci/")

#: Licences of what is installed with the app, as its metadata names them. GPL is none of these.
LICENCES = (
    "Apache",
    "BSD",
    "ISC",
    "MIT",
    "Mozilla Public License",
    "MPL-2.0",
    "PSF",
    "Python Software Foundation",
    "Unlicense",
)

#: Run in the environment, in a folder without the project.
LOOK = """
import importlib.metadata, pathlib, sys
import django
import elicitation
assert "site-packages" in elicitation.__file__, elicitation.__file__
root = pathlib.Path(elicitation.__file__).parent
for language in ("ar", "de", "fr"):
    assert (root / "locale" / language / "LC_MESSAGES" / "django.mo").is_file(), language
assert (root / "py.typed").is_file()
for each in sorted(importlib.metadata.distributions(), key=lambda each: each.name.lower()):
    about = each.metadata
    said = about.get("License-Expression") or "; ".join(
        line.rpartition(" :: ")[2]
        for line in about.get_all("Classifier") or ()
        if line.startswith("License ::")
    )
    said = said or (about.get("License") or "").partition("\\n")[0]
    print(each.name, each.version, said, sep="\\t")
"""


def run(*command: str | Path, cwd: Path = BASE_DIR) -> str:
    """Run a command, and return what it printed.

    Raises:
        SystemExit: It failed. The text is what it printed.
    """
    # Neither this environment nor the folder of the project may stand in for what is installed.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DJANGO_", "DATABASE_URL", "PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def interpreter(version: str) -> str | None:
    """Return a Python of this version, if the machine has one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [
        shutil.which(f"python{version}"),
        *map(str, pyenv.glob(f"{version}.*/bin/python")),
    ]
    check = f"import sys; sys.exit(sys.version_info[:2] != {tuple(map(int, version.split('.')))})"
    for candidate in filter(None, found):
        if subprocess.run([candidate, "-c", check], capture_output=True, check=False).returncode:
            continue
        return candidate
    return None


def build() -> list[Path]:
    """Build both distributions of the files that git knows, and look at what is in them."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    (wheel,) = DIST.glob("*.whl")
    (sdist,) = DIST.glob("*.tar.gz")
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    for names, which in ((in_wheel, wheel), (in_sdist, sdist)):
        problems = [name for name in sorted(names) if name.startswith(FOREIGN)]
        missing = set(run("git", "ls-files", "elicitation").split()) - names
        if problems or missing:
            raise SystemExit(f"{which.name}: foreign {problems}, missing {sorted(missing)}")
        say(f"{which.name}: {len(names)} files, complete, and nothing of tests or demo")
    return [wheel, sdist]


def licences(listed: str) -> list[str]:
    """Return the lines of what is under no licence that is known to go with the app's."""
    lines = [
        line for line in listed.splitlines() if not line.startswith(("pip\t", "setuptools\t"))
    ]
    return [line for line in lines if not any(name in line.split("\t")[2] for name in LICENCES)]


def try_out(distribution: Path, version: str, django: str) -> None:
    """Install a distribution where nothing else is, and do with it what a newcomer does."""
    python = interpreter(version)
    if python is None:
        say(f"{distribution.name}: there is no Python {version} on this machine. NOT TRIED.")
        return
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        run(python, "-m", "venv", folder / "env")
        there = folder / "env" / "bin" / "python"
        pip = (there, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, f"{distribution}[mcp]", django, cwd=folder)
        run(there, "-m", "pip", "check", cwd=folder)
        listed = run(there, "-W", "error", "-c", LOOK, cwd=folder)
        if unknown := licences(listed):
            raise SystemExit("Look at these licences: " + "; ".join(unknown))
        run(sys.executable, "-m", "tests.tutorial", "--python", there)
        (django_line,) = [
            line for line in listed.splitlines() if line.lower().startswith("django\t")
        ]
        shown = django_line.split("\t")[1]
        say(
            f"{distribution.name} on Python {version} and Django {shown}: installed, translated, "
            f"{len(listed.splitlines())} distributions with known licences, tutorial done"
        )


def main() -> None:
    distributions = build()
    run(sys.executable, "-m", "twine", "check", "--strict", *distributions)
    say("twine check: passed")
    run(sys.executable, "-m", "check_wheel_contents", distributions[0])
    say("check-wheel-contents: passed")
    for distribution in distributions:
        for version, django in TRIED:
            try_out(distribution, version, django)


if __name__ == "__main__":
    main()
