"""A PostgreSQL that hangs, dies, forgets, is locked, full or away: streams pause, nobody is shown what is not stored.

The limit past which storage counts as lost is 12 s, more than twice the short outages. These are longer than it takes
until who does not beat is dead and a call that hangs is refused, and no longer than that needs: what only stands still
for three seconds on a busy machine is neither.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import psutil
import psycopg
import pytest

from tests.cluster.following import Follower
from tests.cluster.outage import Database
from tests.cluster.postgres import QUICK, ClusterSite
from tests.e2e.reading import eventually, script

PATIENCE_S = 12
SHORT_S = 5
ENV = {
    **QUICK,
    "DEAD_S": "4.5",
    "HEARTBEAT_S": "1",
    "REQUEST_TIMEOUT_S": "4.5",
    "STORAGE_PATIENCE_S": str(PATIENCE_S),
    "MAX_OUTPUT_TOKENS": "10000000",
}
#: What nobody waits for stays in the server's memory until somebody does.
FORGETFUL = {"wal_writer_delay": "10000", "wal_writer_flush_after": "1GB"}
MAX_CONNECTIONS = 30
PENDING_CHARACTERS_MAX = 300_000
GROWTH_BYTES_MAX = 48 * 1024 * 1024


def words(count: int) -> str:
    return "".join(f"w{n} " for n in range(count))


def saying(count: int) -> str:
    """A question that is answered with so many words, no two alike, fifty in a second."""
    return script(outputs=[{"text": word + " "} for word in words(count).split()], delay_s=0.02)


@pytest.fixture(scope="module")
def database():
    database = Database(max_connections=str(MAX_CONNECTIONS), **FORGETFUL)
    yield database
    database.close()


@pytest.fixture(scope="module")
def pair(tmp_path_factory, database, model_dir):
    """Two web processes; the first does not wait for the disk where only events are written."""
    folder = tmp_path_factory.mktemp("sites")
    one, two = (ClusterSite(folder / name, model_dir, database.url, ENV) for name in ("one", "two"))
    one.env["SYNCHRONOUS_EVENTS"] = "0"
    one.migrate()
    one.scripted(context_tokens=10_000_000)
    one.key = two.key = one.manage("create_api_key", "dev")
    for site in (one, two):
        site.start()
    yield one, two
    for site in (one, two):
        site.stop()


def is_kept(site, follower):
    """What the reader saw is the log and the row, nothing of it twice, by one owner; returns the row."""
    row = site.row(follower.response_id)
    stored = site.rows(
        "SELECT seq, epoch, kind FROM streaming_responseevent WHERE response_id = %s ORDER BY seq",
        follower.response_id,
    )
    assert [seq for seq, _, _ in stored] == list(range(1, len(stored) + 1))
    assert {epoch for _, epoch, _ in stored} == {1} == {row["epoch"]}
    assert [kind for _, _, kind in stored].count("ended") == 1
    assert follower.seqs == sorted(set(follower.seqs))
    assert follower.text == site.log_text(follower.response_id) == row["output_text"]
    return row


def is_whole(site, follower, text):
    assert follower.ended().text == text
    assert is_kept(site, follower)["end_state"] == "completed"


def ask(site):
    with site.api(site.key) as client:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
        return client.post("/v1/chat/completions", json=body)


def is_refused(answer):
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "storage"
    assert int(answer.headers["Retry-After"]) > 0


@contextmanager
def every_connection(database):
    """Nobody else gets a connection."""
    with ExitStack() as taken:
        for _ in range(MAX_CONNECTIONS):
            with suppress(psycopg.OperationalError):
                taken.enter_context(database.connect())
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            database.connect()
        yield


def test_without_a_connection_left_streams_go_on_and_who_is_new_is_told_when_to_come_again(database, pair):
    one, two = pair
    running = Follower(one, saying(5000)).until(lambda f: "w20 " in f.text)
    with every_connection(database), ThreadPoolExecutor(12) as callers:
        answers = list(callers.map(ask, [one] * 12))
        refused = [answer for answer in answers if answer.status_code != 200]
        assert refused
        for answer in refused:
            is_refused(answer)
        seen = len(running.text)
        running.until(lambda f: len(f.text) > seen + 100)
    with two.api(two.key) as client:
        assert client.post(f"/v1/responses/{running.response_id}/cancel").status_code == 200
    assert words(5000).startswith(running.ended().text)
    assert is_kept(two, running)["end_state"] == "cancelled"
    assert len(running.streams) == 1
    assert [ask(one).status_code for _ in range(12)] == [200] * 12


def test_while_nobody_answers_readers_pause_hearts_beat_and_nobody_is_taken_for_dead(database, pair):
    one, two = pair
    asked = [Follower(site, saying(320)) for site in pair]
    for follower in asked:
        follower.until(lambda f: "w20 " in f.text)
    across = Follower(two, response_id=asked[0].response_id).until(lambda f: "w20 " in f.text)
    everybody = [*asked, across]
    with database.paused():
        paused_at = time.monotonic()
        for follower in everybody:
            seen = len(follower.raw)
            follower.until(lambda f, seen=seen: f.raw[seen:].endswith(b": ping\n"))
        silent_from = [len(follower.raw) for follower in everybody]
        is_refused(ask(two))
        time.sleep(max(0.0, paused_at + SHORT_S - time.monotonic()))
        unseen = [follower.raw[start:] for follower, start in zip(everybody, silent_from, strict=True)]
    assert all(data and set(data.split(b"\n")) == {b": ping", b""} for data in unseen)
    for follower in everybody:
        is_whole(one, follower, words(320))
        assert len(follower.streams) == 1


def test_what_a_killed_server_forgot_although_readers_saw_it_is_written_again(database, pair):
    one, two = pair
    asked = Follower(one, saying(300)).until(lambda f: "w20 " in f.text)
    across = Follower(two, response_id=asked.response_id).until(lambda f: "w40 " in f.text)
    database.kill(when=lambda connection: unflushed_bytes(connection) > 1500)
    with held(one):
        database.start()
        forgotten_from = last_seq(two, asked.response_id)
        # What the process had sent before it stood still may still be on its way.
        eventually(lambda: max(asked.seqs[-1], across.seqs[-1]) > forgotten_from)
    for follower in (asked, across):
        is_whole(one, follower, words(300))
    assert len(asked.streams) == 1


def unflushed_bytes(connection):
    return connection.execute("SELECT pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn()").fetchone()[0]


def last_seq(site, response_id):
    return site.rows("SELECT max(seq) FROM streaming_responseevent WHERE response_id = %s", response_id)[0][0]


@contextmanager
def held(site):
    """The web process stands still."""
    process = psutil.Process(site.web.popen.pid)
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def test_past_the_limit_engines_are_free_and_the_end_is_written_when_the_database_is_back(database, pair):
    one, two = pair
    process = psutil.Process(one.web.popen.pid)
    asked = [Follower(site, saying(5000)) for site in pair]
    for follower in asked:
        follower.until(lambda f: "w20 " in f.text)
    # It begins while there is no database: what is stored of it is what was kept in memory.
    flood = script(outputs=[{"text": "x" * 50}], repeat=0, first_delay_s=PATIENCE_S / 2)
    floods = [Follower(one, flood) for _ in range(5)]
    for follower in floods:
        follower.until(lambda f: f.response_id)
    before_bytes = process.memory_info().rss
    database.stop()
    for follower in asked:
        follower.until(lambda f: b"stream_detached" in f.raw)
    assert process.memory_info().rss - before_bytes < GROWTH_BYTES_MAX
    for site in pair:
        is_refused(ask(site))
        with site.api(site.key) as client:
            assert client.get("/healthz").status_code == 200
    database.start()
    for follower in [*asked, *floods]:
        assert follower.ended().error["code"] == "storage"
        row = is_kept(one, follower)
        assert (row["end_state"], row["end_reason"], row["abort_proven"]) == ("errored", "storage", True)
        assert len(row["output_text"]) < PENDING_CHARACTERS_MAX
    assert all(words(5000).startswith(follower.text) for follower in asked)
    assert [ask(site).status_code for site in pair for _ in range(12)] == [200] * 24


def test_a_log_table_that_is_locked_for_too_long_is_as_a_database_that_is_away(database, pair):
    one, two = pair
    asked = Follower(one, saying(5000)).until(lambda f: "w20 " in f.text)
    across = Follower(two, response_id=asked.response_id).until(lambda f: "w20 " in f.text)
    with database.connect() as connection, connection.transaction():
        connection.execute("LOCK TABLE streaming_responseevent IN ACCESS EXCLUSIVE MODE")
        asked.until(lambda f: b"stream_detached" in f.raw)
        assert len(across.streams) == 1
        assert across.raw.endswith(b": ping\n")
    for follower in (asked, across):
        assert follower.ended().error["code"] == "storage"
        row = is_kept(one, follower)
        assert (row["end_state"], row["end_reason"], row["abort_proven"]) == ("errored", "storage", True)


def test_a_database_that_takes_no_writes_for_a_while_is_waited_for(database, pair):
    """As many that are hosted do when their disk is full."""
    one, _two = pair
    asked = Follower(one, saying(200)).until(lambda f: "w20 " in f.text)
    with database.connect() as connection:
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
        one.web.line_with("read-only")
        is_refused(ask(one))
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        connection.execute("SELECT pg_reload_conf()")
    is_whole(one, asked, words(200))
    assert len(asked.streams) == 1
