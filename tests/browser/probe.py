"""Owns what tests see of a page from inside and outside: reads, paints, complaints, requests. Drives nothing."""

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext

#: Runs before the page's own code. ``reads`` are what fetch's readers were given, each with how much of an answer's
#: text (``received``) had come by then; ``paints`` are the frames in which the newest answer's text changed.
SCRIPT = """
(() => {
  const lists = { reads: [], paints: [], busy: [], said: [] };
  const probe = (window.__probe = { ...lists, received: '', replacements: 0, frame: 0 });
  document.addEventListener('securitypolicyviolation', (event) =>
    console.error(`VIOLATION ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));

  const read = ReadableStreamDefaultReader.prototype.read;
  ReadableStreamDefaultReader.prototype.read = async function (...args) {
    const result = await read.apply(this, args);
    if (result.value) take(this, result.value);
    return result;
  };
  const unread = new WeakMap();
  function take(reader, bytes) {
    const before = unread.get(reader) ?? { decoder: new TextDecoder(), text: '' };
    const blocks = (before.text + before.decoder.decode(bytes, { stream: true })).split('\\n\\n');
    unread.set(reader, { decoder: before.decoder, text: blocks.pop() });
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block);
      const event = data ? JSON.parse(data[1]) : {};
      if (event.type === 'response.output_text.delta') probe.received += event.delta;
    }
    probe.reads.push({ at_ms: performance.now(), bytes: bytes.length, chars: probe.received.length });
  }

  const sockets = (window.__sockets = []);
  window.WebSocket = class extends WebSocket {
    constructor(...args) {
      super(...args);
      sockets.push(this);
      this.addEventListener('message', ({ data }) => (this.greeted ||= data.includes('hello')));
    }
  };

  const frames = () => { probe.frame += 1; requestAnimationFrame(frames); };
  requestAnimationFrame(frames);

  function look() {
    if (document.body?.textContent.includes('\\uFFFD')) probe.replacements += 1;
    note(probe.busy, document.querySelector('[data-testid=log]')?.getAttribute('aria-busy'));
    note(probe.said, document.querySelector('[data-testid=announcer]')?.textContent);
    const answer = [...document.querySelectorAll('[data-testid=message-assistant]')].at(-1);
    const text = answer?.querySelector('[data-testid=markdown]')?.textContent ?? '';
    const last = probe.paints.at(-1);
    if (text === '' || text === last?.text) return;
    const paint = { frame: probe.frame, text, at_ms: performance.now() };
    if (last?.frame === probe.frame) probe.paints[probe.paints.length - 1] = paint;
    else probe.paints.push(paint);
  }
  function note(list, value) {
    if (value && value !== list.at(-1)) list.push(value);
  }
  new MutationObserver(look).observe(document, {
    childList: true, characterData: true, attributes: true, subtree: true, attributeFilter: ['aria-busy'],
  });
})();
"""


@dataclass
class Watch:
    """What a browser context complained of, and where its requests went."""

    origin: str
    complaints: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    sent: list[tuple[str, str]] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def attach(self, context: BrowserContext) -> None:
        context.on("console", lambda message: message.type == "error" and self._complain(message.text))
        context.on("weberror", lambda error: self._complain(str(error.error)))
        context.on("request", lambda request: self._requested(request.method, request.url))

    def allow(self, pattern: str) -> None:
        """Complaints that a test causes on purpose, as when it takes the network away."""
        self.allowed.append(pattern)

    def _complain(self, text: str) -> None:
        self.complaints.append(text)

    def _requested(self, method: str, url: str) -> None:
        parts = urlsplit(url)
        self.sent.append((method, parts.path))
        if parts.scheme != "data" and f"{parts.scheme}://{parts.netloc}" != self.origin:
            self.strangers.append(url)

    def verify(self) -> None:
        """Nothing of the page's own went wrong, and nothing left its origin."""
        unexpected = [text for text in self.complaints if not any(re.search(p, text) for p in self.allowed)]
        assert unexpected == []
        assert self.strangers == []
