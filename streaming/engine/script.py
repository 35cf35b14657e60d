"""Owns what a script means: which tokens come out, in which steps, where it breaks. Waits for nothing."""

import codecs
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

from tokenizers.decoders import DecodeStream

from streaming.engine.byte_tokenizer import byte_characters
from streaming.engine.tokenizer import TokenizerBundle

FAULTS = ("error", "lost", "protocol", "stall", "abort", "raise")
ECHO_WORDS = 120
WORDS = ("lamp", "harbour", "fog", "bell", "gull", "stone", "stairs", "glass", "brass", "logbook", "tide", "keeper")


class ScriptError(ValueError):
    """A script that cannot be played."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Breaks an attempt after ``after`` outputs; the first ``times`` attempts of a response only."""

    kind: str
    after: int = 0
    times: int = 1


@dataclass(frozen=True, slots=True)
class Token:
    """One scripted token: an id where ids are spoken, else a piece of text."""

    token_id: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One output's tokens, or a gate to wait at. The last step of a script has a finish_reason."""

    tokens: tuple[Token, ...] = ()
    gate: str | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A script, read from JSON::

        {"outputs": [{"ids": [5, 6]}, {"text": "ab", "count": 2}, {"bytes": "e2982f"}, {"gate": "name"}],
         "repeat": 1, "first_delay_s": 0, "delay_s": 0, "finish_reason": "stop",
         "fault": {"kind": "lost", "after": 3, "times": 1}, "rounds": [{"outputs": […]}]}

    One entry of ``outputs`` is one output of the engine. ``repeat`` 0 never ends. ``rounds`` are the scripts that
    follow when calls were answered; the last one, or the only one, is played again after that.
    """

    outputs: Sequence[Mapping[str, Any]]
    repeat: int = 1
    first_delay_s: float = 0.0
    delay_s: float = 0.0
    finish_reason: str = "stop"
    fault: Fault | None = None
    rounds: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Script":
        try:
            fault = document.get("fault")
            script = cls(**{**document, "fault": Fault(**fault) if fault else None})
        except TypeError as error:
            raise ScriptError(f"script: {error}") from error
        if script.fault and script.fault.kind not in FAULTS:
            raise ScriptError(f"script: fault kind {script.fault.kind!r} is none of {', '.join(FAULTS)}")
        return script

    def in_round(self, number: int) -> "Script":
        """The script of a round, the first being 0."""
        if not number or not self.rounds:
            return self
        return Script.from_json(self.rounds[min(number, len(self.rounds)) - 1])

    def steps(self, bundle: TokenizerBundle, as_ids: bool, skip_tokens: int, max_tokens: int) -> Iterator[Step]:
        """What an attempt gives that starts behind ``skip_tokens`` tokens and may give ``max_tokens``.

        An undisturbed run and one that is carried on at any token give the same tokens.
        """
        left = max_tokens
        for step in self._all_steps(bundle, as_ids):
            if skip_tokens >= len(step.tokens) and skip_tokens:
                skip_tokens -= len(step.tokens)
                continue
            tokens = step.tokens[skip_tokens:][:left]
            skip_tokens = 0
            left -= len(tokens)
            yield Step(tokens, step.gate)
            if not left:
                break
        yield Step(finish_reason=self.finish_reason if left else "length")

    def _all_steps(self, bundle: TokenizerBundle, as_ids: bool) -> Iterator[Step]:
        cut = IdCutter(bundle) if as_ids else TextCutter(bundle)
        for outputs in repeat(self.outputs, self.repeat) if self.repeat else repeat(self.outputs):
            for output in outputs:
                yield Step(gate=output["gate"]) if "gate" in output else Step(cut(output))


class IdCutter:
    """Makes token ids of a scripted output."""

    def __init__(self, bundle: TokenizerBundle):
        self._bundle = bundle

    def __call__(self, output: Mapping[str, Any]) -> tuple[Token, ...]:
        return tuple(Token(token_id, "") for token_id in self._ids(output))

    def _ids(self, output: Mapping[str, Any]) -> Sequence[int]:
        if "ids" in output:
            ids: Sequence[int] = output["ids"]
            return ids
        if "bytes" in output:
            return [self._byte_id(byte) for byte in bytes.fromhex(output["bytes"])]
        return self._bundle.vocabulary.encode(_text(output))

    def _byte_id(self, byte: int) -> int:
        tokenizer = self._bundle.tokenizer
        for name in (byte_characters()[byte], f"<0x{byte:02X}>"):
            token_id: int | None = tokenizer.token_to_id(name)
            if token_id is not None:
                return token_id
        raise ScriptError(f"script: this tokenizer has no token for the byte {byte:#04x}")


class TextCutter:
    """Makes text of a scripted output, as an engine does that only shows whole characters."""

    def __init__(self, bundle: TokenizerBundle):
        self._bundle = bundle
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._ids = DecodeStream(skip_special_tokens=True)

    def __call__(self, output: Mapping[str, Any]) -> tuple[Token, ...]:
        if "ids" in output:
            return tuple(Token(None, self._ids.step(self._bundle.tokenizer, one) or "") for one in output["ids"])
        text = self._bytes.decode(bytes.fromhex(output["bytes"])) if "bytes" in output else _text(output)
        count = max(1, int(output.get("count", 1)))
        cuts = [len(text) * nth // count for nth in range(count + 1)]
        return tuple(Token(None, text[start:end]) for start, end in pairwise(cuts))


def _text(output: Mapping[str, Any]) -> str:
    text = output.get("text")
    if not isinstance(text, str):
        raise ScriptError("script: an output is one of ids, text, bytes, gate")
    return text


def last_user_text(messages: Sequence[Mapping[str, Any]]) -> str:
    for message in reversed(messages):
        if message.get("role") == "user":
            content = message.get("content")
            return content if isinstance(content, str) else json.dumps(content)
    return ""


def answered_rounds(messages: Sequence[Mapping[str, Any]]) -> int:
    """How often the model has called tools since a person spoke last."""
    count = 0
    for message in reversed(messages):
        if message.get("role") == "user":
            break
        count += bool(message.get("tool_calls"))
    return count


def script_in(text: str) -> Script | None:
    """The script that a user message is, if it is ``{"script": {...}}``."""
    if '"script"' not in text:
        return None
    try:
        document = json.loads(text)
    except ValueError:
        return None
    script = document.get("script") if isinstance(document, dict) else None
    return Script.from_json(script) if isinstance(script, dict) else None


def echo(text: str) -> Script:
    """The default: repeats a little of what was asked, then words that depend on nothing else, no two alike."""
    seed = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    words = [f"{WORDS[seed[nth % len(seed)] % len(WORDS)]}-{nth}" for nth in range(ECHO_WORDS)]
    opening = f"You asked: {text[:80]}"
    return Script([{"text": opening[:1]}, {"text": opening[1:]}, *({"text": f" {word}"} for word in words)])
