"""Logs of ended responses go away a bounded number at a time, and nothing that a response shows goes with them."""

import asyncio
from datetime import timedelta

import pytest
from django.utils import timezone

from streaming.api.errors import ApiError
from streaming.api.position import refuse_expired
from streaming.api.response_body import response_body
from streaming.models import Conversation, Message, Response, ResponseEvent, ResponseInput
from streaming.protocol.end_state import COMPLETED, End
from streaming.protocol.events import CONTINUED, ENDED, REASONING, REFUSAL, STARTED, TEXT, TOOL_CALL, Event
from streaming.store import conversations, expiry, inputs, log, threads
from streaming.store.expiry import expire_logs
from tests.stream.conftest import DEADLINE_S, until_stored

CALL = {"index": 0, "call_id": "call_1", "name": "f", "arguments": '{"a"', "complete": False}
#: Everything that a log can hold, its deltas in several events and not in one order.
KINDS = [
    (STARTED, {}),
    (REASONING, {"text": "hm"}),
    (REASONING, {"text": "m ☕"}),
    (TEXT, {"text": "Let "}),
    (TEXT, {"text": "me 🙂 "}),
    (TOOL_CALL, CALL),
    (CONTINUED, {"attempt": 2, "reason": "relay_lost"}),
    (TOOL_CALL, {"index": 0, "arguments": ": 1}", "complete": False}),
    (TOOL_CALL, {"index": 0, "arguments": "", "complete": True}),
    (TEXT, {"text": "see."}),
    (REFUSAL, {"text": "No."}),
]
STOP = {"generated_tokens": 9, "sent_tokens": 9, "tokens_after_stop": 0, "abort_proven": True, "stop_ms": 1.5}


def later():
    """When everything that began by now is old."""
    return timezone.now() + timedelta(seconds=5)


def answered(user, events=KINDS, ended=True, **fields):
    """A response with this log and, unless it has not ended, its end."""
    fields = {"user": user, "purpose": "api", "dialect": "openai_responses", "model": "m", "policy": "abort", **fields}
    response = Response.objects.create(state="running", **fields)
    log.insert((response.id, Event(n, 1, kind, payload, (), 2)) for n, (kind, payload) in enumerate(events, 1))
    if ended:
        seq = len(events) + 1
        text = "".join(payload["text"] for kind, payload in events if kind == TEXT)
        end = End(COMPLETED, "stop", "stop").to_payload({"prompt_tokens": 3, "completion_tokens": 9}, STOP, "see.")
        log.insert([(response.id, Event(seq, 1, ENDED, end))])
        Response.objects.filter(id=response.id).update(
            state="ended", end_state="completed", end_reason="stop", finish_reason="stop", output_text=text,
            ended_at=timezone.now(), last_seq=seq, prompt_tokens=3, completion_tokens=9,
        )  # fmt: skip
        response.refresh_from_db()
    return response


def logged():
    """Which responses have a log."""
    return set(ResponseEvent.objects.values_list("response_id", flat=True))


def shown(response):
    return asyncio.run(response_body(Response.objects.select_related("message").get(id=response.id)))


def test_the_response_object_the_thread_and_the_page_are_the_same_afterwards(user):
    conversation = Conversation.objects.create(user=user)
    message = Message.objects.create(conversation=conversation, role="assistant")
    kept = {"items": [], "turns": [{"role": "user", "content": "?"}], "asked": {}}
    of_the_page = answered(user, conversation=conversation, message=message, purpose="chat")
    of_the_api = answered(user)
    ResponseInput.objects.create(response=of_the_api, **kept)
    plain = answered(user, [(STARTED, {}), (TEXT, {"text": "a"}), (TEXT, {"text": "b"})])
    empty = answered(user, [])

    def all_that_is_shown():
        (turn,) = conversations.turns(conversation)
        bodies = [shown(response) for response in (of_the_page, of_the_api, plain, empty)]
        return bodies, turn.text, turn.position, turn.output, inputs.thread(of_the_api.id, user.pk)

    before = all_that_is_shown()
    assert len(before[0][0]["output"]) == 3
    assert expire_logs(later()) == 4
    assert logged() == set()
    assert all_that_is_shown() == before


def test_only_what_ended_long_enough_ago_goes_however_often_one_asks(user):
    old, running = answered(user), answered(user, ended=False)
    began_early = answered(user)
    Response.objects.filter(id=began_early.id).update(ended_at=later() + timedelta(hours=1))
    assert expire_logs(timezone.now() - timedelta(hours=1)) == 0
    assert expire_logs(later()) == 1
    assert expire_logs(later()) == 0
    assert logged() == {running.id, began_early.id}
    assert Response.objects.get(id=old.id).remains
    assert Response.objects.get(id=running.id).remains is None


def test_a_call_takes_the_oldest_and_no_more_than_it_may(user, monkeypatch, django_assert_max_num_queries):
    monkeypatch.setattr(expiry, "TRANSACTION_EVENTS", 30)
    stuck = answered(user, ended=False)
    ended = [answered(user) for _ in range(7)]
    assert expire_logs(later(), batch_responses=5) == 5
    assert logged() == {stuck.id, ended[5].id, ended[6].id}
    assert expire_logs(later(), batch_responses=5) == 2
    with django_assert_max_num_queries(2):
        assert expire_logs(later(), batch_responses=5) == 0


def test_a_batch_that_fails_leaves_its_logs_whole(user, monkeypatch):
    response = answered(user)
    before = log.read(response.id)
    monkeypatch.setattr(ResponseEvent.objects, "filter", lambda **_: None)
    with pytest.raises(AttributeError):
        expire_logs(later())
    monkeypatch.undo()
    assert log.read(response.id) == before
    assert Response.objects.get(id=response.id).remains is None


async def test_who_comes_later_is_told_410_and_who_was_reading_is_sent_to_hear_it(bench):
    response, tail = await bench.ask({"outputs": [{"text": "a"}]})
    await bench.ended(response)
    events = await bench.log(response)
    tail.events, tail.first_seq = [events[-1]], events[-1].seq
    behind = bench.reader(response, None, cursor=1, heartbeat_s=0.05)
    assert await threads.write(expire_logs, later()) == 1
    for reader in (behind, bench.reader(response, tail, heartbeat_s=0.05)):
        async with asyncio.timeout(DEADLINE_S):
            frames = [frame async for frame in reader.frames()]
        reader.close()
        assert b"stream_detached" in frames[-1]
    with pytest.raises(ApiError) as refused:
        await refuse_expired(await bench.row(response))
    assert (refused.value.status, refused.value.code) == (410, "log_expired")


async def test_an_answer_that_streams_meanwhile_is_whole(bench, user):
    for _ in range(3):
        await threads.run(answered, user)
    response, tail = await bench.ask({"outputs": [{"text": "tick "}], "repeat": 40, "delay_s": 0.003})
    await until_stored(tail, lambda tail: tail.last_seq > 0)
    while (await bench.row(response)).end_state is None:
        await threads.write(expire_logs, timezone.now() - timedelta(milliseconds=1), 1)
        with_log = await threads.run(logged)
        assert response.id in with_log or (await bench.row(response)).end_state
    assert (await bench.ended(response)).output_text == "tick " * 40
