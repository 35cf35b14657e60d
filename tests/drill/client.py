"""Owns one person's connections: ask, read, be cut off, stall, come back with Last-Event-ID. Judges nothing."""

import asyncio
import json
import random
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import aiohttp

from tests.drill.plan import Question
from tests.drill.records import Frame, Record

LOST = (aiohttp.ClientError, OSError, TimeoutError)
LONGEST_PAUSE_S = 2.0
#: A body comes when the answer has ended; no heartbeat says that it will.
BODY_S = 20.0
#: Small, so that a reader that stalls is felt by the server and not by buffers alone.
RECEIVE_BYTES = 8 * 1024
#: What a busy or leaving process may say to anybody; the next try is another one's.
TRY_AGAIN = frozenset({429, 503})


class Left(Exception):
    """The reader walks away for good."""


def small_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    return made


def session(key: str) -> aiohttp.ClientSession:
    """One for all people of a run; every request has a connection of its own."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=small_socket)
    headers = {"Authorization": f"Bearer {key}"}
    return aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=4096)


class Person:
    """Who asks one question and wants its answer, at whatever process answers."""

    def __init__(self, web: aiohttp.ClientSession, urls: Sequence[str], question: Question, *, silence_s: float):
        self.record = Record(question)
        self.known = asyncio.Event()
        self._web = web
        self._urls = urls
        self._question = question
        self._chance = random.Random(question.seed)
        self._silence_s = silence_s
        self._resets = list(question.resets_after)
        self._stall = question.stall
        self._frames = 0

    async def read(self, first: int, give_up_s: float) -> None:
        """Read to the end, through everything that happens to the connections, for at most ``give_up_s``."""
        record, url, tries = self.record, self._urls[first], 0
        give_up_at = time.monotonic() + give_up_s
        while record.end_state is None and time.monotonic() < give_up_at:
            seen = record.cursor
            try:
                await self._connect(url)
            except Left:
                record.has_left = True
                return
            except LOST:
                pass
            tries = 0 if record.cursor > seen else tries + 1
            if record.end_state is None:
                await asyncio.sleep(self._chance.uniform(0.5, 1) * min(LONGEST_PAUSE_S, 0.1 * 2**tries))
                url = self._chance.choice(self._urls)

    async def _connect(self, url: str) -> None:
        self.record.connections += 1
        silence_s = self._silence_s if self._question.stream else max(self._silence_s, BODY_S)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=2, sock_read=silence_s)
        async with self._request(url, timeout) as answer:
            self._learn(answer.headers.get("X-Response-ID"))
            if answer.status == 200 and self._question.stream:
                await self._frames_of(answer)
            else:
                self._take_body(answer.status, await answer.json(content_type=None))

    def _request(self, url: str, timeout: aiohttp.ClientTimeout) -> Any:
        record, question = self.record, self._question
        if record.response_id and question.stream:
            headers = {"Last-Event-ID": record.last_event_id} if record.last_event_id else {}
            return self._web.get(f"{url}/v1/responses/{record.response_id}/stream", headers=headers, timeout=timeout)
        body = {
            "model": question.model,
            "stream": question.stream,
            "messages": [{"role": "user", "content": question.text}],
            **question.fields,
        }
        headers = {"Idempotency-Key": question.key, "X-Disconnect-Policy": question.policy}
        return self._web.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=timeout)

    def _learn(self, response_id: str | None) -> None:
        record = self.record
        if response_id is None:
            return
        if record.response_id not in (None, response_id):
            record.troubles.append(f"{record.question.key}: two responses, {record.response_id} and {response_id}")
        record.response_id = response_id
        self.known.set()

    def _take_body(self, status: int, body: dict[str, Any]) -> None:
        record = self.record
        error = body.get("error") or {}
        if status == 200:
            record.end_state = "completed"
            record.body_text = body["choices"][0]["message"]["content"]
        elif error.get("end_state"):
            record.end_state = error["end_state"]
        elif status not in TRY_AGAIN:
            record.troubles.append(f"{record.response_id or record.question.key}: status {status}, {error}")

    async def _frames_of(self, answer: aiohttp.ClientResponse) -> None:
        gathered = b""
        async for data in answer.content.iter_any():
            gathered += data
            *blocks, gathered = gathered.split(b"\n\n")
            for block in blocks:
                self._take_block(block.decode())
                if self.record.end_state:
                    return
                await self._misbehave(answer)

    def _take_block(self, block: str) -> None:
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        fields = dict(line.split(": ", 1) for line in lines)
        if "data" not in fields:
            return
        item = None if fields["data"] == "[DONE]" else json.loads(fields["data"])
        error = (item or {}).get("error") or {}
        if error.get("code") == "stream_detached":
            self._went_on(error["last_event_id"], "")
        elif "id" in fields:
            self._went_on(fields["id"], "".join(_contents(item)))
            self.record.end_state = "completed" if item is None else error.get("end_state")
        self._frames += 1

    def _went_on(self, event_id: str, text: str) -> None:
        response_id, position = event_id.rsplit(":", 1)
        epoch, seq = map(int, position.split("."))
        self._learn(response_id)
        if text or seq != self.record.cursor:
            self.record.frames.append(Frame(self.record.cursor, seq, epoch, text))

    async def _misbehave(self, answer: aiohttp.ClientResponse) -> None:
        if self._question.leaves_after is not None and self._frames >= self._question.leaves_after:
            raise Left
        if self._stall and self._frames >= self._stall[0]:
            stall_s, self._stall = self._stall[1], None
            self.record.stalls += 1
            await asyncio.sleep(stall_s)
        if self._resets and self._frames >= self._resets[0]:
            self._resets.pop(0)
            self.record.resets += 1
            _reset(answer)
            raise ConnectionResetError


def _contents(item: dict[str, Any] | None) -> list[str]:
    return [choice["delta"].get("content") or "" for choice in (item or {}).get("choices", ())]


def _reset(answer: aiohttp.ClientResponse) -> None:
    """RST instead of FIN."""
    if answer.connection and (transport := answer.connection.transport):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
