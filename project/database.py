"""The database that ``DATABASE_URL`` names, set up as the app wants it.

Used by the demo site's settings and by those of the tests, so that both run on the same footing.
"""

from typing import Any

import environ

# The journal is kept between connections; the other two are for this connection alone.
SQLITE_INIT = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"


def database_from_env(env: environ.Env, *, default: str) -> dict[str, Any]:
    """Return one entry of ``DATABASES``."""
    # Set to nothing counts as not set.
    url = env.str("DATABASE_URL", default="") or default
    config: dict[str, Any] = env.db_url_config(url)
    options = config.setdefault("OPTIONS", {})
    if config["ENGINE"] == "django.db.backends.sqlite3":
        # A transaction takes the write lock when it begins and waits for it: with SQLite's own
        # deferred transactions a reader that turns writer fails at once, timeout or not.
        options.setdefault("transaction_mode", "IMMEDIATE")
        options.setdefault("init_command", SQLITE_INIT)
        options.setdefault("timeout", 20)
    elif config["ENGINE"] == "django.db.backends.mysql":
        options.setdefault("charset", "utf8mb4")
    return config
