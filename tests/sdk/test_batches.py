"""Batches as the official SDKs drive them, on a real site with a real Celery worker that is killed and loses rights.

The engine is scripted. Every line's answer says which line it is of, so that nothing can be answered by another's.
"""

import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter

import openai
import pytest

from tests.child import ROOT
from tests.e2e.batches import WAIT_S, content, line, start, texts, until
from tests.e2e.night import prepared, working
from tests.e2e.reading import eventually, says
from tests.sdk.conftest import Place, run_node
from tests.sdk.test_the_api_page import snippets

judge = pytest.mark.judge
LINES_AT_ONCE = 4


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """The site before it starts, one key of nora's, and another of hers that has a quota."""
    folder = tmp_path_factory.mktemp("night")
    with prepared(folder, BATCH_LINES_AT_ONCE=str(LINES_AT_ONCE), NO_STORE_KEEP_S="1") as site:
        site.scripted("other")
        limited, key = (site.manage("create_api_key", "nora") for _ in range(2))
        quota = "api_key=ApiKey.objects.earliest('pk'), models_allowed=['scripted'], max_output_tokens=100"
        made = f"from streaming.models import ApiKey, Quota; Quota.objects.create({quota})"
        site.manage("shell", "-v", "0", "-c", made)
        yield site, key, limited


@pytest.fixture(scope="module")
def night(keys):
    with working(keys[0]) as night:
        yield night


@pytest.fixture(scope="module")
def place(night, keys):
    return Place(night.site, keys[1])


@pytest.fixture(scope="module")
def run(place):
    """Starts a program of a caller's."""

    def run(*command, cwd):
        env = os.environ | {"URL": place.url, "KEY": place.key, "MODEL": "scripted", "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return run


@pytest.fixture
def client(night, keys):
    with night.client(keys[1]) as client:
        yield client


@judge("openai-python", "batch")
def test_every_line_is_answered_in_a_file(client, night, keys):
    refused = [line("404", model="nope"), line("403", model="other"), line("400", max_tokens=101)]
    with night.client(keys[2]) as limited:
        batch = start(limited, [*(line(n) for n in range(12)), *refused], metadata={"night": "monday"})
    assert (batch.status, batch.metadata, batch.output_file_id) == ("validating", {"night": "monday"}, None)
    done = until(client, batch, "completed")
    assert (done.request_counts.total, done.request_counts.completed, done.request_counts.failed) == (15, 12, 3)
    assert done.in_progress_at <= done.finalizing_at <= done.completed_at <= done.expires_at
    said = content(client, done.output_file_id)
    assert texts(said) == {f"line {n}": f"answer {n}" for n in range(12)}
    for one in said:
        assert one["response"]["request_id"] == one["response"]["body"]["id"]
        assert client.responses.retrieve(one["response"]["request_id"]).status == "completed"
    for one in content(client, done.error_file_id):
        assert one["custom_id"] == f"line {one['response']['status_code']}"
        assert one["response"]["body"]["error"]["message"]
    assert Counter(night.rows(batch.id)) == {(f"{batch.id}.{n}", "completed", "stop"): 1 for n in range(1, 13)}
    ids = [row.id for row in client.batches.list(limit=1)]
    assert ids[0] == batch.id
    file = client.files.retrieve(done.output_file_id)
    assert (file.purpose, file.bytes) == ("batch_output", len(client.files.content(file.id).read()))
    assert {file.id, batch.input_file_id} <= {row.id for row in client.files.list(limit=1)}
    assert client.files.delete(file.id).deleted


@pytest.mark.parametrize("endpoint", ["/v1/responses", "/v1/messages"])
def test_the_other_dialects_have_batches_too(client, endpoint):
    batch = start(client, [line(1, url=endpoint)], endpoint)
    [said] = content(client, until(client, batch, "completed").output_file_id)
    assert "answer 1" in json.dumps(said["response"]["body"])


def test_files_and_what_a_batch_writes_go_when_the_caller_says(client, night):
    hour, week = ({"anchor": "created_at", "seconds": seconds} for seconds in (3600, 604_800))
    data = io.BytesIO(json.dumps(line(1)).encode())
    sent = client.files.create(file=("in.jsonl", data), purpose="batch", expires_after=week)
    assert sent.expires_at - sent.created_at == 604_800
    batch = client.batches.create(
        input_file_id=sent.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        output_expires_after=hour,
    )
    written = client.files.retrieve(until(client, batch, "completed").output_file_id)
    assert written.expires_at - written.created_at == 3600
    night.site.write("UPDATE streaming_storedfile SET expires_at = created_at WHERE id = ?", written.id)
    with pytest.raises(openai.NotFoundError):
        client.files.content(written.id)
    with pytest.raises(openai.BadRequestError, match="3600"):
        start(client, [line(1)], output_expires_after=hour | {"seconds": 60})


def test_what_is_wrong_with_lines_is_told_by_their_numbers(client, night):
    data = [json.dumps(line(1)), "{", json.dumps(line(1)), "", json.dumps({**line(2), "url": "/v1/responses"})]
    file = client.files.create(file=("bad.jsonl", "\r\n".join(data).encode()), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    failed = until(client, batch, "failed")
    assert [(error.line, error.code) for error in failed.errors.data] == [
        (2, "invalid_json_line"), (3, "duplicate_custom_id"), (5, "invalid_url"),
    ]  # fmt: skip
    assert (failed.output_file_id, failed.error_file_id, night.rows(batch.id)) == (None, None, [])


def test_a_worker_and_a_web_process_that_are_killed_amid_a_batch_cost_no_line_and_none_is_asked_twice(
    client, night, place
):
    """The model has its script of its own: of a question nothing is kept that could be carried on."""
    count, words = 40, [f"w{n} " for n in range(10)]
    model = night.site.add_model(
        place.key, "survivor", script={"outputs": [{"text": w} for w in words], "delay_s": 0.05}
    )
    batch = start(client, [line(n, "Tell me words.", model=model) for n in range(count)])
    answered = lambda: client.batches.retrieve(batch.id).request_counts.completed  # noqa: E731
    eventually(lambda: answered() > 5, WAIT_S)
    night.kill_worker()
    assert client.batches.retrieve(batch.id).status == "in_progress"
    night.start_worker()
    before = answered()
    eventually(lambda: answered() > before + 5, WAIT_S)
    night.site.kill()
    night.site.start()
    done = until(client, batch, "completed")
    assert texts(content(client, done.output_file_id)) == {f"line {n}": "".join(words) for n in range(count)}
    assert done.error_file_id is None
    assert Counter(night.rows(batch.id)) == {(f"{batch.id}.{n}", "completed", "stop"): 1 for n in range(1, count + 1)}


def test_a_cancel_stops_what_runs_and_keeps_what_is_answered(client, night):
    endless = [line(n, says("tick ", repeat=0, delay_s=0.05)) for n in range(2, 10)]
    batch = start(client, [line(1), *endless])
    eventually(lambda: len(night.rows(batch.id)) == 1 + LINES_AT_ONCE, WAIT_S)
    with pytest.raises(openai.ConflictError, match="has not ended"):
        client.files.delete(batch.input_file_id)
    assert client.batches.cancel(batch.id).status == "cancelling"
    eventually(lambda: all(end_state for _, end_state, _ in night.rows(batch.id)))
    done = until(client, batch, "cancelled")
    assert texts(content(client, done.output_file_id)) == {"line 1": "answer 1"}
    failed = content(client, done.error_file_id)
    assert {one["custom_id"] for one in failed} == {f"line {n}" for n in range(2, 10)}
    assert {one["error"]["code"] for one in failed} == {"batch_cancelled"}
    ends = Counter(end[1:] for end in night.rows(batch.id))
    assert ends == {("completed", "stop"): 1, ("cancelled", "api"): LINES_AT_ONCE}
    assert client.batches.cancel(batch.id).status == "cancelled"


def test_a_key_that_is_revoked_ends_its_batch(client, night):
    key = night.site.manage("create_api_key", "nora")
    with night.client(key) as theirs:
        batch = start(theirs, [line(1), *(line(n, says("tick ", repeat=0, delay_s=0.05)) for n in range(2, 8))])
    eventually(lambda: client.batches.retrieve(batch.id).request_counts.completed, WAIT_S)
    night.site.write(
        "UPDATE streaming_apikey SET revoked_at = created_at WHERE id ="
        " (SELECT api_key_id FROM streaming_batch WHERE id = ?)", batch.id,
    )  # fmt: skip
    failed = until(client, batch, "failed")
    assert failed.errors.data[0].code == "key_revoked"
    assert texts(content(client, failed.output_file_id)) == {"line 1": "answer 1"}
    assert {one["error"]["code"] for one in content(client, failed.error_file_id)} == {"key_revoked"}
    eventually(lambda: all(end_state for _, end_state, _ in night.rows(batch.id)))


LOSSES = {
    "user": "UPDATE auth_user SET is_active = (1 = 0) WHERE username = ?",
    "key": "UPDATE streaming_apikey SET revoked_at = created_at WHERE id ="
    " (SELECT MIN(k.id) FROM streaming_apikey k JOIN auth_user u ON u.id = k.user_id WHERE username = ?)",
}
BACK = "UPDATE auth_user SET is_active = (1 = 1) WHERE username = ?"


@pytest.mark.parametrize(("lost", "endpoint"), [("user", "/v1/responses"), ("key", "/v1/messages")])
def test_what_is_answered_while_the_right_to_ask_is_lost_is_kept_as_the_endpoint_would_have_said_it(
    night, lost, endpoint
):
    name = f"{lost} of {endpoint}".translate(str.maketrans(" /", "--"))
    key, other = (night.site.manage("create_api_key", name) for _ in range(2))
    words = says(*(f"w{n} " for n in range(10)), delay_s=0.2)
    asked = [line(n, words, url=endpoint) for n in range(1, 9)]
    with night.client(key) as theirs:
        batch = start(theirs, asked, endpoint)
    eventually(lambda: len(night.rows(batch.id)) == LINES_AT_ONCE, WAIT_S)
    night.site.write(LOSSES[lost], name)
    status = "SELECT status FROM streaming_batch WHERE id = ?"
    eventually(lambda: night.site.rows(status, batch.id) == [("failed",)], WAIT_S)
    ends = Counter(end[1:] for end in night.rows(batch.id))
    assert ends == {("completed", "stop"): LINES_AT_ONCE}, "they ended before anybody asked again"
    night.site.write(BACK, name)
    with night.client(other) as theirs, night.site.api(other) as api:
        done = theirs.batches.retrieve(batch.id)
        assert (done.request_counts.completed, done.request_counts.failed) == (LINES_AT_ONCE, 8 - LINES_AT_ONCE)
        kept, failed = content(theirs, done.output_file_id), content(theirs, done.error_file_id)
        assert [one["custom_id"] for one in kept + failed] == [one["custom_id"] for one in asked]
        assert {one["error"]["code"] for one in failed} == {"key_revoked"}
        for number, one in enumerate(kept, 1):
            headers = {"Idempotency-Key": f"{batch.id}.{number}", "anthropic-version": "2023-06-01"}
            again = api.post(endpoint, json=asked[number - 1]["body"], headers=headers)
            assert (one["response"]["status_code"], one["response"]["body"]) == (again.status_code, again.json())
            assert one["response"]["request_id"] == again.headers["X-Response-ID"]
            row = night.site.row(one["response"]["request_id"])
            assert row["delivered_tokens"] == row["sent_tokens"] > 0


@pytest.mark.parametrize("gone", ["ApiKey.objects.filter(user__username=NAME)", "User.objects.filter(username=NAME)"])
def test_a_key_or_a_user_that_is_deleted_amid_a_batch_ends_it_and_the_worker_goes_on(client, night, gone):
    name = f"goes-{len(gone)}"
    with night.client(night.site.manage("create_api_key", name)) as theirs:
        batch = start(theirs, [line(1), *(line(n, says("tick ", repeat=0, delay_s=0.05)) for n in range(2, 8))])
    eventually(lambda: len(night.rows(batch.id)) == 1 + LINES_AT_ONCE, WAIT_S)
    ids = night.site.rows("SELECT id FROM streaming_response WHERE idempotency_key LIKE ?", f"{batch.id}.%")
    printed = len(night.worker.lines)
    models = "from django.contrib.auth.models import User; from streaming.models import ApiKey"
    night.site.manage("shell", "-v", "0", "-c", f"{models}; NAME = {name!r}; {gone}.delete()")
    eventually(lambda: all(night.site.row(id_)["end_state"] for (id_,) in ids), WAIT_S)
    if gone.startswith("ApiKey"):
        status = "SELECT status, completed, failed FROM streaming_batch WHERE id = ?"
        eventually(lambda: night.site.rows(status, batch.id) == [("failed", 1, 6)], WAIT_S)
    else:
        assert night.site.rows("SELECT id FROM streaming_batch WHERE id = ?", batch.id) == []
        assert night.rows(batch.id) == []
    done = until(client, start(client, [line(1)]), "completed")
    assert texts(content(client, done.output_file_id)) == {"line 1": "answer 1"}
    said = "\n".join(night.worker.lines[printed:])
    assert "Traceback" not in said
    assert "SECRET_KEY differs" not in said


def test_a_window_that_is_over_keeps_what_was_answered(client, night):
    batch = start(client, [line(1), line(2, says("tick ", repeat=0, delay_s=0.05))])
    eventually(lambda: client.batches.retrieve(batch.id).request_counts.completed, WAIT_S)
    night.site.write("UPDATE streaming_batch SET expires_at = created_at WHERE id = ?", batch.id)
    done = until(client, batch, "expired")
    assert texts(content(client, done.output_file_id)) == {"line 1": "answer 1"}
    assert [one["error"]["code"] for one in content(client, done.error_file_id)] == ["batch_expired"]
    assert ("cancelled", "api") in {end[1:] for end in night.rows(batch.id)}


def test_a_batch_that_is_not_to_be_stored_leaves_its_answers_only(client, night):
    batch = start(client, [line(1, store=False)])
    done = until(client, batch, "completed")
    assert texts(content(client, done.output_file_id)) == {"line 1": "answer 1"}
    file = client.files.retrieve(done.output_file_id)
    assert 86_000 < file.expires_at - done.completed_at <= 86_401
    kept = "SELECT COUNT(*) FROM streaming_storedfile WHERE id = ? AND expires_at IS NOT NULL"
    assert night.site.rows(kept, batch.input_file_id) == [(1,)]
    eventually(lambda: batch.input_file_id not in {row.id for row in client.files.list()})
    with pytest.raises(openai.NotFoundError):
        client.files.content(batch.input_file_id)


@pytest.fixture(scope="module")
def seen(place, node_packages):
    return run_node("batches.mjs", place)


@judge("openai-node", "batch")
def test_openai_node_sends_waits_reads_lists_and_deletes(seen):
    assert seen["answered"] == {
        "counts": {"total": 2, "completed": 2, "failed": 0},
        "said": [["a", "Hello ☕"], ["b", "Hello ☕"]],
        "listed": True,
        "files": True,
        "kept": "in.jsonl",
        "deleted": True,
    }


def test_openai_node_cancels(seen):
    assert seen["cancelled"] == {"first": "cancelling", "last": "cancelled"}


def ended(program, timeout_s=WAIT_S):
    out, err = program.communicate(timeout=timeout_s)
    return program.returncode, out, err


def test_the_snippets_of_the_page_run(run, tmp_path):
    (python,), (curl,) = snippets("python", of_batches=True), snippets("sh", of_batches=True)
    code, out, err = ended(run(sys.executable, "-c", python, cwd=tmp_path))
    assert (code, [line.split()[0] for line in out.splitlines() if line]) == (0, ["rivers", "lakes"]), err
    (tmp_path / "questions.jsonl").write_text(json.dumps(line(1)))
    code, out, err = ended(run("sh", "-ec", curl, cwd=tmp_path))
    assert (code, json.loads(out)["status"]) == (0, "validating"), err


def test_the_example_writes_the_answers_and_cancels_on_ctrl_c(night, run, tmp_path):
    questions, answers = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    command = [sys.executable, "-m", "examples.batch", str(questions), str(answers)]
    questions.write_text("\n".join(json.dumps(line(n)) for n in range(3)))
    code, out, err = ended(run(*command, cwd=ROOT))
    assert (code, out.splitlines()[1], err) == (0, "completed: 3 of 3", "")
    said = texts(json.loads(text) for text in answers.read_text().splitlines())
    assert said == {f"line {n}": f"answer {n}" for n in range(3)}
    questions.write_text(json.dumps(line(7, says("tick ", repeat=0, delay_s=0.05))))
    program = run(*command, cwd=ROOT)
    batch_id = program.stdout.readline().strip()
    eventually(lambda: night.rows(batch_id), WAIT_S)
    program.send_signal(signal.SIGINT)
    code, out, err = ended(program)
    assert (code, out, "batch_cancelled" in err) == (1, "cancelled: 0 of 1\n", True)
