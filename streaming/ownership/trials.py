"""Owns generations that no relay runs, each with its row: those by which an engine is looked into, or tested."""

import asyncio
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from streaming.engine.base import Engine as Wire
from streaming.engine.base import GenerateRequest, Sampling
from streaming.engine.probing import QUESTION
from streaming.engine.prompt import PromptError, render_prompt
from streaming.engine.registry import MAKE, bundle_for
from streaming.engine.tokenizer import TokenizerError
from streaming.engine.trial import Trial
from streaming.models import Engine, Response
from streaming.models.ids import response_id
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.end_state import ENGINE_FAILED, FINISHED, STOPPED, End, decide
from streaming.store import probes, threads
from streaming.store.attempts import AT_LEAST, ESTIMATED, EXACT

TEST_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class Tested:
    """What a test showed: ``trouble`` is empty where a token came. ``response`` is its row, if it got so far."""

    trouble: str
    first_token_ms: float | None = None
    response: Response | None = None


async def recorded(row: Engine, trial: Trial, wire: Wire) -> Response:
    """Run a trial and store it."""
    started_at = timezone.now().isoformat(timespec="milliseconds")
    await trial.run(wire)
    limit = trial.request.sampling.max_tokens
    end, attempt = end_of(trial), {**attempt_of(trial, wire), "started_at": started_at}
    return await threads.write(probes.record, row, OPENAI_CHAT, limit, end, figures_of(trial), attempt)


async def tested(row: Engine) -> Tested:
    """One token, really generated, whatever the pool thinks of the engine; with connections of its own."""
    try:
        prompt_ids = render_prompt(bundle_for(row), QUESTION)
    except (TokenizerError, PromptError) as error:
        return Tested(str(error))
    sampling = Sampling(max_tokens=1, temperature=0.0)
    trial = Trial(
        GenerateRequest(f"{response_id()}-1", prompt_ids, QUESTION, sampling, "probe"), timeout_s=TEST_TIMEOUT_S
    )
    wire = MAKE[row.kind](row)
    try:
        response = await recorded(row, trial, wire)
    finally:
        await wire.aclose()
    if trial.error is not None:
        return Tested(trial.error.message, None, response)
    return Tested("" if trial.tokens else "no token came", trial.first_token_ms, response)


def test_now(row: Engine) -> Tested:
    """As ``tested``, for code that runs on a thread without a loop."""
    return asyncio.run(tested(row))


def end_of(trial: Trial) -> End:
    if trial.error is not None:
        return decide(None, ENGINE_FAILED, trial.error.reason, trial.error.message)
    if trial.leave_after is not None:
        return decide(None, STOPPED, "admin")
    return decide(None, FINISHED, trial.outputs[-1].finish_reason or "")


def figures_of(trial: Trial) -> dict[str, Any]:
    """What the row says of tokens and times."""
    usage = trial.usage
    reported = usage.completion_tokens if usage else None
    counts = {"generated_tokens": max(trial.tokens, reported or 0), "completion_tokens": trial.tokens}
    prompt = len(trial.request.prompt_ids) if usage is None or usage.prompt_tokens is None else usage.prompt_tokens
    return {**counts, "prompt_tokens": prompt, "ttft_ms": trial.first_token_ms, "usage_estimated": reported is None}


def attempt_of(trial: Trial, wire: Wire) -> dict[str, Any]:
    """The one attempt that it was."""
    figures, usage, end = figures_of(trial), trial.usage, end_of(trial)
    at_least = ESTIMATED if wire.renders_prompt and figures["usage_estimated"] else AT_LEAST
    return {
        "request_id": trial.request.request_id,
        "first_output_ms": trial.first_token_ms,
        "duration_ms": trial.duration_ms,
        "prompt_tokens": usage.prompt_tokens if usage else None,
        "cached_tokens": usage.cached_tokens if usage else None,
        "generated_tokens": figures["generated_tokens"],
        "count": EXACT if trial.is_counted else at_least,
        "ended": end.end_reason,
        "abort_proven": None,
    }
