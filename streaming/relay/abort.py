"""Owns what is asked of an engine that we have left: the proof that it stopped, and what it made. Ends no response."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streaming.engine.base import Engine, EngineError, GenerateRequest
from streaming.protocol.engine_output import EngineOutput
from streaming.protocol.response_stream import ResponseStream

from .account import Account

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unproven:
    """An engine that was left and did not show that it stopped. ``left_at`` in the event loop's seconds."""

    response_id: str
    engine: Engine
    request: GenerateRequest
    account: Account
    left_at: float


#: Sees to it that an engine is asked again.
OnUnproven = Callable[[Unproven], None]
#: Takes down what engines made for an owner of a response (its id) that another has taken over.
OnDisowned = Callable[[str, Sequence[Mapping[str, Any]]], None]


async def is_proven(proof: Awaitable[bool], request_id: str, patience_s: float) -> bool:
    """Whether the engine shows within that time that it no longer works on the request."""
    try:
        async with asyncio.timeout(patience_s):
            return await proof
    except (TimeoutError, EngineError):
        return False
    except Exception:
        logger.exception("no proof of the abort of %s", request_id)
        return False


async def count_rest(
    stream: ResponseStream, engine: Engine, request: GenerateRequest, patience_s: float, earlier_tokens: int
) -> bool:
    """Count what the engine made after we had left it, where it can say that; whether it did."""
    usage = None
    try:
        async with asyncio.timeout(patience_s):
            usage = await engine.usage_at_abort(request)
    except TimeoutError:
        pass
    except Exception:
        logger.exception("what was made of %s is not known", request.request_id)
    if usage is None:
        return False
    stream.feed(EngineOutput(usage=usage))
    stream.generated_tokens = max(stream.generated_tokens, earlier_tokens + (usage.completion_tokens or 0))
    return True
