"""Owns a client that loses no text: it streams a chat completion, resumes it, backs off, and stops it on Ctrl-C.

    URL=http://127.0.0.1:8000/v1 KEY=sk-… python3 -m examples.stream MODEL "Name three rivers."

Standard library only. The exit code is 0 only for an answer that is finished: one that was stopped counts as truncated.
"""

import json
import os
import random
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any

from examples.verdict import FINISHED, Verdict, verdict

URL = os.environ.get("URL", "http://127.0.0.1:8000/v1")
KEY = os.environ.get("KEY", "")
#: Longer than the server's heartbeat: a connection that is silent for so long is dead.
SILENCE_S = 40.0
TRIES = 8


class Refused(Exception):
    """The server said no, and asking again would not help."""


def wait_s(tries: int, status: int | None = None, retry_after: str | None = None) -> float:
    """How long to wait before the next try, with jitter, for nobody should come back at the same moment as all others.

    503 says that the server is full or starting: it comes back soon. 429 is about this key: each try that
    comes too early is one more, so the wait grows faster.
    """
    if retry_after is not None and retry_after.isdigit():
        return int(retry_after) * random.uniform(1.0, 1.25)
    first_s, growth, most_s = (2.0, 3.0, 60.0) if status == 429 else (0.5, 2.0, 15.0)
    return min(most_s, first_s * growth**tries) * random.uniform(0.5, 1.0)


def events(answer: Any) -> Iterator[tuple[str | None, str]]:
    """The id and the data of each event that arrived whole."""
    event_id, data = None, None
    for line in answer:
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name == "id":
            event_id = value
        elif name == "data":
            data = value
        elif not name and data is not None:
            yield event_id, data
            event_id, data = None, None


class Answer:
    """One answer over as many connections as it takes. The idempotency key makes the first of them repeatable too."""

    def __init__(self, model: str, question: str) -> None:
        self.response_id: str | None = None
        self._body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
        self._key = str(uuid.uuid4())
        self._last_id: str | None = None
        self._data: list[str] = []

    def text(self) -> Iterator[str]:
        """The pieces of text, none twice and none left out; ends when the answer does."""
        tries = 0
        while self.verdict().resume and tries < TRIES:
            try:
                for piece in self._connection():
                    tries = 0
                    yield piece
                pause_s = wait_s(tries)
            except urllib.error.HTTPError as error:
                if error.code not in (408, 429, 502, 503, 504):
                    raise Refused(error.read().decode()) from error
                pause_s = wait_s(tries, error.code, error.headers.get("Retry-After"))
            except (OSError, HTTPException):
                pause_s = wait_s(tries)
            tries += 1
            if self.verdict().resume:
                time.sleep(pause_s)

    def verdict(self) -> Verdict:
        """What has arrived so far amounts to."""
        return verdict(self._data)

    def stop(self) -> None:
        """Stop the answer, whether its id is known yet or not."""
        path = f"/responses/{self.response_id}/cancel" if self.response_id else "/responses/cancel"
        with _open(path, {}, **{} if self.response_id else {"Idempotency-Key": self._key}) as answer:
            answer.read()

    def _connection(self) -> Iterator[str]:
        if self._last_id is None:
            headers = {"Idempotency-Key": self._key, "X-Disconnect-Policy": "grace=60"}
            answer = _open("/chat/completions", self._body, **headers)
        else:
            answer = _open(f"/responses/{self.response_id}/stream", None, **{"Last-Event-ID": self._last_id})
        with answer:
            self.response_id = answer.headers["X-Response-ID"]
            for event_id, data in events(answer):
                if "stream_detached" in data:
                    return
                self._data.append(data)
                self._last_id = event_id or self._last_id
                if text := _text_of(data):
                    yield text


def _text_of(data: str) -> str:
    choices = [] if data == "[DONE]" else json.loads(data).get("choices", [])
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def _open(path: str, body: dict[str, Any] | None, **headers: str) -> Any:
    sent = None if body is None else json.dumps(body).encode()
    headers |= {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    return urllib.request.urlopen(urllib.request.Request(URL + path, sent, headers), timeout=SILENCE_S)


def main(model: str, question: str) -> int:
    """Print the answer as it comes, and on stderr what became of it."""
    answer = Answer(model, question)
    try:
        for piece in answer.text():
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        answer.stop()
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    end = answer.verdict()
    print(f"\n{end.outcome} {end.finish_reason or ''}".rstrip(), file=sys.stderr)
    return 0 if end.outcome == FINISHED else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit('usage: python3 -m examples.stream MODEL "QUESTION"')
    sys.exit(main(*sys.argv[1:]))
