"""Owns how tests read a stream: frames as they came, with the time and size of each read. Independent of our parser."""

import json
import time
from dataclasses import dataclass, field

import httpx

#: What keeps the demo model from ending an answer by itself: where nothing else is said, that is chance.
NO_END = {"0": -100, "2": -100}


@dataclass
class Stream:
    """What one connection has read."""

    response_id: str | None = None
    status: int = 0
    raw: bytes = b""
    reads: list[tuple[float, int]] = field(default_factory=list)
    broke: bool = False

    @property
    def blocks(self) -> list[dict[str, str]]:
        """Complete SSE blocks, as field to value."""
        blocks = []
        for block in self.raw.decode().split("\n\n")[:-1]:
            lines = [line for line in block.split("\n") if line and not line.startswith(":")]
            if lines:
                blocks.append(dict(line.split(": ", 1) for line in lines))
        return blocks

    @property
    def data(self) -> list:
        """The JSON of every data line; ``[DONE]`` as it is."""
        return [d if (d := block["data"]) == "[DONE]" else json.loads(d) for block in self.blocks if "data" in block]

    @property
    def text(self) -> str:
        """The answer's text, in either dialect."""
        parts = []
        for item in self.data:
            if item == "[DONE]":
                continue
            if item.get("type") == "response.output_text.delta":
                parts.append(item["delta"])
            for choice in item.get("choices", ()):
                parts.append(choice["delta"].get("content") or "")
        return "".join(parts)

    @property
    def last_id(self) -> str | None:
        """The id of the last complete block that has one."""
        return next((block["id"] for block in reversed(self.blocks) if "id" in block), None)

    @property
    def seqs(self) -> list[int]:
        return [int(block["id"].rsplit(".", 1)[1]) for block in self.blocks if "id" in block]

    @property
    def is_done(self) -> bool:
        return bool(self.data) and self.data[-1] == "[DONE]"

    @property
    def error(self) -> dict | None:
        return next((item["error"] for item in self.data if item != "[DONE]" and "error" in item), None)


def read(client: httpx.Client, method: str, path: str, *, until=lambda stream: False, **options) -> Stream:
    """Read a stream until its end, or until ``until(stream)``; then the connection is closed."""
    stream = Stream()
    with client.stream(method, path, **options) as answer:
        stream.status = answer.status_code
        stream.response_id = answer.headers.get("X-Response-ID")
        try:
            for data in answer.iter_raw():
                stream.raw += data
                stream.reads.append((time.monotonic(), len(data)))
                if until(stream):
                    break
        except httpx.TransportError:
            stream.broke = True
    return stream


def chat(
    client: httpx.Client, content: str, *, model: str = "scripted", until=lambda stream: False, headers=None, **body
) -> Stream:
    """Read a streamed chat completion."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": content}], **body}
    return read(client, "POST", "/v1/chat/completions", json=body, headers=headers or {}, until=until)


def script(**fields) -> str:
    """A question that the scripted engine plays."""
    return json.dumps({"script": fields})


def says(*texts: str, **fields) -> str:
    """A question that the scripted engine answers with these pieces of text."""
    return script(outputs=[{"text": text} for text in texts], **fields)


def eventually(true, timeout_s: float = 60, pause_s: float = 0.02):
    """Wait for something outside this process that gives no event; returns its value.

    The deadline is for what never happens: a machine may be busy for long.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := true()):
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(pause_s)
    return value


def until_offered(page: httpx.Client, *models: str) -> None:
    """Wait until the page's picker has these models; a process looks at its engines now and then."""
    eventually(lambda: {*models} <= {model["id"] for model in page.get("/api/models").json()["data"]})
