"""Transactions that lock several rows and can meet, all at once: PostgreSQL finds no circle of who waits for whom.

The order in which rows are locked is in docs/architecture.md. On SQLite one writes at a time; the laws are the same.
"""

import random
from datetime import timedelta
from functools import partial
from itertools import chain

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from streaming.models import Batch, Conversation, Engine, FilePiece, Message, Quota, QuotaUse, Response, StoredFile
from streaming.protocol.events import TEXT, Event
from streaming.store import (
    batch_work,
    batches,
    creation,
    engines,
    erasure,
    expiry,
    files,
    ledger,
    log,
    orphans,
    presence,
    usage,
)
from streaming.store.creation import NewResponse
from streaming.store.presence import Present
from streaming.store.quotas import Claim
from tests.databases import of_django
from tests.stream.storm import EVENTS, Journal, answered, at_once, running, shuffled


@pytest.fixture(autouse=True)
def no_circle():
    database = of_django()
    before = database.deadlocks()
    yield
    assert database.deadlocks() == before


def is_whole(response):
    """All that its journal made of it is there once, and counted once."""
    events = log.read(response.id)
    assert [event.seq for event in events] == list(range(1, EVENTS + 2)) == list(range(1, response.last_seq + 1))
    assert response.end_state == "completed"
    assert response.output_text == "".join(event.payload["text"] for event in events[:-1])
    assert response.sent_tokens == EVENTS


def test_what_was_delivered_is_noted_by_several_processes_at_once(user, row):
    ours, theirs = running(user, 12), running(user, 12, owner="web_2")
    journals = [Journal(1, ours, row.pk), Journal(2, theirs, row.pk)]
    everybody = [response.id for response in (*ours, *theirs)]

    def read(process):
        order = random.Random(process)
        for tokens in range(1, 25):
            presence.note(process, [Present(id_, 1, tokens % EVENTS) for id_ in shuffled(order, everybody)])
            presence.fold(shuffled(order, everybody))
        presence.leave(process)
        presence.note(process, [Present(id_, 0, EVENTS) for id_ in shuffled(order, everybody)])

    at_once(*(journal.run for journal in journals), *(partial(read, f"web_{n}") for n in (3, 4, 5)))
    presence.fold(everybody)
    assert [journal.refused for journal in journals] == [[], []]
    for response in Response.objects.all():
        is_whole(response)
        assert response.delivered_tokens == EVENTS


def test_people_are_deleted_while_requests_of_theirs_come_in_and_others_are_answered(row):
    gone, stays = [User.objects.create_user(f"person{n}") for n in range(8)], User.objects.create_user("stays")
    ids = [user.pk for user in gone]
    for user in gone:
        _talk(user)
    asking = random.Random(3)

    def asked():
        who = asking.sample(ids, 2)
        return [_asked(id_) for id_ in who]

    journals = [Journal(seed, running(stays, 8), row.pk, asked) for seed in (1, 2)]
    at_once(
        *(journal.run for journal in journals),
        partial(_delete_people, gone),
        lambda: [conversation.delete() for conversation in Conversation.objects.order_by("-id")],
        lambda: erasure.erase(Response.objects.filter(user__in=ids)),
        lambda: [expiry.expire_logs(timezone.now() + timedelta(days=1)) for _ in range(10)],
        lambda: [usage.roll_up(timezone.now().date()) for _ in range(10)],
    )
    assert [journal.refused for journal in journals] == [[], []]
    assert [user.username for user in User.objects.all()] == ["stays"]
    assert not Response.objects.filter(user=None, erased_at=None).exists()
    for response in Response.objects.filter(user=stays):
        assert (response.end_state, response.sent_tokens) == ("completed", EVENTS)


def _asked(user_id, **fields):
    request = {"max_tokens": 10}
    return NewResponse(user_id, "api", "openai_chat", "m", "abort", True, request, (), "web_1", **fields)


def _talk(user):
    conversation = Conversation.objects.create(user=user, title="secret")
    question = Message.objects.create(conversation=conversation, role="user", text="secret")
    for _ in range(4):
        message = Message.objects.create(conversation=conversation, role="assistant", parent=question)
        answered(user, 1, conversation=conversation, message=message, idempotency_key=f"key of {message.id}")


def _delete_people(people):
    for user in people:
        erasure.empty(user)
        user.delete()


def test_an_engine_that_was_drained_is_deleted_while_what_it_answered_is_still_read(user, row):
    drained = Engine.objects.create(name="drained", kind="scripted", model="m", context_tokens=9, slots=1)
    before = [response.id for response in answered(user, 60, engine_id=drained.pk)]
    journals = [Journal(seed, running(user, 12), row.pk) for seed in (1, 2)]
    today = timezone.now().date()
    usage.roll_up(today)

    def read(process):
        order = random.Random(process)
        for _ in range(10):
            presence.note(process, [Present(id_, 0, 1) for id_ in shuffled(order, before)])

    def delete():
        engines.take_off(drained)
        drained.delete()

    at_once(
        *(journal.run for journal in journals), partial(read, "web_3"), partial(read, "web_4"), delete,
        lambda: [usage.roll_up(today) for _ in range(5)],
    )  # fmt: skip
    assert [journal.refused for journal in journals] == [[], []]
    assert set(Response.objects.filter(id__in=before).values_list("engine", flat=True)) == {None}
    for response in Response.objects.exclude(id__in=before):
        is_whole(response)


def test_quotas_are_first_used_by_many_whose_sets_overlap_while_one_is_counted(user):
    people = [User.objects.create_user(f"person{n}") for n in range(9)]
    quotas = [Quota.objects.create(user=one, concurrent_streams=1000, tokens_per_day=10**9).pk for one in people]

    def ask(seed):
        chance = random.Random(seed)
        for _ in range(25):
            claim = Claim([(quota, 0) for quota in chance.sample(quotas, 3)], 10)
            orphans.end_orphan(creation.create(_asked(user.pk, claim=claim)), orphans.LOST)

    at_once(*(partial(ask, seed) for seed in range(4)), lambda: [ledger.check_quotas() for _ in range(10)])
    assert Response.objects.filter(end_state="truncated").count() == 100
    assert {(check.seen, check.drift) for check in ledger.check_quotas()} == {(0, 0)}
    assert QuotaUse.objects.count() == len(quotas)


def test_batches_are_written_cancelled_and_finished_while_files_go(user, row):
    made = [_batch(user, number) for number in range(6)]
    lines = [_lines(user, batch) for batch in made]
    journals = [Journal(seed, chain(*lines[seed::2]), row.pk) for seed in (0, 1)]

    def remove():
        for _ in range(10):
            files.remove(files.due(timezone.now(), 4))

    def cancel(reason):
        for _ in range(3):
            for batch in made:
                batches.stop_lines(batch.id, reason)

    at_once(
        *(journal.run for journal in journals), *(partial(_work_at, made[n::2]) for n in (0, 1)), remove, remove,
        partial(cancel, "api"), partial(cancel, "user"),
    )  # fmt: skip
    assert [journal.refused for journal in journals] == [[], []]
    assert {(b.status, b.completed, b.failed) for b in Batch.objects.all()} == {("completed", 3, 2)}
    remove()
    assert not FilePiece.objects.exists()
    for response in Response.objects.all():
        is_whole(response)


def _lines(user, batch):
    return [running(user, 1, purpose="batch", idempotency_key=f"{batch.id}.{number}")[0] for number in range(4)]


def _work_at(mine):
    for batch in mine:
        for number in range(5):
            batch_work.write(batch, [batch_work.Result(number, b"line\n", bool(number % 2))])
        batch_work.finish(batch, Batch.Status.COMPLETED, batch_work.Keep(timedelta(0), timedelta(0)))


def _batch(user, number):
    file = StoredFile.objects.create(user=user, purpose="batch", filename="lines", is_whole=True, size_bytes=1)
    FilePiece.objects.create(file=file, seq=1, data=b"x")
    batch = Batch.objects.create(
        user=user, endpoint="/v1/chat/completions", input_file_id=file.id, created_at=timezone.now(),
        expires_at=timezone.now(), worker="worker", slot=number,
    )  # fmt: skip
    return batch_work.begin(batch, 5, no_store=False)


def test_a_hundred_answers_are_taken_over_by_three_at_once_each_by_one(user):
    orphaned = running(user, 100)
    with transaction.atomic():
        for response in orphaned:
            log.insert([(response.id, event) for event in _said()])
    taken = []

    def take(name):
        for response in shuffled(random.Random(name), Response.objects.filter(owner="web_1")):
            if orphans.adopt(response, name):
                taken.append(response.id)

    def end():
        for response in Response.objects.filter(owner="web_1").order_by("-id")[:20]:
            if orphans.end_orphan(response, orphans.LOST):
                taken.append(response.id)

    at_once(*(partial(take, f"web_{n}") for n in (2, 3, 4)), end)
    assert sorted(taken) == sorted(response.id for response in orphaned)
    for response in Response.objects.all():
        assert response.epoch == 2
        assert [event.epoch for event in log.read(response.id)] == [1, 1, 2]


def _said():
    return [Event(seq, 1, TEXT, {"text": "x"}, (), 1) for seq in (1, 2)]
