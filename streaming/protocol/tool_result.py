"""Owns what came of a tool call, as the model reads it and as an event holds it. Runs no tool."""

from typing import Any, NamedTuple

#: Why a call has no result; the output then says it in words for the model.
UNKNOWN_TOOL = "unknown_tool"
INVALID_ARGUMENTS = "invalid_arguments"
TIMED_OUT = "timed_out"
FAILED = "failed"
#: A bound on calls or rounds was reached.
NOT_RUN = "not_run"

ERRORS = (UNKNOWN_TOOL, INVALID_ARGUMENTS, TIMED_OUT, FAILED, NOT_RUN)


class ToolResult(NamedTuple):
    """The result of the call ``call_id``. ``output`` is text for the model; ``error`` one of ERRORS, or None."""

    call_id: str
    output: str
    error: str | None = None

    def payload(self) -> dict[str, Any]:
        """As a tool_result event holds it."""
        return self._asdict()
