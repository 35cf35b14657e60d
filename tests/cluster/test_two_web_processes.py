"""Two real web processes on a real PostgreSQL: any of them reads, stops and takes over what the other runs."""

import contextlib
import re
import signal
import threading

import httpx
import pytest

from tests.cluster.postgres import QUICK, ClusterSite
from tests.e2e.reading import chat, eventually, read

TICK = "tick "


def started(site, policy="grace=60"):
    """A stream on this process that was cut by its client after some events; its policy lets it run."""
    with site.api(site.key) as client:
        return chat(
            client, "go", model="ticks", until=lambda s: len(s.seqs) >= 5, headers={"X-Disconnect-Policy": policy}
        )


def checked_log(site, response_id):
    """The laws of one response's log and row."""
    rows = site.rows(
        "SELECT seq, epoch, kind FROM streaming_responseevent WHERE response_id = %s ORDER BY seq", response_id
    )
    assert [seq for seq, _, _ in rows] == list(range(1, len(rows) + 1))
    assert [epoch for _, epoch, _ in rows] == sorted(epoch for _, epoch, _ in rows)
    assert [kind for _, _, kind in rows].count("ended") == 1
    assert rows[-1][2] == "ended"
    row = site.row(response_id)
    assert site.log_text(response_id) == row["output_text"]
    assert row["delivered_tokens"] <= row["sent_tokens"] <= row["generated_tokens"]
    return row


def test_the_other_process_replays_follows_and_stops_what_one_runs(both):
    one, two = both
    cut = started(one)
    with two.api(two.key) as client:
        path = f"/v1/responses/{cut.response_id}"
        followed = read(
            client, "GET", f"{path}/stream", headers={"Last-Event-ID": cut.last_id},
            until=lambda s: len(s.text) >= 20 * len(TICK),
        )  # fmt: skip
        stopped = client.post(f"{path}/cancel").json()
    assert set(followed.text.split()) == {"tick"}
    assert stopped["end_state"] == "cancelled"
    assert stopped["stop"]["abort_proven"] is True
    row = checked_log(one, cut.response_id)
    assert (row["end_state"], row["end_reason"], row["epoch"]) == ("cancelled", "api", 1)


def test_after_kill_9_the_other_process_goes_on_and_its_readers_get_all(both):
    one, two = both
    cut = started(one)
    one.kill()
    with two.api(two.key) as client:
        path = f"/v1/responses/{cut.response_id}"
        continued = read(
            client, "GET", f"{path}/stream", headers={"Last-Event-ID": cut.last_id},
            until=lambda s: any(seq > s.seqs[0] + 40 for seq in s.seqs) and two.row(cut.response_id)["epoch"] == 2,
        )  # fmt: skip
        client.post(f"{path}/cancel")
    row = checked_log(two, cut.response_id)
    assert (row["epoch"], row["end_state"]) == (2, "cancelled")
    assert row["output_text"].startswith(cut.text + continued.text)


def test_a_killed_process_is_found_dead_by_who_has_waited_dead_s_for_a_beat(both, tmp_path, model_dir):
    """Its beat stays where it was, as nowhere else in these tests; the other of the pair waits much longer for it."""
    one, two = both
    judge = ClusterSite(tmp_path / "judge", model_dir, one.env["DATABASE_URL"], {**QUICK, "DEAD_S": "2"})
    judge.key = one.key
    judge.start()
    try:
        cut = started(one)
        one.web.end(signal.SIGKILL)
        row = eventually(lambda: (r := two.row(cut.response_id))["epoch"] == 2 and r)
        assert two.rows("SELECT pid FROM streaming_webprocess WHERE id = ?", row["owner"]) == [(judge.web.popen.pid,)]
        with judge.api(judge.key) as client:
            client.post(f"/v1/responses/{cut.response_id}/cancel")
        assert checked_log(two, cut.response_id)["epoch"] == 2
    finally:
        judge.stop()


def test_an_abort_response_of_a_killed_process_is_ended_by_the_other(both):
    one, two = both
    shown = threading.Event()
    results = []

    def until(stream):
        if len(stream.seqs) >= 5:
            shown.set()
        return False

    def run():
        with one.api(one.key) as client:
            results.append(chat(client, "go", model="ticks", until=until))

    reading = threading.Thread(target=run)
    reading.start()
    assert shown.wait(60)
    one.kill()
    reading.join(60)
    (cut,) = results
    assert cut.broke
    eventually(lambda: two.row(cut.response_id)["end_state"])
    row = checked_log(two, cut.response_id)
    assert (row["end_state"], row["end_reason"]) == ("truncated", "relay_lost")
    assert row["output_text"].startswith(cut.text)


def test_a_paused_process_that_wakes_up_cannot_append_and_stops_its_engine(both):
    one, two = both
    cut = started(one)
    told = len(one.web.lines)
    with one.taken_for_dead():
        eventually(lambda: two.row(cut.response_id)["epoch"] == 2)
    one.web.line_with("no longer ours", after=told)
    seen = two.rows("SELECT max(seq) FROM streaming_responseevent WHERE response_id = %s", cut.response_id)[0][0]
    eventually(
        lambda: (
            two.rows("SELECT max(seq) FROM streaming_responseevent WHERE response_id = %s", cut.response_id)[0][0]
            > seen + 5
        )
    )
    with two.api(two.key) as client:
        client.post(f"/v1/responses/{cut.response_id}/cancel")
    row = checked_log(two, cut.response_id)
    assert (row["epoch"], row["end_state"]) == (2, "cancelled")
    after = two.rows(
        "SELECT DISTINCT epoch FROM streaming_responseevent WHERE response_id = %s AND seq >= (SELECT seq FROM"
        " streaming_responseevent WHERE response_id = %s AND kind = 'continued')",
        cut.response_id, cut.response_id,
    )  # fmt: skip
    assert after == [(2,)]


def test_sigterm_hands_over_to_the_other_process_at_once(both):
    one, two = both
    cut = started(one)
    assert one.web.end() == 0
    eventually(lambda: two.row(cut.response_id)["epoch"] == 2)
    with two.api(two.key) as client:
        client.post(f"/v1/responses/{cut.response_id}/cancel")
    checked_log(two, cut.response_id)


def test_a_reader_at_the_other_process_keeps_an_answer_that_nobody_reads_at_its_own(both):
    one, two = both
    followed = []

    def follow(stream):
        path, headers = f"/v1/responses/{stream.response_id}/stream", {"Last-Event-ID": stream.last_id}
        with two.api(two.key) as client:
            followed.append(read(client, "GET", path, headers=headers, until=far_enough))

    def far_enough(stream):
        shown.set()
        return len(stream.text) >= 100 * len(TICK) and one.row(stream.response_id)["end_state"] is None

    def leave_once_the_other_reads(stream):
        if len(stream.seqs) < 5:
            return False
        reading.append(threading.Thread(target=follow, args=(stream,)))
        reading[0].start()
        return shown.wait(60)

    shown, reading = threading.Event(), []
    with one.api(one.key) as client:
        headers = {"X-Disconnect-Policy": "grace=0.5"}
        cut = chat(client, "go", model="ticks", headers=headers, until=leave_once_the_other_reads)
    reading[0].join(60)
    (followed,) = followed
    assert not followed.error
    eventually(lambda: one.row(cut.response_id)["end_state"])
    eventually(lambda: one.row(cut.response_id)["delivered_tokens"] >= (len(cut.text) + len(followed.text)) / len(TICK))
    row = checked_log(one, cut.response_id)
    assert (row["end_state"], row["epoch"]) == ("abandoned", 1)
    eventually(lambda: not one.rows("SELECT * FROM streaming_readerpresence WHERE response_id = %s", cut.response_id))


def test_an_abort_answer_goes_on_for_who_read_it_at_another_process_than_the_one_that_died(both):
    one, two = both
    key = {"Idempotency-Key": "abort-read-elsewhere"}
    body = {"model": "ticks", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    first = threading.Thread(target=lambda: ask_and_break(one, body, key))
    first.start()
    response_id = eventually(lambda: id_of_key(two, key["Idempotency-Key"]))
    with two.api(two.key) as client:
        killed = []

        def far_enough(stream):
            if not killed and len(stream.seqs) >= 3:
                killed.append(one.kill())
            return bool(killed) and two.row(response_id)["epoch"] == 2 and ":2." in (stream.last_id or "")

        read(client, "GET", f"/v1/responses/{response_id}/stream", until=far_enough)
    first.join(60)
    eventually(lambda: two.row(response_id)["end_state"])
    row = checked_log(two, response_id)
    assert (row["epoch"], row["end_state"], row["end_reason"]) == (2, "abandoned", "disconnected")


def ask_and_break(site, body, headers):
    with site.api(site.key) as client, contextlib.suppress(httpx.HTTPError):
        client.post("/v1/chat/completions", json=body, headers=headers)


def id_of_key(site, key):
    rows = site.rows("SELECT id FROM streaming_response WHERE idempotency_key = %s AND state = 'running'", key)
    return rows[0][0] if rows else None


def is_read(site):
    """Whether the process has had a request for a while, by its own word."""
    seen = len(site.web.lines)
    site.web.popen.send_signal(signal.SIGUSR1)
    eventually(lambda: any("live connections" in line for line in site.web.lines[seen:]))
    return any(re.search(r"POST /v1/chat/completions .* age_s=[1-9]", line) for line in site.web.lines[seen:])


@pytest.mark.parametrize("stream", [True, False])
def test_sigterm_sends_away_who_reads_what_the_other_process_runs(both, stream):
    one, two = both
    key = {"Idempotency-Key": f"followed-{stream}"}
    body = {"model": "ticks", "stream": stream, "messages": [{"role": "user", "content": "go"}]}
    answers = {}

    def ask(site):
        with site.api(site.key) as client:
            headers = {"X-Disconnect-Policy": "background", **key}
            answers[site] = client.post("/v1/chat/completions", json=body, headers=headers)

    threads = [threading.Thread(target=ask, args=(site,)) for site in both]
    for site, thread in zip(both, threads, strict=True):
        thread.start()
        eventually(lambda: is_read(site), pause_s=0.2)  # noqa: B023  called at once
    assert two.web.end() == 0
    threads[1].join(60)
    assert answers[two].status_code == (200 if stream else 503)
    assert ("stream_detached" if stream else "unavailable") in answers[two].text
    with one.api(one.key) as client:
        assert client.post("/v1/responses/cancel", headers=key).json()["end_state"] == "cancelled"
    threads[0].join(60)
