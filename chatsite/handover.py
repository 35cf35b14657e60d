"""Owns how a connection outlives Django's request: the wrapper around Django's ASGI application. Knows no response."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

from asgiref.sync import ThreadSensitiveContext

logger = logging.getLogger(__name__)

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: What Django says of the empty body it thinks it sent, which is not true of ours.
DROPPED_HEADERS = frozenset({b"content-length", b"etag"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response body, sent instead of a stream."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


INTERNAL_ERROR = Answer(
    500,
    b'{"error": {"message": "The server failed.", "type": "server_error", "param": null, "code": "internal"}}',
    ((b"content-type", b"application/json"),),
)


class Handover(Protocol):
    """What a view leaves in ``request.scope["handover"]`` to be streamed after Django has finished."""

    async def opening(self) -> Answer | AsyncIterator[bytes]:
        """Wait until it is known what to send: an answer, or Django's headers and these pieces of a body.

        The iterator raises nothing: a fault of ours in the middle is its last piece.
        """

    def close(self) -> None:
        """The connection is gone or done. May be called more than once; ends ``opening`` and what it returned."""


@dataclass(slots=True)
class Thread:
    """One thread for Django's code, and how many requests are bound to it."""

    executor: ThreadPoolExecutor
    requests: int = 0


class HandoverApplication:
    """Django's ASGI application; streams a handover once Django's own request has ended.

    Django's thread-sensitive code runs on one of ``threads`` shared threads, so that neither threads nor
    database connections grow with the number of requests (asgiref >= 3.13). The first that is free takes the next
    request: what it ran a moment ago is still in the processor's and the database's caches.
    """

    def __init__(self, django: Application, threads: int):
        self._django = django
        self._threads = [Thread(ThreadPoolExecutor(1, thread_name_prefix=f"request-{i}")) for i in range(threads)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        try:
            await self._answer(scope, exchange)
            await exchange.stream()
        finally:
            exchange.close()

    async def _answer(self, scope: Scope, exchange: "Exchange") -> None:
        thread = min(self._threads, key=attrgetter("requests"))
        thread.requests += 1
        try:
            async with ThreadSensitiveContext(executor=thread.executor):
                await self._django(scope, exchange.receive, exchange.send)
        finally:
            thread.requests -= 1


class Exchange:
    """One request and its answer, seen from between the server and Django."""

    def __init__(self, scope: Scope, receive: Receive, send: Send):
        self._scope = scope
        self._receive = receive
        self._send = send
        self._held: list[Message] = []
        self._disconnected = False

    @property
    def _handover(self) -> Handover | None:
        return self._scope.get("handover")

    async def receive(self) -> Message:
        """The server's messages for Django, which is not told of a disconnect: it would cancel its request.

        A stop that was pressed is carried out, and what is being stored gets its relay, whoever has left.
        """
        message = await self._next()
        if self._disconnected:
            await asyncio.get_running_loop().create_future()
        return message

    async def _next(self) -> Message:
        """The server's next message; remembers a disconnect, which is said only once."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._disconnected = True
        return message

    async def send(self, message: Message) -> None:
        """Django's messages; held back once there is a handover."""
        if self._handover is None:
            await self._send(message)
        else:
            self._held.append(message)

    def close(self) -> None:
        """Close the handover, whatever became of the request."""
        if self._handover is not None:
            self._handover.close()

    async def stream(self) -> None:
        """After Django has finished: stream the handover, or pass on what Django said instead."""
        handover = self._handover
        if handover is None:
            return
        if not self._held or self._held[0]["status"] != 200:
            handover.close()
            for message in self._held:
                await self._send(message)
            return
        listener = asyncio.create_task(self._close_on_disconnect(handover))
        try:
            await self._answer(handover)
        finally:
            listener.cancel()

    async def _close_on_disconnect(self, handover: Handover) -> None:
        while not self._disconnected:
            await self._next()
        handover.close()

    async def _answer(self, handover: Handover) -> None:
        try:
            answer = await handover.opening()
        except Exception:
            logger.exception("a response failed before its first byte")
            answer = INTERNAL_ERROR
        if self._disconnected:
            return
        headers = [(k, v) for k, v in self._held[0]["headers"] if k.lower() not in DROPPED_HEADERS]
        if isinstance(answer, Answer):
            await self._whole(answer, headers)
        else:
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._pieces(answer)

    async def _whole(self, answer: Answer, headers: list[tuple[bytes, bytes]]) -> None:
        own = {name for name, _ in answer.headers}
        headers = [(k, v) for k, v in headers if k.lower() not in own]
        headers += [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": answer.body})

    async def _pieces(self, pieces: AsyncIterator[bytes]) -> None:
        send = self._send
        async for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if not self._disconnected:
            await send({"type": "http.response.body", "body": b""})
