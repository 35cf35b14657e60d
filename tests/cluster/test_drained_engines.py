"""An engine that is drained in the admin of one process: both move what they run there, and no reader notices."""

import json
import threading
from contextlib import closing

import pytest

from tests.drill.sites import register
from tests.e2e.reading import chat, eventually

MODEL = "moving"


@pytest.fixture
def engines(both):
    """Two of one model; each process plays its own."""
    script = {"outputs": [{"text": "tick "}], "repeat": 400, "delay_s": 0.02}
    # Both at once: a process that had seen the first alone would ask nobody else for a while.
    fields = {
        "kind": "scripted",
        "model": MODEL,
        "slots": 100,
        "context_tokens": 100_000,
        "options": {"script": script},
    }
    register(both[0], [{"name": name, **fields} for name in ("m1", "m2")])
    return {name: pk for pk, name in both[0].rows("SELECT id, name FROM streaming_engine WHERE model = %s", MODEL)}


def test_every_process_moves_what_runs_on_a_drained_engine_and_sums_by_engine_are_right(both, engines):
    one, two = both
    one.manage("login_link", "boss", "--create-superuser")
    boss = one.page("boss")
    answers = {}

    def stream(nth):
        site = both[nth % 2]
        with site.api(site.key) as client:
            answers[nth] = chat(client, "go", model=MODEL)

    asking = [threading.Thread(target=stream, args=(nth,)) for nth in range(8)]
    for thread in asking:
        thread.start()
    on = "SELECT COUNT(*) FROM streaming_response WHERE model = %s AND state = 'running' AND engine_id = %s"
    eventually(lambda: all(one.rows(on, MODEL, pk) == [(4,)] for pk in engines.values()))
    with closing(boss) as admin:
        page = admin.post(f"/admin/streaming/engine/{engines['m1']}/drain/now/", headers={"Origin": one.url})
        assert "drained since" in page.text
        tested = admin.post(f"/admin/streaming/engine/{engines['m1']}/test/now/", headers={"Origin": one.url})
        assert "a token after" in tested.text, "a test is no business of the pool"
    for thread in asking:
        thread.join(60)
    moved = []
    for answer in answers.values():
        assert answer.text == "tick " * 400
        row = one.row(answer.response_id)
        assert row["end_state"] == "completed"
        moved += [row["owner"]] if [a["ended"] for a in json.loads(row["attempts"])] == ["drained", "stop"] else []
    assert len(moved) == 4
    assert len(set(moved)) == 2, "of both processes"
    by_engine = one.manage(
        "shell", "-v", "0", "-c",
        "import json; from streaming.store.attempts import generated_by_engine as made\n"
        "print(json.dumps(list(made().items())))",
    )  # fmt: skip
    stored = one.rows("SELECT attempts FROM streaming_response")
    sums = {}
    for attempt in (attempt for (attempts,) in stored for attempt in json.loads(attempts)):
        sums[attempt["engine_id"]] = sums.get(attempt["engine_id"], 0) + attempt["generated_tokens"]
    assert dict(json.loads(by_engine.splitlines()[-1])) == sums
    assert sums[engines["m1"]] < sums[engines["m2"]]
