"""Owns the settings of a site that has a tool of these tests beside its own."""

from chatsite.settings import *  # noqa: F403
from chatsite.settings import INSTALLED_APPS

# Before the site's app, which looks whether all tools exist that it shall offer.
INSTALLED_APPS = ["tests.browser.waiting_tool.WaitingTool", *INSTALLED_APPS]
