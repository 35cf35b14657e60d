"""Owns the site's settings with a tool that waits; for tests only."""

from chatsite.settings import *  # noqa: F403
from chatsite.settings import INSTALLED_APPS

INSTALLED_APPS = ["tests.e2e.waiting_tool.apps.WaitingToolConfig", *INSTALLED_APPS]
