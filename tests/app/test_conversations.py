"""The page's conversation routes: shapes of the contract, paging, bounded queries."""

from datetime import timedelta

import pytest
from django.utils import timezone

from streaming.api import conversations as api
from streaming.models import Conversation, Engine, Message, Response, ResponseEvent
from streaming.pool import pool
from streaming.store import conversations as store

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_me_and_models_are_what_the_page_needs(page1, engine, monkeypatch):
    monkeypatch.setattr(pool, "REFRESH_S", 0)
    Engine.objects.create(name="e2", kind="scripted", model="demo", context_tokens=1024)
    Engine.objects.create(name="e3", kind="scripted", model="off", context_tokens=1024, enabled=False)
    for name, markers in (("e4", "hermes"), ("e5", "llama3"), ("e6", "think")):
        options = {"markers": markers}
        Engine.objects.create(name=name, kind="scripted", model=markers, context_tokens=99, options=options)
    Engine.objects.create(name="e7", kind="scripted", model="llama3", context_tokens=100)
    capabilities = {"tools": False}
    Engine.objects.create(name="e8", kind="openai", model="hosted", context_tokens=9, url="http://127.0.0.1:9")
    Engine.objects.create(
        name="e9", kind="openai", model="dumb", context_tokens=9, url="http://127.0.0.1:9", capabilities=capabilities
    )
    Engine.objects.create(name="e10", kind="scripted", model="drained", drain_started_at=timezone.now())
    Engine.objects.create(name="e11", kind="scripted", model="think", context_tokens=9, drain_started_at=timezone.now())
    assert page1.get("/api/me").json() == {"username": "u1", "is_staff": False}
    listed = [tuple(model.values()) for model in page1.get("/api/models").json()["data"]]
    assert listed == [
        ("demo", 1024, False), ("hermes", 99, True), ("llama3", 99, False), ("think", 99, False), ("hosted", 9, True),
        ("dumb", 9, False),
    ]  # fmt: skip


def test_a_conversation_shows_ended_and_running_answers(page1, conversation1):
    thread = page1.get(f"/api/conversations/{conversation1.id}").json()
    assert {key: thread[key] for key in ("id", "title", "model")} == {
        "id": conversation1.id,
        "title": "Lighthouses",
        "model": "demo",
    }
    question, answer, again, late = thread["messages"]
    assert (question["role"], question["text"]) == ("user", "Why?")
    assert question["parent"] is question["response"] is None
    assert (answer["role"], answer["text"], answer["parent"]) == ("assistant", "Because of", question["id"])
    assert answer["response"] == {
        "id": conversation1.ended.id,
        "state": "ended",
        "end_state": "cancelled",
        "end_reason": "user",
        "finish_reason": None,
        "error": None,
        "model": "demo",
        "usage": {"prompt_tokens": None, "completion_tokens": 6, "generated_tokens": 7, "sent_tokens": 5},
        "ttft_ms": None,
        "duration_ms": None,
        "stop": {
            "stop_ms": 12.5,
            "generated_tokens": 7,
            "sent_tokens": 5,
            "tokens_after_stop": 1,
            "abort_proven": True,
        },
        "last_event_id": f"{conversation1.ended.id}:2.9",
        "output": [],
        "run_tools": [],
        "json_answer": None,
        "age_ms": None,
        "mark": None,
    }
    assert late["parent"] == again["id"]
    assert late["text"] == "Then ☕"
    assert late["response"]["state"] == "running"
    assert late["response"]["last_event_id"] == f"{conversation1.live.id}:1.3"
    assert late["response"]["output"] == []
    assert late["response"]["age_ms"] > 0


def call(arguments: str, complete: bool = False, **more) -> dict:
    return {"index": 0, "call_id": "call_0", "arguments": arguments, "complete": complete, **more}


@pytest.mark.parametrize("which", ["ended", "live"])
def test_reasoning_and_tool_calls_come_from_the_log_in_the_order_in_which_they_began(page1, conversation1, which):
    response = getattr(conversation1, which)
    ResponseEvent.objects.filter(response=response).delete()
    log = [
        ("started", {}), ("reasoning", {"text": "Hm"}), ("reasoning", {"text": "m."}), ("text", {"text": "Because of"}),
        ("tool_call", call('{"pla', name="weather")), ("tool_call", call('ce": }')),
        ("tool_call", call("", complete=True, error="invalid_arguments")),
    ]  # fmt: skip
    for seq, (kind, payload) in enumerate(log, 1):
        ResponseEvent.objects.create(response=response, seq=seq, epoch=1, kind=kind, payload=payload)
    messages = page1.get(f"/api/conversations/{conversation1.id}").json()["messages"]
    shown = next(m for m in messages if m["response"] and m["response"]["id"] == response.id)
    assert shown["text"] == "Because of"
    thought, message, made = shown["response"]["output"]
    assert (thought["type"], thought["status"]) == ("reasoning", "completed")
    assert thought["content"] == [{"type": "reasoning_text", "text": "Hmm."}]
    assert (message["type"], message["content"]) == ("message", [])
    assert (made["type"], made["name"], made["arguments"]) == ("function_call", "weather", '{"place": }')
    assert (made["status"], made["error"]) == ("completed", "invalid_arguments")
    assert (thought["text_before"], made["text_before"]) == (0, len("Because of"))


@pytest.mark.parametrize("which", ["ended", "live"])
def test_a_result_of_a_tool_stands_where_it_came_amid_the_text(
    page1, conversation1, which, django_assert_max_num_queries
):
    response = getattr(conversation1, which)
    Response.objects.filter(id=response.id).update(request={"options": {"run_tools": ["calculate"]}})
    ResponseEvent.objects.filter(response=response).delete()
    result = {"call_id": "call_0", "output": "<b>4</b>", "error": None}
    log = [
        ("started", {}), ("text", {"text": "Ich zähle "}), ("text", {"text": "👩‍👩‍👧."}),
        ("tool_call", call("{}", name="calculate")), ("tool_call", call("", complete=True)), ("tool_result", result),
        ("text", {"text": "It is "}), ("tool_result", result | {"call_id": "call_1", "error": "timed_out"}),
        ("text", {"text": "4."}),
    ]  # fmt: skip
    for seq, (kind, payload) in enumerate(log, 1):
        ResponseEvent.objects.create(response=response, seq=seq, epoch=1, kind=kind, payload=payload)
    with django_assert_max_num_queries(12):
        messages = page1.get(f"/api/conversations/{conversation1.id}").json()["messages"]
    shown = next(m for m in messages if m["response"] and m["response"]["id"] == response.id)
    assert shown["response"]["run_tools"] == ["calculate"]
    _, made, gave, failed = shown["response"]["output"]
    before = len("Ich zähle 👩‍👩‍👧.")
    assert [item["text_before"] for item in (made, gave, failed)] == [before, before, before + len("It is ")]
    assert (gave["type"], gave["call_id"], gave["output"]) == ("function_call_output", "call_0", "<b>4</b>")
    assert (failed["status"], failed["error"]) == ("incomplete", "timed_out")


def test_a_call_that_was_cut_off_is_incomplete(page1, conversation1):
    ResponseEvent.objects.create(
        response=conversation1.ended, seq=1, epoch=1, kind="tool_call", payload=call('{"pla', name="weather")
    )
    output = page1.get(f"/api/conversations/{conversation1.id}").json()["messages"][1]["response"]["output"]
    assert [(item["type"], item["status"]) for item in output] == [("function_call", "incomplete")]


def test_an_answer_without_events_has_no_text_and_no_place_to_go_on(page1, conversation1):
    ResponseEvent.objects.all().delete()
    late = page1.get(f"/api/conversations/{conversation1.id}").json()["messages"][-1]
    assert (late["text"], late["response"]["last_event_id"]) == ("", None)


def test_an_answer_that_ends_between_the_look_at_its_row_and_at_its_log_can_be_followed_to_its_end(
    page1, conversation1
):
    url = f"/api/conversations/{conversation1.id}"
    before = page1.get(url).json()["messages"]
    last_seq = ResponseEvent.objects.filter(response=conversation1.live).order_by("seq").last().seq
    payload = {"end_state": "completed"}
    ResponseEvent.objects.create(response=conversation1.live, seq=last_seq + 1, epoch=1, kind="ended", payload=payload)
    after = page1.get(url).json()["messages"]
    for shown in (*before, *after):
        if shown["response"]:
            del shown["response"]["age_ms"]
    assert after == before


def test_the_list_names_the_running_answer(page1, conversation1):
    (row,) = page1.get("/api/conversations").json()["data"]
    assert set(row) == {"id", "title", "model", "updated_at", "pinned", "running"}
    assert row["running"] == conversation1.live.id


def test_a_conversation_is_made_renamed_and_removed(page1, u1):
    made = page1.post("/api/conversations", {}, content_type="application/json")
    assert made.status_code == 201
    path = f"/api/conversations/{made.json()['id']}"
    assert made.json()["running"] is None
    assert page1.patch(path, {"title": "  Café ☕ "}, content_type="application/json").json()["title"] == "Café ☕"
    assert page1.get(path).json()["messages"] == []
    gone = page1.delete(path)
    assert (gone.status_code, gone.content) == (204, b"")
    assert page1.get(path).status_code == 404


@pytest.mark.parametrize("body", [{"title": ""}, {"title": "   "}, {"title": "x" * 201}, {"title": 5}, {}, {"user": 1}])
def test_a_title_that_does_not_fit_changes_nothing(page1, conversation1, body):
    response = page1.patch(f"/api/conversations/{conversation1.id}", body, content_type="application/json")
    assert response.status_code == 400
    assert Conversation.objects.get().title == "Lighthouses"


def test_removing_a_conversation_stops_its_answer_first_and_leaves_no_text(page1, conversation1, monkeypatch):
    stopped = []

    async def stop(response_id, user_id):
        stopped.append((response_id, await Response.objects.filter(id=response_id, user=user_id).aexists()))

    monkeypatch.setattr(api, "_stop_running", stop)
    assert page1.delete(f"/api/conversations/{conversation1.id}").status_code == 204
    assert stopped == [(conversation1.live.id, True)]
    assert not Conversation.objects.exists()
    assert not Message.objects.exists()
    assert set(Response.objects.values_list("output_text", "conversation")) == {("", None)}
    assert not ResponseEvent.objects.exclude(kind="ended").exists()


def test_paging_shows_each_conversation_once_also_when_times_are_equal(page1, u1):
    made = [Conversation(user=u1, title=str(n)) for n in range(store.PAGE_SIZE * 2 + 7)]
    Conversation.objects.bulk_create(made)
    now = timezone.now()
    for n, conversation in enumerate(made):
        Conversation.objects.filter(id=conversation.id).update(updated_at=now - timedelta(microseconds=n // 20))
    pinned = made[-1].id
    assert page1.patch(f"/api/conversations/{pinned}", {"pinned": True}, content_type="application/json").json()[
        "pinned"
    ]
    seen, before, pages = [], "", 0
    while before is not None:
        answer = page1.get("/api/conversations", {"before": before} if before else {}).json()
        seen += [row["id"] for row in answer["data"]]
        before, pages = answer["next"], pages + 1
    assert pages == 3
    assert sorted(seen) == sorted(conversation.id for conversation in made)
    order = Conversation.objects.order_by("-pinned", "-updated_at", "-id").values_list("id", flat=True)
    assert seen == list(order)


def test_queries_do_not_grow_with_conversations_or_messages(page1, u1, conversation1, django_assert_max_num_queries):
    parent = None
    for n in range(30):
        parent = Message.objects.create(conversation=conversation1, parent=parent, role="assistant", text="x")
        Response.objects.create(
            user=u1, conversation=conversation1, message=parent, purpose="chat", dialect="responses", model="demo",
            policy="grace=30", state="ended", end_state="completed", end_reason="stop", output_text=str(n),
        )  # fmt: skip
        Conversation.objects.create(user=u1)
    # Session and user, then two for the list; or one for the conversation, its messages, its live log, ended steps.
    with django_assert_max_num_queries(4):
        page1.get("/api/conversations")
    with django_assert_max_num_queries(6):
        assert len(page1.get(f"/api/conversations/{conversation1.id}").json()["messages"]) == 34


def test_messages_made_in_the_same_millisecond_keep_their_order(u1):
    conversation = Conversation.objects.create(user=u1)
    made = [Message(conversation=conversation, role="user", text=str(n)) for n in range(50)]
    Message.objects.bulk_create(made)
    ids = [message.id for message in made]
    assert [turn.message.id for turn in store.turns(conversation)] == ids


def test_a_conversation_is_pinned_without_a_change_of_its_title(page1, page2, conversation1):
    path = f"/api/conversations/{conversation1.id}"
    pinned = page1.patch(path, {"pinned": True}, content_type="application/json").json()
    assert (pinned["pinned"], pinned["title"]) == (True, "Lighthouses")
    renamed = page1.patch(path, {"title": "Beacons"}, content_type="application/json").json()
    assert (renamed["pinned"], renamed["title"]) == (True, "Beacons")
    assert page1.patch(path, {}, content_type="application/json").status_code == 400
    assert page2.patch(path, {"pinned": False}, content_type="application/json").status_code == 404
