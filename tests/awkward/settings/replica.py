"""A writer, a replica from which a router reads, and a third database with nothing to do with it.

The replica here is one that lags behind for ever: it has the tables, and no row ever arrives.
Whatever decides something must therefore have read the writer.
"""

import copy
import os
import tempfile

from .base import *  # noqa: F403
from .base import DATABASES, DEFAULT, ON_SQLITE

for alias in ("replica", "other"):
    DATABASES[alias] = copy.deepcopy(DEFAULT)
    name = f"awkward_{os.getpid()}_{alias}"
    DATABASES[alias]["TEST"] = {
        "NAME": f"{tempfile.gettempdir()}/{name}.sqlite3" if ON_SQLITE else name
    }
DATABASES["other"]["ATOMIC_REQUESTS"] = True
DATABASE_ROUTERS = ["tests.awkward.routers.ReadFromReplica"]
