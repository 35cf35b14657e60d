"""Answers that try to run code or to call out: nothing runs, nothing leaves, at no moment of their streaming."""

import http.server
import threading

import pytest
from playwright.sync_api import expect

from tests.browser.hostile import ANSWERS, SLOW

PIECE_CHARS = 6
#: Everything that an answer may consist of.
ALLOWED = "p br hr strong em s code pre blockquote ul ol li a div span button h3 h4 h5 h6 table thead tbody tr th td"
#: Of a formula.
ALLOWED += " math semantics mrow mi mn mo mtext mfrac msup msub msqrt mstyle mspace"
#: What is looked at whenever the page changes: elements, attributes and links of answers.
GUARD = """
(allowed) => {
  const tags = new Set(allowed.split(' ').map((tag) => tag.toUpperCase()));
  const found = (window.__found = new Set());
  function check(root) {
    for (const node of root.querySelectorAll('.markdown *')) {
      if (!tags.has(node.nodeName.toUpperCase())) found.add(`<${node.nodeName}>`);
      for (const { name } of node.attributes) {
        if (/^on|^style$|^src|^id$|^name$|^action$/i.test(name)) found.add(`${node.nodeName} ${name}`);
      }
      if (node.nodeName !== 'A') continue;
      if (!/^(https?|mailto|tel):$/.test(node.protocol)) found.add(`link ${node.href}`);
      if (node.rel !== 'noopener noreferrer nofollow' || node.target !== '_blank') found.add(`bare link ${node.href}`);
    }
    if (window.__xss !== undefined) found.add('code ran');
  }
  check(document);
  const everything = { childList: true, subtree: true, attributes: true };
  new MutationObserver(() => check(document)).observe(document.body, everything);
}
"""


@pytest.fixture
def evil():
    """A second origin that counts who calls; its address and its log."""
    heard = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            heard.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", heard
    server.shutdown()
    server.server_close()


def pieces(text):
    return [{"text": text[start : start + PIECE_CHARS]} for start in range(0, len(text), PIECE_CHARS)]


def test_the_other_origin_hears_a_browser_that_calls(evil, new_context):
    address, heard = evil
    page = new_context().new_page()
    page.goto(f"{address}/control")
    assert "/control" in heard


def test_nothing_runs_and_nothing_leaves_while_hostile_answers_stream(site, chat, evil):
    address, heard = evil
    chat.page.evaluate(GUARD, ALLOWED)
    for number, (name, answer) in enumerate(ANSWERS.items()):
        text = answer.format(evil=address)
        chat.play(outputs=pieces(text), delay_s=0.003)
        chat.ends()
        assert site.row(chat.response_id)["output_text"] == text
        assert chat.page.evaluate("[...window.__found]") == [], name
        expect(chat.answers).to_have_count(number + 1)
    links = chat.page.locator("[data-testid=markdown] a")
    assert links.count() > 10
    for link in links.all():
        link.hover()
    assert chat.page.locator(".image-link").count() >= 4
    expect(chat.page.locator(".image-link").first).to_have_text("Image: secret")

    chat.reload()
    expect(chat.answers).to_have_count(len(ANSWERS))
    chat.page.evaluate(GUARD, ALLOWED)
    assert chat.page.evaluate("[...window.__found]") == []
    assert chat.page.evaluate("window.__xss") is None
    assert chat.page.url.startswith(site.url)
    assert heard == []


def test_hostile_questions_and_errors_are_shown_as_text(chat, evil):
    chat.watch.allow("the server responded with a status of 50")
    address, heard = evil
    question = f"<img src={address}/q.png onerror=window.__xss=1>![x]({address}/q.md)<script>window.__xss=1</script>"
    chat.ask(question)
    chat.ends()
    expect(chat.questions.first).to_have_text(question)
    chat.play(outputs=[{question: 1}])
    chat.ends("errored")
    chat.reload()
    expect(chat.questions.first).to_have_text(question)
    expect(chat.error_card).to_be_visible()
    assert chat.page.evaluate("window.__xss") is None
    assert heard == []


def test_one_can_type_and_scroll_while_texts_stream_that_are_slow_to_parse(chat):
    for text in SLOW.values():
        step = max(1, len(text) // 12)
        chat.play(outputs=[{"text": text[start : start + step]} for start in range(0, len(text), step)], delay_s=0.01)
        chat.composer.press_sequentially("still typing")
        expect(chat.composer).to_have_value("still typing")
        chat.ends()
