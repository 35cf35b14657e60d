"""Owns the wire to a vLLM server: ids in, ids out, abort by the engine's own id. Imports no vLLM."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from streaming.engine.api_key import key_of
from streaming.engine.base import Counters, Engine, EngineError, GenerateRequest, Load, Sampling
from streaming.engine.chat_endpoint import engine_error, explain_refusal, next_read
from streaming.engine.llamacpp import ids_in
from streaming.engine.metrics_text import highest, totals
from streaming.engine.openai import context_in
from streaming.engine.upstream import EventStream, Upstream
from streaming.protocol.engine_output import EngineOutput, EngineUsage
from streaming.protocol.upstream import UpstreamFailure, VllmGenerate

logger = logging.getLogger(__name__)

GENERATE = "/inference/v1/generate"
ABORT = "/inference/v1/abort_requests"
#: The engine's name of a request is ours behind this.
ENGINE_PREFIX = "generate-tokens-"
ABORT_TIMEOUT_S = 1.0
REMEMBERED_ABORTS = 1024
SAMPLING_FIELDS = ("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty")
RUNNING_METRIC = "vllm:num_requests_running"
GENERATED_METRIC = "vllm:generation_tokens_total"
PROMPT_METRIC = "vllm:prompt_tokens_total"
STARTED_METRIC = "process_start_time_seconds"
WAITING_METRIC = "vllm:num_requests_waiting"
KV_METRIC = "vllm:kv_cache_usage_perc"  # from 0 to 1, whatever its name says


class VllmEngine(Engine):
    """One server, or several behind one URL, started with ``--enable-scale-out``.

    An answer that is left early is aborted beside its caller: by the engine's own id, and its stream read on to the
    end, where ``finish_reason: "abort"`` is the proof and usage the exact count. Then the socket is closed.
    """

    yields_ids = True
    can_continue = True
    can_constrain = True

    def __init__(self, url: str, options: Mapping[str, Any]):
        key = key_of(options)
        self._upstream = Upstream(url, {"Authorization": f"Bearer {key}"} if key else None)
        self._aborts: OrderedDict[str, asyncio.Task[VllmGenerate]] = OrderedDict()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[EngineOutput, None]:
        reading = VllmGenerate()
        # A task of its own: the engine may have the request by the time that the caller is cancelled.
        opening = asyncio.create_task(self._upstream.open(GENERATE, generate_body(request), explain_refusal))
        is_over = False
        try:
            stream = await asyncio.shield(opening)
            while (read := await next_read(stream, reading)) is not None:
                for output in reading.read(read):
                    yield output
                if reading.failure is not None:
                    raise reading.failure
            stream.close()
            is_over = True
            yield reading.close()
        except UpstreamFailure as failure:
            raise engine_error(failure) from failure
        finally:
            if not is_over:
                self._abort_beside(request.request_id, opening, reading)

    def _abort_beside(self, request_id: str, opening: asyncio.Task[EventStream], reading: VllmGenerate) -> None:
        """The caller is being cancelled and cannot wait; who wants the proof asks for it."""
        self._aborts[request_id] = asyncio.create_task(self._abort(request_id, opening, reading))
        while len(self._aborts) > REMEMBERED_ABORTS:
            self._aborts.popitem(last=False)

    async def _abort(self, request_id: str, opening: asyncio.Task[EventStream], reading: VllmGenerate) -> VllmGenerate:
        """Abort and read to the end, as far as ABORT_TIMEOUT_S goes; where the engine is gone there is no end."""
        stream = None
        try:
            async with asyncio.timeout(ABORT_TIMEOUT_S):
                stream = await opening
                await self._post_abort(reading.engine_id or ENGINE_PREFIX + request_id)
                while (read := await next_read(stream, reading)) is not None and reading.failure is None:
                    reading.read(read)
        except (EngineError, TimeoutError) as error:
            logger.warning("no proof of the abort of %s: %s", request_id, error or "it took too long")
        finally:
            if stream is not None:
                stream.close()
        return reading

    async def _post_abort(self, engine_id: str) -> None:
        await self._upstream.tell(ABORT, {"request_ids": [engine_id]})

    async def abort(self, request_id: str) -> None:
        await self._post_abort(ENGINE_PREFIX + request_id)

    async def abort_proven(self, request: GenerateRequest) -> bool:
        if (aborted := self._aborts.get(request.request_id)) is None:
            return False
        return (await asyncio.shield(aborted)).finish_reason is not None

    async def abort_again(self, request: GenerateRequest) -> bool:
        """Its stream is closed by now, and with it the only proof of this one request: an idle server is one too."""
        await self.abort(request.request_id)
        values = totals((await self._upstream.ask("/metrics")).decode("utf-8", "replace"))
        return values.get(RUNNING_METRIC) == 0 == values.get(WAITING_METRIC)

    async def usage_at_abort(self, request: GenerateRequest) -> EngineUsage | None:
        if (aborted := self._aborts.get(request.request_id)) is None:
            return None
        return (await asyncio.shield(aborted)).usage

    async def healthy(self) -> bool:
        return await self._upstream.is_up("/health")

    async def load(self) -> Load:
        text = (await self._upstream.ask("/metrics")).decode("utf-8", "replace")
        values = totals(text)
        return Load(values.get(RUNNING_METRIC, 0), values.get(WAITING_METRIC, 0), highest(text, KV_METRIC))

    async def counters(self) -> Counters | None:
        values = totals((await self._upstream.ask("/metrics")).decode("utf-8", "replace"))
        if GENERATED_METRIC not in values:
            return None
        return Counters(values[GENERATED_METRIC], values.get(PROMPT_METRIC, 0), values.get(STARTED_METRIC))

    async def tokenize(self, text: str) -> list[int] | None:
        return ids_in(await self._upstream.tell("/tokenize", {"prompt": text, "add_special_tokens": False}))

    async def context_tokens(self) -> int | None:
        return context_in(await self._upstream.ask_json("/v1/models"), "")

    @property
    def is_idle(self) -> bool:
        return self._upstream.open_requests == 0

    async def aclose(self) -> None:
        for aborting in self._aborts.values():
            aborting.cancel()
        await asyncio.gather(*self._aborts.values(), return_exceptions=True)
        await self._upstream.aclose()


def generate_body(request: GenerateRequest) -> dict[str, Any]:
    """The request in vLLM's words. Stop strings are not passed on: it does not see text."""
    body: dict[str, Any] = {
        "request_id": request.request_id,
        "token_ids": list(request.prompt_ids),
        "sampling_params": sampling_params(request.sampling),
        "stream": True,
        "stream_options": {"include_usage": True},
        "priority": request.priority,
    }
    if request.cache_salt:
        body["cache_salt"] = request.cache_salt
    return body


def sampling_params(sampling: Sampling) -> dict[str, Any]:
    params: dict[str, Any] = {name: value for name in SAMPLING_FIELDS if (value := getattr(sampling, name)) is not None}
    if sampling.logit_bias:
        params["logit_bias"] = {str(token_id): bias for token_id, bias in sampling.logit_bias.items()}
    if sampling.json_schema is not None:
        params["structured_outputs"] = {"json": sampling.json_schema}
    least = min(sampling.min_tokens, sampling.max_tokens)
    return params | {"max_tokens": sampling.max_tokens, "min_tokens": least, "detokenize": False}
