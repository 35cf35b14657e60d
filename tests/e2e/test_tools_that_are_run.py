"""A model of the page calls the site's tools: in the stream, in the thread, in the next prompt. Costs about 5 s."""

import json
import re

import pytest

from streaming.store.packing import unpack_prompt
from tests.e2e.reading import read, script

RUN = ["calculate", "current_time", "search_conversations"]


@pytest.fixture(scope="module")
def caller(site, key):
    """A scripted model that writes its calls as Hermes models do."""
    return site.add_model(key, "tests-tool-caller", markers="think+hermes")


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>\n"


def rounds(*said):
    """A question whose answer says these in one round after another."""
    first, *later = [{"outputs": [{"text": text[at : at + 9]} for at in range(0, len(text), 9)]} for text in said]
    return script(**first, rounds=later)


class Chat:
    """A conversation of somebody with the model that calls."""

    def __init__(self, site, page, model):
        self.site, self.page, self.model = site, page, model
        self.id = page.post("/api/conversations", json={}).json()["id"]
        self.path = f"/api/conversations/{self.id}"

    def ask(self, text, headers=None, until=lambda stream: False, **body):
        body = {"model": self.model, "text": text, "run_tools": RUN, **body}
        return read(self.page, "POST", f"{self.path}/messages", json=body, headers=headers or {}, until=until)

    def thread(self):
        return self.page.get(self.path).json()["messages"]

    def prompt(self, **body):
        """What the model is asked with in the next turn, read while it answers."""
        endless = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.01)
        stream = self.ask(endless, until=lambda stream: bool(stream.text), **body)
        token_ids = unpack_prompt(self.site.row(stream.response_id)["prompt_ids"])
        self.page.post(f"/api/responses/{stream.response_id}/cancel")
        return bytes(token_id for token_id in token_ids if token_id < 256).decode()


@pytest.fixture
def chat(site, page, caller):
    return Chat(site, page, caller)


def results_of(items):
    return [(item["call_id"], item["output"]) for item in items if item["type"] == "function_call_output"]


def done_items(stream):
    return [data["item"] for data in stream.data if data["type"] == "response.output_item.done"]


def test_a_result_is_in_the_stream_the_thread_and_the_next_prompt_and_a_shared_link_shows_the_text(chat):
    stream = chat.ask(rounds("Let me see. " + call("calculate", expression="0.1 + 0.2"), "It is 0.3."))
    assert [data["type"] for data in stream.data][-1] == "response.completed"
    assert stream.text == "Let me see. It is 0.3."
    (made,) = [item for item in done_items(stream) if item["type"] == "function_call"]
    assert results_of(done_items(stream)) == [(made["call_id"], '{"result": "0.3"}')]
    assert results_of(stream.data[-1]["response"]["output"]) == [(made["call_id"], '{"result": "0.3"}')]

    _, answer = chat.thread()
    assert (answer["text"], answer["response"]["end_state"]) == (stream.text, "completed")
    assert results_of(answer["response"]["output"]) == [(made["call_id"], '{"result": "0.3"}')]
    again = read(chat.page, "GET", f"/api/responses/{stream.response_id}/stream")
    assert (again.text, results_of(done_items(again))) == (stream.text, results_of(done_items(stream)))

    path = chat.page.post(f"{chat.path}/shares", json={"message": answer["id"]}).json()["path"]
    boot = re.search(r'<script id="boot" type="application/json">(.*?)</script>', chat.page.get(path).text)
    assert boot
    assert [turn["content"] for turn in json.loads(boot[1])["shared"]["turns"]][1:] == [stream.text]

    prompt = chat.prompt()
    assert '<tool_response>\n{"result": "0.3"}\n</tool_response>' in prompt
    assert "Let me see. <tool_call>" in prompt
    assert prompt.index("</tool_response>") < prompt.index("It is 0.3.")
    assert '"name": "search_conversations"' in prompt
    plain = chat.prompt(run_tools=None)
    assert "Let me see. It is 0.3." in plain
    assert "tool_response" not in plain


def test_what_is_found_is_of_the_person_who_asks(site, chat, caller):
    other_page = site.page("another")
    try:
        other = Chat(site, other_page, caller)
        for one, word in ((Chat(site, chat.page, caller), "mine"), (other, "theirs")):
            one.ask(script(outputs=[{"text": f"The quokka is {word}."}]), run_tools=None)
        stream = chat.ask(rounds(call("search_conversations", query="quokka is"), "Found."))
    finally:
        other_page.close()
    ((_, output),) = results_of(done_items(stream))
    texts = [hit["text"] for hit in json.loads(output)["found"]]
    assert any("quokka is mine" in text for text in texts)
    assert "theirs" not in output
    chat.page.delete(chat.path).raise_for_status()
    assert site.row(stream.response_id)["request"] in ("{}", {})
    kinds = site.rows("SELECT kind FROM streaming_responseevent WHERE response_id = ?", stream.response_id)
    assert [tuple(kind) for kind in kinds] == [("ended",)]


def test_an_answer_that_is_made_again_and_a_question_that_is_changed_call_anew(chat):
    first = chat.ask(rounds(call("calculate", expression="1 + 1"), "Two."))
    question = chat.thread()[0]["id"]
    again = chat.ask(None, regenerate=question)
    changed = chat.ask(rounds(call("calculate", expression="2 + 2"), "Four."), parent=None)
    found = [[output for _, output in results_of(done_items(stream))] for stream in (first, again, changed)]
    assert found == [['{"result": "2"}'], ['{"result": "2"}'], ['{"result": "4"}']]
    stored = [results_of(message["response"]["output"]) for message in chat.thread() if message["response"]]
    assert [[output for _, output in results] for results in stored] == found
    assert "Four." in (prompt := chat.prompt())
    assert '"result": "4"' in prompt
    assert '"result": "2"' not in prompt


def test_a_request_that_comes_again_meets_its_answer_and_with_other_tools_is_another(chat):
    question, key = rounds(call("calculate", expression="6 * 7"), "42."), {"Idempotency-Key": f"tools-{chat.id}"}
    first = chat.ask(question, headers=key)
    again = chat.ask(question, headers=key)
    assert (again.response_id, again.text) == (first.response_id, first.text) == (first.response_id, "42.")
    assert chat.ask(question, headers=key, run_tools=RUN[:1]).status == 422
    assert len(chat.thread()) == 2


def test_a_model_goes_on_with_what_went_wrong(chat):
    wrong = [call("calculate", expression="1 / 0"), call("calculate", expression=7), call("shell", line="rm")]
    stream = chat.ask(rounds("".join(wrong), call("current_time", time_zone="../../etc/passwd"), "I cannot."))
    assert stream.text == "I cannot."
    failed = [item for item in done_items(stream) if item["type"] == "function_call_output"]
    assert [item["error"] for item in failed] == ["failed", "invalid_arguments", "unknown_tool", "failed"]
    assert failed[0]["output"] == "expression: division by zero"
    assert "root:" not in str(failed)


def test_a_model_that_cannot_call_is_known_before_and_refused_in_words(chat):
    calls = {model["id"]: model["calls_tools"] for model in chat.page.get("/api/models").json()["data"]}
    assert (calls[chat.model], calls["scripted"]) == (True, False)
    refused = chat.ask("hi", model="scripted", run_tools=RUN[:2])
    error = json.loads(refused.raw)["error"]
    assert (refused.status, error["param"]) == (400, "run_tools")
    assert error["message"].endswith("no format for tool calls; leave it out (got calculate, current_time)")
