"""Owns what is counted of the tools that answers call. Runs none."""

from prometheus_client import Counter

from .registry import REGISTRY

CALLS = Counter(
    "chat_tool_calls", "Calls that were answered, by tool (of those the request named, else other) and outcome.",
    ["tool", "outcome"], registry=REGISTRY,
)  # fmt: skip
