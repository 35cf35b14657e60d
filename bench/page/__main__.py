"""Owns the order of a run of `make bench-page`: stand-in server, browser, long answers, table, exit code."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from bench.page.figures import MARK, RATIOS, WINDOW_TOKENS, Figure, figures, slow_figures
from bench.page.trace import CATEGORIES, read

FRONTEND = Path(__file__).resolve().parents[2] / "frontend"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
ANSWER_S = 90
#: Beside the answers: one of them, on a CPU that is so many times slower, while somebody types.
SLOW = "slow"
SLOWDOWN = 4
KEYS = 100
KEY_EVERY_MS = 80
#: How long each key waited for the page, and when frames were painted in which the answer's text had changed.
WATCHER = """
() => {
  const seen = (window.__seen = { waits_ms: [], painted_ms: [] });
  addEventListener('keydown', (event) => seen.waits_ms.push(performance.now() - event.timeStamp), { capture: true });
  let shown = '';
  const look = (at_ms) => {
    const text = [...document.querySelectorAll('[data-testid=markdown]')].at(-1)?.textContent ?? '';
    if (text !== shown) seen.painted_ms.push(at_ms);
    shown = text;
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}
"""
#: Counts deltas by the blank lines between frames, and marks each window of them; cheap beside what it watches.
COUNTER = """
([prefix, window]) => {
  const read = ReadableStreamDefaultReader.prototype.read;
  let blocks = 0;
  let last = 0;
  ReadableStreamDefaultReader.prototype.read = async function (...args) {
    const result = await read.apply(this, args);
    for (const byte of result.value ?? []) {
      if (byte === 10 && last === 10) {
        if (blocks % window === 0) performance.mark(prefix + blocks);
        blocks += 1;
      }
      last = byte;
    }
    return result;
  };
}
"""


@contextlib.contextmanager
def stand_in() -> Iterator[str]:
    """The address of a server that plays the answers."""
    command = ["node", str(FRONTEND / "tests" / "mock" / "server.mjs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def measure(browser: Browser, url: str, answer: str) -> list[Figure]:
    """Show one answer in a new page and look at what that cost."""
    if answer == SLOW:
        return measure_slow(browser, url)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(url)
    warm(page)
    page.evaluate(COUNTER, [MARK, WINDOW_TOKENS])
    browser.start_tracing(page=page, categories=CATEGORIES)
    ask(page, f"bench {answer}")
    trace = browser.stop_tracing()
    page.close()
    return figures(answer, read(trace, MARK))


def measure_slow(browser: Browser, url: str) -> list[Figure]:
    """Type while an answer comes, on a slow CPU."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(url)
    warm(page)
    page.evaluate(WATCHER)
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
    page.get_by_test_id("composer").fill("bench mixed")
    page.get_by_test_id("composer").press("Enter")
    page.evaluate("window.__seen.waits_ms.length = window.__seen.painted_ms.length = 0")
    page.get_by_test_id("composer").press_sequentially("x" * KEYS, delay=KEY_EVERY_MS)
    seen = page.evaluate("window.__seen")
    page.close()
    return slow_figures(seen["waits_ms"], seen["painted_ms"])


def warm(page: Page) -> None:
    """Code that runs for the first time, and the chunk that highlights, are not what is measured."""
    ask(page, "hello")
    page.get_by_test_id("new-chat").click()


def ask(page: Page, text: str) -> None:
    page.get_by_test_id("composer").fill(text)
    page.get_by_test_id("composer").press("Enter")
    ended = page.locator("[data-testid=message-assistant][data-end-state=completed]")
    ended.wait_for(timeout=ANSWER_S * 1000)


def main() -> int:
    broken = 0
    with stand_in() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for answer in sys.argv[1:] or (*RATIOS, SLOW):
            print(f"{answer}: 300 deltas a second", flush=True)
            found = measure(browser, url, answer)
            if any(figure.is_broken for figure in found):
                print("  broken; once more, for the machine may have been crowded", flush=True)
                found = measure(browser, url, answer)
            print(*map(line, found), sep="\n", flush=True)
            broken += sum(figure.is_broken for figure in found)
        browser.close()
    return int(broken > 0)


def line(figure: Figure) -> str:
    verdict = "" if figure.limit is None else f"  limit {figure.limit:g}  {'BROKEN' if figure.is_broken else 'ok'}"
    return f"  {figure.name:32} {figure.value:8.2f} {figure.unit:3}{verdict}"


if __name__ == "__main__":
    sys.exit(main())
