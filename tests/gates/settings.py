"""Owns the settings of a site whose scripts wait at gates that tests open."""

import os
from pathlib import Path

from chatsite.settings import *  # noqa: F403
from chatsite.settings import DATA_DIR, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.gates.app.Gates"]
#: Of several sites one folder.
GATES_DIR = Path(os.environ.get("GATES_DIR", DATA_DIR))
