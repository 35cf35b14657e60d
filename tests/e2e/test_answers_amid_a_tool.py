"""Answers whose calls a real site runs: seen by readers, killed, stopped and left amid a tool. Costs about 25 s."""

import contextlib
import json
import threading

import pytest

from tests.e2e.reading import eventually, read, until_offered
from tests.e2e.site import STOP_PROOF_S, Site
from tests.e2e.test_the_page_api import ask, conversation, thread


@pytest.fixture(scope="module")
def tooled(tmp_path_factory, model_dir):
    """A site of its own, whose hearts beat quickly."""
    site = Site(
        tmp_path_factory.mktemp("tooled"),
        model_dir,
        DJANGO_SETTINGS_MODULE="tests.e2e.waiting_settings",
        PAGE_TOOLS="calculate,wait",
        HEARTBEAT_S="0.2",
        TOOL_TIMEOUT_S="60",
    )
    site.migrate()
    site.scripted(markers="hermes")
    site.start()
    yield site
    site.stop()


@pytest.fixture
def ann(tooled):
    with contextlib.closing(tooled.page("ann")) as client:
        yield client


@pytest.fixture
def tool(tooled, request):
    """The marks of this test's call."""
    return Marks(tooled.data_dir, request.node.name.translate(str.maketrans("[] ", "___")))


class Marks:
    """What a call of the tool that waits leaves, and finds, under one name."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name

    def began(self, times=1):
        began = self.folder / f"{self.name}.began"
        eventually(lambda: began.exists() and len(began.read_text()) == times)

    def go(self):
        (self.folder / self.name).touch()

    @property
    def was_cancelled(self):
        return (self.folder / f"{self.name}.cancelled").exists()

    @property
    def call(self):
        return call("wait", say=f"{self.name} has waited", until=self.name)


def call(tool, **arguments):
    return {"text": f"<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>\n"}


THEN = ({"text": "It is "}, {"text": "done."})
NUMBERS = [{"text": f"{number} "} for number in range(80)]
#: An engine comes no further while its row has this in its script. Who starts the site again may write it without.
NOT_YET = {"gate": "never"}


def scripted(*first, then=THEN):
    return {"outputs": [{"text": "Let me see. "}, *first], "rounds": [{"outputs": then}]}


def question(*first):
    return json.dumps({"script": scripted(*first)})


class Asked(threading.Thread):
    """A question that another thread reads the answer to."""

    def __init__(self, tooled, text, **fields):
        super().__init__(daemon=True)
        self.page = tooled.page("ann")
        self.chat = conversation(self.page)
        self.stream = None
        self._ask = lambda: ask(self.page, self.chat, text, run_tools=["calculate", "wait"], **fields)
        self.start()

    def run(self):
        self.stream = self._ask()

    def result(self):
        self.join(60)
        self.page.close()
        assert self.stream
        return self.stream

    @property
    def response_id(self):
        return eventually(lambda: (turns := thread(self.page, self.chat)) and turns[-1]["response"])["id"]


def closing_of(stream):
    return stream.data[-1]["response"]


def items(response):
    """The items that tell what happened, in their order."""
    told = []
    for item in response["output"]:
        if item["type"] == "function_call":
            told.append((item["type"], item["name"], item["status"]))
        elif item["type"] == "function_call_output":
            told.append((item["type"], item["output"], item["status"]))
        else:
            told.append((item["type"], item["content"][0]["text"], item["status"]))
    return told


def test_a_call_is_run_and_its_result_is_read_and_shown_and_stored(tooled, ann):
    chat = conversation(ann)
    stream = ask(ann, chat, question(call("calculate", expression="6*7")), run_tools=["calculate"])
    response = closing_of(stream)
    assert (response["status"], stream.text) == ("completed", "Let me see. It is done.")
    assert items(response) == [
        ("message", "Let me see. It is done.", "completed"),
        ("function_call", "calculate", "completed"),
        ("function_call_output", '{"result": "42"}', "completed"),
    ]
    kinds = [data["type"] for data in stream.data]
    assert kinds.index("response.function_call_arguments.done") < kinds.index("response.output_item.done")
    row = tooled.row(stream.response_id)
    attempts = json.loads(row["attempts"])
    assert [one["ended"] for one in attempts] == ["tool_calls", "stop"]
    assert row["prompt_tokens"] == sum(one["prompt_tokens"] for one in attempts) == response["usage"]["input_tokens"]
    assert row["generated_tokens"] == sum(one["generated_tokens"] for one in attempts)
    again = read(ann, "GET", f"/api/responses/{stream.response_id}/stream")
    assert again.data[-1]["response"] == response
    chat_wire = read(ann, "GET", f"/api/responses/{stream.response_id}/stream?dialect=openai_chat")
    assert (chat_wire.text, chat_wire.is_done) == (stream.text, True)


def test_while_a_tool_runs_its_reader_hears_a_heart(tooled, tool):
    asked = Asked(tooled, question(tool.call))
    tool.began()
    behind = read(
        asked.page, "GET", f"/api/responses/{asked.response_id}/stream", until=lambda s: s.raw.count(b": ping\n") >= 3
    )
    assert behind.raw.endswith(b": ping\n")
    assert "response.completed" not in behind.raw.decode()
    tool.go()
    stream = asked.result()
    assert stream.raw.count(b": ping\n") >= 2
    assert stream.text == "Let me see. It is done."


@pytest.mark.parametrize("place", ["in the tool", "between results", "in round 2"])
def test_after_kill_9_the_same_answer_is_completed(tooled, ann, tool, place):
    other = Marks(tooled.data_dir, f"{tool.name}_first")
    other.go()
    calls = [other.call, tool.call] if place == "between results" else [tool.call]
    held = [NOT_YET] if place == "in round 2" else []
    # What an adopter of the first round is asked has no script in it.
    then = [{"text": "It "}, *NUMBERS[:3], *held, *NUMBERS[3:]]
    tooled.scripted(tool.name, markers="hermes", script=scripted(*calls, then=then))
    until_offered(ann, tool.name)
    if place == "in round 2":
        tool.go()
    asked = Asked(tooled, "?", model=tool.name)
    tool.began()
    response_id = asked.response_id
    if place == "in round 2":
        eventually(lambda: " 2 " in tooled.log_text(response_id), pause_s=0.005)
    tooled.kill()
    cut = asked.result()
    assert cut.broke
    tool.go()
    tooled.scripted(tool.name, markers="hermes", script=scripted(*calls, then=[{"text": "It "}, *NUMBERS]))
    tooled.start()
    rest = read(ann, "GET", f"/api/responses/{response_id}/stream", headers={"Last-Event-ID": cut.last_id})
    whole = read(ann, "GET", f"/api/responses/{response_id}/stream")
    numbers = "".join(number["text"] for number in NUMBERS)
    assert cut.text + rest.text == whole.text == f"Let me see. It {numbers}"
    assert closing_of(rest) == closing_of(whole)
    outputs = [item for item in items(closing_of(whole)) if item[0] == "function_call_output"]
    assert outputs == [("function_call_output", said, "completed") for said in said_by(calls)]
    row = tooled.row(response_id)
    assert (row["end_state"], row["finish_reason"], row["epoch"]) == ("completed", "stop", 2)
    kinds = [kind for (kind,) in tooled.rows(
        "SELECT kind FROM streaming_responseevent WHERE response_id = ? ORDER BY seq", response_id)]  # fmt: skip
    assert kinds.count("continued") == 1
    assert kinds.count("tool_result") == len(calls)


def said_by(calls):
    return [json.loads(one["text"].split("\n")[1])["arguments"]["say"] for one in calls]


def test_a_stop_amid_a_tool_ends_it_and_the_answer_at_once(tooled, tool):
    asked = Asked(tooled, question(tool.call))
    tool.began()
    stopped = asked.page.post(f"/api/responses/{asked.response_id}/cancel").json()
    assert (stopped["end_state"], stopped["end_reason"]) == ("cancelled", "user")
    assert stopped["stop"]["stop_ms"] < 1000 * STOP_PROOF_S, "the patience with what does not end"
    stream = asked.result()
    assert closing_of(stream)["status"] == "cancelled"
    eventually(lambda: tool.was_cancelled, timeout_s=30)
    assert stopped["usage"]["generated_tokens"] == stopped["usage"]["sent_tokens"]


def test_who_leaves_amid_a_tool_under_abort_frees_everything(tooled, ann, tool):
    chat = conversation(ann)
    seen = lambda stream: "function_call_arguments.done" in stream.raw.decode()  # noqa: E731
    headers = {"X-Disconnect-Policy": "abort"}
    stream = ask(ann, chat, question(tool.call), until=seen, headers=headers, run_tools=["wait"])
    # Long before the tool's own time is up.
    row = eventually(lambda: (r := tooled.row(stream.response_id))["end_state"] and r, timeout_s=30)
    assert (row["end_state"], row["end_reason"]) == ("abandoned", "disconnected")
    eventually(lambda: tool.was_cancelled, timeout_s=30)


def test_a_new_question_amid_a_tool_takes_its_place(tooled, ann, tool):
    asked = Asked(tooled, question(tool.call))
    tool.began()
    newer = ask(ann, asked.chat, question(call("calculate", expression="1+1")), run_tools=["calculate"])
    assert closing_of(asked.result())["end_reason"] == "superseded"
    eventually(lambda: tool.was_cancelled, timeout_s=30)
    assert newer.text == "Let me see. It is done."


def test_the_books_of_a_site_whose_tools_ran_agree(tooled):
    """Comes after the others."""
    ended = tooled.rows("SELECT COUNT(*) FROM streaming_response WHERE end_state IS NULL")
    assert ended == [(0,)]
    assert "drifts" not in tooled.manage("reconcile")


SUMS = {"12*7": 84, "31*3": 93, "40*6": 240}


@pytest.fixture(scope="module")
def taught(tooled):
    """A site with the real worker, and a scripted teacher for each of a few sums."""
    tooled.start_engine()
    tooled.manage(
        "add_engine", "--kind", "llamacpp", "--url", tooled.engine_url, "--model", "smollm2", "--name", "llama",
        "--tokenizer", str(tooled.model_dir / "smollm2"), "--options", '{"markers": "hermes"}',
    )  # fmt: skip
    for nth, (expression, value) in enumerate(SUMS.items()):
        script = scripted(call("calculate", expression=expression), then=[{"text": f"{expression} is {value}."}])
        script["outputs"] = script["outputs"][1:]
        tooled.scripted(f"teacher{nth}", markers="hermes", script=script)
    with contextlib.closing(tooled.page("ann")) as page:
        until_offered(page, *(f"teacher{nth}" for nth in range(len(SUMS))))
    return tooled


@pytest.mark.engine
def test_the_real_model_makes_a_call_and_says_what_came_of_it(taught, ann):
    """It is small: it has seen in its conversation how that is done, and picks the likeliest token."""
    chat = conversation(ann)
    for nth, expression in enumerate(SUMS):
        ask(ann, chat, f"What is {expression}?", model=f"teacher{nth}", run_tools=["calculate"])
    before = engine_of(taught.manage("reconcile", "--skew", "0", "--json"))
    stream = ask(ann, chat, "What is 23*5?", model="smollm2", run_tools=["calculate"], temperature=0, max_tokens=120)
    response = closing_of(stream)
    made, result, said = response["output"]
    assert (made["name"], json.loads(made["arguments"])) == ("calculate", {"expression": "23*5"})
    assert (result["call_id"], result["output"]) == (made["call_id"], '{"result": "115"}')
    assert said["content"][0]["text"] == stream.text
    assert "115" in stream.text
    row = taught.row(stream.response_id)
    first, second = json.loads(row["attempts"])
    assert [first["ended"], second["ended"]] == ["tool_calls", "stop"]
    assert row["prompt_tokens"] == first["prompt_tokens"] + second["prompt_tokens"]
    # What the first round has read, and said, need not be read again.
    assert second["cached_tokens"] > first["prompt_tokens"]
    assert row["cached_tokens"] == first["cached_tokens"] + second["cached_tokens"]
    after = engine_of(taught.manage("reconcile", "--skew", "0", "--json"))
    assert before is None or before["drift"] == 0
    assert (after["low"], after["high"], after["seen"]) == (row["generated_tokens"],) * 3


def engine_of(reconciled):
    """What the comparison says of the real worker; nothing before its second reading."""
    checks = [json.loads(line) for line in reconciled.splitlines() if line.startswith("{")]
    return next((check for check in checks if check["subject"] == "llama"), None)
