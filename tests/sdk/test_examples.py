"""The examples, run as a person runs them: they lose no text when the server is killed, and stop on Ctrl-C."""

import os
import signal
import subprocess
import sys

import pytest

from examples.stream import wait_s
from tests.child import ROOT
from tests.e2e.reading import eventually
from tests.sdk.conftest import BREAKS_AFTER, ENDLESS, HELLO, HERE

WORDS = [f"w{n} " for n in range(60)]
NODE = ["node", "--import", str(HERE / "node_modules" / "tsx" / "dist" / "loader.mjs")]
CLIENTS = {
    "python": [sys.executable, "-u", "-m", "examples.stream"],
    "typescript": [*NODE, "examples/stream.mts"],
}


@pytest.fixture(params=CLIENTS)
def start(request, place, node_packages):
    def started(question, model="tests-judged"):
        env = os.environ | {"URL": place.url, "KEY": place.key}
        return subprocess.Popen(
            [*CLIENTS[request.param], model, question], cwd=ROOT, env=env, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    return started


@pytest.fixture(scope="module")
def survivor(place):
    """A model that another process can carry on: its script is its own, for of a question nothing is kept."""
    plays = {"outputs": [{"text": word} for word in WORDS], "delay_s": 0.05}
    return place.site.add_model(place.key, "tests-survivor", script=plays)


def ended(client):
    out, err = client.communicate(timeout=120)
    return client.returncode, out.decode().rstrip("\n"), err.decode().strip()


def test_a_whole_answer(start):
    assert ended(start(HELLO)) == (0, "Hello ☕", "finished stop")


def test_a_server_that_is_killed_costs_no_text(start, place, survivor):
    client = start("Tell me words.", survivor)
    first = client.stdout.read(12)
    place.site.kill()
    place.site.start()
    code, rest, verdict = ended(client)
    assert first.decode() + rest == "".join(WORDS).rstrip("\n")
    assert (code, verdict) == (0, "finished stop")


def test_ctrl_c_stops_the_answer_on_the_server(start, place):
    client = start(ENDLESS)
    client.stdout.read(10)
    client.send_signal(signal.SIGINT)
    code, _, verdict = ended(client)
    assert (code, verdict.startswith("truncated")) == (1, True), verdict
    newest = (
        "SELECT end_state, end_reason FROM streaming_response WHERE model = 'tests-judged' ORDER BY id DESC LIMIT 1"
    )
    assert eventually(lambda: place.site.rows(newest) == [("cancelled", "api")])


def test_what_went_wrong_is_told_apart(start):
    code, text, verdict = ended(start(BREAKS_AFTER))
    assert (code, text, verdict) == (1, "ab", "errored")
    code, text, error = ended(start(HELLO, "nope"))
    assert (code, text, "model_not_found" in error) == (2, "", True)


def test_back_off_grows_has_jitter_and_differs_by_status():
    assert all(7 <= wait_s(0, 503, "7") <= 8.75 for _ in range(50))
    for tries in range(8):
        full, limited = wait_s(tries, 503), wait_s(tries, 429)
        assert 0.25 <= full <= 15
        assert 1 <= limited <= 60
    assert max(wait_s(1, 503) for _ in range(50)) < min(wait_s(2, 429) for _ in range(50))
    assert len({wait_s(3) for _ in range(20)}) == 20
