"""Everything that can be refused is refused as JSON before any stream, naming field, limit and value; no 500."""

import json

import pytest

from tests.e2e.reading import chat, script

GOOD = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}


def body(**changes) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


DEEP = body().replace(b"}]}", b'}], "stop": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
CASES = {
    "empty messages": (body(messages=[]), 400, "messages", "1"),
    "unknown model": (body(model="nope"), 404, "model", "nope"),
    "max_tokens 0": (body(max_tokens=0), 400, "max_tokens", "got 0"),
    "max_tokens -1": (body(max_tokens=-1), 400, "max_tokens", "got -1"),
    "max_tokens 10^9": (body(max_tokens=10**9), 400, "max_tokens", "1000000000"),
    "max_tokens true": (body(max_tokens=True), 400, "max_tokens", "true"),
    "max_tokens text": (body(max_tokens="5"), 400, "max_tokens", "5"),
    "temperature NaN": (body(temperature=float("nan")), 400, "temperature", "NaN"),
    "temperature Infinity": (body(temperature=float("inf")), 400, "temperature", "Infinity"),
    "temperature 1e999": (body().replace(b"}]}", b'}], "temperature": 1e999}'), 400, "temperature", "1e999"),
    "temperature 3": (body(temperature=3), 400, "temperature", "got 3"),
    "65 stops": (body(stop=["x"] * 65), 400, "stop", "64"),
    "an empty stop": (body(stop=[""]), 400, "stop.0", "1"),
    "a long stop": (body(stop="x" * 257), 400, "stop", "256"),
    "a lone surrogate": (body(messages=[{"role": "user", "content": "x\ud800y"}]), 400, "messages.0.content", "d800"),
    "NUL": (body(messages=[{"role": "user", "content": "x\0y"}]), 400, "messages.0.content", "0000"),
    "n 2": (body(n=2), 400, "n", "got 2"),
    "logprobs": (body(logprobs=True), 400, "logprobs", "true"),
    "unknown role": (body(messages=[{"role": "root", "content": "x"}]), 400, "messages.0.role", "root"),
    "a private field": (body(api_base="http://127.0.0.1:1"), 400, "api_base", "unknown"),
    "a template": (body(chat_template="{{ 1 }}"), 400, "chat_template", "unknown"),
    # SD01 to SD10 of the attacks that others' engines have died of; a schema's are in test_tools_and_formats.py.
    "SD01 a million answers": (body(n=1_000_000), 400, "n", "1000000"),
    "SD02 best_of": (body(best_of=5), 400, "best_of", "unknown"),
    "SD02 a prompt": (body(prompt=""), 400, "prompt", "unknown"),
    "SD04 its arguments": (body(chat_template_kwargs={"x": 1}), 400, "chat_template_kwargs.enable_thinking", ""),
    "SD05 embeddings": (body(prompt_embeds="AAAA"), 400, "prompt_embeds", "unknown"),
    "SD06 more at least than at most": (body(max_tokens=5, min_tokens=6), 400, "min_tokens", "6"),
    "SD07 ids for a text": (body(messages=[{"role": "user", "content": [1, 2]}]), 400, "messages.0.content.0", ""),
    "SD08 too many biases": (body(logit_bias={str(n): 1 for n in range(301)}), 400, "logit_bias", "300"),
    "SD08 an id that is none": (body(logit_bias={"999999999": 1}), 400, "logit_bias", "token ids"),
    "SD10 a huge seed": (body(seed=10**30), 400, "seed", "1"),
    "SD10 temperature -1": (body(temperature=-1), 400, "temperature", "got -1"),
    "SD10 ten thousand stops": (body(stop=["x"] * 10_000), 400, "stop", "64"),
    "SD10 a number of 5,000 digits": (body().replace(b"}]}", b'}], "seed": ' + b"9" * 5000 + b"}"), 400, None, ""),
    "SD10 a deep list": (DEEP, 400, None, ""),
    "SD10 a name twice": (body().replace(b"}]}", b'}], "n": 1, "n": 1}'), 400, "n", ""),
    "no messages": (b'{"model": "scripted"}', 400, "messages", "required"),
    "an image": (
        body(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]),
        400, "messages.0.content.0.type", "image_url",
    ),
    "over the context": (body(messages=[{"role": "user", "content": "word " * 21_000}]), 400, "messages", "100000"),
    "not JSON": (b"{", 400, None, "JSON"),
    "a list": (b"[]", 400, None, ""),
    "null": (b"null", 400, None, ""),
    "empty": (b"", 400, None, ""),
    "3 MB": (body(messages=[{"role": "user", "content": "x" * 3_000_000}]), 413, None, "2097152"),
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_before_any_stream(api, name, stream):
    content, status, param, said = CASES[name]
    if stream and content.endswith(b"}"):
        content = content[:-1] + b', "stream": true}'
    answer = api.post("/v1/chat/completions", content=content, headers={"Content-Type": "application/json"})
    error = answer.json()["error"]
    assert answer.status_code == status, error
    assert answer.headers["Content-Type"] == "application/json"
    assert error["param"] == param
    assert said in error["message"]
    assert {"message", "type", "param", "code"} <= error.keys()


def test_what_was_refused_is_recorded_without_the_prompt(site, api):
    api.post("/v1/chat/completions", json={**GOOD, "messages": [{"role": "user", "content": "SECRET-MARKER"}], "n": 2})
    api.post("/v1/chat/completions", json={**GOOD, "model": "nope"})
    rows = site.rows("SELECT end_state, end_reason FROM streaming_response ORDER BY id DESC LIMIT 2")
    assert rows == [("rejected", "not_found"), ("rejected", "invalid_request")]
    dump = b"".join(path.read_bytes() for path in site.data_dir.glob("db.sqlite3*"))
    assert b"SECRET-MARKER" not in dump


def test_anonymous_floods_write_nothing(site, api):
    before = site.rows("SELECT COUNT(*) FROM streaming_response")
    for header in ({}, {"Authorization": "Bearer sk-wrong"}, {"Authorization": "Bearer ' OR 1=1--"}):
        with site.api("x") as anonymous:
            del anonymous.headers["Authorization"]
            answer = anonymous.post("/v1/chat/completions", json=GOOD, headers=header)
            assert answer.status_code == 401
    assert site.rows("SELECT COUNT(*) FROM streaming_response") == before


def test_the_process_is_well_afterwards(site, api):
    assert chat(api, script(outputs=[{"text": "ok"}])).text == "ok"
    assert site.web.popen.poll() is None
