"""Owns what the whole suite stands on besides its settings: its plugins, its patience, what PostgreSQL asks of it."""

import pytest
from hypothesis import HealthCheck, settings

from tests import databases

# What helpers of tests assert is told with its values, too.
pytest.register_assert_rewrite(*(f"tests.{folder}" for folder in ("books", "cluster", "drill", "e2e", "engine", "sdk")))
# How long an example of a law takes, or its drawing, says something of the machine alone.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
pytest_plugins = [f"tests.plugins.{name}" for name in ("no_skips", "nothing_left", "site", "workers")]


@pytest.fixture(scope="session")
def django_db_keepdb():
    """The server goes as a whole, and threads that live until then have connections to it."""
    return databases.ON_POSTGRES


def pytest_collection_modifyitems(config, items):
    """On PostgreSQL leave out what speaks of SQLite's file."""
    if databases.ON_POSTGRES:
        left_out = [item for item in items if item.get_closest_marker("sqlite")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
