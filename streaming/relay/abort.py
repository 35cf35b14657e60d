"""Owns what is asked of an engine that we have left: the proof that it stopped, and what it made. Ends no response."""

import asyncio
import logging

from streaming.engine.base import Engine, GenerateRequest
from streaming.protocol.engine_output import EngineOutput
from streaming.protocol.response_stream import ResponseStream

logger = logging.getLogger(__name__)


async def is_abort_proven(engine: Engine, request: GenerateRequest, patience_s: float) -> bool:
    """Whether the engine shows within that time that it no longer works on the request."""
    try:
        async with asyncio.timeout(patience_s):
            return await engine.abort_proven(request)
    except TimeoutError:
        return False
    except Exception:
        logger.exception("no proof of the abort of %s", request.request_id)
        return False


async def count_rest(
    stream: ResponseStream, engine: Engine, request: GenerateRequest, patience_s: float, earlier_tokens: int
) -> None:
    """Count what the engine made after we had left it, where it can say that."""
    usage = None
    try:
        async with asyncio.timeout(patience_s):
            usage = await engine.usage_at_abort(request)
    except TimeoutError:
        pass
    except Exception:
        logger.exception("what was made of %s is not known", request.request_id)
    if usage is not None:
        stream.feed(EngineOutput(usage=usage))
        stream.generated_tokens = max(stream.generated_tokens, earlier_tokens + (usage.completion_tokens or 0))
