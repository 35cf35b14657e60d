"""Between a request and its relay: who leaves, what is deleted, how many may come, while a response is being stored."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from django.test import RequestFactory

from streaming.api.answering import follow
from streaming.api.auth import Caller
from streaming.models import Conversation, Message, Response, ids
from streaming.ownership.ask import Refused
from streaming.store import creation, history, threads
from streaming.store.creation import ConversationBusy, NewResponse
from tests.stream.conftest import DEADLINE_S
from tests.stream.test_the_journal import locked_database


async def stored(bench, count):
    """The rows, once there are so many."""
    async with asyncio.timeout(DEADLINE_S):
        while len(rows := await threads.run(lambda: list(Response.objects.order_by("id")))) < count:
            await asyncio.sleep(0.01)
    return rows


@pytest.mark.parametrize(
    ("policy", "end_state", "text"), [("abort", "abandoned", ""), ("background", "completed", "abc")]
)
async def test_who_leaves_while_the_response_is_stored_leaves_nothing_that_runs_for_ever(
    bench, engine, policy, end_state, text
):
    with locked_database():
        asking = asyncio.create_task(bench.ask({"outputs": [{"text": "abc"}]}, policy=policy))
        async with asyncio.timeout(DEADLINE_S):
            while not bench.owner.places._expected:
                await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
    assert asking.cancelled()
    (response,) = await stored(bench, 1)
    async with asyncio.timeout(DEADLINE_S):
        while (row := await bench.row(response)).end_state is None:
            await asyncio.sleep(0.01)
    assert (row.end_state, row.output_text) == (end_state, text)
    assert engine.running.total() == 0


async def test_many_at_once_get_no_more_places_than_there_are(bench, engine, monkeypatch):
    monkeypatch.setattr(bench.owner.pool, "_max_queued", 3)
    asked = [bench.ask({"outputs": [{"gate": "g"}, {"text": "a"}]}) for _ in range(40)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    taken = [result for result in results if not isinstance(result, Refused)]
    refused = [result for result in results if isinstance(result, Refused)]
    assert len(taken) == 4 + 3
    assert {(one.status, one.code) for one in refused} == {(503, "overloaded")}
    assert all(one.retry_after_s >= 1 for one in refused)
    engine.open_gate("g")
    for response, _tail in taken:
        assert (await bench.ended(response)).end_state == "completed"
    response, _ = await bench.ask({"outputs": [{"text": "a"}]})
    assert (await bench.ended(response)).end_state == "completed"


async def test_one_user_gets_no_more_than_a_users_share_by_asking_at_once(bench, engine, monkeypatch):
    monkeypatch.setattr(bench.owner.admission, "_per_user", 2)
    asked = [bench.ask({"outputs": [{"gate": "g"}]}) for _ in range(20)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(not isinstance(result, Exception) for result in results) == 2
    assert {result.status for result in results if isinstance(result, Refused)} == {429}
    engine.open_gate("g")


async def test_a_process_that_leaves_takes_nothing_new(bench):
    bench.owner.draining = True
    with pytest.raises(Refused) as refused:
        await bench.ask("hello")
    bench.owner.draining = False
    assert (refused.value.status, refused.value.code) == (503, "overloaded")
    assert refused.value.retry_after_s


async def test_a_reader_of_what_was_deleted_meanwhile_is_sent_away(bench):
    response, tail = await bench.ask({"outputs": [{"text": "a"}]})
    await bench.ended(response)
    events = await bench.log(response)
    tail.events, tail.first_seq = [events[-1]], events[-1].seq
    await threads.run(Response.objects.filter(id=response.id).delete)
    for source in (tail, None):
        reader = bench.reader(response, source, heartbeat_s=0.05)
        async with asyncio.timeout(DEADLINE_S):
            frames = [frame async for frame in reader.frames()]
        reader.close()
        assert b"stream_detached" in frames[-1]


async def test_a_question_to_a_conversation_that_was_deleted_meanwhile_finds_nothing(user):
    conversation = await threads.run(Conversation.objects.create, user=user)
    leaf = await threads.run(Message.objects.create, conversation=conversation, role="user", text="hi")
    new = NewResponse(
        user_id=user.pk, purpose="chat", dialect="openai_responses", model="m", policy="abort", stream=True,
        request={}, prompt_ids=[1], owner="web_x", conversation_id=conversation.id, question="more",
        parent_id=leaf.id,
    )  # fmt: skip
    assert await threads.write(creation.create, new)
    with pytest.raises(ConversationBusy):
        await threads.write(creation.create, NewResponse(**{**fields_of(new), "id": f"{new.id}x"}))
    await threads.run(Conversation.objects.filter(id=conversation.id).delete)
    with pytest.raises(Message.DoesNotExist):
        await threads.run(history.thread, conversation.id, leaf.id)
    with pytest.raises(Conversation.DoesNotExist):
        await threads.write(creation.create, NewResponse(**{**fields_of(new), "id": f"{new.id}y"}))


def fields_of(new: NewResponse) -> dict:
    return {name: getattr(new, name) for name in NewResponse.__dataclass_fields__}


async def test_who_repeats_a_request_before_its_relay_is_there_counts_as_its_reader(bench, engine):
    response, tail = await bench.ask({"outputs": [{"gate": "g"}, {"text": "a"}]})
    request = RequestFactory().get("/")
    request.scope = {}
    request.auth, request.session = Caller(bench.user, None), SimpleNamespace(session_key="s")
    tails = bench.owner._tails
    with bench.owner.places.expecting(response.id, None, "scripted"):
        del tails[response.id]
        following = asyncio.create_task(follow(request, response, cursor=0, stream=True))
        await asyncio.sleep(0)
        tails[response.id] = tail
    async with asyncio.timeout(DEADLINE_S):
        await following
    assert tail.readers == 1
    request.scope["handover"].close()
    assert tail.readers == 0
    engine.open_gate("g")
    await bench.ended(response)


async def test_a_clock_that_is_set_back_does_not_put_new_messages_before_old_ones(monkeypatch):
    old = [ids.message_id() for _ in range(3)]
    hour_ns = 3600 * 10**9
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - hour_ns)
    made = [*old, *(ids.message_id() for _ in range(3))]
    assert made == sorted(set(made))
