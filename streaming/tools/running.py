"""Owns running one call: who may, for how long, how much may come out. Knows no tool by name.

Nothing is raised but CancelledError: what went wrong is a result that says so to the model.
"""

import asyncio
import logging
from collections.abc import Collection

from django.conf import settings

from streaming.protocol.clean_text import CleanText
from streaming.protocol.tool_calls import CompleteCall
from streaming.protocol.tool_result import FAILED, INVALID_ARGUMENTS, TIMED_OUT, UNKNOWN_TOOL, ToolResult

from .arguments import fault, shown
from .catalogue import offered
from .tool import Tool, ToolFailed

logger = logging.getLogger(__name__)


async def run(user_id: int, names: Collection[str], call: CompleteCall) -> ToolResult:
    """The result of a call of one of the tools ``names``, for this user.

    At most TOOL_TIMEOUT_S seconds and TOOL_OUTPUT_BYTES bytes of UTF-8. Cancelling it cancels the tool.
    """
    output, error = await _outcome(user_id, names, call)
    return ToolResult(call.call_id, fitting(output, settings.TOOL_OUTPUT_BYTES), error)


async def _outcome(user_id: int, names: Collection[str], call: CompleteCall) -> tuple[str, str | None]:
    tool = offered(call.name, names)
    if tool is None:
        known = ", ".join(name for name in names if offered(name, names)) or "none"
        return f"There is no tool {shown(call.name)}. There are: {known}.", UNKNOWN_TOOL
    if why := fault(tool.parameters, call.arguments):
        return f"Invalid arguments. {why}.", INVALID_ARGUMENTS
    return await _called(tool, user_id, call)


async def _called(tool: Tool, user_id: int, call: CompleteCall) -> tuple[str, str | None]:
    timeout_s = settings.TOOL_TIMEOUT_S
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await tool.call(user_id, call.arguments), None
    except ToolFailed as failed:
        return str(failed), FAILED
    except Exception:  # whatever it is, the model is told and the answer goes on
        if limit.expired():
            return f"The tool {tool.name} took longer than {timeout_s:g} seconds and was stopped.", TIMED_OUT
        logger.exception("the tool %s failed", tool.name)
        return f"The tool {tool.name} failed.", FAILED


def fitting(text: str, limit_bytes: int) -> str:
    """The text as it can be stored, in so many bytes of UTF-8; one that was cut says so at its end."""
    clean = CleanText()
    raw = (clean.push(text) + clean.flush()).encode()
    if len(raw) <= limit_bytes:
        return raw.decode()
    note = f"\n[cut: {len(raw)} bytes in all, at most {limit_bytes} are given]"
    return raw[: limit_bytes - len(note)].decode(errors="ignore") + note
