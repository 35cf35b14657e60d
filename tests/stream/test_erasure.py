"""What is deleted, or was not to be stored, leaves numbers and no words; in the database's very file too."""

import asyncio
import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection, models, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from streaming.models import Conversation, Message, Response, ResponseEvent, ResponseInput
from streaming.protocol.dialects import ENCODERS, encoder_for
from streaming.protocol.dialects.base import Head
from streaming.protocol.end_state import COMPLETED, End
from streaming.protocol.events import ENDED, REASONING, STARTED, TEXT, TOOL_CALL, TOOL_RESULT, Event
from streaming.store import conversations, erasure, locking, log, orphans, responses, threads
from streaming.store.packing import pack_prompt
from streaming.store.responses import Ending
from streaming.tasks.retention import erase_unstored, expire
from tests import databases
from tests.stream.conftest import DEADLINE_S, until_stored

MARKER = "Xylophone-Quaternion-7391"
TOKENS = (10_007, 20_011, 30_013)
#: Columns that can hold text, of which all values are ours. A model's name is that of an engine, or empty.
OURS = {
    "id", "attempts", "currency", "reserved", "purpose", "dialect", "model", "policy", "state", "owner", "stop_reason",
    "end_state", "end_reason", "finish_reason", "error_code", "mark",
}  # fmt: skip


def test_every_column_that_can_hold_words_is_one_that_erasure_knows():
    kinds = (models.CharField, models.TextField, models.JSONField, models.BinaryField)
    columns = {f.attname for f in Response._meta.concrete_fields if isinstance(f, kinds) and not f.is_relation}
    assert columns - OURS == erasure.WORDS.keys()


def test_every_process_that_can_delete_a_user_erases_with_it():
    """Also a shell, which imports nothing of ours by itself."""
    script = (
        "import django; django.setup(); from django.db.models.signals import pre_delete;"
        "from django.contrib.auth.models import User; from streaming.models import Conversation;"
        "print(pre_delete.has_listeners(User), pre_delete.has_listeners(Conversation))"
    )
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "chatsite.settings"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def said(user, conversation=None, ended=True, **fields):
    """A response with the marker wherever somebody's words can be."""
    kinds = (REASONING, TEXT, TOOL_CALL, TOOL_RESULT)
    payload = {"text": MARKER, "arguments": MARKER, "index": 0, "complete": True, "output": MARKER, "error": MARKER}
    message = None
    if conversation:
        question = Message.objects.create(conversation=conversation, role="user", text=MARKER)
        message = Message.objects.create(conversation=conversation, role="assistant", parent=question)
    response = Response.objects.create(
        user=user, conversation=conversation, message=message, purpose="chat" if conversation else "api",
        dialect="openai_chat", model="m", policy="abort", request={"stop": [MARKER]}, prompt_ids=pack_prompt(TOKENS),
        idempotency_key=f"{MARKER}-{Response.objects.count()}", request_sha256="f" * 64, owner="web_x", **fields,
    )  # fmt: skip
    if not conversation:
        ResponseInput.objects.create(response=response, items=[MARKER], turns=[MARKER], asked={"instructions": MARKER})
    events = [Event(1, 1, STARTED, {}), *(Event(n, 1, kind, payload, TOKENS, 3) for n, kind in enumerate(kinds, 2))]
    log.insert((response.id, event) for event in events)
    if ended:
        end = End(COMPLETED, "stop", "stop")
        figures = {"generated_tokens": 9, "sent_tokens": 9, "delivered_tokens": 9, "output_text": MARKER}
        log.insert([(response.id, Event(6, 1, ENDED, end.to_payload({}, None, MARKER), TOKENS, 3))])
        responses.end(response.id, 1, 6, Ending(end, figures))
        Response.objects.filter(id=response.id).update(reasoning_text=MARKER, error_message=MARKER, remains=[MARKER])
    return response


def on_disk() -> bytes:
    erasure.forget_on_disk()
    name = str(connection.settings_dict["NAME"])
    return b"".join(path.read_bytes() for path in map(Path, (name, f"{name}-wal")) if path.exists())


def traces(data: bytes) -> list[bytes]:
    ids = log.pack_ids(TOKENS)
    return [trace for trace in (MARKER.encode(), ids, pack_prompt(TOKENS)) if trace in data]


def everything_is_gone() -> None:
    if connection.vendor == "sqlite":
        assert traces(on_disk()) == []
    for row in Response.objects.all():
        assert {name: getattr(row, name) for name in erasure.WORDS} == erasure.WORDS
        assert row.state == "ended"
    assert set(ResponseEvent.objects.values_list("kind", flat=True)) <= {ENDED}
    assert MARKER not in str(list(ResponseEvent.objects.values_list("payload", "token_ids")))
    assert not ResponseInput.objects.exists()


def test_a_user_goes_with_every_word_and_the_numbers_stay(user):
    conversation = Conversation.objects.create(user=user, title=MARKER)
    said(user, conversation)
    said(user)
    said(user, conversation, ended=False)
    if connection.vendor == "sqlite":
        assert len(traces(on_disk())) == 3
    user.delete()
    everything_is_gone()
    assert not Conversation.objects.exists()
    assert not Message.objects.exists()
    assert sorted(Response.objects.values_list("user", "end_state", "generated_tokens")) == [
        (None, "cancelled", 12), (None, "completed", 9), (None, "completed", 9),
    ]  # fmt: skip


def test_a_conversation_goes_with_its_words_and_with_no_others(user):
    conversation = Conversation.objects.create(user=user, title=MARKER)
    gone, other = said(user, conversation), said(user)
    conversations.delete(user, conversation.id)
    assert responses.get(gone.id, user.pk) is None
    assert responses.get(other.id, user.pk).output_text == MARKER
    erasure.erase(Response.objects.filter(id=other.id))
    assert (responses.get(other.id, user.pk), responses.by_key(user.pk, other.idempotency_key)) == (None, None)
    everything_is_gone()
    assert erasure.erase(Response.objects.all()) == 0


async def test_an_answer_that_is_deleted_while_it_runs_stops_the_engine_and_writes_nothing_more(bench, engine):
    conversation = await threads.run(Conversation.objects.create, user=bench.user)
    outputs = {"outputs": [{"text": f"{MARKER} "}], "repeat": 10_000, "delay_s": 0.005}
    response, tail = await bench.ask(outputs, conversation_id=conversation.id, question="?")
    await until_stored(tail, lambda tail: tail.last_seq > 5)
    await threads.write(conversations.delete, bench.user, conversation.id)
    async with asyncio.timeout(DEADLINE_S):
        await bench.owner.ended(response.id)
        await engine.until(lambda engine: not engine.running.total())
    stored = await bench.row(response)
    assert (stored.end_state, stored.end_reason, stored.output_text) == ("cancelled", "deleted", "")
    assert stored.generated_tokens > 0
    await threads.run(everything_is_gone)
    row = await threads.run(lambda: ResponseEvent.objects.get(response_id=response.id))
    end = Event(row.seq, row.epoch, row.kind, row.payload)
    for dialect in ENCODERS:  # somebody may be reading
        encoder = encoder_for(dialect, Head(response.id, response.model, 0))
        encoder.fold([Event(1, 1, STARTED, {}), Event(2, 1, TEXT, {"text": MARKER})])
        assert b"cancelled" in encoder.encode([end])


def test_an_answer_that_is_taken_over_as_it_is_erased_is_ended_all_the_same(user, monkeypatch):
    """Else who carries it on would write all its words behind the erasure, where nobody looks for them again."""
    running = said(user, ended=False)
    end_orphan = orphans.end_orphan

    def after_an_adoption(response, how):
        Response.objects.filter(id=running.id, epoch=1).update(owner="web_y", epoch=2)
        return end_orphan(response, how)

    monkeypatch.setattr(orphans, "end_orphan", after_an_adoption)
    assert erasure.erase(Response.objects.filter(id=running.id)) == 1
    stored = Response.objects.get(id=running.id)
    assert (stored.end_state, stored.epoch) == ("cancelled", 3)
    everything_is_gone()


@pytest.fixture
def _at_once(settings):
    settings.NO_STORE_KEEP_S = 0
    settings.PAGE_STORE = False


@pytest.mark.usefixtures("_at_once")
def test_what_is_not_to_be_stored_goes_after_its_end_and_not_before(user):
    conversation, waiting = (Conversation.objects.create(user=user, title=MARKER) for _ in range(2))
    Conversation.objects.create(user=user, title=MARKER)
    said(user, conversation, no_store=True)
    said(user, no_store=True)
    said(user, waiting, no_store=True)
    running = said(user, waiting, ended=False, no_store=True)
    assert erase_unstored() == 3
    assert [one.title for one in Conversation.objects.all()] == [MARKER]
    assert Response.objects.filter(erased_at=None).count() == 2
    Response.objects.filter(id=running.id).update(state="ended", end_state="completed", ended_at=timezone.now())
    assert [erase_unstored(), erase_unstored()] == [1, 0]
    assert not Conversation.objects.exists()
    everything_is_gone()


def test_conversations_go_after_their_time_but_for_pinned_and_running_ones(user, settings):
    idle, pinned, running, fresh = (Conversation.objects.create(user=user, pinned=n == 1) for n in range(4))
    for conversation in (idle, pinned, fresh):
        said(user, conversation)
    said(user, running, ended=False)
    old = timezone.now() - timedelta(days=8)
    Response.objects.exclude(conversation=fresh).update(created_at=old)
    Conversation.objects.exclude(id=fresh.id).update(updated_at=old)
    assert expire() == 0
    settings.CONVERSATION_TTL_DAYS = 7
    assert [expire(), expire()] == [1, 0]
    assert set(Conversation.objects.all()) == {pinned, running, fresh}


def test_a_conversation_stays_that_was_gone_on_with_at_a_process_which_had_started_with_a_wrong_clock(user, settings):
    """Its time rises from what the clock said at that start, which may have been years ago."""
    settings.CONVERSATION_TTL_DAYS = 7
    conversation = Conversation.objects.create(user=user)
    said(user, conversation)
    Conversation.objects.update(updated_at=timezone.now() - timedelta(days=400))
    assert expire() == 0
    assert Conversation.objects.exists()


@pytest.mark.usefixtures("_at_once")
def test_what_is_not_to_be_stored_does_not_wait_for_a_time_that_was_taken_back(user, settings):
    settings.NO_STORE_KEEP_S = 60
    said(user, Conversation.objects.create(user=user, title=MARKER), no_store=True)
    said(user, no_store=True)
    for ahead in (timedelta(seconds=30), -timedelta(seconds=30)):
        Response.objects.update(ended_at=timezone.now() + ahead)
        assert erase_unstored() == 0
    Response.objects.update(ended_at=timezone.now() + timedelta(days=1))
    assert erase_unstored() == 2
    everything_is_gone()


def test_a_conversation_that_somebody_goes_on_with_before_its_turn_comes_stays(user, monkeypatch):
    first, second, third = (Conversation.objects.create(user=user) for _ in range(3))
    since = timezone.now() + timedelta(days=1)
    idle = erasure.idle_conversations(since)
    let_nobody = locking.hold

    def meanwhile(row):
        said(user, second, ended=False) if not second.responses.exists() else None
        Conversation.objects.filter(id=third.id).update(pinned=True)
        let_nobody(row)

    monkeypatch.setattr(locking, "hold", meanwhile)
    assert erasure.delete_conversations(idle) == 1
    assert set(Conversation.objects.all()) == {second, third}
    assert not second.responses.exclude(end_state=None).exists()


def test_a_user_is_emptied_a_few_rows_at_a_time_and_holds_nobody_up(user, monkeypatch):
    monkeypatch.setattr(erasure, "BATCH", 2)
    for _ in range(5):
        said(user)
    said(user, Conversation.objects.create(user=user, title=MARKER), ended=False)
    with CaptureQueriesContext(connection) as queries:
        erasure.empty(user)
    held, most = 0, 0
    for query in queries:
        held = 0 if query["sql"] in ("BEGIN", "COMMIT") else held + query["sql"].count("resp_")
        most = max(most, held)
    assert 0 < most <= 20
    everything_is_gone()
    assert not Conversation.objects.exists()
    user.refresh_from_db()
    assert not user.is_active
    user.delete()
    assert set(Response.objects.values_list("user", flat=True)) == {None}


def _put_in_before_the_lock(monkeypatch, model, put):
    """What somebody else commits in the last moment; on SQLite nobody else can."""
    hold, done = locking.hold, []

    def late(rows):
        if rows.model is model and not done and databases.ON_POSTGRES:
            done.append(rows)
            elsewhere = threading.Thread(target=lambda: (put(), connection.close()))
            elsewhere.start()
            elsewhere.join()
        hold(rows)

    monkeypatch.setattr(locking, "hold", late)


def test_a_question_of_the_last_moment_goes_with_its_conversation(user, monkeypatch):
    chat = Conversation.objects.create(user=user)
    _put_in_before_the_lock(
        monkeypatch, Conversation, lambda: Message.objects.create(conversation=chat, role="user", text="late")
    )
    conversations.delete(user, chat.id)
    assert (Conversation.objects.count(), Message.objects.count()) == (0, 0)


def test_a_conversation_of_the_last_moment_goes_with_its_user(user, monkeypatch):
    _put_in_before_the_lock(monkeypatch, User, lambda: Conversation.objects.create(user=user))
    with transaction.atomic():
        erasure.hold(user)
        user.delete()
    assert (User.objects.count(), Conversation.objects.count()) == (0, 0)
