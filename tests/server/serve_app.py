"""Owns the process under test: the launcher's own serve() around one tiny ASGI application; no Django."""

import asyncio
import contextlib
import json
import logging
import sys
import time
from typing import Any

from chatsite.server.launch import serve
from chatsite.server.limits import Limits
from chatsite.server.listener import ListenError, bind

CHUNK = b"x" * 65536
LEAVING = asyncio.Event()


def say(text: str) -> None:
    """What a test waits for."""
    print(f"app: {text}", flush=True)


async def start(send: Any, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers or []})


async def body(send: Any, data: bytes, *, more: bool = False) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def read_body(receive: Any) -> bytes:
    data = b""
    while (message := await receive())["type"] == "http.request":
        data += message["body"]
        if not message["more_body"]:
            return data
    return data


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await start(send, headers=[(b"content-length", b"5")])
    await body(send, b"hello")


async def echo(scope: Any, receive: Any, send: Any) -> None:
    data = await read_body(receive)
    say(f"echo {len(data)}")
    await start(send)
    await body(send, b"%d bytes" % len(data))


async def flood(scope: Any, receive: Any, send: Any) -> None:
    """As many bytes as the query string says; says when the disconnect arrives."""
    watcher = asyncio.create_task(watch(receive))
    await start(send)
    for _ in range(int(scope["query_string"]) // len(CHUNK)):
        await body(send, CHUNK, more=True)
        if watcher.done():
            return
    await body(send, b"")
    say("flood complete")


async def watch(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    say("disconnected")


async def stream(scope: Any, receive: Any, send: Any) -> None:
    """A stream that is open until its connection ends."""
    await start(send, headers=[(b"x-response-id", b"resp_test")])
    await body(send, b"first", more=True)
    await watch(receive)


async def stubborn(scope: Any, receive: Any, send: Any) -> None:
    """Ignores that it is alone, until it is killed."""
    await start(send)
    await body(send, b"first", more=True)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        say("killed")
        raise


async def sender(scope: Any, receive: Any, send: Any) -> None:
    """Does nothing but send, whether anybody is there or not."""
    await start(send)
    try:
        while True:
            await body(send, b"x" * 1000, more=True)
    except asyncio.CancelledError:
        say("killed")
        raise


async def raise_before(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("before the start")


async def raise_unsent(scope: Any, receive: Any, send: Any) -> None:
    await start(send, headers=[(b"content-length", b"99")])
    raise RuntimeError("after a start that nobody has seen")


async def raise_after(scope: Any, receive: Any, send: Any) -> None:
    await start(send)
    await body(send, b"first", more=True)
    raise RuntimeError("after the start")


async def return_early(scope: Any, receive: Any, send: Any) -> None:
    await start(send)
    await body(send, b"first", more=True)


async def later(scope: Any, receive: Any, send: Any) -> None:
    """Answers out of order if the server lets it: the first of a pipeline is the slowest."""
    await asyncio.sleep(float(scope["query_string"]))
    await start(send)
    await body(send, scope["query_string"])


async def when_leaving(scope: Any, receive: Any, send: Any) -> None:
    """Answers as soon as the process is about to end, and not before."""
    await LEAVING.wait()
    await start(send)
    await body(send, b"leaving")


async def engine(scope: Any, receive: Any, send: Any) -> None:
    """Says what the server runs on."""
    from twisted.internet import reactor

    say(f"loop {type(asyncio.get_running_loop()).__module__} monotonic {reactor.seconds is time.monotonic}")
    await hello(scope, receive, send)


async def block_loop(scope: Any, receive: Any, send: Any) -> None:
    say("blocking")
    while True:
        pass


class App:
    """Calls the function that the last segment of the path names."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4404})
            return
        name = scope["path"].rsplit("/", 1)[-1]
        say(f"called {name}")
        with contextlib.suppress(ConnectionError):
            await globals()[name](scope, receive, send)

    async def startup(self) -> None:
        say("startup")
        if self.mode == "startup_fails":
            raise RuntimeError("no database")
        if self.mode == "startup_hangs":
            await asyncio.Event().wait()

    async def shutdown(self, drain_s: float) -> None:
        say(f"shutdown {drain_s:g}")
        LEAVING.set()
        if self.mode == "shutdown_hangs":
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()


def main() -> int:
    options = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    try:
        sock = bind("127.0.0.1", options["port"])
    except ListenError as error:
        print(error, flush=True)
        return 1
    return serve(App(options["mode"]), sock, Limits(**options["limits"]))


if __name__ == "__main__":
    sys.exit(main())
