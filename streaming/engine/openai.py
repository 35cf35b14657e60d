"""Owns the requests of OpenAI's chat completions wire, as hosted providers, vLLM, llama.cpp and Ollama take them."""

from collections.abc import Mapping
from typing import Any

from streaming.engine.api_key import key_of
from streaming.engine.base import GenerateRequest, Sampling
from streaming.engine.chat_endpoint import ChatEndpoint, plain
from streaming.engine.upstream import Upstream
from streaming.protocol.upstream import OpenAIChat

MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")
SAMPLING_FIELDS = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed")
CONTEXT_NAMES = ("max_model_len", "context_length", "context_window")
#: OpenAI takes no more; the cut itself is made by our holdback, whoever else makes it.
STOPS_MAX = 4


class OpenAIEngine(ChatEndpoint):
    """``url`` is what the SDKs call base URL: ``https://api.openai.com/v1``, ``http://127.0.0.1:11434/v1``.

    ``capabilities`` are what `manage.py probe_engine` found: ``continuous_usage``, ``stream_options``,
    ``max_tokens_field``. Without them usage is asked for at the end, under the names that most servers know.
    ``options["cache_salt"]`` true sends each user's salt along, for vLLM's chat endpoint.
    """

    can_constrain = True
    path = "/chat/completions"
    health_path = "/models"

    def __init__(self, url: str, model: str, options: Mapping[str, Any], capabilities: Mapping[str, Any]):
        key = key_of(options)
        super().__init__(
            Upstream(url, {"Authorization": f"Bearer {key}"} if key else None), model, options, capabilities
        )
        self._salts = options.get("cache_salt") is True
        self._limit = str(capabilities.get("max_tokens_field") or "max_tokens")
        self._stream_options: dict[str, bool] | None = None
        if capabilities.get("stream_options") is not False:
            continuous = {"continuous_usage_stats": True} if capabilities.get("continuous_usage") is True else {}
            self._stream_options = {"include_usage": True} | continuous

    def body(self, request: GenerateRequest) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [plain(message, MESSAGE_FIELDS) for message in request.messages],
            "stream": True,
            self._limit: sampling.max_tokens,
        }
        if self._stream_options is not None:
            body["stream_options"] = self._stream_options
        if self._salts and request.cache_salt:
            body["cache_salt"] = request.cache_salt
        return body | chosen(sampling) | tools_of(request)

    async def context_tokens(self) -> int | None:
        """As some servers say it in their list of models; hosted ones mostly do not."""
        return context_in(await self._upstream.ask_json(self.health_path), self._model)

    def reading(self, request: GenerateRequest) -> OpenAIChat:
        return OpenAIChat(request.sampling.max_tokens)


def chosen(sampling: Sampling) -> dict[str, Any]:
    """The sampling parameters that the caller gave; what was left open stays the endpoint's default."""
    given: dict[str, Any] = {name: value for name in SAMPLING_FIELDS if (value := getattr(sampling, name)) is not None}
    if sampling.logit_bias:
        given["logit_bias"] = {str(token_id): bias for token_id, bias in sampling.logit_bias.items()}
    if sampling.json_schema is not None:
        given["response_format"] = response_format(sampling.json_schema)
    # With min_tokens a stop string counts only later, which this wire cannot say.
    if sampling.stop and not sampling.min_tokens:
        given["stop"] = list(sampling.stop[:STOPS_MAX])
    return given


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    if schema == {"type": "object"}:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": True}}


def tools_of(request: GenerateRequest) -> dict[str, Any]:
    if not request.tools:
        return {}
    choice = request.tool_choice
    named = {"type": "function", "function": {"name": choice}}
    one_call = {"parallel_tool_calls": False} if request.one_call else {}
    return {"tools": list(request.tools), "tool_choice": choice if choice in ("auto", "required") else named} | one_call


def context_in(listing: Any, model: str) -> int | None:
    """The context of a model in a list of models, under the names that servers have for it."""
    models = listing.get("data") if isinstance(listing, dict) else None
    entries = [entry for entry in models or () if isinstance(entry, dict)]
    named = [entry for entry in entries if entry.get("id") == model] or (entries if len(entries) == 1 else [])
    found = [entry.get(name) for entry in named for name in CONTEXT_NAMES]
    return next((tokens for tokens in found if type(tokens) is int and tokens > 0), None)
