"""The judge of the drill: it accepts books that are in order and sees each kind of breach."""

import dataclasses

import pytest

from tests.drill.laws import broken_laws
from tests.drill.plan import SCRIPTS, Size, plan, whole_text, whole_tokens
from tests.drill.records import Frame, StopRecord

ID = "resp_A"


def test_books_in_order_break_nothing(books, reader, question):
    stop = StopRecord(question, {"id": ID, "end_state": "completed"})
    assert broken_laws(books, [reader], [stop]) == []


ROW_BREACHES = {
    "not ended": {"state": "running"},
    "another end": {"end_state": "cancelled"},
    "other text": {"output_text": "abb"},
    "delivered more than sent": {"delivered_tokens": 3},
    "sent is not the log's": {"sent_tokens": 1},
    "an epoch from the future": {"epoch": 1},
    "not the script": {"model": "short"},
}


@pytest.mark.parametrize("breach", ROW_BREACHES)
def test_a_row_that_differs_from_its_log_is_seen(books, reader, breach):
    books.rows[ID].update(ROW_BREACHES[breach])
    assert broken_laws(books, [reader], [])


LOG_BREACHES = {
    "two ends": lambda log: [*log, dataclasses.replace(log[-1], seq=6)],
    "something behind the end": lambda log: [*log, dataclasses.replace(log[1], seq=6, epoch=2)],
    "a gap": lambda log: [*log[:2], *log[3:]],
    "a falling epoch": lambda log: [*log[:3], dataclasses.replace(log[3], epoch=1), log[4]],
    "no end": lambda log: log[:-1],
}


@pytest.mark.parametrize("breach", LOG_BREACHES)
def test_a_log_that_is_not_in_order_is_seen(books, breach):
    books.logs[ID][:] = LOG_BREACHES[breach](books.logs[ID])
    assert broken_laws(books, [], [])


READER_BREACHES = {
    "a text lost": {"frames": [Frame(0, 1, 1, ""), Frame(1, 5, 2, "b")]},
    "a text twice": {"frames": [Frame(0, 2, 1, "a"), Frame(2, 5, 2, "ab")]},
    "a cursor that fell": {"frames": [Frame(0, 4, 2, "ab"), Frame(4, 2, 1, "")]},
    "an event that is not in the log": {"frames": [Frame(0, 6, 2, "ab")]},
    "another epoch": {"frames": [Frame(0, 4, 1, "ab")]},
    "another end": {"end_state": "truncated"},
    "no end": {"end_state": None},
    "another response": {"response_id": "resp_B"},
    "an answer nobody may get": {"troubles": ["status 500"]},
    "another body": {"body_text": "a"},
}


@pytest.mark.parametrize("breach", READER_BREACHES)
def test_a_reader_who_saw_something_else_is_heard(books, reader, breach):
    for name, value in READER_BREACHES[breach].items():
        setattr(reader, name, value)
    assert broken_laws(books, [reader], [])


def test_a_stop_that_was_told_another_end_is_heard(books, question):
    assert broken_laws(books, [], [StopRecord(question, {"id": ID, "end_state": "cancelled"})])


def test_a_seed_is_a_plan():
    size = Size(200, 60, 2, 6, 5)
    assert plan(7, size) == plan(7, size) != plan(8, size)
    kinds = {fault.kind for seed in range(3) for fault in plan(seed, size).faults}
    assert kinds == {"kill", "pause", "terminate"}
    assert {question.model for question in plan(7, size).questions} == {*SCRIPTS, "smollm2"}


def test_a_whole_answer_is_what_the_script_says():
    assert whole_text("short").startswith("w0 w1 ")
    assert whole_tokens("short") == len(whole_text("short"))
    assert whole_tokens("pages") == 60
