"""A real PgBouncer between two web processes and PostgreSQL: the same answers and limits, and a kill loses nothing.

Each transaction gets another connection to the server than the one before, wherever the pool may choose.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest

from tests import databases
from tests.cluster.bouncer import Bouncer
from tests.cluster.following import Follower
from tests.cluster.postgres import QUICK, ClusterSite
from tests.cluster.test_the_database_is_away import is_kept, is_whole, saying, words

ENV = {**QUICK, "STORAGE_PATIENCE_S": "12"}
AWAY_S = 2
LIMITS = {
    "idle_in_transaction_session_timeout": "5s", "lock_timeout": "5s", "statement_timeout": "30s",
    "synchronous_commit": "on",
}  # fmt: skip


def limits(url):
    with psycopg.connect(url) as connection:
        return {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in LIMITS}


@contextmanager
def site_behind(bouncer, folder, model_dir, **env: str) -> Iterator[ClusterSite]:
    folder.mkdir()
    site = ClusterSite(folder / "site", model_dir, bouncer.url, {**ENV, **env})
    yield site
    site.stop()


def give_tables(bouncer, site):
    databases.give_tables(databases.at(bouncer.server_url, site.data_dir), lambda: site.manage("migrate", "-v", "0"))


@pytest.fixture(scope="module", params=["transaction", "session"])
def both(request, tmp_path_factory, model_dir):
    """A pooler that was told nothing but the operator's page, and two web processes that know of it."""
    folder = tmp_path_factory.mktemp("sites")
    with (
        closing(Bouncer(databases.new(), request.param, "server_round_robin = 1")) as bouncer,
        site_behind(bouncer, folder / "one", model_dir, DATABASE_POOLER="1") as one,
        site_behind(bouncer, folder / "two", model_dir, DATABASE_POOLER="1") as two,
    ):
        give_tables(bouncer, one)
        one.manage("migrate", "-v", "0")
        bouncer.console("RECONNECT")
        one.scripted(context_tokens=10_000_000)
        one.key = two.key = one.manage("create_api_key", "dev")
        with ThreadPoolExecutor() as starting:
            list(starting.map(ClusterSite.start, (one, two)))
        yield bouncer, one, two


def test_every_connection_has_its_limits_and_nobody_complains(both):
    bouncer, *pair = both
    assert [limits(bouncer.url) for _ in range(3)] == [LIMITS] * 3
    for site in pair:
        assert not [line for line in site.web.lines if "DATABASE_POOLER" in line or "ERROR" in line]
        site.manage("check", "--tag", "database", "--database", "default", "--fail-level", "WARNING")


def test_a_pooler_that_is_killed_amid_answers_and_comes_back_loses_nothing(both):
    bouncer, one, two = both
    asked = [Follower(site, saying(150)) for site in (one, two, one, two)]
    across = Follower(two, response_id=asked[0].until(lambda f: f.response_id).response_id)
    for follower in (*asked, across):
        follower.until(lambda f: "w20 " in f.text)
    bouncer.kill()
    time.sleep(AWAY_S)
    bouncer.start()
    for follower in (*asked, across):
        is_whole(one, follower, words(150))
        assert len(follower.streams) == 1


def test_what_is_stopped_at_the_other_process_ends(both):
    _, one, two = both
    asked = Follower(one, saying(5000)).until(lambda f: "w20 " in f.text)
    with two.api(two.key) as client:
        assert client.post(f"/v1/responses/{asked.response_id}/cancel").status_code == 200
    asked.ended()
    assert is_kept(one, asked)["end_state"] == "cancelled"


def test_what_is_read_row_by_row_needs_no_cursor_that_the_pooler_would_lose(both):
    _, one, _ = both
    with closing(one.page("dev")) as page:
        assert [page.get("/api/search", params={"q": "w20"}).status_code for _ in range(5)] == [200] * 5


def test_a_site_that_does_not_know_of_its_pooler_says_what_is_missing_and_the_cure(tmp_path, model_dir):
    dropping = "ignore_startup_parameters = extra_float_digits, options"
    with (
        closing(Bouncer(databases.new(), "transaction", dropping)) as bouncer,
        site_behind(bouncer, tmp_path / "unaware", model_dir) as site,
    ):
        give_tables(bouncer, site)
        site.start()
        line = site.web.line_with("DATABASE_POOLER=1")
        assert "ERROR" in line
        assert all(f"{name} ({value})" in line for name, value in LIMITS.items() if name != "synchronous_commit")
        assert "manage.py migrate" in line
        with pytest.raises(AssertionError, match=r"streaming\.W001.*lock_timeout"):
            site.manage("check", "--tag", "database", "--database", "default", "--fail-level", "WARNING")
