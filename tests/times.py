"""How much processor time targets of make take: ``python -m tests.times test-fast test``.

The time on the clock says more of what else the machine does.
"""

import os
import subprocess
import sys
import time


def measure(target: str) -> tuple[int, str]:
    """Run a target, and return its code and a line about its time."""
    before, began = os.times(), time.monotonic()
    code = subprocess.run(["make", target], check=False).returncode
    after = os.times()
    user = after.children_user - before.children_user
    system = after.children_system - before.children_system
    line = (
        f"make {target}: {user + system:.0f} s of processor time "
        f"({user:.0f} user, {system:.0f} system), {time.monotonic() - began:.0f} s on the clock"
    )
    return code, line if code == 0 else f"{line}; it FAILED"


def main() -> int:
    measured = [measure(target) for target in sys.argv[1:]]
    sys.stdout.write("".join(f"{line}\n" for _, line in measured))
    return max(code for code, _ in measured)


if __name__ == "__main__":
    sys.exit(main())
