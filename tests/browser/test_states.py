"""What the page says while an answer waits, is refused or comes back; nothing half-written is seen, nothing jumps."""

import json
import re
from itertools import accumulate

import pytest
from playwright.sync_api import expect

from tests.browser.held import Held
from tests.e2e.reading import until_offered
from tests.gates import stairs

REFUSED = "Failed to load resource: the server responded with a status of"
#: Everything whose unfinished form is ugly, in the order in which it could be seen.
RICH = """\
A **bold start** with `code`, *slant* and [the docs](https://docs.example/a_long/address?with=query) in it.

![a picture](https://images.example/secret.png)

| Lamp | Range |
|:--|--:|
| **Lindesnes** | 18.9 nm |

A formula $x^2 + y$ in the line, and

$$
\\frac{a}{b}
$$

```python
def light(height_m: float) -> float:
    return 2.08 * height_m ** 0.5
```

- one
- **two** and <b onclick=x>no tag</b>

The end.
"""
#: Collects what must never be seen, and what of the messages moved up or down without being scrolled.
WATCH = """
(marks) => {
  const found = (window.__flashes = []);
  const shifts = (window.__shifts = []);
  const log = document.querySelector('[data-testid=log]');
  new PerformanceObserver((list) => {
    for (const { sources } of list.getEntries()) {
      for (const { node, previousRect, currentRect } of sources) {
        // Columns get wider with their cells; up and down nothing moves.
        if (Math.abs(previousRect.y - currentRect.y) > 1 && log.contains(node)) shifts.push(node.textContent);
      }
    }
  }).observe({ type: 'layout-shift' });
  new MutationObserver(() => {
    const answer = [...document.querySelectorAll('[data-testid=message-assistant] [data-testid=markdown]')].at(-1);
    if (!answer) return;
    const copy = answer.cloneNode(true);
    for (const code of copy.querySelectorAll('pre, .math')) code.remove();
    for (const mark of marks) if (copy.textContent.includes(mark)) found.push([mark, copy.textContent.slice(-60)]);
  }).observe(document.body, { childList: true, characterData: true, subtree: true });
}
"""
MARKS = ["**", "`", "](", "[the", "![", "|", "$", "---", "\\frac", "https://images"]


def pieces(text, chars):
    return [{"text": text[start : start + chars]} for start in range(0, len(text), chars)]


def refuse(page, status, code, retry_after_s, times=1):
    headers = {"Retry-After": str(retry_after_s), "Content-Type": "application/json"}
    body = json.dumps({"error": {"code": code, "message": "no room"}})
    page.route("**/messages", lambda route: route.fulfill(status=status, headers=headers, body=body), times=times)


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(429, "rate_limited", r"Too many requests: no room\. Trying again in \d+ s"),
     (503, "overloaded", r"The server is busy: no room\. Trying again in \d+ s")],
)  # fmt: skip
def test_a_refusal_for_now_counts_down_and_is_tried_again_under_one_key(chat, status, code, words):
    chat.watch.allow(REFUSED)
    chat.page.clock.install()
    refuse(chat.page, status, code, 60)
    keys = []
    chat.page.on("request", lambda request: keys.append(request.headers.get("idempotency-key")))
    chat.play(outputs=[{"text": "in the end"}])
    expect(chat.page.get_by_test_id("status-text")).to_have_text(re.compile(words))
    seen = chat.page.get_by_test_id("status-text").text_content()
    expect(chat.page.get_by_test_id("status-text")).not_to_have_text(seen)
    chat.page.clock.run_for(60_000)
    chat.ends()
    assert chat.text == "in the end"
    sent = [key for key in keys if key]
    assert len(sent) == 2
    assert len(set(sent)) == 1


def test_a_refusal_for_long_is_told_and_stop_ends_the_waiting(chat):
    chat.watch.allow(REFUSED)
    refuse(chat.page, 429, "over_quota", 4000)
    chat.play(outputs=[{"text": "later"}])
    chat.ends("rejected")
    expect(chat.error_card).to_contain_text("Too many requests")
    # That the conversation was made is told late.
    told = json.dumps({"type": "conversations", "conversation": chat.conversation_id})
    chat.page.evaluate("data => window.__sockets.at(-1).onmessage({ data })", told)
    chat.page.evaluate("fetch('/api/conversations').then((answer) => answer.text())")
    expect(chat.error_card).to_contain_text("Too many requests")
    refuse(chat.page, 503, "overloaded", 60)
    chat.newest.get_by_test_id("retry").click()
    expect(chat.page.get_by_test_id("status-text")).to_have_text(re.compile(r"again in [56]\d s"))
    chat.stop.click()
    chat.ends("cancelled")
    chat.newest.get_by_test_id("regenerate").click()
    chat.ends()
    assert chat.text == "later"


@pytest.fixture
def narrow(site, person):
    """A model that answers one at a time."""
    site.scripted("tests-narrow", slots=1)
    until_offered(person("bea"), "tests-narrow")
    return "tests-narrow"


def test_an_answer_that_waits_for_an_engine_says_so_and_then_begins(open_chat, narrow):
    first, second = open_chat("bea"), open_chat("carl")
    for chat in (first, second):
        chat.choose(narrow)
    first.play(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
    first.writes(10)
    second.play(outputs=[{"text": "my turn"}])
    expect(second.page.get_by_test_id("status-text")).to_have_text("Waiting in the queue…")
    second.reload()
    expect(second.page.get_by_test_id("status-text")).to_have_text("Waiting in the queue…")
    first.stop.click()
    first.ends("cancelled")
    second.ends()
    assert second.text == "my turn"


def test_a_conversation_still_names_its_model_when_that_is_no_longer_on_offer(chat):
    chat.play(outputs=[{"text": "hello"}])
    chat.ends()
    chosen = chat.page.get_by_test_id("model").locator("option:checked")
    model = chosen.text_content()
    others = [{"id": id_, "context_tokens": 99, "calls_tools": False} for id_ in ("one", "two")]
    chat.page.route("**/api/models", lambda route: route.fulfill(json={"data": others}))
    chat.reload()
    expect(chosen).to_have_text(model)
    expect(chosen).to_be_disabled()


def test_a_session_that_ends_amid_an_answer_leads_to_the_login_and_back_to_the_answer(site, open_chat, gate):
    chat = open_chat("emil")
    chat.watch.allow("status of 401")
    words = [{"text": f"w{i} "} for i in range(250)]
    chat.play(outputs=[*words[:-1], gate.step, words[-1]], delay_s=0.01)
    chat.writes(30)
    path = chat.path
    chat.composer.fill("my next question")
    chat.page.context.clear_cookies(name="sessionid")
    chat.page.evaluate("dispatchEvent(new Event('offline')), dispatchEvent(new Event('online'))")
    expect(chat.page).to_have_url(re.compile(r"/login/\?next=%2Fc%2F"))
    chat.page.context.new_page().goto(site.url + site.manage("login_link", "emil"))
    chat.open(path)
    expect(chat.composer).to_have_value("my next question")
    gate.open()
    chat.ends()
    assert chat.text == " ".join(f"w{i}" for i in range(250))


@pytest.mark.parametrize("chars", [1, 3])
def test_nothing_half_written_is_ever_seen_and_nothing_jumps(site, chat, chars):
    steps = [RICH[start : start + 12] for start in range(0, len(RICH), 12)]
    outputs, gates = stairs([pieces(step, chars) for step in steps], site.data_dir)
    message = Held(chat.page, "**/messages")
    chat.play(outputs=outputs, delay_s=0.005)
    expect(chat.page.get_by_test_id("status-text")).to_have_text("Connecting…")
    chat.page.evaluate(WATCH, MARKS)
    message.let_go()
    for gate, so_far in zip(gates, accumulate(steps[:-1]), strict=True):
        chat.until("chars => window.__probe.received.length >= chars", len(so_far))
        chat.painted()
        gate.open()
    chat.ends()
    assert chat.page.evaluate("window.__flashes") == []
    assert chat.page.evaluate("window.__shifts") == []
    expect(chat.markdown.locator("math")).to_have_count(2)
    expect(chat.markdown.locator("table")).to_have_count(1)
    assert "<b onclick=x>no tag</b>" in chat.text
    assert len(chat.probe("paints")) > 20


def test_a_selection_in_a_growing_answer_survives(chat):
    chat.play(
        outputs=[{"text": "The first words stay selected.\n\n"}, *pieces("more and more text " * 60, 6)], delay_s=0.015
    )
    chat.until("() => document.querySelector('[data-testid=markdown] p')?.textContent.length > 20")
    chat.page.evaluate("getSelection().selectAllChildren(document.querySelector('[data-testid=markdown] p'))")
    chat.ends()
    assert chat.page.evaluate("getSelection().toString()") == "The first words stay selected."


def test_a_title_is_marked_when_an_answer_ends_while_nobody_looks(chat):
    chat.page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })")
    chat.play(outputs=[{"text": "done"}])
    chat.ends()
    expect(chat.page).to_have_title(re.compile("^● "))
    chat.page.evaluate("delete document.hidden, document.dispatchEvent(new Event('visibilitychange'))")
    expect(chat.page).to_have_title(re.compile("^(?!●)"))
