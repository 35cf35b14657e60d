"""Owns a WebKit (GTK) that Selenium drives on its own display, and how tests use the chat page in it. Judges nothing.

It is as near to Safari as Debian comes. Its driver has no events, so the page is asked again and again.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.webkitgtk.options import Options
from selenium.webdriver.webkitgtk.service import Service

from tests.browser.probe import SCRIPT
from tests.e2e.reading import eventually, script

NEEDED = ("WebKitWebDriver", "Xvfb")
#: Complaints of the page's own, for the driver does not pass on what the console says.
COMPLAINTS = """
window.__complaints = [];
for (const kind of ['error', 'unhandledrejection', 'securitypolicyviolation']) addEventListener(kind, (event) =>
  __complaints.push(`${kind} ${event.message ?? event.reason ?? event.violatedDirective}`));
"""
ANSWERS = "[...document.querySelectorAll('[data-testid=message-assistant]')]"


def missing() -> list[str]:
    """The programs that are not installed."""
    return [program for program in NEEDED if shutil.which(program) is None]


@contextmanager
def display() -> Iterator[str]:
    """A display without a screen; yields its name."""
    reading, writing = os.pipe()
    argv = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x900x24", "-nolisten", "tcp"]
    with subprocess.Popen(argv, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:
        os.close(writing)
        try:
            with os.fdopen(reading) as said:
                number = said.readline().strip()
            yield f":{number}"
        finally:
            server.terminate()


@contextmanager
def opened(display_name: str) -> Iterator[webdriver.WebKitGTK]:
    """A browser of nobody."""
    service = Service(shutil.which("WebKitWebDriver"), env={**os.environ, "DISPLAY": display_name})
    browser = webdriver.WebKitGTK(options=Options(), service=service)
    try:
        yield browser
    finally:
        browser.quit()


class WebKitChat:
    """The chat page of a signed-in person."""

    def __init__(self, browser: webdriver.WebKitGTK, url: str, session: str):
        self.browser = browser
        self.url = url
        browser.get(f"{url}/login/")
        browser.add_cookie({"name": "sessionid", "value": session, "path": "/"})
        self.open("/")

    def open(self, path: str) -> None:
        self.browser.get(self.url + path)
        self.watch()

    def reload(self) -> None:
        self.browser.refresh()
        self.watch()

    def watch(self) -> None:
        """Wait for the page and look at it from now on."""
        self.until("document.querySelector('[data-testid=composer]') !== null")
        self.browser.execute_script(COMPLAINTS + SCRIPT)

    def js(self, expression: str, *arguments: Any) -> Any:
        return self.browser.execute_script(f"return {expression}", *arguments)

    def until(self, expression: str, *arguments: Any) -> Any:
        return eventually(lambda: self.js(expression, *arguments))

    def ask(self, text: str) -> None:
        """Put a message into the box and send it with Enter."""
        before = self.js("document.querySelectorAll('[data-testid=message-user]').length")
        box = self.browser.find_element(By.ID, "composer")
        put = "const [box, text] = arguments; box.value = text; box.dispatchEvent(new Event('input', {bubbles: true}))"
        self.browser.execute_script(put, box, text)
        box.send_keys(Keys.ENTER)
        self.until("document.querySelectorAll('[data-testid=message-user]').length > arguments[0]", before)

    def play(self, **fields: Any) -> None:
        self.ask(script(**fields))

    def press(self, key: str) -> None:
        self.browser.switch_to.active_element.send_keys(key)

    def writes(self, chars: int) -> None:
        self.until(f"({ANSWERS}.at(-1)?.querySelector('[data-testid=markdown]')?.textContent.length ?? 0) >= {chars}")

    def ends(self, state: str = "completed") -> None:
        self.until(f"{ANSWERS}.at(-1)?.dataset.endState === arguments[0]", state)

    @property
    def text(self) -> str:
        return self.js(f"{ANSWERS}.at(-1).querySelector('[data-testid=markdown]').textContent")

    @property
    def response_id(self) -> str:
        return self.js(f"{ANSWERS}.at(-1).dataset.responseId")
