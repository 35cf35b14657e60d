"""Owns an engine that says nothing for long, behind an nginx as it comes and one of ours: the streams stay open."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx

from tests.e2e import nginx as fronts
from tests.e2e.reading import chat, script
from tests.e2e.site import Site

#: nginx's own, which is the point.
NGINX_READ_TIMEOUT_S = 60


class Silence:
    """Two streams whose first word comes after ``silence_s``; ``broken()`` waits for both."""

    def __init__(self, site: Site, key: str, urls: dict[str, str], silence_s: float):
        self._broken: list[str] = []
        self._silence_s = silence_s
        self._threads = [
            threading.Thread(target=self._read, args=(name, url, key), daemon=True) for name, url in urls.items()
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, name: str, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        try:
            with httpx.Client(base_url=url, headers=headers, timeout=self._silence_s + 60) as client:
                stream = chat(client, script(outputs=[{"text": "late"}], first_delay_s=self._silence_s))
            if stream.text != "late" or not stream.is_done:
                self._broken.append(f"{name}: {self._silence_s:g} s of silence ended as {stream.raw[-200:]!r}")
        except httpx.HTTPError as error:
            self._broken.append(f"{name}: {self._silence_s:g} s of silence: {error!r}")

    def broken(self) -> list[str]:
        for thread in self._threads:
            thread.join(self._silence_s + 90)
            if thread.is_alive():
                self._broken.append("a silent stream did not end")
        return self._broken


@contextmanager
def silence(folder: Path, model_dir: Path, silence_s: float) -> Iterator[Silence]:
    """A site of its own, so that nothing else ends the streams."""
    for part in ("site", "plain", "ours"):
        (folder / part).mkdir(parents=True)
    site = Site(folder / "site", model_dir, TTFT_TIMEOUT_S=str(silence_s + 60))
    site.prepare()
    site.scripted()
    key = site.manage("create_api_key", "dev")
    site.start()
    with ExitStack() as ending:
        ending.callback(site.stop)
        plain = fronts.as_it_comes(folder / "plain", site.port, NGINX_READ_TIMEOUT_S)
        ours = fronts.ours(folder / "ours", [site.port], site.data_dir / "static")
        for front in (plain, ours):
            ending.enter_context(closing(front))
        yield Silence(site, key, {"nginx as it comes": plain.url, "our nginx": ours.url}, silence_s)
