"""Owns the two wires the driver speaks: what it asks for and how it reads one `data:` payload. No sockets here."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

# The engine writes its clock into the text of every 20th token, so that the driver sees a token's whole way.
STAMP = re.compile(r"<(\d{9,}\.\d+)>")


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
