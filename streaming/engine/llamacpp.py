"""Owns the wire to a llama.cpp server: ids in, text and counts out, abort by closing the socket. Imports no model."""

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from streaming.engine.api_key import key_of
from streaming.engine.base import Counters, Engine, EngineError, GenerateRequest, Load, Sampling
from streaming.engine.completion_stream import CompletionStream
from streaming.engine.grammar_trial import GrammarTrials
from streaming.engine.metrics_text import totals
from streaming.engine.upstream import Upstream
from streaming.protocol.engine_output import EngineOutput

#: Seeds are 32 bits wide; the highest value asks for a random one.
SEEDS = 2**32 - 1
PROOF_POLL_S = 0.03
REMEMBERED_REQUESTS = 4096
RUNNING_METRIC = "llamacpp:requests_processing"
GENERATED_METRIC = "llamacpp:tokens_predicted_total"
PROMPT_METRIC = "llamacpp:prompt_tokens_total"
WAITING_METRIC = "llamacpp:requests_deferred"
STARTED_HEADER = "Process-Start-Time-Unix"
LIFE_DIGITS = 18


class LlamaCppEngine(Engine):
    """One llama.cpp server. ``options["api_key_env"]`` names the variable that holds its key.

    An attempt's seed is also its name: a chunk does not say which slot it comes from, but /slots
    shows each slot's seed. Stop strings are not passed on: the server would cut them out itself,
    and it cannot know what an earlier attempt had already shown of one.
    """

    yields_ids = False
    can_continue = True
    can_constrain = True

    def __init__(self, url: str, options: Mapping[str, Any]):
        self._were_in_slot: deque[str] = deque(maxlen=REMEMBERED_REQUESTS)
        key = key_of(options)
        self._upstream = Upstream(url, {"Authorization": f"Bearer {key}"} if key else None)
        self._grammars = GrammarTrials(self._upstream)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[EngineOutput, None]:
        answer = CompletionStream()
        in_slot = False
        await self._grammars.require(request, seed_of(request))
        stream = await self._upstream.open("/completion", completion_body(request), explain_refusal)
        try:
            while (events := await stream.read()) is not None:
                if not in_slot:
                    in_slot = True
                    self._were_in_slot.append(request.request_id)
                output = answer.read(events)
                if output is not None:
                    yield output
                    if output.finish_reason is not None:
                        return
                if answer.failure is not None:
                    raise answer.failure
        finally:
            stream.close()
        raise EngineError("upstream_lost", "the engine's stream ended before the answer did")

    async def abort_proven(self, request: GenerateRequest) -> bool:
        """Polls until no slot works on a request with this seed, nor can one start to.

        Another attempt with an equal seed is taken for this one: the proof then comes late, never early.
        """
        seed = seed_of(request)
        was_in_slot = request.request_id in self._were_in_slot
        # The server answers questions before it looks at requests that came while it was computing:
        # one that was never seen in a slot is only gone when it is missing twice, and nothing waits.
        absent, needed = 0, 1 if was_in_slot else 2
        while True:
            try:
                waits = not was_in_slot and (await self.load()).waiting > 0
                absent = 0 if waits or await self._works_on(seed) else absent + 1
            except EngineError as error:
                if error.status is not None:
                    return False
                absent = 0
            if absent == needed:
                return True
            await asyncio.sleep(PROOF_POLL_S)

    async def _works_on(self, seed: int) -> bool:
        slots = await self._upstream.ask_json("/slots")
        if not isinstance(slots, list):
            raise EngineError("upstream_protocol", "the engine's /slots is not a list")
        return any(slot.get("is_processing") and slot.get("params", {}).get("seed") == seed for slot in slots)

    async def healthy(self) -> bool:
        return await self._upstream.is_up("/health")

    async def load(self) -> Load:
        values = totals((await self._upstream.ask("/metrics")).decode("utf-8", "replace"))
        return Load(running=values.get(RUNNING_METRIC, 0), waiting=values.get(WAITING_METRIC, 0))

    async def counters(self) -> Counters | None:
        text, headers = await self._upstream.ask_with_headers("/metrics")
        values = totals(text.decode("utf-8", "replace"))
        if GENERATED_METRIC not in values:
            return None
        return Counters(values[GENERATED_METRIC], values.get(PROMPT_METRIC, 0), life_in(headers))

    async def tokenize(self, text: str) -> list[int] | None:
        return ids_in(await self._upstream.tell("/tokenize", {"content": text}))

    async def context_tokens(self) -> int | None:
        slots = await self._upstream.ask_json("/slots")
        return min((int(slot["n_ctx"]) for slot in slots), default=None)

    async def slots(self) -> int | None:
        return len(await self._upstream.ask_json("/slots")) or None

    @property
    def is_idle(self) -> bool:
        return self._upstream.open_requests == 0

    async def aclose(self) -> None:
        await self._upstream.aclose()


def completion_body(request: GenerateRequest) -> dict[str, Any]:
    """The request in llama.cpp's words; what the caller left open stays the engine's default."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "prompt": list(request.prompt_ids),
        "n_predict": sampling.max_tokens,
        "stream": True,
        "cache_prompt": True,
        # The server notices a closed socket only when it writes: so let it write during prefill too.
        "return_progress": True,
        "seed": seed_of(request),
    }
    body.update(chosen(sampling))
    if sampling.json_schema is not None:
        body["json_schema"] = sampling.json_schema
    if sampling.logit_bias:
        body["logit_bias"] = [[token_id, bias] for token_id, bias in sampling.logit_bias.items()]
    return body


def chosen(sampling: Sampling) -> dict[str, float]:
    names = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")
    return {name: value for name in names if (value := getattr(sampling, name)) is not None}


def seed_of(request: GenerateRequest) -> int:
    """The caller's seed, else one that every process can work out from the attempt's id."""
    if request.sampling.seed is not None:
        return request.sampling.seed % SEEDS
    return int.from_bytes(hashlib.sha256(request.request_id.encode()).digest()[:8]) % SEEDS


def life_in(headers: Mapping[str, str]) -> int | None:
    """When its process began, by a clock of its own: µs, whatever the name says."""
    text = headers.get(STARTED_HEADER, "")
    return int(text) if text.isdecimal() and len(text) <= LIFE_DIGITS else None


def explain_refusal(body: bytes) -> str | None:
    """Our words for the one refusal that a caller can do something about: the prompt is too long."""
    try:
        error = json.loads(body)["error"]
        if error["type"] == "exceed_context_size_error":
            return f"the prompt has {int(error['n_prompt_tokens'])} tokens, the engine's context {int(error['n_ctx'])}"
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    return None


def ids_in(answer: bytes) -> list[int] | None:
    """The ids of an answer to /tokenize, which llama.cpp and vLLM spell alike."""
    try:
        tokens = json.loads(answer)["tokens"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return [int(token) for token in tokens] if isinstance(tokens, list) else None
