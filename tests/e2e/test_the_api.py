"""The REST API on the real launcher: what SDKs and curl see."""

import json
import re
import socket
import subprocess
import threading

import httpx
import openai
import pytest

from tests.e2e.reading import NO_END, chat, eventually, read, script

LIGHTHOUSES = "Tell me about lighthouses"
#: Of 1500: an engine that was left makes some more until it notices, and no whole answer.
LEFT_TOKENS = 300


def llama_tokens(site) -> int:
    text = httpx.get(f"{site.engine_url}/metrics", timeout=60).text
    return int(re.search(r"^llamacpp:tokens_predicted_total (\d+)", text, re.MULTILINE)[1])


@pytest.mark.engine
def test_a_real_model_answers_in_many_commits_and_many_reads(site, api):
    stream = chat(api, LIGHTHOUSES, model="smollm2", max_tokens=80, temperature=0)
    assert stream.is_done
    assert len(stream.text) > 100
    events = site.rows("SELECT COUNT(*) FROM streaming_responseevent WHERE response_id = ?", stream.response_id)[0][0]
    assert events >= 20
    assert len(stream.reads) >= 20
    spread = stream.reads[-1][0] - stream.reads[0][0]
    assert sum(1 for at, _ in stream.reads if at < stream.reads[0][0] + spread / 2) >= 5
    assert site.log_text(stream.response_id) == stream.text == site.row(stream.response_id)["output_text"]


@pytest.mark.engine
def test_curl_reads_a_trickle(site, key):
    messages = [{"role": "user", "content": LIGHTHOUSES}]
    asked = {"model": "smollm2", "stream": True, "max_tokens": 60, "messages": messages, "logit_bias": NO_END}
    body = json.dumps(asked)
    curl = subprocess.Popen(
        ["curl", "-sN", f"{site.url}/v1/chat/completions", "-H", f"Authorization: Bearer {key}",
         "-H", "Content-Type: application/json", "-d", body],
        stdout=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    reads = 0
    while curl.stdout.read(65536):
        reads += 1
    assert curl.wait() == 0
    assert reads >= 20


@pytest.mark.engine
def test_openai_python_reads_both_kinds_and_usage_is_the_engines_own_count(site, key):
    client = openai.OpenAI(base_url=f"{site.url}/v1", api_key=key, max_retries=0)
    messages = [{"role": "user", "content": LIGHTHOUSES}]
    before = llama_tokens(site)
    whole = client.chat.completions.create(model="smollm2", messages=messages, max_tokens=24, temperature=0)
    assert whole.usage.completion_tokens == llama_tokens(site) - before
    assert whole.choices[0].message.content
    assert whole.choices[0].finish_reason in {"stop", "length"}

    before = llama_tokens(site)
    chunks = list(
        client.chat.completions.create(
            model="smollm2", messages=messages, max_tokens=24, temperature=0, stream=True,
            stream_options={"include_usage": True},
        )
    )  # fmt: skip
    usage = chunks[-1].usage
    assert chunks[-1].choices == []
    assert usage.completion_tokens == llama_tokens(site) - before
    assert usage.prompt_tokens == whole.usage.prompt_tokens
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == whole.choices[0].finish_reason
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert {"scripted", "smollm2"} <= {model.id for model in client.models.list()}


@pytest.mark.engine
def test_a_client_that_vanishes_frees_the_slot_and_is_counted(site, api):
    before = llama_tokens(site)
    asked = {"model": "smollm2", "max_tokens": 1500, "logit_bias": NO_END}
    stream = chat(api, LIGHTHOUSES, until=lambda s: len(s.seqs) >= 5, **asked)
    eventually(lambda: site.slots_busy() == 0)
    assert llama_tokens(site) - before < LEFT_TOKENS
    row = eventually(lambda: (r := site.row(stream.response_id))["end_state"] and r)
    assert (row["end_state"], row["end_reason"]) == ("abandoned", "disconnected")
    assert row["generated_tokens"] >= row["sent_tokens"] >= 4
    assert row["output_text"].startswith(stream.text)


@pytest.mark.engine
def test_a_non_streaming_client_that_vanishes_frees_the_slot_too(site, key):
    message = {"role": "user", "content": LIGHTHOUSES}
    body = json.dumps({"model": "smollm2", "max_tokens": 1500, "messages": [message], "logit_bias": NO_END}).encode()
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {key}"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
    before = llama_tokens(site)
    with socket.create_connection(("127.0.0.1", site.port)) as client:
        client.sendall("\r\n".join(lines).encode() + body)
        eventually(lambda: site.slots_busy() == 1)
    eventually(lambda: site.slots_busy() == 0)
    assert llama_tokens(site) - before < LEFT_TOKENS


@pytest.mark.engine
def test_stop_over_the_api_frees_the_slot_and_tells_what_it_took(site, api):
    stops = []

    def stop_after_ten(stream):
        if len(stream.seqs) >= 12 and not stops:
            stops.append(None)
            threading.Thread(
                target=lambda: stops.append(api.post(f"/v1/responses/{stream.response_id}/cancel").json())
            ).start()
        return False

    stream = chat(api, LIGHTHOUSES, model="smollm2", max_tokens=1500, logit_bias=NO_END, until=stop_after_ten)
    assert site.slots_busy() == 0
    assert stream.error["code"] == "api"
    assert stream.error["end_state"] == "cancelled"
    assert not stream.is_done
    answer = eventually(lambda: len(stops) > 1 and stops[1])
    assert answer["end_state"] == "cancelled"
    assert answer["stop"]["abort_proven"] is True
    assert answer["stop"]["generated_tokens"] >= answer["stop"]["sent_tokens"] >= 10
    assert api.post(f"/v1/responses/{stream.response_id}/cancel").json() == answer


def test_a_grace_stream_cut_after_five_events_goes_on_whole(site, api):
    question = script(outputs=[{"text": f"w{i} "} for i in range(60)], delay_s=0.01)
    first = chat(api, question, until=lambda s: len(s.seqs) >= 5, headers={"X-Disconnect-Policy": "grace=20"})
    rest = read(api, "GET", f"/v1/responses/{first.response_id}/stream", headers={"Last-Event-ID": first.last_id})
    assert rest.is_done
    assert first.text + rest.text == "".join(f"w{i} " for i in range(60)) == site.log_text(first.response_id)
    seqs = first.seqs + rest.seqs
    assert seqs == sorted(set(seqs))


def test_every_cut_of_an_ended_stream_replays_the_same_text(site, api):
    whole = chat(api, script(outputs=[{"text": f"w{i} "} for i in range(12)], delay_s=0.005))
    path = f"/v1/responses/{whole.response_id}/stream"
    for cut in range(whole.seqs[-1] + 1):
        rest = read(api, "GET", f"{path}?starting_after={cut}")
        assert rest.is_done
        assert whole.text.endswith(rest.text)
    assert read(api, "GET", path).text == whole.text


@pytest.mark.parametrize(
    ("position", "status", "code"),
    [
        ("-1", 400, "invalid_request"),
        ("1e9", 400, "invalid_request"),
        ("٣", 400, "invalid_request"),
        ("1" * 40, 400, "invalid_request"),
        ("resp_00000000000000000000000000:1.1", 400, "invalid_request"),
        ("' OR 1=1", 400, "invalid_request"),
        ("9999999", 409, "future_event"),
    ],
)
def test_a_bad_position_is_a_clear_error(api, position, status, code):
    whole = chat(api, script(outputs=[{"text": "a"}]))
    answer = api.get(f"/v1/responses/{whole.response_id}/stream", params={"starting_after": position})
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code


@pytest.fixture
def without_log(site):
    """Takes a response's log away, for the time of the test: the books want it back."""
    taken = []

    def take(response_id):
        site.write("UPDATE streaming_responseevent SET seq = seq + 1000000 WHERE response_id = ?", response_id)
        taken.append(response_id)

    yield take
    for response_id in taken:
        site.write("UPDATE streaming_responseevent SET seq = seq - 1000000 WHERE response_id = ?", response_id)


def test_a_log_that_expired_is_gone_with_the_text_that_is_left(api, without_log):
    whole = chat(api, script(outputs=[{"text": "all "}, {"text": "of it"}]), headers={"Idempotency-Key": "expired"})
    without_log(whole.response_id)
    path = f"/v1/responses/{whole.response_id}/stream"
    again = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": script(
        outputs=[{"text": "all "}, {"text": "of it"}])}]}  # fmt: skip
    for answer in (
        api.get(path),
        api.get(path, headers={"Last-Event-ID": whole.last_id}),
        api.get(f"/v1/responses/{whole.response_id}", params={"stream": "true"}),
        api.post("/v1/chat/completions", json=again, headers={"Idempotency-Key": "expired"}),
    ):
        assert answer.status_code == 410, answer.text
        error = answer.json()["error"]
        assert (error["code"], error["end_state"], error["output_text"]) == ("log_expired", "completed", "all of it")


def test_another_epoch_is_log_changed(api):
    whole = chat(api, script(outputs=[{"text": "a"}]))
    headers = {"Last-Event-ID": f"{whole.response_id}:7.1"}
    answer = api.get(f"/v1/responses/{whole.response_id}/stream", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "log_changed")


def test_nobody_elses_response_can_be_read_or_stopped(site, api):
    whole = chat(api, script(outputs=[{"text": "a"}]))
    with site.api(site.manage("create_api_key", "eve")) as eve:
        for method, path in [("GET", ""), ("GET", "/stream"), ("POST", "/cancel")]:
            theirs = eve.request(method, f"/v1/responses/{whole.response_id}{path}")
            unknown = eve.request(method, f"/v1/responses/resp_00000000000000000000000000{path}")
            assert theirs.status_code == unknown.status_code == 404
            assert theirs.json() == unknown.json()


def test_a_stream_is_never_compressed(api):
    stream = chat(api, script(outputs=[{"text": "a"}] * 5), headers={"Accept-Encoding": "gzip, br"})
    assert stream.is_done
    assert stream.text == "aaaaa"


def test_a_fault_in_a_started_stream_is_an_error_event_and_the_process_lives(site, api):
    pid = site.web.popen.pid
    stream = chat(api, script(outputs=[{"text": "tick "}], repeat=9, delay_s=0.01, fault={"kind": "raise", "after": 3}))
    assert stream.status == 200
    assert stream.error["code"] == "internal"
    assert not stream.is_done
    assert not stream.broke
    assert "scripted bug" not in stream.raw.decode()
    assert chat(api, script(outputs=[{"text": "a"}])).is_done
    assert site.web.popen.pid == pid
    assert site.web.popen.poll() is None


@pytest.mark.parametrize(("kind", "status"), [("error", 502), ("lost", 502), ("raise", 500)])
def test_a_failure_before_the_first_byte_is_a_status(api, kind, status):
    question = script(outputs=[], fault={"kind": kind, "times": 9})
    body = {"model": "scripted", "messages": [{"role": "user", "content": question}]}
    for stream in (False, True):
        answer = api.post("/v1/chat/completions", json={**body, "stream": stream})
        assert answer.status_code == status
        assert answer.json()["error"]["message"]


def test_an_idempotency_key_names_one_response(site, api):
    headers = {"Idempotency-Key": "same-key-1"}
    question = script(outputs=[{"text": "a"}] * 3, delay_s=0.05)
    first = chat(api, question, headers=headers)
    second = chat(api, question, headers=headers)
    assert first.response_id == second.response_id
    assert first.text == second.text == "aaa"
    other = api.post(
        "/v1/chat/completions",
        json={"model": "scripted", "messages": [{"role": "user", "content": "other"}]},
        headers=headers,
    )
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")


def test_a_cancel_by_key_that_comes_first_is_met_by_the_late_request(api):
    headers = {"Idempotency-Key": "early-cancel"}
    cancelled = api.post("/v1/responses/cancel", headers=headers).json()
    assert cancelled["end_state"] == "cancelled"
    late = chat(api, script(outputs=[{"text": "a"}]), headers=headers)
    assert late.response_id == cancelled["id"]
    assert late.text == ""
    assert late.error["end_state"] == "cancelled"
