"""Through a real nginx, as it comes and as we configure it, and a real Caddy: streams pass and end as without it."""

import os
import time

import httpx
import psutil
import pytest

from tests.e2e import caddy
from tests.e2e import nginx as fronts
from tests.e2e.reading import chat, eventually, script
from tests.e2e.site import Site

#: More than EARLY_HEADERS_S, which is how long a stream's status may take, and than a busy machine may add to that.
READ_TIMEOUT_S = 6


@pytest.fixture(scope="module")
def beaten_site(tmp_path_factory, model_dir):
    """A site whose heart beats more often than nginx's patience lasts."""
    site = Site(tmp_path_factory.mktemp("proxied"), model_dir, HEARTBEAT_S="0.5")
    site.prepare()
    site.scripted()
    site.key = site.manage("create_api_key", "dev")
    site.start()
    yield site
    site.stop()


@pytest.fixture(scope="module", params=["as it comes", "ours", "caddy"])
def nginx(request, tmp_path_factory, beaten_site):
    folder, port = tmp_path_factory.mktemp("nginx"), beaten_site.port
    if request.param == "ours":
        nginx = fronts.ours(folder, [port], beaten_site.data_dir / "static")
    elif request.param == "caddy":
        nginx = caddy.ours(folder, port, beaten_site.data_dir / "static")
    else:
        nginx = fronts.as_it_comes(folder, port, READ_TIMEOUT_S)
    yield nginx
    nginx.close()


@pytest.fixture
def api(nginx, beaten_site):
    headers = {"Authorization": f"Bearer {beaten_site.key}"}
    with httpx.Client(base_url=nginx.url, headers=headers, timeout=30) as client:
        yield client


def test_all_that_is_made_arrives_while_the_rest_is_still_to_be_made(api, beaten_site):
    ends = []

    def stop_when_all_is_shown(stream):
        if stream.text == "".join(words) and not ends:
            ends.append(beaten_site.row(stream.response_id)["end_state"])
            api.post(f"/v1/responses/{stream.response_id}/cancel").raise_for_status()
        return False

    words = [f"w{n} " for n in range(8)]
    # Behind the gate nothing follows that could push out what somebody holds back.
    outputs = [*({"text": word} for word in words), {"gate": "never"}]
    stream = chat(api, script(outputs=outputs, delay_s=0.05), until=stop_when_all_is_shown)
    assert ends == [None]
    assert (stream.text, stream.error["end_state"]) == ("".join(words), "cancelled")


def test_a_client_that_closes_at_nginx_frees_the_engine(api, beaten_site):
    endless = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
    cut = chat(api, endless, until=lambda s: len(s.seqs) >= 3)
    eventually(lambda: beaten_site.row(cut.response_id)["end_state"])
    row = beaten_site.row(cut.response_id)
    assert (row["end_state"], row["end_reason"], row["abort_proven"]) == ("abandoned", "disconnected", True)


def test_a_stop_through_nginx_is_proven_by_the_engine_while_the_stream_is_open(api, beaten_site):
    told = []

    def stop(stream):
        if len(stream.seqs) >= 3 and not told:
            told.append(api.post(f"/v1/responses/{stream.response_id}/cancel").json())
        return False

    stopped = chat(api, script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02), until=stop)
    assert (told[0]["end_state"], told[0]["stop"]["abort_proven"]) == ("cancelled", True)
    assert stopped.error["end_state"] == "cancelled"
    assert beaten_site.row(stopped.response_id)["output_text"] == stopped.text


@pytest.mark.parametrize("nginx", ["as it comes"], indirect=True)
def test_hearts_beat_through_a_silence_that_is_longer_than_nginx_waits(api):
    started_at = time.monotonic()
    stream = chat(api, script(outputs=[{"text": "late"}], first_delay_s=READ_TIMEOUT_S + 2))
    assert time.monotonic() - started_at > READ_TIMEOUT_S
    assert stream.raw.startswith(b": ping\n")
    assert stream.text == "late"
    assert stream.is_done


@pytest.mark.parametrize("nginx", ["ours"], indirect=True)
def test_connections_to_us_are_kept_and_nginxs_own_refusals_are_json(api, beaten_site):
    process = psutil.Process(beaten_site.web.popen.pid)
    for _ in range(50):
        assert api.get("/v1/models").status_code == 200
    ours = [c for c in process.net_connections() if c.status == "ESTABLISHED" and c.laddr.port == beaten_site.port]
    assert 1 <= len(ours) <= os.cpu_count() + 4  # each worker of nginx keeps its own, those of a stream's test too
    too_large = api.post("/v1/chat/completions", content=b" " * 3_000_000)
    assert too_large.status_code == 413
    assert too_large.json()["error"]["code"] == "body_too_large"
    beaten_site.kill()
    away = api.get("/v1/models")
    assert (away.status_code, away.headers["Retry-After"], away.json()["error"]["code"]) == (503, "5", "unavailable")
    beaten_site.start()


@pytest.mark.parametrize("nginx", ["caddy"], indirect=True)
def test_caddy_serves_files_and_its_own_refusals_are_json(api, beaten_site):
    name = next((beaten_site.data_dir / "static" / "assets").glob("main-*.js")).name
    file = api.get(f"/static/assets/{name}")
    assert (file.status_code, file.headers["Server"]) == (200, "Caddy")
    assert file.headers["Cache-Control"].endswith("immutable")
    # What is left of a refused body must not be taken for the next request of its connection.
    close = {"Connection": "close"}
    too_large = api.post("/v1/chat/completions", content=b" " * 3_000_000, headers=close)
    assert (too_large.status_code, too_large.json()["error"]["code"]) == (413, "body_too_large")
    for path in ("/metrics", "/%6detrics", "/METRICS", "/metrics?x=1"):
        assert (api.get(path).status_code, api.get(path).text) == (404, "not found")
    beaten_site.kill()
    away = api.get("/v1/models")
    assert (away.status_code, away.headers["Retry-After"], away.json()["error"]["code"]) == (503, "5", "unavailable")
    beaten_site.start()
