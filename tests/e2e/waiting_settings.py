"""Owns the settings of a site that has a tool of these tests beside its own, and gates that they open."""

import os
from pathlib import Path

from tests.gates.settings import *  # noqa: F403
from tests.gates.settings import DATA_DIR, INSTALLED_APPS

# Before the site's app, which looks whether all tools exist that it shall offer.
INSTALLED_APPS = ["tests.e2e.waiting_tool.WaitingTool", *INSTALLED_APPS]
#: Of several sites one folder.
WAITING_TOOL_DIR = Path(os.environ.get("WAITING_TOOL_DIR", DATA_DIR))
