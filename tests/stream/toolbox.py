"""Owns what stands in for the site's tools in tests of rounds, and how their logs are read. Knows no engine's wire."""

import asyncio
import json

import pytest

from streaming import tools
from streaming.protocol.tool_result import ToolResult

#: Within which a call has to begin.
BEGIN_S = 20


def call(arguments='{"expression": "6*7"}', name="calculate"):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>\n'


def outputs(*texts):
    return [{"text": text} for text in texts]


class Toolbox:
    """Stands in for our tools: each call waits until it is let go, where it was told to."""

    def __init__(self):
        self.calls = []
        self.cancelled = 0
        self.waits = False
        self.began = asyncio.Event()
        self.let_go = asyncio.Event()
        self.outcome = lambda call: ToolResult(call.call_id, f"result of {call.name} {json.dumps(call.arguments)}")

    async def run(self, user_id, names, call):
        self.calls.append((user_id, tuple(names), call))
        self.began.set()
        try:
            if self.waits:
                await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.outcome(call)


@pytest.fixture
def toolbox(monkeypatch):
    box = Toolbox()
    monkeypatch.setattr(tools, "run", box.run)
    return box


def results_of(events):
    return [event.payload for event in events if event.kind == "tool_result"]


def kinds_of(events):
    """The kinds in their order, runs of one as one."""
    kinds = [event.kind for event in events]
    return [kind for at, kind in enumerate(kinds) if at == 0 or kind != kinds[at - 1]]


async def running(toolbox):
    async with asyncio.timeout(BEGIN_S):
        await toolbox.began.wait()
