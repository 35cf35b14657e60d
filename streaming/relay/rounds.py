"""Owns what comes between the rounds of an answer: its calls are run, their results stored. Asks no engine.

Knows no tool: what runs a call is given, and bounds it in time and size.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streaming.journal import Journal, Tail
from streaming.metrics.tools import CALLS
from streaming.protocol.events import TOOL_RESULT, Draft, Event
from streaming.protocol.response_stream import ResponseStream
from streaming.protocol.rounds import Round, rounds_of
from streaming.protocol.tool_calls import CompleteCall, complete_call
from streaming.protocol.tool_result import FAILED, INVALID_ARGUMENTS, NOT_RUN, ToolResult
from streaming.store.attempts import called_last, has_called

logger = logging.getLogger(__name__)

SHOWN_CHARS = 200

Call = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tools:
    """What runs the calls of a response, and how many of them. ``names`` are those that the model was told of."""

    run: Callable[[CompleteCall], Awaitable[ToolResult]]
    names: frozenset[str]
    rounds_max: int
    calls_max: int


class Rounds:
    """Those of one response; ``log`` and ``attempts`` are what owners stored before. Without ``tools`` there is one."""

    def __init__(
        self,
        tools: Tools | None,
        journal: Journal,
        tail: Tail,
        log: Sequence[Event],
        attempts: Sequence[Mapping[str, Any]],
    ):
        self._tools = tools
        self._journal = journal
        self._tail = tail
        rounds = rounds_of(log) if tools else []
        is_called = has_called(attempts, rounds)
        #: How many have ended with calls that are answered, or are to be.
        self.over = sum(one.is_over for one in rounds) + is_called
        is_between = is_called or (bool(rounds) and rounds[-1].is_over)
        #: Whether an engine has made something of the one that runs.
        self.is_begun = bool(log) and not is_between
        self._left = rounds[-1].waiting if is_between else []
        self._left_after = len(rounds[-1].calls) - len(self._left) if rounds else 0
        #: The last one's tokens that no event carries, where none of its calls has a result that could have.
        self._owed_tokens = _owed(attempts, rounds[-1]) if is_called else 0

    @property
    def are_spent(self) -> bool:
        """Whether the model has called in one round more than its calls are run in."""
        return self._tools is not None and self.over > self._tools.rounds_max

    def goes_on(self, finish_reason: str | None, stream: ResponseStream) -> bool:
        """Whether a round that has ended for this reason has calls to be answered."""
        return self._tools is not None and finish_reason == "tool_calls" and bool(stream.calls)

    async def answer_left(self) -> None:
        """Run the calls of a round that the owner before left without results."""
        if self._left:
            await self._answer(self._left, self._left_after, self._drafted)

    def _drafted(self, result: ToolResult) -> Draft:
        owed_tokens, self._owed_tokens = self._owed_tokens, 0
        return Draft(TOOL_RESULT, result.payload(), token_count=owed_tokens)

    async def answer(self, stream: ResponseStream) -> None:
        """Run the calls of the round that has just ended, in order. Each result is stored as soon as it is there."""
        self.over += 1
        self._journal.append(self._tail, stream.flush(natural=True))  # some calls are complete only now
        await self._answer(stream.calls, 0, stream.result)

    async def _answer(self, calls: Sequence[Call], first: int, drafted: Callable[[ToolResult], Draft]) -> None:
        for number, call in enumerate(calls, first):
            result = await self._result(call, number)
            self._count(call["name"], result)
            self._journal.append(self._tail, [drafted(result)])
        last_id = calls[-1]["call_id"]
        await self._tail.stored(lambda event: event.kind == TOOL_RESULT and event.payload["call_id"] == last_id)

    async def _result(self, call: Call, number: int) -> ToolResult:
        assert self._tools
        call_id = call["call_id"]
        if self.are_spent:
            return ToolResult(call_id, f"Not run: calls are run in {self._tools.rounds_max} rounds at most.", NOT_RUN)
        if number >= self._tools.calls_max:
            return ToolResult(call_id, f"Not run: at most {self._tools.calls_max} calls are run at a time.", NOT_RUN)
        complete = complete_call(call)
        if complete is None:
            said = call["arguments"][:SHOWN_CHARS]
            return ToolResult(call_id, f"Invalid arguments: no JSON object (got {said!r}).", INVALID_ARGUMENTS)
        try:
            return (await self._tools.run(complete))._replace(call_id=call_id)
        except Exception:
            # Not the call's name: that is what the model wrote, and no log holds that.
            logger.exception("running a tool for %s failed", self._tail.response_id)
            return ToolResult(call_id, "The tool failed.", FAILED)

    def _count(self, name: str, result: ToolResult) -> None:
        assert self._tools
        CALLS.labels(name if name in self._tools.names else "other", result.error or "ok").inc()


def _owed(attempts: Sequence[Mapping[str, Any]], last: Round) -> int:
    """Of the tokens that its engine counted those that nothing stored carries: they were held back, or had no text."""
    return max(0, int(called_last(attempts)["generated_tokens"]) - sum(event.token_count for event in last.said))
