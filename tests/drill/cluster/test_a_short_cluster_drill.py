"""Behind nginx: any process serves any reader, and a short drill of the cluster breaks no law. About 60 s."""

import asyncio
import os

import pytest

from tests.drill import report
from tests.drill.cluster.__main__ import NAME, PATIENCE, size
from tests.drill.cluster.drill import ClusterDrill
from tests.drill.cluster.faults import NAMES
from tests.drill.cluster.up import up
from tests.drill.plan import plan
from tests.e2e.reading import chat, eventually, read

SEED = int(os.environ.get("SEED") or 6)
pytestmark = [pytest.mark.slow, pytest.mark.engine]


@pytest.fixture(scope="module")
def running(tmp_path_factory, model_dir):
    with up(tmp_path_factory.mktemp("cluster"), model_dir) as running:
        yield running


def test_asked_at_one_resumed_at_a_second_stopped_at_a_third_and_read_through_nginx(running):
    one, two, three = running.stack.sites
    with one.api(one.key) as client:
        cut = chat(
            client, "go", model="endless", until=lambda s: len(s.seqs) >= 5, headers={"X-Disconnect-Policy": "grace=60"}
        )
    path = f"/v1/responses/{cut.response_id}"
    stopped = []

    def stop_at_the_third(stream):
        if len(stream.seqs) >= 20 and not stopped:
            with three.api(three.key) as client:
                stopped.append(client.post(f"{path}/cancel").json())
        return False

    with two.api(two.key) as client, running.stack.api(running.stack.key) as front:
        resumed = read(client, "GET", f"{path}/stream", headers={"Last-Event-ID": cut.last_id}, until=stop_at_the_third)
        again = read(front, "GET", f"{path}/stream")
    (told,) = stopped
    assert (told["end_state"], told["stop"]["abort_proven"]) == ("cancelled", True)
    row = one.row(cut.response_id)
    assert cut.text + resumed.text == again.text == row["output_text"]
    assert (row["end_state"], row["end_reason"], row["epoch"]) == ("cancelled", "api", 1)
    assert resumed.error["end_state"] == again.error["end_state"] == "cancelled"
    eventually(lambda: not one.rows("SELECT 1 FROM streaming_readerpresence WHERE response_id = ?", row["id"]))


def test_no_law_breaks_while_every_part_of_the_cluster_is_killed_in_turn(running):
    planned = plan(SEED, size(50, 16))
    run = ClusterDrill(running, planned, PATIENCE, seed=SEED, span_s=0, pause_s=0.3)
    result = asyncio.run(run.run())
    print(report.told(report.Run(SEED, NAME, result)))
    assert result.broken == []
    assert len(result.readers) >= 50
    assert {name for name in NAMES if result.faults[name]} == set(NAMES)
