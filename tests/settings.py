"""Owns the settings of the tests' own process: the site's, on a data folder and a database that are the tests' own."""

import os
import tempfile
from pathlib import Path

from tests import databases

# Before the site's settings are read, and for every process that a test starts: no test may touch a developer's data.
os.environ.setdefault("MODEL_DIR", str(Path(__file__).resolve().parent.parent / "var" / "models"))
os.environ["DATA_DIR"] = tempfile.mkdtemp(prefix="chatsite-test-")
os.environ.pop("DATABASE_URL", None)
os.environ.update(databases.environment())
# Those processes are the site itself.
os.environ["DJANGO_SETTINGS_MODULE"] = "chatsite.settings"

from chatsite.settings import *  # noqa: F403
