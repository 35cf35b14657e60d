"""Owns a site on a real vLLM whose model calls a tool that waits, and then counts. Judges nothing.

The demo model is small and has no format for calls: in its conversation it has seen three times how that is done, and
picks the likeliest token.
"""

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.e2e.reading import Stream, eventually, read, until_offered
from tests.e2e.site import Site
from tests.e2e.test_answers_amid_a_tool import Marks, call, scripted
from tests.e2e.test_the_page_api import ask, conversation, thread

SHOWN, ASKED = ("alpha", "beta", "gamma"), "delta"
COUNTED = " ".join(str(number) for number in range(1, 30))
#: One token of the model for each digit, space and the like: the second round is long enough to be left in its middle.
MAX_TOKENS = 300


class Counting:
    """The site. ``tool`` is what its call of this time leaves, and waits for."""

    def __init__(self, site: Site):
        self.site = site
        self.page = site.page("ann")
        self.tool = Marks(site.data_dir, ASKED)
        self._threads = ThreadPoolExecutor(1)

    def begin(self, **headers: str) -> tuple[str, "Future[Stream]"]:
        """Have it taught and asked; the conversation, and the stream that somebody reads."""
        for mark in ("", ".began", ".cancelled"):
            (self.site.data_dir / f"{ASKED}{mark}").unlink(missing_ok=True)
        chat = conversation(self.page)
        for word in SHOWN:
            ask(self.page, chat, _question(word), model=word, run_tools=["wait"])
        asked = {"model": "demo", "run_tools": ["wait"], "temperature": 0, "max_tokens": MAX_TOKENS}
        stream = self._threads.submit(ask, self.page, chat, _question(ASKED), headers=headers, **asked)
        return chat, stream

    def response_id(self, chat: str) -> str:
        """Of the answer that was asked for."""
        found: dict[str, Any] = eventually(lambda: (t := thread(self.page, chat)) and t[-1]["response"])
        return str(found["id"])

    def stop(self, response_id: str) -> dict[str, Any]:
        stopped: dict[str, Any] = self.page.post(f"/api/responses/{response_id}/cancel").json()
        return stopped

    def stream(self, response_id: str, last_id: str | None = None) -> Stream:
        headers = {"Last-Event-ID": last_id} if last_id else {}
        return read(self.page, "GET", f"/api/responses/{response_id}/stream", headers=headers)

    def attempts(self, response_id: str) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = json.loads(self.site.row(response_id)["attempts"])
        return made

    def compared(self) -> dict[str, Any] | None:
        """What the engine has counted since the last time, beside our rows; nothing the first time."""
        lines = self.site.manage("reconcile", "--skew", "0", "--json").splitlines()
        checks = [json.loads(line) for line in lines if line.startswith("{")]
        return next((check for check in checks if check["subject"] == "vllm"), None)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self.page.close()


@contextlib.contextmanager
def counting(folder: Path, model_dir: Path, url: str) -> Iterator[Counting]:
    """The site, on the vLLM at this URL."""
    env = {"DJANGO_SETTINGS_MODULE": "tests.e2e.waiting_settings", "PAGE_TOOLS": "wait", "TOOL_TIMEOUT_S": "60"}
    site = Site(folder, model_dir, **env)
    site.migrate()
    site.manage(
        "add_engine", "--kind", "vllm", "--url", url, "--model", "demo", "--name", "vllm", "--slots", "4",
        "--tokenizer", str(model_dir / "smollm2"), "--context", "2048", "--options", '{"markers": "hermes"}',
    )  # fmt: skip
    for word in SHOWN:
        made = scripted(_call(word), then=[{"text": f"{word} is here: {COUNTED}"}])
        site.scripted(word, markers="hermes", script={**made, "outputs": made["outputs"][1:]})
        (folder / word).touch()
    site.start()
    with contextlib.closing(Counting(site)) as made:
        try:
            until_offered(made.page, *SHOWN, "demo")
            yield made
        finally:
            site.stop()


def _question(word: str) -> str:
    return f"Is {word} here? Then count."


def _call(word: str) -> dict[str, str]:
    return call("wait", say=f"{word} is here", until=word)
