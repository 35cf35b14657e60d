"""A real web process that is scraped, with its lines as JSON, while it serves and when it leaves. 12 s."""

import json

import httpx
import pytest

from tests.e2e.reading import eventually
from tests.e2e.site import Site
from tests.metrics.conftest import samples_of, value

TOKEN = "a-token-of-some-length"
MARK = "mauve-badger-47"
SCRIPT = {"outputs": [{"text": f"{MARK} "}], "repeat": 20, "delay_s": 0.005}


@pytest.fixture
def site(tmp_path, model_dir):
    site = Site(tmp_path, model_dir, METRICS_TOKEN=TOKEN, LOG_FORMAT="json")
    site.migrate()
    site.scripted("m", name="s", script=SCRIPT)
    site.key = site.manage("create_api_key", "dev")
    site.start()
    yield site
    site.stop()


def scraped(site):
    answer = httpx.get(f"{site.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
    assert answer.status_code == 200
    return samples_of(answer.text)


def test_a_scrape_shows_what_was_asked_and_every_line_is_an_object_without_a_word_of_it(site):
    with site.api(site.key) as client:
        for stream in (True, False):
            body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": f"{MARK}?"}]}
            assert MARK in client.post("/v1/chat/completions", json=body).text
        assert client.post("/v1/chat/completions", json={"model": MARK, "messages": []}).status_code == 400
        assert client.post("/v1/chat/completions", json=body, headers={"Authorization": "Bearer x"}).status_code == 401
    eventually(lambda: value(scraped(site), "chat_tokens_total", kind="delivered") == 2 * 20 * len(f"{MARK} "))
    samples = scraped(site)
    assert value(samples, "chat_responses_total", end_state="completed", model="m", purpose="api") == 2
    assert value(samples, "chat_responses_total", end_state="rejected", end_reason="invalid_request") == 1
    assert value(samples, "chat_refused_requests_total", status="400") == 1
    assert value(samples, "chat_refused_requests_total", status="401") == 1
    assert value(samples, "chat_ttft_seconds_count", model="m") == 1, "the other was handed over whole"
    assert value(samples, "chat_itl_seconds_count", model="m") == 40
    assert value(samples, "process_open_fds") > 0
    eventually(lambda: value(scraped(site), "chat_engine_up", engine="s") == 1)
    assert value(scraped(site), "chat_database_up") == 1
    site.stop()
    written = (site.data_dir / "web.log").read_text().splitlines()
    lines = [json.loads(line) for line in written if not line.startswith("chatsite.server SIGTERM")]
    ended = [line for line in lines if line["logger"] == "streaming.ended"]
    assert [line["end_state"] for line in ended] == ["completed", "completed", "rejected"]
    assert len({line["user_hash"] for line in ended}) == 1
    assert MARK not in "".join(written)
