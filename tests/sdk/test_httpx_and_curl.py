"""httpx and `curl -N`: no SDK, so what they judge is the wire itself."""

import json
import subprocess

import httpx
import pytest

from examples.verdict import verdict
from tests.e2e.reading import chat, read
from tests.sdk.conftest import (
    BREAKS_AFTER,
    BREAKS_BEFORE,
    CALLS,
    COUNTED,
    COUNTS,
    ENDLESS,
    HELLO,
    JSON,
    PERSON,
    WEATHER,
)

judge = pytest.mark.judge
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}]
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}


@pytest.fixture
def api(place):
    with place.site.api(place.key) as client:
        yield client


def streamed(api, text, **body):
    return chat(api, text, model="tests-judged", **body)


def asked(text, **body):
    return {"model": "tests-judged", "messages": [{"role": "user", "content": text}], **body}


@judge("httpx", "stream")
@judge("httpx", "usage")
def test_httpx_reads_line_by_line(api):
    lines = []
    body = asked(HELLO, stream=True, stream_options={"include_usage": True})
    with api.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    chunks = [json.loads(line) for line in lines[:-1]]
    assert lines[-1] == "[DONE]"
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]) == "Hello ☕"
    assert chunks[-1]["usage"]["completion_tokens"] == len("Hello ☕".encode())
    assert verdict(lines).outcome == "finished"


@judge("httpx", "whole")
@judge("httpx", "tools")
@judge("httpx", "structured")
def test_httpx_gets_whole_answers_calls_and_json(api):
    def message(text, **body):
        return api.post("/v1/chat/completions", json=asked(text, **body)).json()["choices"][0]["message"]

    assert message(HELLO)["content"] == "Hello ☕"
    assert message(CALLS, tools=TOOLS)["tool_calls"][0]["function"]["name"] == "get_weather"
    assert json.loads(message(JSON, response_format=FORMAT)["content"]) == {"name": "Ada", "age": 36}


@judge("httpx", "error before")
@judge("httpx", "error after")
def test_httpx_sees_errors_where_they_are(api):
    before = api.post("/v1/chat/completions", json=asked(BREAKS_BEFORE, stream=True))
    assert (before.status_code, before.json()["error"]["code"]) == (502, "upstream_error")
    after = streamed(api, BREAKS_AFTER)
    assert (after.status, after.text, after.error["code"], after.is_done) == (200, "ab", "upstream_error", False)


@judge("httpx", "stop")
@judge("httpx", "disconnect")
def test_httpx_stops_and_goes_away(api, place):
    stops = []
    stopped = streamed(
        api, ENDLESS,
        until=lambda s: len(s.seqs) > 3 and not stops and stops.append(api.post(
            f"/v1/responses/{s.response_id}/cancel").json()),
    )  # fmt: skip
    assert stops[0]["status"] == "cancelled"
    assert stopped.error["end_state"] == "cancelled"
    gone = streamed(api, ENDLESS, until=lambda s: len(s.seqs) > 3)
    assert place.ended(gone.response_id) == ("abandoned", "disconnected")


@judge("httpx", "resume")
def test_httpx_resumes_by_the_last_event_id(api):
    headers = {"X-Disconnect-Policy": "background"}
    first = streamed(api, COUNTS, headers=headers, until=lambda s: len(s.seqs) > 5)
    rest = read(api, "GET", f"/v1/responses/{first.response_id}/stream", headers={"Last-Event-ID": first.last_id})
    assert first.text + rest.text == COUNTED
    assert rest.is_done


class Curl:
    """A curl that has been started; its output is read byte by byte, as it comes."""

    def __init__(self, place, path, *options, body=None):
        sent = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body else []
        key = ["-H", f"Authorization: Bearer {place.key}"]
        argv = ["curl", "-sNi", f"{place.url}{path}", *key, *sent, *options]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0)

    def lines(self):
        buffered = b""
        while piece := self.process.stdout.read(65536):
            *lines, buffered = (buffered + piece).split(b"\n")
            yield from [line.decode().rstrip("\r") for line in lines]
        yield buffered.decode()
        self.process.wait()

    def text(self):
        return "\n".join(self.lines())


def deltas(text):
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    choices = [choice for line in data for choice in json.loads(line).get("choices", ())]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


@judge("curl -N", "stream")
@judge("curl -N", "usage")
def test_curl_reads_events_as_they_come(place):
    body = asked(COUNTS, stream=True, stream_options={"include_usage": True})
    curl = Curl(place, "/chat/completions", body=body)
    reads = list(curl.lines())
    text = "\n".join(reads)
    assert deltas(text) == COUNTED
    assert text.rstrip().endswith("data: [DONE]")
    assert f'"completion_tokens":{len(COUNTED)}' in text
    assert curl.process.returncode == 0


@judge("curl -N", "whole")
@judge("curl -N", "tools")
@judge("curl -N", "structured")
def test_curl_gets_whole_answers_calls_and_json(place):
    assert '"content": "Hel' in Curl(place, "/chat/completions", body=asked(HELLO)).text()
    assert "get_weather" in Curl(place, "/chat/completions", body=asked(CALLS, tools=TOOLS)).text()
    assert '\\"age\\": 36' in Curl(place, "/chat/completions", body=asked(JSON, response_format=FORMAT)).text()


@judge("curl -N", "error before")
@judge("curl -N", "error after")
def test_curl_sees_errors_where_they_are(place):
    before = Curl(place, "/chat/completions", body=asked(BREAKS_BEFORE, stream=True)).text()
    assert before.startswith("HTTP/1.1 502")
    after = Curl(place, "/chat/completions", body=asked(BREAKS_AFTER, stream=True)).text()
    assert after.startswith("HTTP/1.1 200")
    assert deltas(after) == "ab"
    assert '"end_state":"errored"' in after
    assert "[DONE]" not in after


@judge("curl -N", "stop")
@judge("curl -N", "disconnect")
@judge("curl -N", "resume")
def test_curl_stops_goes_away_and_comes_back(place):
    def begun(question, *options):
        """A stream of which some has come: the curl, its response and its last id."""
        curl = Curl(place, "/chat/completions", *options, body=asked(question, stream=True))
        lines, seen = curl.lines(), []
        while sum(line.startswith("data: ") for line in seen) < 4:
            seen.append(next(lines))
        ids = [line.removeprefix("id: ") for line in seen if line.startswith("id: ")]
        return curl, lines, "\n".join(seen), ids[-1]

    curl, lines, _, last_id = begun(ENDLESS)
    response_id = last_id.split(":")[0]
    assert '"end_state": "cancelled"' in Curl(place, f"/responses/{response_id}/cancel", "-X", "POST").text()
    assert '"end_state":"cancelled"' in "\n".join(lines)

    curl, _, _, last_id = begun(ENDLESS)
    curl.process.kill()
    assert place.ended(last_id.split(":")[0]) == ("abandoned", "disconnected")

    curl, _, seen, last_id = begun(COUNTS, "-H", "X-Disconnect-Policy: background")
    curl.process.kill()
    path = f"/responses/{last_id.split(':')[0]}/stream"
    whole = deltas(seen) + deltas(Curl(place, path, "-H", f"Last-Event-ID: {last_id}").text())
    assert whole == COUNTED


def test_http_1_0_and_a_closed_connection_are_served(place):
    text = Curl(place, "/chat/completions", "--http1.0", body=asked(HELLO, stream=True)).text()
    assert deltas(text) == "Hello ☕"
    assert "[DONE]" in text


def test_the_wire_stays_readable_for_strict_clients(api):
    """Wire rules of the SDKs: no event without data, no BOM, ASCII, an id only of allowed characters."""
    stream = streamed(api, COUNTS, stream_options={"include_usage": True})
    assert stream.raw.isascii()
    assert not stream.raw.startswith(b"\xef\xbb\xbf")
    for block in stream.raw.decode().split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        assert [line for line in lines if line.startswith("data: ")][-1] != "data: "
        assert all(line.split(": ", 1)[0] in {"id", "event", "data"} for line in lines)


def test_whole_answers_come_with_their_id_and_length(api):
    answer = api.post("/v1/chat/completions", json=asked(HELLO))
    assert isinstance(answer, httpx.Response)
    assert answer.headers["X-Response-ID"] == answer.json()["id"]
