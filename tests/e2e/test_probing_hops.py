"""`manage.py probe` through real proxies: it names the hop that buffers, compresses or cuts, and finds ours clean."""

import json
import re
import socket
import subprocess

import httpx
import pytest

from tests.e2e.commands import Commands
from tests.e2e.nginx import as_it_comes, ours
from tests.e2e.reading import eventually
from tests.e2e.site import Site

#: Deaf to X-Accel-Buffering, and speaking HTTP/1.0 to us: with 1.1 it passes every chunk on even so.
BUFFERS = "proxy_http_version 1.0; proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;"
#: Compresses what it is asked to, by taking away what would tell it not to.
PACKS = """proxy_http_version 1.1; proxy_set_header Connection "";
  proxy_hide_header Content-Encoding; gzip on; gzip_types text/event-stream; gzip_min_length 1; gzip_proxied any;"""
SILENCE_S = 7
CUT_S = 5


@pytest.fixture(scope="module")
def probed(tmp_path_factory, model_dir):
    site = Site(tmp_path_factory.mktemp("probed"), model_dir)
    site.migrate()
    site.scripted("slow", script={"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.02})
    site.key = site.manage("create_api_key", "operator")
    site.start()
    yield site
    site.stop()


@pytest.fixture(scope="module")
def proxies(tmp_path_factory, probed):
    """One of each, before the site."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("buffers", "packs", "cuts", "ours")}
    made = {
        "buffers": as_it_comes(folders["buffers"], probed.port, 60, BUFFERS),
        "packs": as_it_comes(folders["packs"], probed.port, 60, PACKS),
        "cuts": as_it_comes(folders["cuts"], probed.port, CUT_S),
        "ours": ours(folders["ours"], [probed.port], probed.data_dir / "static"),
    }
    yield made
    for nginx in made.values():
        nginx.close()


@pytest.fixture(scope="module")
def probe(probed, tmp_path_factory):
    """Runs the command as a person would, with no database in sight."""
    commands: dict[str, Commands] = {}

    def probe(*arguments: str, key: str = probed.key) -> subprocess.CompletedProcess[str]:
        if key not in commands:
            env = {**probed.env, "PROBE_API_KEY": key, "DATABASE_URL": "postgresql://127.0.0.1:1/no"}
            commands[key] = Commands(env, tmp_path_factory.mktemp("probe"))
        return commands[key].done("probe", *arguments)

    yield probe
    for one in commands.values():
        one.close()


def kinds(hop: dict) -> list[tuple[str, bool]]:
    return [(finding["kind"], finding["is_here"]) for finding in hop["findings"]]


@pytest.fixture(scope="module")
def seen(probe, probed, proxies):
    """All of them in one chain of addresses, read once."""
    urls = [probed.url, *(proxies[name].url for name in ("ours", "cuts", "packs", "buffers"))]
    return probe(*urls, "--interval", "100", "--silence", str(SILENCE_S), "--json")


def test_the_process_itself_and_our_own_nginx_stream_and_let_a_silence_pass(seen):
    for hop in json.loads(seen.stdout)["hops"][:2]:
        assert (hop["streams"], hop["came"], hop["silent_s"]) == (True, 20, SILENCE_S)


def test_a_hop_that_cuts_a_silence_is_named_with_its_seconds(seen):
    cuts = json.loads(seen.stdout)["hops"][2]
    assert kinds(cuts) == [("cut", True)]
    assert CUT_S - 0.5 < cuts["findings"][0]["seconds"] < SILENCE_S
    assert re.match(r"cut here after \d\.\d s of silence: ", cuts["verdict"])


def test_a_hop_that_compresses_is_named_though_its_events_still_come_in_time(seen):
    packs = json.loads(seen.stdout)["hops"][3]
    assert ("compressed", True) in kinds(packs)
    assert packs["came"] == 20


def test_a_hop_that_buffers_is_named_with_its_lump_and_for_how_long(seen):
    buffers = json.loads(seen.stdout)["hops"][4]
    found = {finding["kind"]: finding for finding in buffers["findings"]}
    assert found["buffered"]["is_here"]
    assert found["buffered"]["events"] == 20
    assert found["buffered"]["seconds"] > 1.5


def test_the_exit_code_says_that_a_hop_is_not_as_it_should_be_and_which(probe, seen, probed, proxies):
    assert seen.returncode == 1
    assert "not as it should be: hop 3, hop 4, hop 5" in seen.stderr
    good = probe(probed.url, proxies["ours"].url, "--interval", "50", "--silence", "0")
    assert good.returncode == 0, good.stderr
    lines = good.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.endswith("streaming") for line in lines[1:])


def test_behind_a_hop_that_buffers_nobody_else_is_blamed(probe, tmp_path_factory, probed, proxies):
    outer = as_it_comes(tmp_path_factory.mktemp("outer"), proxies["buffers"].port, 60)
    try:
        urls = (probed.url, proxies["buffers"].url, outer.url)
        seen = probe(*urls, "--interval", "50", "--silence", "0", "--json")
    finally:
        outer.close()
    assert [kinds(hop) for hop in json.loads(seen.stdout)["hops"]] == [[], [("buffered", True)], [("buffered", False)]]


def test_the_check_list_is_proven_on_a_clean_chain_and_written_down(probe, probed, proxies, tmp_path):
    report = tmp_path / "report.md"
    seen = probe(
        probed.url,
        proxies["ours"].url,
        "--prove",
        "--interval",
        "50",
        "--silence",
        "0",
        "--report",
        str(report),
    )
    assert seen.returncode == 0, seen.stdout + seen.stderr
    written = report.read_text()
    for item in (
        "trickles from the server", "trickles through", "a hop that buffers on purpose is detected",
        "a disconnect stops the engine", "usage is captured", "an error in band arrives", "stop works",
    ):  # fmt: skip
        assert any(item in line and "| shown |" in line for line in written.splitlines()), item
    assert "failed" not in written


def test_what_could_not_be_tried_is_not_called_shown(probe, probed, tmp_path):
    quick = ("--silence", "0", "--interval", "20", "--report", str(tmp_path / "report.md"))
    seen = probe(probed.url, "--prove", "--model", "no such model", *quick)
    assert seen.returncode == 1
    assert "not shown  stop works: status 404" in seen.stdout


def test_an_address_where_nobody_is_and_one_of_somebody_else_are_broken_hops(probe, probed):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        seen = probe(f"http://127.0.0.1:{nobody.getsockname()[1]}", "--silence", "0")
    assert (seen.returncode, "broken here after 0 of 20 events" in seen.stdout) == (1, True)
    wrong = probe(probed.url, "--silence", "0", key="sk-" + "x" * 43)
    assert "status 401: this API key is not valid" in wrong.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ftp://x"], "must be http:// or https://"),
        (["http://u:p@x"], "without user"),
        (["http://[::1", "--silence", "0"], "must be http://"),
        (["http://x", "--events", "1"], "from 2 to 500"),
        (["http://x", "--silence", "nan"], "from 0 to 3590"),
        (["http://x", "--ca-file", "/nowhere"], "no such file"),
    ],
)
def test_arguments_that_make_no_sense_are_one_line(probe, arguments, says):
    seen = probe(*arguments)
    assert seen.returncode != 0
    assert says in seen.stderr
    assert "Traceback" not in seen.stderr


def test_without_a_key_nothing_is_asked(probe, probed):
    seen = probe(probed.url, key="")
    assert "PROBE_API_KEY" in seen.stderr
    assert httpx.get(f"{probed.url}/v1/diagnostics/stream", timeout=60).status_code == 401


def test_the_diagnostic_stream_is_bounded_and_counted_and_ends_with_its_key(probed):
    path = "/v1/diagnostics/stream"
    with probed.api(probed.key) as api:
        for wrong in ({"events": 501}, {"interval_ms": 9}, {"silence_s": 3601}, {"end": "x"}, {"silence_s": "nan"}):
            refused = api.get(path, params=wrong)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request"), wrong
            assert next(iter(wrong)) in refused.json()["error"]["message"]
    mallory = probed.manage("create_api_key", "mallory")
    with probed.api(mallory) as api:
        opened = [api.stream("GET", path, params={"silence_s": 600, "events": 2}) for _ in range(16)]
        answers = [stream.__enter__() for stream in opened]
        assert {answer.status_code for answer in answers} == {200}
        one_more = api.get(path)
        assert (one_more.status_code, one_more.headers["Retry-After"]) == (429, "5")
        probed.write("UPDATE streaming_apikey SET revoked_at = '2026-01-01 00:00:00' WHERE prefix = ?", mallory[:9])
        for answer in answers:
            assert b"stream_detached" in answer.read()
        for stream in opened:
            stream.__exit__(None, None, None)
    with probed.api(probed.key) as api:
        eventually(lambda: api.get(path, params={"events": 1}).status_code == 200)
