"""SQLite on a disk that is full: old answers are read, new ones refused, running ones wait and then end, once.

What is 10 s by default, the limit past which storage counts as lost, is 5 s here.
"""

from contextlib import ExitStack

import pytest

from tests.cluster.following import Follower
from tests.e2e.full_disk import can_mount, mounted, no_growth, no_room
from tests.e2e.reading import script
from tests.e2e.site import Site

pytestmark = pytest.mark.sqlite

PATIENCE_S = 5


def words(count: int) -> str:
    return "".join(f"w{n} " for n in range(count))


def saying(count: int) -> str:
    """A question that is answered with so many words, no two alike, fifty in a second."""
    return script(outputs=[{"text": word + " "} for word in words(count).split()], delay_s=0.02)


@pytest.fixture(scope="module", params=["no growth", *(["no room"] if can_mount() else [])])
def disk(request, tmp_path_factory, model_dir):
    """A site and what makes its disk full: the limit works everywhere, the file system where we may mount one."""
    folder = tmp_path_factory.mktemp("full")
    with ExitStack() as stack:
        data_dir = folder
        if request.param == "no room":
            (folder / "small").mkdir()
            data_dir = stack.enter_context(mounted(folder / "small"))
            (folder / "db.sqlite3").symlink_to(data_dir / "db.sqlite3")
        # A heart beats long before the limit: a test has the time in between to make room again.
        env = {"DATA_DIR": str(data_dir), "STORAGE_PATIENCE_S": str(PATIENCE_S), "HEARTBEAT_S": "0.2"}
        site = Site(folder, model_dir, **env)
        site.migrate()
        site.scripted(context_tokens=1_000_000)
        site.key = site.manage("create_api_key", "dev")
        site.start()
        stack.callback(site.stop)
        yield site, (lambda: no_room(data_dir)) if request.param == "no room" else (lambda: no_growth(site))


def is_kept(site, follower):
    """What the reader saw is the log and the row, nothing of it twice; returns the row."""
    row = site.row(follower.response_id)
    stored = site.rows(
        "SELECT seq, kind FROM streaming_responseevent WHERE response_id = ? ORDER BY seq", follower.response_id
    )
    assert [seq for seq, _ in stored] == list(range(1, len(stored) + 1))
    assert [kind for _, kind in stored].count("ended") == 1
    assert follower.seqs == sorted(set(follower.seqs))
    assert follower.text == site.log_text(follower.response_id) == row["output_text"]
    return row


def test_a_disk_that_is_full_for_a_moment_is_waited_for(disk):
    site, full = disk
    follower = Follower(site, saying(5000)).until(lambda f: "w20 " in f.text)
    with full():
        seen = len(follower.raw)
        follower.until(lambda f: f.raw[seen:].endswith(b": ping\n"))
        read = len(follower.text)
    follower.until(lambda f: len(f.text) > read + 500)
    with site.api(site.key) as client:
        assert client.post(f"/v1/responses/{follower.response_id}/cancel").status_code == 200
    assert words(5000).startswith(follower.ended().text)
    assert len(follower.streams) == 1
    assert is_kept(site, follower)["end_state"] == "cancelled"


def test_a_disk_that_stays_full_frees_the_engine_and_the_end_is_written_when_there_is_room(disk):
    site, full = disk
    old = Follower(site, saying(3)).ended()
    follower = Follower(site, saying(5000)).until(lambda f: "w20 " in f.text)
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    with site.api(site.key) as client:
        with full():
            follower.until(lambda f: b"stream_detached" in f.raw)
            refused = client.post("/v1/chat/completions", json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage")
            assert int(refused.headers["Retry-After"]) > 0
            assert Follower(site, response_id=old.response_id).ended().text == words(3)
            assert client.get(f"/v1/responses/{old.response_id}").json()["end_state"] == "completed"
            assert client.get("/healthz").status_code == 200
        assert follower.ended().error["code"] == "storage"
        assert client.post("/v1/chat/completions", json=body).status_code == 200
    row = is_kept(site, follower)
    assert (row["end_state"], row["end_reason"], row["abort_proven"]) == ("errored", "storage", True)
    assert words(5000).startswith(follower.text)
    assert site.rows("PRAGMA integrity_check") == [("ok",)]
