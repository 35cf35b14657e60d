"""Owns finding out what an endpoint can do, from a few small generations and questions. Stores nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from streaming.engine.base import Engine, EngineError, GenerateRequest, Sampling
from streaming.engine.metrics_text import totals
from streaming.engine.registry import MAKE, EngineRow, bundle_for
from streaming.engine.trial import Trial
from streaming.engine.upstream import Upstream

PROOF_TIMEOUT_S = 5.0
POLL_S = 0.05
QUESTION = ({"role": "user", "content": "Count from one to twenty, in words."},)
TOKENS = 24
LONG_TOKENS = 512
SAMPLE = "Tokens of Café ☕, चाय and\n\n    some_code(1234);"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
#: Of OpenAI's wire there are dialects: what is tried, until one is not refused.
OPENAI_VARIANTS: tuple[Mapping[str, Any], ...] = (
    {"continuous_usage": True},
    {"continuous_usage": True, "max_tokens_field": "max_completion_tokens"},
    {},
    {"max_tokens_field": "max_completion_tokens"},
    {"stream_options": False},
    {"stream_options": False, "max_tokens_field": "max_completion_tokens"},
)
RUNNING_METRICS = ("vllm:num_requests_running", "llamacpp:requests_processing")


#: Runs a trial, and keeps a record of it.
Run = Callable[[Trial, Engine], Awaitable[None]]


class Probe:
    """Asks one endpoint. ``name(n)`` names the n-th request; what went wrong at last is raised as EngineError."""

    def __init__(self, row: EngineRow, prompt_ids: list[int], run: Run, name: Callable[[], str]):
        self._row = row
        self._prompt_ids = prompt_ids
        self._run = run
        self._name = name

    async def capabilities(self) -> dict[str, Any]:
        """All that could be found out; a None says that it could not."""
        found = await self._dialect()
        async with self._engine(found) as engine:
            for ask in (self._abort, self._tools, self._answers):
                found |= await ask(engine)
        return found

    @asynccontextmanager
    async def _engine(self, capabilities: Mapping[str, Any]) -> AsyncIterator[Engine]:
        engine = MAKE[self._row.kind](Capable(self._row, dict(capabilities)))
        try:
            yield engine
        finally:
            await engine.aclose()

    def _request(self, max_tokens: int, **fields: Any) -> GenerateRequest:
        sampling = Sampling(max_tokens=max_tokens, temperature=0.0)
        return GenerateRequest(self._name(), self._prompt_ids, QUESTION, sampling, "probe", **fields)

    async def _dialect(self) -> dict[str, Any]:
        """The first variant of the wire that is understood, and what the answer shows."""
        variants = OPENAI_VARIANTS if self._row.kind == "openai" else ({},)
        for variant in variants:
            trial = Trial(self._request(TOKENS))
            async with self._engine(variant) as engine:
                await self._run(trial, engine)
                if not trial.refused:
                    break
        if trial.error is not None:
            raise trial.error
        return {**variant, **self._shown_by(trial, engine)}

    def _shown_by(self, trial: Trial, engine: Engine) -> dict[str, Any]:
        usage, content = trial.usage, trial.outputs[:-1]
        counted = usage is not None and usage.completion_tokens is not None
        agrees = None
        if engine.renders_prompt and self._row.tokenizer and usage is not None and usage.prompt_tokens is not None:
            agrees = usage.prompt_tokens == len(self._prompt_ids)
        reports = sum(output.usage is not None for output in content)
        return {
            "streams": len(content) > 1,
            "usage": counted,
            "continuous_usage": reports > 1 and reports > len(content) / 2,
            "reasoning": any(output.reasoning for output in content),
            "prompt_agrees": agrees,
            "first_token_ms": trial.first_token_ms,
        }

    async def _abort(self, engine: Engine) -> dict[str, Any]:
        trial = Trial(self._request(LONG_TOKENS), leave_after=1)
        before = await running_at(self._row.url)
        await self._run(trial, engine)
        if trial.error is not None:
            return {"abort": None}
        try:
            async with asyncio.timeout(PROOF_TIMEOUT_S):
                if await engine.abort_proven(trial.request):
                    return {"abort": True}
                if before is None:
                    return {"abort": None}
                while (now := await running_at(self._row.url)) is None or now > before:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            return {"abort": False}
        return {"abort": True}

    async def _tools(self, engine: Engine) -> dict[str, Any]:
        if not engine.takes_tools:
            return {}
        trial = Trial(self._request(4 * TOKENS, tools=(TOOL,), tool_choice="required"))
        await self._run(trial, engine)
        if trial.error is not None:
            return {"tools": False if trial.refused else None}
        return {"tools": any(output.tool_calls for output in trial.outputs) or None}

    async def _answers(self, engine: Engine) -> dict[str, Any]:
        found: dict[str, Any] = {"tokenizer": None, "context_tokens": None, "slots": None}
        with suppress(EngineError):
            found["context_tokens"] = await engine.context_tokens()
            found["slots"] = await engine.slots()
        with suppress(EngineError):
            if (theirs := await engine.tokenize(SAMPLE)) is not None:
                found["tokenizer"] = theirs == bundle_for(self._row).vocabulary.encode(SAMPLE)
        return found


@dataclass
class Capable:
    """A row with other capabilities than those that stand in it."""

    row: EngineRow
    capabilities: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.row, name)


async def running_at(url: str) -> int | None:
    """How many requests the server behind a chat endpoint works on, where it is one that tells."""
    upstream = Upstream(url.rstrip("/").removesuffix("/v1"))
    try:
        values = totals((await upstream.ask("/metrics")).decode("utf-8", "replace"))
    except EngineError:
        return None
    finally:
        await upstream.aclose()
    return next((values[name] for name in RUNNING_METRICS if name in values), None)
