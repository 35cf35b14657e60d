"""Batches whose end comes before their last line: what was answered is kept, every other line says why not."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from streaming.models import Batch, Response, ResponseEvent
from streaming.store import batch_work, batches, files
from streaming.store.batch_work import Result
from streaming.tasks import batch_kept
from streaming.tasks import batches as task
from tests.app.batch_rows import LEASE, batch_of, begun, line

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_batch_whose_key_is_deleted_says_so_of_every_line(u1, key):
    batch = batch_of(u1, line("a") + line("b"), key)
    key.delete()
    task.work_batches()
    batch.refresh_from_db()
    assert (batch.status, batch.failed, batch.output_file_id) == ("failed", 2, "")
    assert batch.errors[0]["code"] == "key_revoked"
    said = [json.loads(one) for one in b"".join(files.content(batch.error_file_id)).splitlines()]
    assert [(one["custom_id"], one["error"]["code"]) for one in said] == [("a", "key_revoked"), ("b", "key_revoked")]


def test_who_cancels_between_the_last_line_and_the_end_has_cancelled(u1, key):
    batch = begun(u1, 1, key)
    batch_work.write(batch, [Result(1, b"one\n", is_error=False)])
    assert batches.cancel(batch.id, "api")
    assert not batch_work.finalize(batch)
    other = begun(u1, 1, key) if batch_work.release(batch, LEASE) is None else None
    assert batch_work.finalize(other)
    assert not batches.cancel(other.id, "api")


def answer_of(batch, number, text="said", end_state="completed"):
    """The row and the log of a line's answer, as a relay leaves them; still running without an end state."""
    ended = {"state": "ended", "end_state": end_state, "end_reason": "stop"} if end_state else {"state": "running"}
    response = Response.objects.create(
        user_id=batch.user_id, purpose="batch", dialect="openai_chat", model="demo", policy="background",
        idempotency_key=f"{batch.id}.{number}", output_text=text, sent_tokens=3, generated_tokens=3, **ended,
    )  # fmt: skip
    end = {"end_state": end_state, "end_reason": "stop", "finish_reason": "stop", "error": None, "usage": {}}
    for seq, (kind, payload) in enumerate([("text", {"text": text}), *([("ended", end)] if end_state else [])], 1):
        ResponseEvent.objects.create(response=response, seq=seq, epoch=1, kind=kind, payload=payload)
    return response


def content(file_id):
    return [json.loads(one) for one in b"".join(files.content(file_id)).splitlines()] if file_id else []


EARLY = {
    "cancelled": lambda batch: batches.cancel(batch.id, "api"),
    "expired": lambda batch: Batch.objects.update(expires_at=timezone.now()),
    "failed": lambda batch: batch.api_key.delete(),
}


@pytest.mark.parametrize("status", EARLY)
def test_what_was_answered_for_a_worker_that_is_gone_is_kept_however_the_batch_ends(u1, key, monkeypatch, status):
    monkeypatch.setattr(task, "SETTLING_S", 60.0)  # else a slow machine finds it rested within one turn
    batch = begun(u1, 4, key)
    kept, errored, running = (
        answer_of(batch, 2),
        answer_of(batch, 3, end_state="errored"),
        answer_of(batch, 4, "", None),
    )
    batch_work.release(batch, timedelta(0))
    EARLY[status](batch)
    assert task.work_batches() == 1
    batch.refresh_from_db()
    running.refresh_from_db()
    assert (batch.is_unfinished, batch.failed, running.stop_reason) == (True, 0, "api"), "it may yet end well"
    assert 0 < (batch.due_at - timezone.now()).total_seconds() <= task.SETTLING_S
    running.delete()
    Batch.objects.update(due_at=timezone.now())
    task.work_batches()
    batch.refresh_from_db()
    assert (batch.status, batch.completed, batch.failed) == (status, 1, 3)
    (said,) = content(batch.output_file_id)
    assert (said["custom_id"], said["response"]["request_id"]) == ("2", kept.id)
    assert said["response"]["body"]["choices"][0]["message"]["content"] == "said"
    assert [one["custom_id"] for one in content(batch.error_file_id)] == ["1", "3", "4"]
    kept.refresh_from_db()
    errored.refresh_from_db()
    assert (kept.delivered_tokens, errored.delivered_tokens) == (3, 0)


@pytest.mark.parametrize(
    ("status", "ends"), [("cancelled", "cancelled"), ("expired", "completed"), ("failed", "completed")]
)
def test_a_batch_of_which_nothing_is_left_to_ask_is_complete_unless_somebody_cancelled_it(u1, key, status, ends):
    batch = begun(u1, 2, key)
    [answer_of(batch, number) for number in (1, 2)]
    batch_work.release(batch, timedelta(0))
    EARLY[status](batch)
    task.work_batches()
    batch.refresh_from_db()
    assert (batch.status, batch.completed, batch.error_file_id, batch.errors) == (ends, 2, "", [])


def test_an_answer_whose_words_are_gone_or_too_many_is_an_error_of_its_line(u1, key, monkeypatch):
    monkeypatch.setattr(batch_kept, "ANSWER_BYTES", 1000)
    batch = begun(u1, 2, key)
    ResponseEvent.objects.filter(response=answer_of(batch, 1)).delete()
    answer_of(batch, 2, "x" * 1000)
    batch_work.release(batch, timedelta(0))
    batches.cancel(batch.id, "api")
    task.work_batches()
    batch.refresh_from_db()
    codes = {one["custom_id"]: one["error"]["code"] for one in content(batch.error_file_id)}
    assert (batch.status, codes) == ("cancelled", {"1": "batch_cancelled", "2": "answer_too_long"})
