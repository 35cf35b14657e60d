"""Owns the two wires the driver speaks: requests as bytes, and how one `data:` payload is read. No sockets here."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

# The engine writes its clock into the text of every 20th token, so that the driver sees a token's whole way.
STAMP = re.compile(r"<(\d{9,}\.\d+)>")


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(slots=True)
class Payload:
    text: str = ""
    whole: bool = False  # the wire's own mark of a complete answer
    error: str | None = None


class Wire(Protocol):
    path: str
    headers: dict[str, str]

    def request(self, tokens: int) -> dict[str, Any]: ...

    def read(self, data: bytes) -> Payload: ...


def question(wire: Wire, tokens: int, address: Address) -> bytes:
    """A request for an answer of so many tokens."""
    body = json.dumps(wire.request(tokens)).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **wire.headers}
    return head(f"POST {wire.path}", address, headers) + body


def reading(wire: Wire, event_id: str, address: Address, *, from_start: bool) -> bytes:
    """The request of one who reads the response of an event of ours: all of it, or what came after that event."""
    position = {} if from_start else {"Last-Event-ID": event_id}
    return head(f"GET /v1/responses/{event_id.rpartition(':')[0]}/stream", address, {**wire.headers, **position})


def head(line: str, address: Address, headers: Mapping[str, str]) -> bytes:
    fields = {"Host": str(address), "Accept": "text/event-stream", **headers}
    lines = [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode()


@dataclass(slots=True)
class OpenAIWire:
    """The site and the bare relay: chat chunks, whole only with `[DONE]`."""

    model: str
    headers: dict[str, str] = field(default_factory=dict)
    path: str = "/v1/chat/completions"

    def request(self, tokens: int) -> dict[str, Any]:
        return {
            "model": self.model,
            "stream": True,
            "max_tokens": tokens,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": "Tell me about lighthouses"}],
        }

    def read(self, data: bytes) -> Payload:
        if data == b"[DONE]":
            return Payload(whole=True)
        chunk = json.loads(data)
        if "error" in chunk:
            return Payload(error=json.dumps(chunk["error"])[:300])
        return Payload("".join(choice.get("delta", {}).get("content") or "" for choice in chunk.get("choices") or ()))


@dataclass(slots=True)
class LlamaWire:
    """The engine itself, alone or behind nginx: the floor under every latency below."""

    headers: dict[str, str] = field(default_factory=dict)
    path: str = "/completion"

    def request(self, tokens: int) -> dict[str, Any]:
        return {"prompt": [1, 2, 3], "n_predict": tokens, "stream": True, "return_tokens": True}

    def read(self, data: bytes) -> Payload:
        chunk = json.loads(data)
        if "error" in chunk:
            return Payload(error=json.dumps(chunk["error"])[:300])
        return Payload(chunk.get("content", ""), whole=bool(chunk.get("stop")))
