"""Owns what the tests of the bench share: answers as bytes, and a stage with a site that is really served."""

import json

import pytest

from bench.stage import stage
from bench.wires import OpenAIWire


@pytest.fixture
def wire():
    return OpenAIWire("bench")


@pytest.fixture
def answer():
    """The bytes of a streamed answer of so many words, as ours writes it."""

    def made(words: int, *, done: bool = True) -> bytes:
        frames = [
            b'id: resp_1:1.%d\ndata: {"choices": [{"delta": {"content": " the"}}]}\n\n' % seq for seq in range(words)
        ]
        body = [b": ping\n\n", *frames, *([b"data: [DONE]\n\n"] if done else [])]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in body)
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"

    return made


@pytest.fixture
def error_answer():
    body = json.dumps({"error": {"message": "later"}}).encode()
    return b"HTTP/1.1 503 X\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.fixture
async def set_up(tmp_path):
    async with stage(tmp_path) as ready:
        yield ready
