"""What the page does, without a browser: conversations, answers, superseding, regenerating, following."""

import threading
from contextlib import closing

import httpx

from tests.e2e.reading import Stream, eventually, read, script

ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.01}


def conversation(page) -> str:
    return page.post("/api/conversations", json={}).json()["id"]


def ask(page, conversation_id, text=None, until=lambda stream: False, headers=None, **body) -> Stream:
    body = {"model": "scripted", **({"text": text} if text else {}), **body}
    return read(
        page, "POST", f"/api/conversations/{conversation_id}/messages", json=body, headers=headers or {}, until=until
    )


def thread(page, conversation_id) -> list[dict]:
    return page.get(f"/api/conversations/{conversation_id}").json()["messages"]


class Background(threading.Thread):
    """A stream that another thread reads, as a second tab does."""

    def __init__(self, page, *args, **kwargs):
        super().__init__(daemon=True)
        self.shown = threading.Event()
        self.stream: Stream | None = None
        self._call = lambda: ask(page, *args, until=self._seen, **kwargs)
        self.start()

    def _seen(self, stream) -> bool:
        if len(stream.seqs) >= 4:
            self.shown.set()
        return False

    def run(self):
        self.stream = self._call()

    def result(self) -> Stream:
        self.join(60)
        assert self.stream
        return self.stream


def test_a_question_is_answered_in_the_responses_dialect_and_stored(page):
    chat = conversation(page)
    stream = ask(page, chat, script(outputs=[{"text": "Hello "}, {"text": "you"}], delay_s=0.02))
    names = [item["type"] for item in stream.data]
    assert names[0] == "response.created"
    assert names[-1] == "response.completed"
    created = stream.data[0]["response"]
    assert created["id"] == stream.response_id
    assert created["conversation_id"] == chat
    question, answer = thread(page, chat)
    assert created["user_message_id"] == question["id"]
    assert created["message_id"] == answer["id"]
    assert (answer["parent"], answer["role"], answer["text"]) == (question["id"], "assistant", "Hello you")
    assert answer["response"]["end_state"] == "completed"
    assert stream.text == "Hello you"


def test_the_model_sees_the_thread_so_far(site, page):
    chat = conversation(page)
    ask(page, chat, "first question", max_tokens=16)
    ask(page, chat, "second question", max_tokens=16)
    prompts = [row["prompt_tokens"] for row in (m["response"]["usage"] for m in thread(page, chat)[1::2])]
    assert prompts[1] > prompts[0] + 16
    assert [message["role"] for message in thread(page, chat)] == ["user", "assistant"] * 2
    assert page.get("/api/conversations").json()["data"][0]["title"] == "first question"


def test_a_conversations_system_prompt_is_the_first_that_the_model_reads(page):
    chat = page.post("/api/conversations", json={"system_prompt": "Answer in rhyme."}).json()["id"]
    plain = conversation(page)
    for told in (chat, plain):
        ask(page, told, "question", max_tokens=4)
    longer, shorter = (thread(page, told)[-1]["response"]["usage"]["prompt_tokens"] for told in (chat, plain))
    assert longer >= shorter + len("Answer in rhyme.")
    changed = page.patch(f"/api/conversations/{chat}", json={"system_prompt": ""})
    assert changed.status_code == 200
    assert page.get(f"/api/conversations/{chat}").json()["system_prompt"] == ""
    long = page.patch(f"/api/conversations/{chat}", json={"system_prompt": "x" * 32_001})
    assert (long.status_code, long.json()["error"]["param"]) == (400, "system_prompt")
    assert "32000" in long.json()["error"]["message"]


def cut_after_a_few(page, chat) -> dict:
    """The message of an answer that was stopped in the middle."""
    ask(page, chat, script(**ENDLESS), until=lambda stream: len(stream.seqs) >= 3)
    answer = thread(page, chat)[-1]
    page.post(f"/api/responses/{answer['response']['id']}/cancel").raise_for_status()
    return thread(page, chat)[-1]


def test_an_answer_that_was_cut_is_written_on_from_where_it_stopped(page):
    chat = conversation(page)
    cut = cut_after_a_few(page, chat)
    rest = ask(page, chat, continues=cut["id"], max_tokens=8)
    question, kept, added = thread(page, chat)
    assert (kept["id"], kept["text"], kept["response"]["end_state"]) == (cut["id"], cut["text"], "cancelled")
    assert (added["parent"], added["role"], added["text"]) == (cut["id"], "assistant", rest.text)
    shown_tokens = kept["response"]["usage"]["completion_tokens"]
    prompts = [message["response"]["usage"]["prompt_tokens"] for message in (kept, added)]
    assert prompts[1] == prompts[0] + shown_tokens
    # The next question sees both as one turn of the model's.
    ask(page, chat, "and then?", max_tokens=4)
    later = thread(page, chat)[-1]["response"]["usage"]["prompt_tokens"]
    assert later > prompts[1] + added["response"]["usage"]["completion_tokens"]
    # A cut answer may be written on from more than once: they are branches, and nothing is overwritten.
    ask(page, chat, continues=cut["id"], max_tokens=4)
    assert [m["parent"] for m in thread(page, chat) if m["role"] == "assistant"].count(cut["id"]) == 2


def test_only_an_answer_that_was_cut_can_be_written_on_from(page):
    chat, other = conversation(page), conversation(page)
    ask(page, chat, script(outputs=[{"text": "whole"}]))
    ask(page, other, script(outputs=[{"text": "x"}], finish_reason="length"))
    question, whole = thread(page, chat)
    elsewhere = thread(page, other)[-1]
    refused = {
        question["id"]: "no answer",
        whole["id"]: "that answer is whole, it ended with stop",
        elsewhere["id"]: "no answer",
        "msg_none": "no answer",
    }
    for message_id, why in refused.items():
        answer = page.post(f"/api/conversations/{chat}/messages", json={"continues": message_id})
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"] == "continues"
        assert why in answer.json()["error"]["message"]
    both = page.post(f"/api/conversations/{chat}/messages", json={"continues": whole["id"], "text": "x"})
    assert (both.status_code, len(thread(page, chat))) == (400, 2)
    assert ask(page, other, continues=elsewhere["id"], max_tokens=4).data[-1]["response"]["output"]


def test_a_message_with_no_parent_stands_beside_the_first_one(page):
    chat = conversation(page)
    ask(page, chat, "first question", max_tokens=4)
    ask(page, chat, "the first question, changed", max_tokens=4, parent=None)
    ask(page, chat, "below the newest", max_tokens=4)
    questions = [message for message in thread(page, chat) if message["role"] == "user"]
    answers = [message for message in thread(page, chat) if message["role"] == "assistant"]
    assert [question["parent"] for question in questions] == [None, None, answers[1]["id"]]
    prompts = [answer["response"]["usage"]["prompt_tokens"] for answer in answers]
    assert prompts[2] > prompts[1] + 4


def test_a_new_message_stops_the_running_answer_first(site, page):
    chat = conversation(page)
    with closing(site.page("ann")) as other:
        running = Background(other, chat, script(**ENDLESS))
        assert running.shown.wait(60)
        second = ask(page, chat, script(outputs=[{"text": "second"}]))
    assert second.text == "second"
    last = running.result().data[-1]["response"]
    assert (last["end_state"], last["end_reason"]) == ("cancelled", "superseded")
    first_question, first_answer, second_question, second_answer = thread(page, chat)
    assert first_answer["text"].startswith("tick tick")
    assert second_question["parent"] == first_answer["id"]
    assert second_answer["text"] == "second"


def test_a_repeated_post_with_one_key_supersedes_nothing(site, page):
    chat = conversation(page)
    headers = {"Idempotency-Key": "page-repeat"}
    question = script(outputs=[{"text": "tick "}], repeat=20, delay_s=0.03)
    with closing(site.page("ann")) as other:
        running = Background(other, chat, question, headers=headers)
        assert running.shown.wait(60)
        again = ask(page, chat, question, headers=headers)
    assert again.response_id == running.result().response_id
    assert again.text == running.result().text == "tick " * 20
    assert len(thread(page, chat)) == 2


def test_two_messages_at_the_same_time_both_end_and_nothing_hangs(site, page):
    chat = conversation(page)
    question = script(outputs=[{"text": "tick "}], repeat=5, delay_s=0.01)
    with closing(site.page("ann")) as one, closing(site.page("ann")) as two:
        results = [Background(client, chat, question).result() for client in (one, two)]
        both = [Background(client, chat, question) for client in (one, two)]
        results += [background.result() for background in both]
    assert {stream.status for stream in results} <= {200, 409}
    eventually(lambda: not page.get("/api/conversations").json()["data"][0]["running"])


def test_stop_in_the_page_tells_the_servers_figures(page, site):
    chat = conversation(page)
    with closing(site.page("ann")) as other:
        running = Background(other, chat, script(**ENDLESS))
        assert running.shown.wait(60)
        (live,) = [c["running"] for c in page.get("/api/conversations").json()["data"] if c["id"] == chat]
        stopped = page.post(f"/api/responses/{live}/cancel").json()
        last = running.result().data[-1]["response"]
    assert (stopped["end_state"], stopped["end_reason"]) == ("cancelled", "user")
    assert stopped["stop"]["generated_tokens"] >= stopped["stop"]["sent_tokens"] > 0
    assert last["stop"]["abort_proven"] is True
    assert thread(page, chat)[1]["response"]["stop"] == stopped["stop"]


def test_regenerating_makes_a_second_answer_beside_the_first(page):
    chat = conversation(page)
    ask(page, chat, script(outputs=[{"text": "one"}]))
    question, first = thread(page, chat)
    again = ask(page, chat, regenerate=question["id"])
    assert again.text == "one"
    answers = [message for message in thread(page, chat) if message["role"] == "assistant"]
    assert [answer["parent"] for answer in answers] == [question["id"]] * 2
    wrong = page.post(f"/api/conversations/{chat}/messages", json={"regenerate": first["id"]})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "regenerate")


def test_a_reload_in_mid_answer_goes_on_from_the_threads_cursor(site, page):
    chat = conversation(page)
    words = [{"text": f"w{i} "} for i in range(80)]
    first = ask(page, chat, script(outputs=words, repeat=0, delay_s=0.01), until=lambda s: len(s.seqs) >= 6)
    answer = thread(page, chat)[1]
    response = answer["response"]
    assert response["end_state"] is None
    path = f"/api/responses/{response['id']}"
    stopped = []

    def stop_after_a_while(stream):
        if len(stream.text) > 200 and not stopped:
            stopped.append(page.post(f"{path}/cancel"))
        return False

    headers = {"Last-Event-ID": response["last_event_id"]}
    rest = read(page, "GET", f"{path}/stream", headers=headers, until=stop_after_a_while)
    assert answer["text"] + rest.text == site.log_text(response["id"]) == thread(page, chat)[1]["text"]
    assert answer["text"].startswith(first.text)


def test_saying_goodbye_frees_the_engine_sooner(site, page):
    chat = conversation(page)
    stream = ask(page, chat, script(**ENDLESS), until=lambda s: len(s.seqs) >= 4)
    token = page.headers["X-CSRFToken"]
    with httpx.Client(base_url=page.base_url, cookies=page.cookies, timeout=60) as beacon:
        said = beacon.post(f"/api/responses/{stream.response_id}/leaving", data={"csrfmiddlewaretoken": token})
        assert said.status_code == 204
    # Sooner than the 30 s after which it would have been given up without a word.
    row = eventually(lambda: (r := site.row(stream.response_id))["end_state"] and r, timeout_s=25)
    assert (row["end_state"], row["end_reason"]) == ("abandoned", "disconnected")


def test_deleting_a_conversation_stops_its_answer_and_leaves_no_text(site, page):
    chat = conversation(page)
    with closing(site.page("ann")) as other:
        running = Background(other, chat, script(**ENDLESS))
        assert running.shown.wait(60)
        assert page.delete(f"/api/conversations/{chat}").status_code == 204
        last = running.result().data[-1]["response"]
    assert (last["end_state"], last["end_reason"]) == ("cancelled", "deleted")
    row = site.row(running.result().response_id)
    assert (row["conversation_id"], row["output_text"], site.log_text(row["id"])) == (None, "", "")
    assert row["generated_tokens"] >= row["sent_tokens"] > 0


def test_page_and_api_never_accept_each_others_credentials(site, page, api):
    chat = conversation(page)
    assert api.get("/api/conversations").status_code == 401
    assert page.get("/v1/models").status_code == 401
    with httpx.Client(base_url=page.base_url, cookies=page.cookies, timeout=60) as without_token:
        answer = without_token.post(f"/api/conversations/{chat}/messages", json={"text": "hi"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "csrf_failed")
