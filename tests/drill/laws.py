"""Owns the laws of a drill: what must be true of rows, logs and readers whatever was done to them. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.drill.books import Books, LogEvent
from tests.drill.plan import SCRIPTS, whole_text, whole_tokens
from tests.drill.records import Frame, Record, StopRecord

#: In the order of the report.
LAWS = (
    "one end state per response, one ended event, last, and the same as the row's",
    "seq without gaps, epochs never falling",
    "the row's text is the log's text",
    "delivered <= sent <= generated, and sent is what the log counts",
    "an answer that was carried on is the undisturbed one: nothing lost or doubled, no token counted twice",
    "every frame is the log's text between its cursors, with the log's epoch",
    "cursors strictly rising",
    "every reader that came back was told one end, the row's",
    "one response per idempotency key",
    "a stop that was answered with an end is answered with the row's",
)


def broken_laws(books: Books, readers: Sequence[Record], stops: Sequence[StopRecord]) -> list[str]:
    """One line for each breach."""
    return [
        *(line for response_id in books.rows for line in _of_a_response(books, response_id)),
        *(line for record in readers for line in _of_a_reader(books, record)),
        *(line for record in stops for line in _of_a_stop(books, record)),
    ]


def _of_a_response(books: Books, response_id: str) -> Iterator[str]:
    row, log = books.rows[response_id], books.logs[response_id]
    ends = [event for event in log if event.kind == "ended"]
    if row["state"] != "ended" or len(ends) != 1 or log[-1] is not ends[0]:
        yield f"{response_id}: state {row['state']}, {len(ends)} ended events, last is {log[-1:]}"
    elif ends[0].payload["end_state"] != row["end_state"] or row["last_seq"] != log[-1].seq:
        yield f"{response_id}: the row says {row['end_state']} at {row['last_seq']}, the log {ends[0]}"
    if [event.seq for event in log] != list(range(1, len(log) + 1)):
        yield f"{response_id}: seq has gaps: {[event.seq for event in log]}"
    epochs = [event.epoch for event in log]
    if epochs != sorted(epochs) or (epochs and epochs[-1] > row["epoch"]):
        yield f"{response_id}: epochs fall or pass the row's {row['epoch']}: {epochs}"
    text = text_between(log, 0, len(log))
    if text != row["output_text"]:
        yield f"{response_id}: the log has {len(text)} characters, the row {len(row['output_text'])}"
    yield from _of_counts(row, log)
    yield from _of_a_script(row, text)


def _of_counts(row: dict[str, Any], log: Sequence[LogEvent]) -> Iterator[str]:
    counted = sum(event.token_count for event in log)
    if not row["delivered_tokens"] <= row["sent_tokens"] <= row["generated_tokens"] or counted != row["sent_tokens"]:
        figures = {name: value for name, value in row.items() if name.endswith("_tokens")}
        yield f"{row['id']}: the log counts {counted} tokens, the row {figures}"


def _of_a_script(row: dict[str, Any], text: str) -> Iterator[str]:
    """A scripted answer is the script, or its beginning."""
    if row["model"] not in SCRIPTS:
        return
    whole = whole_text(row["model"])
    if not whole.startswith(text) or (row["end_state"] == "completed" and text != whole):
        yield f"{row['id']}: {row['end_state']} {row['model']} is not the script: …{text[-60:]!r}"
    if row["end_state"] == "completed" and row["completion_tokens"] != whole_tokens(row["model"]):
        yield f"{row['id']}: {row['completion_tokens']} tokens for an answer of {whole_tokens(row['model'])}"


def text_between(log: Sequence[LogEvent], after_seq: int, seq: int) -> str:
    return "".join(event.text for event in log[after_seq:seq])


def _of_a_reader(books: Books, record: Record) -> Iterator[str]:
    key = record.question.key
    yield from record.troubles
    rows = books.by_key(key)
    if len(rows) != 1 or (record.response_id and rows[0]["id"] != record.response_id):
        yield f"{key}: {len(rows)} responses, the reader had {record.response_id}"
        return
    row, log = rows[0], books.logs[rows[0]["id"]]
    for frame in record.frames:
        yield from _of_a_frame(row["id"], log, frame)
    if not record.has_left and record.end_state != row["end_state"]:
        yield f"{row['id']} ({key}): the reader was told {record.end_state}, the row is {row['end_state']}"
    if record.body_text is not None and record.body_text != row["output_text"]:
        yield f"{row['id']}: a body of {len(record.body_text)} characters, the row has {len(row['output_text'])}"
    if record.body_text is None and record.end_state == "completed" and record.text != row["output_text"]:
        yield f"{row['id']}: read {len(record.text)} characters, the row has {len(row['output_text'])}"


def _of_a_frame(response_id: str, log: Sequence[LogEvent], frame: Frame) -> Iterator[str]:
    if frame.seq <= frame.after_seq:
        yield f"{response_id}: a cursor fell from {frame.after_seq} to {frame.seq}"
    elif frame.seq > len(log) or log[frame.seq - 1].epoch != frame.epoch:
        yield f"{response_id}: a frame {frame.epoch}.{frame.seq} that the log does not have"
    elif text_between(log, frame.after_seq, frame.seq) != frame.text:
        yield f"{response_id}: the frame {frame.after_seq}…{frame.seq} is not the log's text"


def _of_a_stop(books: Books, record: StopRecord) -> Iterator[str]:
    if record.trouble:
        yield record.trouble
    if record.answer and record.answer["end_state"]:
        row = books.rows.get(record.answer["id"])
        if row is None or row["end_state"] != record.answer["end_state"]:
            yield f"{record.answer['id']}: a stop was told {record.answer['end_state']}, the row is {row}"
