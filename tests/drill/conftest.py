"""Owns nothing but the place of what the drill's tests share: records and books made by hand."""

import pytest

from tests.drill.books import Books, LogEvent
from tests.drill.plan import Question
from tests.drill.records import Frame, Record

ID = "resp_A"


@pytest.fixture
def question():
    return Question("key", "smollm2", "grace=4")


@pytest.fixture
def books():
    """One response whose log says "ab", cut over two epochs."""
    log = [
        LogEvent(1, 1, "started", {}, 0),
        LogEvent(2, 1, "text", {"text": "a"}, 1),
        LogEvent(3, 2, "continued", {}, 0),
        LogEvent(4, 2, "text", {"text": "b"}, 1),
        LogEvent(5, 2, "ended", {"end_state": "completed"}, 0),
    ]
    row = {
        "id": ID, "owner": "web", "epoch": 2, "state": "ended", "end_state": "completed", "last_seq": 5,
        "idempotency_key": "key", "model": "smollm2", "output_text": "ab", "generated_tokens": 2,
        "completion_tokens": 2, "sent_tokens": 2, "delivered_tokens": 1,
    }  # fmt: skip
    return Books({ID: row}, {ID: log})


@pytest.fixture
def reader(question):
    frames = [Frame(0, 1, 1, ""), Frame(1, 2, 1, "a"), Frame(2, 4, 2, "b"), Frame(4, 5, 2, "")]
    return Record(question, ID, frames, "completed")
