"""Owns the shape of what an engine yields in one step. Does not know any engine or wire."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class EngineUsage:
    """Token counts as an engine reports them; cumulative, so a later one replaces an earlier one.

    A count the engine did not give is None; an explicit zero is a value.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ToolFragment:
    """A piece of a tool call. ``index`` and ``call_id`` say of which, as far as the engine gives them."""

    index: int | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""


class EngineOutput(NamedTuple):
    """One step of an engine: token ids or finished text, never both.

    Engines that speak ids give ``token_ids`` and leave ``text`` None; engines that only give text
    set ``text`` and say in ``token_count`` how many tokens it stands for. ``finish_reason`` is set
    on the last output only, one of ``stop``, ``length``, ``tool_calls``, ``content_filter``,
    ``abort``. The last three come from engines that tell reasoning, refusals and tool calls apart themselves.
    """

    token_ids: tuple[int, ...] = ()
    text: str | None = None
    token_count: int = 0
    finish_reason: str | None = None
    usage: EngineUsage | None = None
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[ToolFragment, ...] = ()
