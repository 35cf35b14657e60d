"""Owns HTTP to an engine: sessions, event streams, what each failure of a connection means. Knows no wire format."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from streaming.engine.base import EngineError
from streaming.protocol.sse_parser import ServerSentEvent, SSEParseError, SSEParser

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
QUESTION_TIMEOUT_S = 5.0
MAX_LINE_BYTES = 8 * 2**20
MAX_ANSWER_BYTES = 4 * 2**20
LOGGED_BYTES = 300


class Upstream:
    """One engine's base URL. Every request has a connection of its own, which ends with it."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None):
        self._url = url.rstrip("/")
        self._headers = dict(headers or {})
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Requests that have not ended.
        self.open_requests = 0

    def _current_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            # No reuse: an abort closes the connection, and an idle one would hold an engine thread.
            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar()
            )
            self._loop = loop
        return self._session

    async def open(self, path: str, body: Any, explain: Callable[[bytes], str | None]) -> "EventStream":
        """POST and return the event stream that is the answer. The caller closes it.

        ``explain`` may turn the body of a refusal into a message that is safe to show.
        """
        response = None
        self.open_requests += 1
        try:
            response = await self._current_session().post(
                self._url + path, json=body, headers={"Accept": "text/event-stream"}, allow_redirects=False
            )
            await self._require_stream(response, explain)
        except BaseException as error:
            self.open_requests -= 1
            if response is not None:
                response.close()
            if isinstance(error, Exception):
                raise as_engine_error(error) from error
            raise
        return EventStream(response, self._closed)

    def _closed(self) -> None:
        self.open_requests -= 1

    async def _require_stream(self, response: aiohttp.ClientResponse, explain: Callable[[bytes], str | None]) -> None:
        if response.status == 200 and response.content_type == "text/event-stream":
            return
        body = await read_some(response)
        # Engines repeat in their refusals what they were asked, and that is somebody's text.
        logger.warning("%s answered %s with %d bytes", response.url, response.status, len(body))
        logger.debug("they begin %r", body[:LOGGED_BYTES])
        if response.status == 200 and tells_of_an_error(body):
            raise EngineError("upstream_error", "the engine reported an error instead of an answer")
        if response.status == 200:
            raise EngineError("upstream_protocol", "the engine did not answer with an event stream")
        message = explain(body) or f"the engine refused the request with status {response.status}"
        raise EngineError("upstream_error", message, response.status)

    async def ask(self, path: str) -> bytes:
        """GET a small answer within QUESTION_TIMEOUT_S."""
        return await self._request("GET", path)

    async def is_up(self, path: str) -> bool:
        """Whether a GET is answered, and with success."""
        try:
            await self.ask(path)
        except EngineError:
            return False
        return True

    async def tell(self, path: str, body: Any) -> bytes:
        """POST something and wait for its small answer, as ``ask`` does."""
        return await self._request("POST", path, body)

    async def ask_with_headers(self, path: str) -> tuple[bytes, Mapping[str, str]]:
        """As ``ask``, for an engine that says something beside its answer."""
        return await self._answer("GET", path)

    async def _request(self, method: str, path: str, body: Any = None) -> bytes:
        answer, _ = await self._answer(method, path, body)
        return answer

    async def _answer(self, method: str, path: str, body: Any = None) -> tuple[bytes, Mapping[str, str]]:
        self.open_requests += 1
        try:
            async with asyncio.timeout(QUESTION_TIMEOUT_S):
                request = self._current_session().request(method, self._url + path, json=body, allow_redirects=False)
                async with request as response:
                    if response.status != 200:
                        message = f"the engine answered {path} with {response.status}"
                        raise EngineError("upstream_error", message, response.status)
                    return await read_some(response), response.headers
        except Exception as error:
            raise as_engine_error(error) from error
        finally:
            self.open_requests -= 1

    async def ask_json(self, path: str) -> Any:
        try:
            return json.loads(await self.ask(path))
        except (ValueError, RecursionError) as error:
            raise EngineError("upstream_protocol", f"the engine's {path} is not JSON") from error

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


class EventStream:
    """An answer on its way. Closing it closes the connection at once."""

    def __init__(self, response: aiohttp.ClientResponse, on_close: Callable[[], None]):
        self._response = response
        self._on_close: Callable[[], None] | None = on_close
        self._parser = SSEParser(max_line_bytes=MAX_LINE_BYTES)

    async def read(self) -> list[ServerSentEvent] | None:
        """What the next bytes complete; None at the end. One that is cancelled loses nothing: read again."""
        try:
            while data := await self._response.content.readany():
                if events := self._parser.feed(data):
                    return events
        except Exception as error:
            raise as_engine_error(error) from error
        return None

    def close(self) -> None:
        """More than once is no harm."""
        self._response.close()
        if self._on_close:
            self._on_close()
            self._on_close = None


async def read_some(response: aiohttp.ClientResponse) -> bytes:
    """The body, as far as MAX_ANSWER_BYTES and QUESTION_TIMEOUT_S go."""
    body = bytearray()
    try:
        async with asyncio.timeout(QUESTION_TIMEOUT_S):
            async for data in response.content.iter_any():
                body += data
                if len(body) > MAX_ANSWER_BYTES:
                    break
    except (TimeoutError, aiohttp.ClientError):
        pass
    return bytes(body)


def tells_of_an_error(body: bytes) -> bool:
    """Whether a body that should have been a stream is an error's JSON."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and bool(answer.get("error") or answer.get("object") == "error")


def as_engine_error(error: Exception) -> EngineError:
    """What a failure on the way means. No text of the engine or of a library gets into it."""
    if isinstance(error, EngineError):
        return error
    if isinstance(error, SSEParseError):
        return EngineError("upstream_protocol", "the engine sent a line that is too long")
    # The connection: refused, reset, ended inside the body, no answer to a connect.
    if isinstance(error, (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError)):
        return EngineError("upstream_lost", "the connection to the engine was lost")
    if not isinstance(error, (aiohttp.ClientError, aiohttp.http.HttpProcessingError)):
        logger.error("reading from an engine failed", exc_info=error)
    return EngineError("upstream_protocol", "the engine's answer makes no sense")
