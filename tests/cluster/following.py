"""Owns a reader on a thread that comes back with its last id as the page does. Judges nothing it reads."""

import threading
import time

import httpx

from tests.e2e.reading import Stream, read
from tests.e2e.site import Site

WAIT_S = 40
PAUSE_S = 0.2


class Follower:
    """Asks one site, or follows a response there, until it is told an end; remembers every connection."""

    def __init__(self, site: Site, question: str | None = None, *, response_id: str | None = None, policy="background"):
        self.streams: list[Stream] = []
        self.refusals: list[int] = []
        self.response_id = response_id
        self._site = site
        self._question = question
        self._policy = policy
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        return "".join(stream.text for stream in self.streams)

    @property
    def seqs(self) -> list[int]:
        return [seq for stream in self.streams for seq in stream.seqs]

    @property
    def raw(self) -> bytes:
        return b"".join(stream.raw for stream in self.streams)

    @property
    def error(self) -> dict | None:
        return self.streams[-1].error

    def until(self, true, timeout_s: float = WAIT_S) -> "Follower":
        """Wait until something is true of what was read."""
        with self._changed:
            assert self._changed.wait_for(lambda: true(self), timeout_s), (self.refusals, self.raw[-300:])
        return self

    def ended(self) -> "Follower":
        """Wait until it has been told an end."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), self.raw[-300:]
        return self

    def _run(self) -> None:
        with self._site.api(self._site.key) as client:
            while not self._told_an_end():
                if self.streams or self.refusals:
                    time.sleep(PAUSE_S)
                self._once(client)

    def _told_an_end(self) -> bool:
        if not self.streams:
            return False
        last = self.streams[-1]
        return last.is_done or bool(last.error and last.error["code"] != "stream_detached")

    def _once(self, client: httpx.Client) -> None:
        try:
            stream = read(client, *self._request(), until=self._note, **self._options())
        except httpx.TransportError:
            return
        if stream.status != 200:
            self.refusals.append(stream.status)

    def _note(self, stream: Stream) -> bool:
        with self._changed:
            if stream.status == 200 and (not self.streams or self.streams[-1] is not stream):
                self.streams.append(stream)
                self.response_id = stream.response_id
            self._changed.notify_all()
        return False

    def _request(self) -> tuple[str, str]:
        if self.response_id:
            return "GET", f"/v1/responses/{self.response_id}/stream"
        return "POST", "/v1/chat/completions"

    def _options(self) -> dict:
        last_id = next((s.last_id for s in reversed(self.streams) if s.last_id), None)
        if self.response_id:
            return {"headers": {"Last-Event-ID": last_id} if last_id else {}}
        body = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": self._question}]}
        return {"json": body, "headers": {"X-Disconnect-Policy": self._policy}}
