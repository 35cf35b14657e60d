"""Tools that the site runs for an answer: chosen for a conversation, seen from their name to their result.

A site of its own, with a tool that waits for the test. Costs about 35 s.
"""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.hostile import ANSWERS
from tests.browser.judge import found_in_both
from tests.browser.test_hostile_answers import evil  # noqa: F401  a fixture
from tests.browser.test_steps import call, pieces
from tests.e2e.site import Site
from tests.gates import Gate

TOOLS = ("calculate", "current_time", "wait")
MARKERS = {"markers": "think+hermes", "mode": "text"}
CALLS_A_ROUND = 8
SAID = "words => window.__probe.said.includes(words)"
#: What a card may consist of, and nothing that runs, loads or leads anywhere.
GUARD = """
() => {
  const tags = new Set('DIV SVG PATH STRONG SPAN PRE DL DT DD DETAILS SUMMARY BUTTON UL LI'.split(' '));
  const found = (window.__found = new Set());
  function check() {
    for (const node of document.querySelectorAll('.tool-call *')) {
      if (!tags.has(node.nodeName.toUpperCase())) found.add(`<${node.nodeName}>`);
      for (const { name } of node.attributes) if (/^on|^style$|^src|^id$|^name$|href/i.test(name)) found.add(name);
    }
    if (window.__xss !== undefined) found.add('code ran');
  }
  new MutationObserver(check).observe(document.body, { childList: true, subtree: true, attributes: true });
}
"""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory, model_dir):
    workshop = Site(
        tmp_path_factory.mktemp("workshop"), model_dir, PAGE_TOOLS=",".join(TOOLS), TOOL_TIMEOUT_S="60",
        DJANGO_SETTINGS_MODULE="tests.e2e.waiting_settings",
    )  # fmt: skip
    workshop.prepare()
    workshop.scripted("worker", **MARKERS)
    workshop.scripted("writer")
    workshop.start()
    yield workshop
    workshop.stop()


@pytest.fixture(scope="module")
def session(workshop):
    client = workshop.page("ann")
    yield client.cookies["sessionid"]
    client.close()


@pytest.fixture
def new_chat(workshop, watched, session):
    def new_chat(**options):
        context, watch = watched(workshop.url, color_scheme="light", **options)
        context.add_cookies([{"name": "sessionid", "value": session, "url": workshop.url}])
        chat = ChatPage(context.new_page(), watch, workshop.url).open()
        expect(chat.page.get_by_test_id("model").locator("option")).to_have_text(["worker", "writer"])
        return chat

    return new_chat


@pytest.fixture
def chat(new_chat):
    """A chat whose messages may run two tools."""
    chat = new_chat()
    choose(chat, "wait", "calculate")
    return chat


def choose(chat, *names):
    chat.page.get_by_test_id("options").click()
    for name in TOOLS:
        box = chat.page.get_by_test_id(f"run-{name}")
        box.set_checked(name in names)
    chat.page.get_by_test_id("save-options").click()


def wait_for(say, **more):
    return call("wait", json.dumps({"say": say, **more}))


def told(*texts, **more):
    """A script that calls, and then says something of it."""
    return {
        "outputs": pieces("".join(texts), 9),
        "finish_reason": "tool_calls",
        "rounds": [{"outputs": [{"text": "That "}, {"text": "was it."}], "first_delay_s": 0.2}],
        "delay_s": 0.003,
        **more,
    }


def let_go(workshop, name):
    (workshop.data_dir / name).touch()


def cards(chat):
    return chat.newest.get_by_test_id("tool-call")


def runs(chat):
    expect(cards(chat)).to_have_attribute("data-state", "running")
    expect(cards(chat)).to_have_attribute("aria-busy", "true")
    expect(chat.newest.get_by_test_id("tool-arguments").locator("dt")).to_have_text(["say", "until"])
    expect(chat.page.get_by_test_id("status-text")).to_have_text("Running wait…")


def order(chat):
    """What the newest answer shows, from top to bottom."""
    return chat.newest.evaluate(
        "answer => [...answer.querySelectorAll('.markdown, .tool-call')].map((node) => node.className.includes('tool')"
        " ? node.dataset.state : node.textContent.trim())"
    )


def test_a_tool_is_seen_from_its_name_to_its_result_over_a_reload_and_in_a_second_tab(workshop, chat):
    chat.play(**told("Let me see. ", wait_for('{"found": [1, "<b>two</b>"]}', until="found")))
    runs(chat)
    assert found_in_both(chat.page) == []
    second = chat.second_tab()
    chat.reload()
    for tab in (chat, second):
        runs(tab)
        assert order(tab) == ["Let me see.", "running"]
    let_go(workshop, "found")
    for tab in (chat, second):
        tab.ends()
        assert order(tab) == ["Let me see.", "result", "That was it."]
    second.page.close()
    chat.page.set_viewport_size({"width": 390, "height": 844})
    for _ in ("live", "stored"):
        expect(chat.newest.get_by_test_id("tool-state")).to_have_text("done")
        result = chat.newest.get_by_test_id("tool-result")
        expect(result.locator(".json-literal, .json-string")).to_have_text(["1", "<b>two</b>"])
        assert found_in_both(chat.page) == []
        chat.reload()
    assert order(chat) == ["Let me see.", "result", "That was it."]
    row = workshop.row(chat.response_id)
    assert (row["end_state"], row["finish_reason"], row["output_text"]) == (
        "completed", "stop", "Let me see. That was it.",
    )  # fmt: skip
    with chat.page.expect_download() as saved:
        chat.page.get_by_test_id("conversation-menu").click()
        chat.page.get_by_test_id("export-markdown").click()
    text = saved.value.path().read_text()
    assert text.index("Let me see.") < text.index('"<b>two</b>"') < text.index("That was it.")


def test_somebody_who_hears_the_page_is_told_that_a_tool_runs_and_what_came_of_it(workshop, chat):
    """Each is seen to be said before what follows it may come: said of two frames in one, the first would not be."""
    written, answered = Gate(workshop.data_dir), Gate(workshop.data_dir)
    text = wait_for("fine", until="heard")
    named = text.index("{", 20) + 1
    after = {"outputs": [{"text": "That "}, answered.step, {"text": "was it."}]}
    outputs = [*pieces(text[:named], 9), written.step, *pieces(text[named:], 9)]
    chat.play(outputs=outputs, finish_reason="tool_calls", rounds=[after])
    chat.until(SAID, "Calling wait…")
    written.open()
    runs(chat)
    let_go(workshop, "heard")
    chat.until(SAID, "wait: done")
    answered.open()
    chat.ends()
    assert chat.probe("said") == ["Answering", "Calling wait…", "Running wait…", "wait: done", "Answer ready"]


def test_every_failure_has_its_words_and_what_the_model_was_told(chat):
    failing = {
        call("current_time", "{}"): "there is no such tool",
        call("wait", '{"say": 5}'): "not run: invalid arguments",
        call("wait", '{"say": '): "not run: invalid arguments",
        wait_for("no # heading", fail=True): "failed",
    }
    calls = [*failing, *([wait_for("fine")] * 5)]
    chat.play(**told(*calls))
    chat.ends()
    words = [*failing.values(), *(["done"] * 4), "not run: too many calls"]
    for _ in ("live", "stored"):
        expect(chat.newest.get_by_test_id("tool-state")).to_have_text(words)
        results = chat.newest.get_by_test_id("tool-result")
        expect(results).to_have_count(len(words))
        expect(results.nth(3)).to_contain_text("no # heading")
        assert found_in_both(chat.page) == []
        chat.reload()


def test_stop_while_a_tool_runs_ends_it_and_claims_no_result(workshop, chat):
    chat.play(**told(wait_for("never", until="never")))
    runs(chat)
    chat.stop.click()
    chat.ends("cancelled")
    for _ in ("live", "stored"):
        expect(chat.newest.get_by_test_id("tool-state")).to_have_text("no result: the answer ended before")
        expect(cards(chat)).to_have_attribute("aria-busy", "false")
        expect(chat.newest.get_by_test_id("tool-result")).to_have_count(0)
        chat.reload()
    kinds = "SELECT DISTINCT kind FROM streaming_responseevent WHERE response_id = ?"
    assert ("tool_result",) not in workshop.rows(kinds, chat.response_id)


def test_long_results_are_folded_and_cut(chat):
    chat.play(**told(wait_for("word " * 1000)))
    chat.ends()
    result = chat.newest.get_by_test_id("tool-result")
    expect(result).not_to_have_attribute("open", "")
    expect(result.locator("pre")).not_to_be_visible()
    chat.page.emulate_media(media="print")
    expect(result.locator("pre")).to_be_visible()
    assert result.evaluate("node => node.scrollHeight") > 300
    chat.page.emulate_media(media="screen")
    expect(result.locator("pre")).not_to_be_visible()
    result.locator("summary").press("Enter")
    expect(result.locator("pre")).to_have_text(re.compile("^(word ){240}…"))
    result.get_by_test_id("show-all").click()
    expect(result.locator("pre")).to_have_text("word " * 1000)


def test_tools_are_off_until_they_are_chosen_and_go_with_every_message_but_not_with_the_rest_of_one(new_chat):
    chat = new_chat()
    sent = []
    chat.page.on("request", lambda request: request.url.endswith("/messages") and sent.append(request.post_data_json))
    chat.play(outputs=[{"text": "one"}])
    chat.ends()
    expect(chat.page.get_by_test_id("options")).to_have_accessible_name("How the model is asked")
    choose(chat, "wait", "calculate")
    named = "How the model is asked. Tools: Calculator, wait"
    expect(chat.page.get_by_test_id("options")).to_have_accessible_name(named)
    chat.play(outputs=[{"text": "two"}], finish_reason="length")
    chat.ends()
    chat.page.get_by_test_id("continue").click()
    chat.ends()
    chat.reload()
    expect(chat.page.get_by_test_id("options")).to_have_accessible_name(named)
    assert [body.get("run_tools") for body in sent] == [None, ["calculate", "wait"], None]

    chat.page.get_by_test_id("options").click()
    chat.page.get_by_test_id("json-option").check()
    expect(chat.page.get_by_test_id("run-wait")).to_be_disabled()
    expect(chat.page.get_by_test_id("run-tools")).to_be_visible()
    assert found_in_both(chat.page) == []
    chat.page.get_by_test_id("save-options").click()
    chat.play(outputs=[{"text": "{}"}])
    chat.ends()
    assert "run_tools" not in sent[-1]
    expect(chat.page.get_by_test_id("options")).to_have_accessible_name("How the model is asked")


def test_a_model_that_cannot_call_is_asked_without_tools_and_the_choice_is_kept_for_one_that_can(chat):
    sent = []
    chat.page.on("request", lambda request: request.url.endswith("/messages") and sent.append(request.post_data_json))
    options = chat.page.get_by_test_id("options")
    for model, tools, name in (
        ("writer", None, "How the model is asked"),
        ("worker", ["calculate", "wait"], "How the model is asked. Tools: Calculator, wait"),
    ):
        chat.choose(model)
        expect(options).to_have_accessible_name(name)
        chat.play(outputs=[{"text": "one"}])
        chat.ends()
        assert sent[-1].get("run_tools") == tools
        options.click()
        expect(chat.page.get_by_test_id("run-wait")).to_be_enabled(enabled=tools is not None)
        expect(chat.page.get_by_text("This model cannot call tools.")).to_have_count(int(tools is None))
        chat.page.keyboard.press("Escape")


def test_hostile_arguments_and_results_are_text_at_every_prefix(chat, evil):  # noqa: F811
    address, heard = evil
    chat.page.evaluate(GUARD)
    texts = [answer.format(evil=address) for answer in ANSWERS.values()]
    says = [text if number % 2 else json.dumps({text: [text]}) for number, text in enumerate(texts)]
    for start in range(0, len(says), CALLS_A_ROUND):
        batch = says[start : start + CALLS_A_ROUND]
        chat.play(**told(*map(wait_for, batch)))
        chat.ends()
        results = chat.newest.get_by_test_id("tool-result")
        expect(results).to_have_count(len(batch))
        for number, text in enumerate(texts[start : start + CALLS_A_ROUND]):
            shown = results.nth(number).evaluate("node => node.textContent")
            assert squeezed(text) in squeezed(shown)
    results = chat.page.get_by_test_id("tool-result")
    assert chat.page.evaluate("[...window.__found]") == []
    chat.reload()
    chat.page.evaluate(GUARD)
    expect(chat.page.get_by_test_id("tool-result")).to_have_count(len(says))
    assert chat.page.evaluate("[...window.__found]") == []
    assert heard == []


def squeezed(text):
    return re.sub(r"\s+", " ", text).strip()
