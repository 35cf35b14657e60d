"""Owns how tests use the chat page: where its parts are, and the steps a person takes. Judges nothing."""

import re
from collections.abc import Iterable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.probe import Watch
from tests.e2e.reading import script
from tests.gates import Gate

ANSWER_S = 60


class ChatPage:
    """One tab of a signed-in person."""

    def __init__(self, page: Page, watch: Watch, url: str):
        self.page = page
        self.watch = watch
        self.url = url
        self.composer = page.get_by_test_id("composer")
        self.stop = page.get_by_test_id("stop")
        self.status = page.get_by_test_id("status")
        self.announcer = page.get_by_test_id("announcer")
        self.log = page.get_by_test_id("log")
        self.answers = page.get_by_test_id("message-assistant")
        self.questions = page.locator("[data-testid=message-user] .bubble")
        self.newest = self.answers.last
        self.markdown = self.newest.get_by_test_id("markdown")
        self.error_card = self.newest.get_by_test_id("error-card")
        self.items = page.get_by_test_id("conversation-item")

    def open(self, path: str = "/") -> "ChatPage":
        self.page.goto(self.url + path)
        expect(self.composer).to_be_visible()
        return self

    def reload(self) -> None:
        asked = self.questions.count()
        self.page.reload()
        expect(self.composer).to_be_visible()
        if asked:
            expect(self.questions.first).to_be_attached()

    def second_tab(self, path: str | None = None) -> "ChatPage":
        """Another tab of the same browser, at the same address if no other is given."""
        tab = ChatPage(self.page.context.new_page(), self.watch, self.url)
        return tab.open(self.path if path is None else path)

    @property
    def path(self) -> str:
        return self.page.url.removeprefix(self.url)

    def choose(self, model: str) -> None:
        self.page.get_by_test_id("model").select_option(model)

    def without_chance(self) -> None:
        """New answers take the likeliest token: the demo model's are plain words then, and never end by themselves."""
        self.page.get_by_test_id("options").click()
        self.page.get_by_test_id("temperature").fill("0")
        self.page.get_by_test_id("save-options").click()

    def ask(self, text: str) -> None:
        """Type a message and send it with Enter; returns when the page shows it."""
        before = self.questions.count()
        self.composer.fill(text)
        self.composer.press("Enter")
        expect(self.questions).to_have_count(before + 1)

    def play(self, **fields: Any) -> None:
        """Send a script for the scripted engine."""
        self.ask(script(**fields))

    def ends(self, state: str = "completed", timeout_s: float = ANSWER_S) -> None:
        """Wait until the newest answer has this end state, and the page has stopped."""
        expect(self.newest).to_have_attribute("data-end-state", state, timeout=timeout_s * 1000)
        expect(self.newest).to_have_attribute("aria-busy", "false")

    def writes(self, chars: int = 1) -> None:
        """Wait until the newest answer shows at least so many characters."""
        self.until(
            "chars => ([...document.querySelectorAll('[data-testid=message-assistant] [data-testid=markdown]')]"
            ".at(-1)?.textContent.length ?? 0) >= chars",
            chars,
        )

    def climbs(self, gates: Iterable[Gate], texts: Iterable[str]) -> None:
        """Open each gate when the text before it is shown: so that is painted by itself, however slow the machine."""
        for gate, text in zip(gates, texts, strict=True):
            self.writes(len(text.strip().encode("utf-16-le")) // 2)
            gate.open()

    def paints(self, count: int) -> None:
        """Wait until the newest answer's text was painted so often since the page was loaded."""
        self.until("count => window.__probe.paints.length >= count", count)

    def until(self, expression: str, argument: Any = None) -> None:
        self.page.wait_for_function(expression, arg=argument, timeout=ANSWER_S * 1000)

    @property
    def text(self) -> str:
        """What the newest answer shows."""
        return self.markdown.text_content() or ""

    def painted(self) -> None:
        """Wait until what has arrived by now has been painted, and heights that are observed were heard of."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    @property
    def painted_text(self) -> str:
        """What the newest answer shows, when what has arrived by now has been painted."""
        self.painted()
        return self.text

    @property
    def response_id(self) -> str:
        expect(self.newest).to_have_attribute("data-response-id", re.compile("resp_"))
        return self.newest.get_attribute("data-response-id") or ""

    @property
    def conversation_id(self) -> str:
        expect(self.page).to_have_url(re.compile("/c/"))
        return self.path.removeprefix("/c/")

    def probe(self, name: str) -> Any:
        return self.page.evaluate("name => window.__probe[name]", name)

    def item(self, title: str) -> Locator:
        return self.items.filter(has_text=title)
