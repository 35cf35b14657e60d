"""The site under servers that are not its own launcher: streams and ends are the same."""

import os
import sys

import pytest

from tests.child import Child
from tests.e2e.reading import chat, eventually, script
from tests.e2e.site import Site

#: The command but for its port, and what it prints once it listens.
SERVERS = {
    "daphne": (["daphne", "-b", "127.0.0.1", "-p"], "Listening on TCP address"),
    "uvicorn": (["uvicorn", "--host", "127.0.0.1", "--port"], "running on http"),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, model_dir):
    site = Site(tmp_path_factory.mktemp("plain"), model_dir)
    site.migrate()
    site.scripted(slots=4)
    site.key = site.manage("create_api_key", "dev")
    return site


@pytest.fixture(scope="module", params=SERVERS)
def plain(request, prepared):
    arguments, line = SERVERS[request.param]
    argv = [sys.executable, "-m", *arguments, str(prepared.port), "chatsite.asgi:application"]
    prepared.web = Child(argv, prepared.env | {"PATH": os.environ["PATH"]}, prepared.data_dir / "plain.log")
    prepared.web.line_with(line)
    yield prepared
    prepared.stop()


def test_streams_ends_and_replays_are_the_same(plain):
    with plain.api(plain.key) as client:
        whole = chat(client, script(outputs=[{"text": "one "}, {"text": "two"}]))
        again = client.get(f"/v1/responses/{whole.response_id}/stream")
        refused = client.post("/v1/chat/completions", json={"model": "scripted", "messages": "no"})
    assert (whole.text, whole.is_done) == ("one two", True)
    assert "two" in again.text
    assert refused.status_code == 400
    assert plain.row(whole.response_id)["end_state"] == "completed"


def test_a_client_that_vanishes_frees_the_engine(plain):
    endless = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.01)
    with plain.api(plain.key) as client:
        cut = chat(client, endless, until=lambda s: len(s.seqs) >= 3)
    eventually(lambda: plain.row(cut.response_id)["end_state"] == "abandoned")


def test_what_a_killed_one_left_is_taken_over_by_the_launcher(plain):
    endless = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.01)
    with plain.api(plain.key) as client:
        policy = {"X-Disconnect-Policy": "background"}
        cut = chat(client, endless, until=lambda s: len(s.seqs) >= 3, headers=policy)
    plain.kill()
    plain.start()
    eventually(lambda: plain.row(cut.response_id)["epoch"] == 2)
    with plain.api(plain.key) as client:
        client.post(f"/v1/responses/{cut.response_id}/cancel")
    assert plain.row(cut.response_id)["end_state"] is not None
