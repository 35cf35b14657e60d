"""Owns whether llama.cpp makes a grammar of a JSON schema: where it cannot, it answers freely and says nothing.

One token, which the engine is urged to make a colon: no JSON begins so, and an engine that holds to the schema
cannot give it. Asked once for each schema.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from streaming.engine.base import EngineError, GenerateRequest
from streaming.engine.completion_stream import CompletionStream
from streaming.engine.upstream import Upstream

COLON = ":"
URGE = 1000.0
REMEMBERED_SCHEMAS = 512


class GrammarTrials:
    """What one engine made of the schemas it was given."""

    def __init__(self, upstream: Upstream):
        self._upstream = upstream
        self._holds: OrderedDict[str, bool] = OrderedDict()

    async def require(self, request: GenerateRequest, seed: int) -> None:
        """Raises EngineError where the engine would not hold to the request's schema."""
        schema = request.sampling.json_schema
        if schema is None:
            return
        key = hashlib.sha256(json.dumps(schema).encode()).hexdigest()
        if key not in self._holds:
            self._holds[key] = not (await self._first_text(request, seed)).startswith(COLON)
            if len(self._holds) > REMEMBERED_SCHEMAS:
                self._holds.popitem(last=False)
        if not self._holds[key]:
            raise EngineError("upstream_error", "the engine cannot hold an answer to this JSON schema", 400)

    async def _first_text(self, request: GenerateRequest, seed: int) -> str:
        body: Mapping[str, Any] = {
            "prompt": list(request.prompt_ids[-1:]),
            "n_predict": 1,
            "stream": True,
            "temperature": 0.0,
            "seed": seed,  # by which an abort is proven
            "json_schema": request.sampling.json_schema,
            "logit_bias": [[COLON, URGE]],
        }
        stream = await self._upstream.open("/completion", body, lambda _: None)
        answer, text = CompletionStream(), ""
        try:
            while (events := await stream.read()) is not None:
                output = answer.read(events)
                text += (output.text or "") if output else ""
                if output and output.finish_reason:
                    break
                if answer.failure is not None:
                    raise answer.failure
        finally:
            stream.close()
        return text
