"""What the commands beside the torture test share: a database of their own, and their report."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def in_own_database(url: str | None) -> Iterator[None]:
    """Set Django up with a database that is made here and removed at the end."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    if url:
        os.environ["DATABASE_URL"] = url
    import django
    from django.db import connection, connections

    django.setup()
    # What fails here fails on purpose, hundreds of times.
    logging.disable(logging.CRITICAL)
    if connection.vendor != "sqlite":
        connection.settings_dict["TEST"]["NAME"] = f"torture_{os.getpid()}"
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        print(connection.display_name)
        yield
    finally:
        connections.close_all()
        connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)


def report(title: str, counts: Counter[str], wrong: Sequence[str]) -> bool:
    """Print what was counted; return whether nothing was wrong."""
    print(f"\n{title}")
    for name, count in sorted(counts.items(), key=lambda item: item[0] != "runs"):
        print(f"{count:>8,}  {name}")
    # The first of each tell enough.
    for line in wrong[:20]:
        print(f"  {line}", file=sys.stderr)
    return not wrong
