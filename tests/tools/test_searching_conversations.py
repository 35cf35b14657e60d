"""The tool that searches finds what its user wrote and was answered, short and bounded. Costs about 4 s."""

import asyncio
import gc
import json
import threading

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError

from streaming.models import Conversation, Message, Response, ResponseEvent
from streaming.store import search, threads
from streaming.tools import search_conversations
from streaming.tools.search_conversations import HITS_MAX

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def user():
    return User.objects.create_user("u1")


@pytest.fixture
def said(user):
    """Lets a person say something in a conversation of their own."""

    def say(text, by=user, title="Lighthouses"):
        conversation, _ = Conversation.objects.get_or_create(user=by, title=title)
        return Message.objects.create(conversation=conversation, role="user", text=text)

    return say


@pytest.fixture
def found(called, user):
    async def find(query, user_id=user.pk):
        result = await called("search_conversations", {"query": query}, user_id=user_id)
        assert result.error is None
        return json.loads(result.output)["found"]

    return find


async def to_store(function, *args, **fields):
    return await threads.write(function, *args, **fields)


async def test_a_passage_is_told_with_its_day_and_its_conversation(said, found):
    message = await to_store(said, "The tallest\none is in Jeddah.")
    assert await found("JEDDAH") == [
        {
            "date": f"{message.created_at:%Y-%m-%d}",
            "conversation": "Lighthouses",
            "text": "The tallest one is in Jeddah.",
        }
    ]


async def test_nobody_elses_words_are_found(said, found, user):
    other = await to_store(User.objects.create_user, "u2")
    await to_store(said, "my password is needle", other, "needle")
    assert await found("needle") == []
    assert len(await found("needle", user_id=other.pk)) == 2


@pytest.mark.parametrize("query", ["%", "_", "\\", "%_\\", "needle%", "n__dle", "' OR 1=1 --", "[a-z]", "*"])
async def test_wildcards_are_letters(said, found, query):
    await to_store(said, "needle")
    assert await found(query) == []
    await to_store(said, f"a {query} b")
    assert [hit["text"] for hit in await found(query)] == [f"a {query} b"]


async def test_the_conversation_that_asks_does_not_find_itself(said, found, user):
    def asking():
        said("Where did I see a needle?", title="Asking about a needle")
        conversation = Conversation.objects.get(title="Asking about a needle")
        return Response.objects.create(
            user=user, conversation=conversation, purpose="chat", dialect="openai_responses", model="m", policy="abort"
        )

    running = await to_store(asking)
    assert await found("needle") == []
    await to_store(said, "A needle in a haystack.")
    assert [hit["text"] for hit in await found("needle")] == ["A needle in a haystack."]
    await to_store(running.delete)
    assert len(await found("needle")) == 3


async def test_hits_are_few_and_short_however_much_there_is(said, found):
    def write():
        for _ in range(HITS_MAX + 3):
            said("x" * 5000 + " needle " + "☕" * 5000)

    await to_store(write)
    hits = await found("needle")
    assert len(hits) == HITS_MAX
    assert all(len(hit["text"]) < 200 for hit in hits)


async def test_what_a_tool_found_is_not_found_again(said, found, user):
    def answered():
        question = said("What did I say?")
        answer = Message.objects.create(conversation=question.conversation, parent=question, role="assistant")
        response = Response.objects.create(
            user=user, conversation=question.conversation, message=answer, purpose="chat", dialect="openai_responses",
            model="m", policy="abort", state="ended", end_state="completed", output_text="You said hello.",
        )  # fmt: skip
        payload = {"call_id": "c", "output": "a needle", "error": None}
        ResponseEvent.objects.create(response=response, seq=1, epoch=1, kind="tool_result", payload=payload)

    await to_store(answered)
    assert await found("needle") == []
    assert [hit["text"] for hit in await found("hello")] == ["You said hello."]


@pytest.mark.parametrize("query", ["", "x" * 201, "a\0b", "\ud800", 7, None, ["a"], {"a": 1}, True, "x" * 1_000_000])
async def test_what_is_no_text_never_reaches_the_database(called, user, query, monkeypatch):
    monkeypatch.setattr(search, "search", None)
    result = await called("search_conversations", {"query": query}, user_id=user.pk)
    assert result.error == "invalid_arguments"
    assert len(result.output) < 200


async def test_blanks_are_not_what_everything_holds(called, user, said):
    await to_store(said, "a needle")
    result = await called("search_conversations", {"query": " \n "}, user_id=user.pk)
    assert (result.output, result.error) == ("query: blanks are no word to search for", "failed")


async def test_searches_take_turns_also_when_who_asked_is_gone(called, user, monkeypatch, settings):
    settings.TOOL_TIMEOUT_S = 60
    begun, go_on = [], threading.Event()
    first_began = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look(_user_id, query, _most, resting):
        begun.append(query)
        loop.call_soon_threadsafe(first_began.set)
        assert go_on.wait(20)
        return []

    monkeypatch.setattr(search, "search", look)
    first, second, third = (
        asyncio.ensure_future(called("search_conversations", {"query": query}, user_id=user.pk)) for query in "abc"
    )
    await first_began.wait()
    first.cancel()
    third.cancel()
    await asyncio.wait([first, third])
    for _ in range(5):  # ways through the loop and the threads, on which the second could begin
        await threads.run(int)
    assert not second.done()
    assert begun == ["a"]
    go_on.set()
    assert (await second).error is None
    assert begun == ["a", "b"]


async def test_a_search_that_fails_when_who_asked_is_gone_is_logged_nowhere(called, user, monkeypatch, settings):
    settings.TOOL_TIMEOUT_S = 0.05
    failing, told = threading.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def look(_user_id, query, _most, resting):
        assert failing.wait(20)
        raise OperationalError(f"a statement that quotes {query}")

    turn = asyncio.Lock()
    monkeypatch.setattr(search_conversations, "_turn", turn)
    monkeypatch.setattr(search, "search", look)
    result = await called("search_conversations", {"query": "secret"}, user_id=user.pk)
    assert result.error == "timed_out"
    failing.set()
    async with asyncio.timeout(20), turn:
        gc.collect()
    assert told == []
