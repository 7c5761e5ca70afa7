"""What ``make test-fast`` leaves to ``make test``: the tests with the marker ``slow``.

They start a process, a browser or a server, or go through a corpus. A test has the marker if it is
in one of these places, uses one of these fixtures, or says so itself. In a fast run, a test that
starts a process fails, so that none slips in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

BASE_DIR = Path(__file__).resolve().parent.parent

#: The expression that ``make test-fast`` selects by.
EXPRESSION = "not slow"

FIXTURES = frozenset({"browser", "http_servers", "live_server", "mcp_url", "page", "site_address"})

PATHS = frozenset(
    BASE_DIR / "tests" / path
    for path in """
    api/test_hostile.py api/test_openapi.py api/test_race.py api/test_schemathesis.py
    awkward browser clients conformance
    core/test_properties.py
    docs/test_bench.py docs/test_readme.py docs/test_tutorial.py
    exactness
    integration/test_cases_c.py integration/test_processes.py integration/test_wire.py
    methods mutations named
    ops/test_killed.py ops/test_soak.py
    others
    project/test_demo_run.py
    store/test_processes.py
    tasks
    test_hostile.py test_html.py test_person.py
    torture wire workers
    """.split()
)

#: What Python reports when a process is started (``sys.addaudithook``).
STARTS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"})


def is_slow_place(path: Path) -> bool:
    """Whether all tests of this module or folder are slow."""
    return not PATHS.isdisjoint((path, *path.parents))


class Guard:
    """Lets a test fail that starts a process in a fast run."""

    def __init__(self) -> None:
        self.is_on = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Be told of an event by Python.

        Raises:
            AssertionError: A process is about to be started.
        """
        if self.is_on and event in STARTS:
            raise AssertionError(
                f"{event}: a test that starts a process is slow. Give it pytest.mark.slow, or "
                "add its module to tests/fast.py."
            )
