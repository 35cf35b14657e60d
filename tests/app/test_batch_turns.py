"""A worker's turn at a batch, against an API that is busy, broken, away or against it: what is asked again, and how."""

import json
import threading
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streaming.models import Batch
from streaming.store import batch_work, files
from streaming.tasks import batch_reply, batch_turn
from streaming.tasks import batches as task
from tests.app.batch_rows import batch_of, line

pytestmark = pytest.mark.django_db(transaction=True)

DONE = (200, {}, {"id": "resp_1", "choices": []})
BUSY = (503, {"Retry-After": "0"}, {"error": {"code": "overloaded"}})
QUEUED = (503, {}, {"error": {"code": "queue", "end_state": "timed_out", "end_reason": "queue"}})
BROKEN = (500, {}, {"error": {"code": "internal"}})
NO_JSON = (502, {}, None)


class Api(ThreadingHTTPServer):
    """Answers each line by its script, and at the end of that well; remembers keys, and how many it had at once."""

    daemon_threads = True

    def __init__(self, **scripts):
        super().__init__(("127.0.0.1", 0), Handler)
        self.scripts = defaultdict(list, {name: list(script) for name, script in scripts.items()})
        self.keys = defaultdict(list)
        self.policies = Counter()
        self.open = self.most = 0
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    server: Api

    def do_POST(self):
        api, body = self.server, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with api.lock:
            api.open += 1
            api.most = max(api.most, api.open)
        name = body["user"]
        api.keys[name].append(self.headers["Idempotency-Key"].split(".", 1)[1])
        api.policies[self.headers["X-Disconnect-Policy"]] += 1
        status, headers, said = api.scripts[name].pop(0) if api.scripts[name] else DONE
        self.send_response(status)
        for header in headers.items():
            self.send_header(*header)
        data = b"<html>" if said is None else json.dumps(said).encode()
        self.send_header("Content-Length", str(len(data)))
        with api.lock:
            api.open -= 1
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        """Tests are quiet."""


@pytest.fixture
def turn(u1, key, settings, monkeypatch):
    """Work at a batch whose lines bear these names; returns the API as it was asked, and the batch."""
    monkeypatch.setattr(batch_reply, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(batch_reply, "LONGEST_PAUSE_S", 0.02)
    monkeypatch.setattr(task, "TURN_S", 5.0)
    settings.BATCH_LINES_AT_ONCE = 3
    apis = []

    def work(names, **scripts):
        api = Api(**scripts)
        apis.append(api)
        threading.Thread(target=api.serve_forever, daemon=True).start()
        settings.SITE_URL = f"http://127.0.0.1:{api.server_port}"
        lines = [line(name, body={"model": "demo", "messages": [], "user": name}) for name in names]
        batch = batch_of(u1, b"".join(lines), key)
        task.work_batches()
        batch.refresh_from_db()
        return api, batch

    yield work
    for api in apis:
        api.shutdown()
        api.server_close()


def test_what_is_busy_broken_or_no_answer_is_asked_again_with_the_same_key(turn):
    api, batch = turn("abc", a=[BUSY, BUSY], b=[BROKEN], c=[NO_JSON, BUSY])
    assert (batch.status, batch.completed, batch.failed) == ("completed", 3, 0)
    assert api.keys == {"a": ["1"] * 3, "b": ["2"] * 2, "c": ["3"] * 3}
    assert set(api.policies) == {"background"}


def test_what_never_left_the_queue_is_asked_anew_and_the_keys_follow_from_the_line_alone(turn):
    api, batch = turn("a", a=[QUEUED, BUSY, QUEUED])
    assert (batch.status, batch.completed) == ("completed", 1)
    assert api.keys["a"] == ["1", "1.1", "1.1", "1.2"]


def test_no_more_lines_are_asked_at_once_than_may_be(turn):
    api, batch = turn([str(n) for n in range(40)])
    assert (batch.completed, 1 <= api.most <= 3) == (40, True)
    assert {name: keys for name, keys in api.keys.items() if len(keys) > 1} == {}


def test_a_fault_that_stays_is_the_lines_answer(turn):
    api, batch = turn("a", a=[BROKEN] * 100)
    assert (batch.status, batch.failed, len(api.keys["a"])) == ("completed", 1, batch_reply.FAULTS_MAX + 1)


def test_an_answer_that_is_too_long_is_the_lines_error_and_asked_for_once(turn, monkeypatch):
    monkeypatch.setattr(batch_turn, "ANSWER_BYTES", 1000)
    api, batch = turn("ab", a=[(200, {}, {"id": "resp_1", "choices": ["x" * 1000]})] * 9)
    assert (batch.status, batch.completed, batch.failed, api.keys["a"]) == ("completed", 1, 1, ["1"])
    (said,) = [json.loads(one) for one in b"".join(files.content(batch.error_file_id)).splitlines()]
    assert (said["custom_id"], said["response"], said["error"]["code"]) == ("a", None, "answer_too_long")
    assert "1000 bytes" in said["error"]["message"]


def test_a_long_wait_gives_others_the_turn_and_asks_nothing_meanwhile(turn, monkeypatch):
    monkeypatch.setattr(batch_turn, "PATIENCE_S", 0.5)
    limit = (429, {"Retry-After": "120"}, {"error": {"code": "rate_limited"}})
    api, batch = turn([str(n) for n in range(20)], **{str(n): [limit] * 9 for n in range(20)})
    assert (batch.status, batch.completed, batch.worker) == ("in_progress", 0, "")
    assert sum(map(len, api.keys.values())) <= 3
    rests_s = (batch.due_at - batch.in_progress_at).total_seconds()
    assert 115 < rests_s < 160
    assert task.work_batches() == 0


def test_rights_that_are_lost_end_the_rest_and_keep_what_is_answered(turn):
    revoked = (401, {}, {"error": {"code": "key_revoked", "message": "this API key was revoked"}})
    names = [str(n) for n in range(30)]
    api, batch = turn(names, **{name: [revoked] * 9 for name in names[10:]})
    assert (batch.status, batch.completed, batch.failed) == ("failed", 10, 20)
    assert sum(len(api.keys[name]) for name in names[10:]) <= 3
    said = [json.loads(one) for one in b"".join(files.content(batch.error_file_id)).splitlines()]
    assert [one["custom_id"] for one in said] == names[10:]
    assert {one["error"]["message"] for one in said} == {"this API key was revoked"}


def test_a_token_that_the_site_does_not_know_costs_no_line(turn):
    unknown = (401, {}, {"error": {"code": "invalid_api_key"}})
    _, batch = turn("a", a=[unknown] * 3)
    assert (batch.status, batch.completed) == ("completed", 1)


def test_a_batch_that_another_has_taken_is_left_alone(turn, monkeypatch):
    write = batch_work.write

    def taken_meanwhile(batch, results):
        Batch.objects.update(worker="another")
        write(batch, results)

    monkeypatch.setattr(batch_work, "write", taken_meanwhile)
    _, batch = turn("abc")
    assert (batch.worker, batch.status, batch.completed) == ("another", "in_progress", 0)
    assert batch_work.written(batch) == set()
