"""What a fast run leaves out, and what it does not let in."""

import subprocess
import sys

import pytest

from tests import fast

#: The guard as it is in a fast run. What Python reports an event to cannot be taken away again.
guard = fast.Guard()


def test_every_place_is_there() -> None:
    assert [path for path in fast.PATHS if not path.exists()] == []


def test_places_and_what_is_in_them_are_slow() -> None:
    tests = fast.BASE_DIR / "tests"
    assert fast.is_slow_place(tests / "browser" / "test_browser.py")
    assert fast.is_slow_place(tests / "test_html.py")
    assert not fast.is_slow_place(tests / "test_pages.py")


@pytest.mark.parametrize("event", sorted(fast.STARTS))
def test_a_test_that_starts_a_process_fails(event: str) -> None:
    guard.is_on = False
    guard(event, ())
    guard.is_on = True
    guard("open", ())
    with pytest.raises(AssertionError, match=r"Give it pytest\.mark\.slow"):
        guard(event, ())


@pytest.mark.slow
def test_python_reports_a_process() -> None:
    code = (
        "import subprocess, sys\nfrom tests.fast import Guard\nguard = Guard()\n"
        "sys.addaudithook(guard)\nguard.is_on = True\nsubprocess.run([sys.executable, '-V'])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=fast.BASE_DIR, capture_output=True, text=True, check=False)
    assert "a test that starts a process is slow" in done.stderr
