"""What one response costs in statements, commits and thread changes, and that sharing them harms nobody."""

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import IntegrityError, OperationalError, transaction
from django.db.backends.utils import CursorWrapper

from chatsite.django_handler import DjangoHandler
from chatsite.handover import HandoverApplication
from streaming.journal import Tail
from streaming.journal import batch as batch_module
from streaming.journal import journal as journal_module
from streaming.models import Response
from streaming.protocol.events import TEXT, Draft
from streaming.store import access, creation, threads
from streaming.store.creation import KeyTaken
from streaming.store.responses import Started
from tests.stream.conftest import DEADLINE_S
from tests.stream.test_a_response_from_question_to_end import read

WAITING = {"outputs": [{"gate": "g"}, {"text": "a"}]}


@pytest.fixture
def statements(monkeypatch):
    """What every thread of this process writes, and the thread's name; without signs of life."""
    seen: list[tuple[str, str]] = []

    def recorded(method):
        def execute(cursor, sql, *parameters):
            if re.match(r"(INSERT|UPDATE|DELETE)", sql) and "webprocess" not in sql:
                seen.append((" ".join(sql.split()), threading.current_thread().name))
            return method(cursor, sql, *parameters)

        return execute

    for name in ("execute", "executemany"):
        monkeypatch.setattr(CursorWrapper, name, recorded(getattr(CursorWrapper, name)))
    return seen


async def test_a_response_is_one_insert_and_two_updates_beside_its_log(bench, engine, statements):
    response, _ = await bench.ask(WAITING)
    engine.open_gate("g")
    row = await bench.ended(response)
    assert row.end_state == "completed"
    of_the_row = [re.split(r" SET | \(", sql)[0] for sql, _ in statements if "streaming_responseevent" not in sql]
    assert of_the_row == ["INSERT INTO streaming_response", *["UPDATE streaming_response"] * 2]
    assert len(statements) - len(of_the_row) <= 2  # the started event with the text, and the ended one
    assert {thread for _, thread in statements} == {"journal"}


async def test_what_readers_took_after_the_end_is_one_statement_more(bench, statements):
    response, tail = await bench.ask({"outputs": [{"text": "a"}]})
    data = await read(bench.reader(response, tail))
    await bench.ended(response)
    assert b"[DONE]" in data
    assert await bench.owner.journal.settled()
    assert sum(sql.startswith("UPDATE streaming_response ") for sql, _ in statements) <= 3


async def test_rows_that_are_asked_for_together_share_commits(bench, row, statements):
    row.slots = 50
    await threads.write(row.save)
    await bench.ask(WAITING)
    assert await bench.owner.journal.settled()
    before = bench.owner.journal.commits
    made = await asyncio.gather(*(bench.ask(WAITING) for _ in range(40)))
    assert bench.owner.journal.commits - before <= 4
    assert len({response.id for response, _ in made}) == 40
    assert await threads.run(Response.objects.count) == 41
    assert {thread for sql, thread in statements if "INTO streaming_response " in sql} == {"journal"}


async def test_a_note_waits_for_events_to_ride_with_and_goes_alone_when_none_come(bench, engine, monkeypatch):
    journal = bench.owner.journal
    response, tail = await bench.ask(WAITING)
    await engine.until(lambda e: e.running.total() == 1)
    assert await journal.settled()
    before = journal.commits
    monkeypatch.setattr(journal_module, "NOTE_WAIT_S", 3600)
    journal.note_started(Started(None, 1.0, "[]", response.id, 1))
    journal.append(tail, [Draft(TEXT, {"text": "x"})])
    while journal.commits == before:
        await asyncio.sleep(0)
    assert (journal.commits, tail.last_seq, bool(journal._notes)) == (before + 1, 1, False)
    monkeypatch.setattr(journal_module, "NOTE_WAIT_S", 0.01)
    journal.note_started(Started(None, 2.0, "[]", response.id, 1))
    async with asyncio.timeout(DEADLINE_S):
        while journal.commits == before + 1:
            await asyncio.sleep(0)
    assert (await bench.row(response)).queue_ms == 2.0


async def test_a_key_that_is_asked_for_twice_at_once_refuses_one_and_harms_no_other(bench):
    await bench.ask(WAITING)
    keys = ["k", "k", None, "l"]
    made = await asyncio.gather(*(bench.ask(WAITING, idempotency_key=key) for key in keys), return_exceptions=True)
    refused = [isinstance(answer, KeyTaken) for answer in made]
    assert sorted(refused[:2]) == [False, True]
    assert refused[2:] == [False, False]
    for response, tail in (answer for answer in made if not isinstance(answer, BaseException)):
        assert isinstance(tail, Tail)
        assert (await bench.row(response)).state != "ended"


async def test_a_row_whose_key_another_process_holds_does_not_hold_up_the_journal(bench, statements):
    await bench.ask(WAITING)
    await bench.ask(WAITING, idempotency_key="k")
    inserted_by = [thread for sql, thread in statements if "INTO streaming_response " in sql]
    assert inserted_by[0] == "journal"
    assert inserted_by[1].startswith("store-write")


async def test_a_row_that_a_broken_commit_had_made_is_not_given_out_when_it_cannot_be_stored_alone(bench, monkeypatch):
    await bench.ask(WAITING)
    together = batch_module.Batch._write_together

    def broken(batch):
        together(batch)
        if batch.creations:
            raise batch_module.Fenced("another response of the commit")

    def refused(new):
        raise IntegrityError("its user is gone")

    monkeypatch.setattr(batch_module.Batch, "_write_together", lambda batch: in_transaction(broken, batch))
    monkeypatch.setattr(creation, "create", refused)
    with pytest.raises(IntegrityError):
        await bench.ask(WAITING)


def in_transaction(write, batch) -> None:
    with transaction.atomic():
        write(batch)


async def test_who_asks_while_storage_fails_is_told_and_nothing_is_left_of_it(bench, monkeypatch):
    await bench.ask(WAITING)
    real = creation.insert
    monkeypatch.setattr(journal_module, "RETRY_S", 0.01)

    def full(new):
        real(new)
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(creation, "insert", full)
    with pytest.raises(OperationalError):
        await bench.ask(WAITING)
    monkeypatch.setattr(creation, "insert", real)
    async with asyncio.timeout(DEADLINE_S):
        while not await bench.owner.journal.settled():
            await asyncio.sleep(0.01)
    assert await threads.run(Response.objects.count) == 1
    response, _ = await bench.ask(WAITING)
    assert (await bench.row(response)).end_state is None


async def test_an_api_request_changes_thread_once(bench, user, monkeypatch):
    key = await threads.write(access.issue_key, user)
    application = HandoverApplication(DjangoHandler(), 2)
    calls = []
    submit = ThreadPoolExecutor.submit

    def counted(pool, *arguments, **options):
        calls.append(pool._thread_name_prefix)
        return submit(pool, *arguments, **options)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    sent = await answer_of(application, "/v1/models", key)
    assert sent[0]["status"] == 200
    assert b'"scripted"' in sent[1]["body"]
    assert [name for name in calls if not name.startswith("store-")] == ["request-0"]


async def test_the_sign_of_life_changes_thread_never(monkeypatch):
    calls = []
    monkeypatch.setattr(ThreadPoolExecutor, "submit", lambda pool, *_, **__: calls.append(pool))
    sent = await answer_of(HandoverApplication(DjangoHandler(), 2), "/healthz", "")
    assert (sent[0]["status"], calls) == (200, [])


async def answer_of(application, path: str, key: str) -> list[dict]:
    """What an application sends to a request."""
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {key}".encode())]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}
    sent: list[dict] = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    async with asyncio.timeout(DEADLINE_S):
        await application(scope, receive, send)
    return sent
