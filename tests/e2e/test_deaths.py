"""The web process is killed and started again: nothing shown is lost, nothing runs for ever."""

import json
import threading

import httpx
import pytest

from tests.e2e.reading import NO_END, chat, eventually, read, script

LIGHTHOUSES = "Tell me about lighthouses, in great detail"


def start_and_kill(site, api, streams):
    """Run streams until each has shown something, then kill -9 the server under them."""
    ready = threading.Barrier(len(streams) + 1, timeout=60)
    results = [None] * len(streams)

    def run(index, question, model, policy):
        shown = threading.Event()

        def until(stream):
            if len(stream.seqs) >= 5 and not shown.is_set():
                shown.set()
                ready.wait()
            return False

        headers = {"X-Disconnect-Policy": policy}
        # The real model must end soon after the kill, and not before; what is scripted must not end before it.
        asked = {"max_tokens": 400, "logit_bias": NO_END} if model == "smollm2" else {"max_tokens": 8000}
        with httpx.Client(base_url=api.base_url, headers=api.headers, timeout=60) as client:
            results[index] = chat(client, question, model=model, headers=headers, until=until, **asked)

    threads = [threading.Thread(target=run, args=(i, *stream)) for i, stream in enumerate(streams)]
    for thread in threads:
        thread.start()
    ready.wait()
    site.kill()
    for thread in threads:
        thread.join(60)
    site.start()
    return results


@pytest.mark.engine
def test_after_kill_9_what_was_shown_is_replayed_and_grace_goes_on(site, api):
    question = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.01)
    cut, aborted = start_and_kill(site, api, [(LIGHTHOUSES, "smollm2", "grace=30"), (question, "scripted", "abort")])
    assert cut.broke
    assert not cut.is_done
    rest = read(api, "GET", f"/v1/responses/{cut.response_id}/stream", headers={"Last-Event-ID": cut.last_id})
    row = site.row(cut.response_id)
    assert rest.is_done
    assert cut.text + rest.text == site.log_text(cut.response_id) == row["output_text"]
    kinds = [kind for (kind,) in site.rows(
        "SELECT kind FROM streaming_responseevent WHERE response_id = ? ORDER BY seq", cut.response_id)]  # fmt: skip
    assert kinds.count("continued") == 1
    assert "text" in kinds[kinds.index("continued") :]
    assert (row["end_state"], row["epoch"]) == ("completed", 2)
    assert [attempt["ended"] for attempt in json.loads(row["attempts"])] == ["relay_lost", row["finish_reason"]]
    whole = read(api, "GET", f"/v1/responses/{cut.response_id}/stream")
    assert whole.text == cut.text + rest.text

    row = site.row(aborted.response_id)
    assert (row["end_state"], row["end_reason"]) == ("truncated", "relay_lost")
    assert row["output_text"].startswith(aborted.text)
    replay = read(api, "GET", f"/v1/responses/{aborted.response_id}/stream")
    assert replay.text.startswith(aborted.text)
    assert replay.error["end_state"] == "truncated"
    # Also what earlier tests had left to be given up.
    eventually(lambda: site.rows("SELECT COUNT(*) FROM streaming_response WHERE end_state IS NULL") == [(0,)])


@pytest.mark.engine
def test_a_grace_response_that_nobody_comes_back_for_is_abandoned(site, api):
    (cut,) = start_and_kill(site, api, [(LIGHTHOUSES, "smollm2", "grace=1")])
    row = eventually(lambda: (r := site.row(cut.response_id))["end_state"] and r)
    assert row["end_state"] in {"abandoned", "completed"}
    eventually(lambda: site.slots_busy() == 0)


def test_sigterm_detaches_readers_and_the_next_process_goes_on(site, api):
    question = script(outputs=[{"text": f"w{i} "} for i in range(300)], delay_s=0.02)
    thread_result, asked_to_go = [], []

    def until(stream):
        if len(stream.seqs) >= 5 and not asked_to_go:
            asked_to_go.append(site.web.popen.terminate())
        return False

    headers = {"X-Disconnect-Policy": "grace=30"}
    worker = threading.Thread(target=lambda: thread_result.append(chat(api, question, headers=headers, until=until)))
    worker.start()
    worker.join(60)
    assert site.web.end() == 0
    (cut,) = thread_result
    assert cut.error["code"] == "stream_detached"
    assert cut.error["resumable"] is True
    assert cut.error["last_event_id"] == cut.last_id
    site.start()
    rest = read(api, "GET", f"/v1/responses/{cut.response_id}/stream", headers={"Last-Event-ID": cut.last_id})
    assert rest.is_done
    assert cut.text + rest.text == site.log_text(cut.response_id)


@pytest.mark.sqlite
def test_a_second_web_process_on_one_sqlite_file_is_refused(site):
    second = site._process("serve", "--port", "0", log="second.log")
    assert second.ended() == 1
    assert any("only one web process" in line for line in second.lines)
    assert not any("Traceback" in line for line in second.lines)
