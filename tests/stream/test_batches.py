"""One group commit against a real database: together where it goes, else each response alone in one transaction."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from streaming.journal import Tail
from streaming.journal.batch import Batch, Entry, Notes
from streaming.models import Engine, Response
from streaming.protocol.end_state import COMPLETED, End
from streaming.protocol.events import ENDED, STARTED, TEXT, Event
from streaming.store import log
from streaming.store.responses import Ending, Started

OTHERS = 7


def tail(user, **fields):
    fields = {"purpose": "api", "dialect": "openai_chat", "model": "m", "policy": "abort", "state": "running", **fields}
    response = Response.objects.create(user=user, **fields)
    return Tail(response.id, 1, 0.0)


def words(count, first_seq=1, text="w ☕ \\ \t\n\r\v\u2028 \"'\x7f"):
    """Events whose text holds whatever could break a row of a text format."""
    return [
        Event(seq, 1, TEXT, {"text": text}, (7, 1 << 31), 2, None if seq % 2 else seq)
        for seq in range(first_seq, first_seq + count)
    ]


def ended(seq):
    end = End(COMPLETED, "stop", "stop")
    return Event(seq, 1, ENDED, end.to_payload({})), Ending(end, {"output_text": "x"})


def statements(queries):
    return [query["sql"].split()[0] for query in queries]


@pytest.mark.parametrize("count", [1, 10, 1000])
def test_what_is_read_is_what_was_written_byte_for_byte(user, count):
    one = tail(user)
    events = [Event(1, 1, STARTED, {}), *words(count, 2)]
    Batch([Entry(one, events)]).write()
    assert log.read(one.response_id) == events


def test_a_commit_is_one_transaction_and_one_statement_for_all_events(user):
    tails = [tail(user) for _ in range(OTHERS)]
    with CaptureQueriesContext(connection) as queries:
        Batch([Entry(one, words(3)) for one in tails]).write()
    assert statements(queries)[0] == "BEGIN"
    assert statements(queries)[-1] == "COMMIT"
    assert len(queries) == 3


def test_one_that_another_owner_took_costs_the_others_one_more_transaction_and_no_event(user):
    taken, *others = tails = [tail(user) for _ in range(OTHERS + 1)]
    log.insert([(taken.response_id, Event(1, 2, TEXT, {"text": "theirs"}))])
    Response.objects.filter(id=taken.response_id).update(epoch=2)
    end, ending = ended(4)
    entries = [Entry(one, words(3)) for one in tails[:-1]] + [Entry(others[-1], [*words(3), end], ending)]
    with CaptureQueriesContext(connection) as queries:
        Batch(entries).write()
    assert statements(queries).count("COMMIT") == 1
    assert [entry.fenced for entry in entries] == [True] + [False] * OTHERS
    assert [event.payload for event in log.read(taken.response_id)] == [{"text": "theirs"}]
    assert [len(log.read(one.response_id)) for one in others] == [3] * (OTHERS - 1) + [4]
    assert Response.objects.get(id=others[-1].response_id).end_state == "completed"


def test_one_that_was_deleted_and_one_that_cannot_be_stored_harm_nobody(user):
    gone, odd, good = tails = [tail(user) for _ in range(3)]
    Response.objects.filter(id=gone.response_id).delete()
    events = [words(2), [Event(1, 1, "k" * 17, {"text": object()})], words(2)]
    entries = [Entry(one, said) for one, said in zip(tails, events, strict=True)]
    Batch(entries).write()
    assert [entry.fenced for entry in entries] == [True, True, False]
    assert log.read(good.response_id) == words(2)


def test_an_engine_that_was_deleted_meanwhile_costs_its_note_and_nothing_else(user, row):
    one = tail(user, state="queued")
    notes = Notes(started=[Started(row.pk, 1.5, "[]", one.response_id, 1)])
    Engine.objects.all().delete()
    entry = Entry(one, words(2))
    Batch([entry], notes).write()
    assert not entry.fenced
    assert log.read(one.response_id) == words(2)
    assert Response.objects.get(id=one.response_id).state == "queued"
