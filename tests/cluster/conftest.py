"""Owns the two web processes on one PostgreSQL that the tests of this folder share."""

import signal

import pytest

from tests import databases
from tests.cluster.postgres import ClusterSite
from tests.cluster.valkey import Valkey


@pytest.fixture(scope="session")
def postgres():
    return databases.new()


@pytest.fixture(scope="session")
def pair(tmp_path_factory, postgres, model_dir):
    """Two web processes, a scripted engine that each plays by itself, one key."""
    folder = tmp_path_factory.mktemp("cluster")
    one, two = (ClusterSite(folder / name, model_dir, postgres) for name in ("one", "two"))
    one.migrate()
    one.scripted("ticks", script={"outputs": [{"text": "tick "}], "repeat": 1500, "delay_s": 0.02})
    one.key = two.key = one.manage("create_api_key", "dev")
    for site in (one, two):
        site.start()
    yield one, two
    for site in (one, two):
        if site.web.popen.poll() is None:
            site.web.popen.send_signal(signal.SIGCONT)
        site.stop()


@pytest.fixture
def both(pair):
    """The pair, with what an earlier test killed started again."""
    for site in pair:
        if site.web.popen.poll() is not None:
            site.start()
    return pair


@pytest.fixture(scope="module")
def valkey(tmp_path_factory):
    server = Valkey(tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def rung(request, tmp_path_factory, pair, postgres, valkey, model_dir):
    """Two more processes on the pair's database, with doorbells; ``request.param`` are their settings."""
    one, two = pair
    settings = {"VALKEY_URL": valkey.url, **request.param}
    sites = []
    for name in ("three", "four"):
        site = ClusterSite(tmp_path_factory.mktemp(name), model_dir, postgres)
        site.env.update(settings)
        site.key = one.key
        site.start()
        sites.append(site)
    yield sites
    for site in sites:
        site.stop()
