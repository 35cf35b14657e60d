"""Readers of foreign wires: events of an endpoint in, EngineOutput out. Pure, as all of protocol."""

from .anthropic_messages import AnthropicMessages
from .json_events import UpstreamFailure
from .openai_chat import OpenAIChat
from .reading import Reading
from .vllm_generate import VllmGenerate

__all__ = ["AnthropicMessages", "OpenAIChat", "Reading", "UpstreamFailure", "VllmGenerate"]
