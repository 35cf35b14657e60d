"""Owns the clients of the end-to-end tests. The site itself is in tests/plugins/site.py."""

import pytest


@pytest.fixture
def api(site, key):
    with site.api(key) as client:
        yield client


@pytest.fixture
def page(site):
    client = site.page("ann")
    yield client
    client.close()
